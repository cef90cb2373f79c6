"""Tests of the broker's rules."""
