"""Spark reads exports."""
