"""A whole small RocketMQ: in one process, or as a group of processes that are watched."""
