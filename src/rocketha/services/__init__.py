"""Twisted services: what owns the reactor, listens, keeps time and carries out what the pure packages decide."""
