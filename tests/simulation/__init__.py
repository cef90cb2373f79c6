"""Tests of the simulator, and by it."""
