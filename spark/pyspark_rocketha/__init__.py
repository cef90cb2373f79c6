"""Spark looks for modules named ``pyspark_*`` and registers their ``DefaultSource``, here as ``rocketha``."""

from rocketha_spark.source import RockethaSource as DefaultSource

__all__ = ["DefaultSource"]
