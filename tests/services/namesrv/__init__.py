"""Tests of services/namesrv."""
