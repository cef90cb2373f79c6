"""Capabilities of a broker: the seam between them and the broker's service, and plug-ins behind it."""
