"""Tests of services/plugins."""
