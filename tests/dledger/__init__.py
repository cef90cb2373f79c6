"""Conversations with Java members, without connections."""
