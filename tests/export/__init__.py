"""Exports of stores."""
