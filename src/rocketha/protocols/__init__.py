"""Twisted protocols, one a wire: bytes to events and back.  They own no rules; services own them."""
