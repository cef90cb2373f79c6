"""Tests of rocketha.replication."""
