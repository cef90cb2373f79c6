"""Services on test clocks, in-memory transports and real loopback ports."""
