"""Who asks.  Pure."""
