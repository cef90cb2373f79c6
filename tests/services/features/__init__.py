"""Tests of services/features: plug-ins, and what they find in a broker."""
