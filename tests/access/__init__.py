"""Tests of access/."""
