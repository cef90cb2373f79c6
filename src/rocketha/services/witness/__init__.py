"""A member of a group in DLedger mode that votes and keeps no messages."""
