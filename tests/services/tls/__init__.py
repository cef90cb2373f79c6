"""TLS of a process."""
