"""Tests of services/config."""
