"""Tests of services/process."""
