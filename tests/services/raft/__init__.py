"""Tests of services/raft."""
