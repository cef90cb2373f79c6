"""Replication of the commit log as pure machines: epochs, SyncStateSet, who waits for what.  docs/replication.rst."""
