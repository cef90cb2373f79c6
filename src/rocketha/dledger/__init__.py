"""Members of a Raft group that are Java's: the core's messages in the words of DLedger 0.3.2, both ways."""
