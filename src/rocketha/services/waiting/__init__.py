"""Whoever waits for a thread, a disk, an event or a deadline, while the reactor goes on."""
