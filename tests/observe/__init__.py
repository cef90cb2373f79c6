"""Logs, metrics and the status port."""
