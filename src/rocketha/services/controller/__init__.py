"""The controller: requests become entries of its Raft group's log; brokers are watched, asked and told."""
