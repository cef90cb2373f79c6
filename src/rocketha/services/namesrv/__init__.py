"""The nameserver."""
