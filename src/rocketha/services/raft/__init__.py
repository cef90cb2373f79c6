"""One member of a Raft group: carries out what the pure core asks for."""
