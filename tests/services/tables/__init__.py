"""Tests of services/tables."""
