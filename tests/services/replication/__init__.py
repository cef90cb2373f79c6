"""Tests of services/replication."""
