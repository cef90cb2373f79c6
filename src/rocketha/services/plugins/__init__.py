"""Plug-ins: found, checked, and run within a broker."""
