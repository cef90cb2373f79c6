"""Style as a test: what a reviewer would otherwise have to say each time."""
