"""Tests of services/broker."""
