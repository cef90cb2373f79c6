"""Tests of services/cluster."""
