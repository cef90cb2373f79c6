"""Our services beside the real Java RocketMQ 5.5.0: nameserver, broker, clients and mqadmin as separate processes."""
