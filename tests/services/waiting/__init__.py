"""Tests of services/waiting."""
