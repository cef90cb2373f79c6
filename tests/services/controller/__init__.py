"""Tests of services/controller."""
