"""One Spark for all tests of a process: two local cores, times in UTC, no page, loopback only."""

from __future__ import annotations

import atexit
import functools
import os
import sys

from pyspark.sql import SparkSession


@functools.cache
def session() -> SparkSession:
    """It, started when it is first asked for."""
    from rocketha_spark.__main__ import SETTINGS
    from rocketha_spark.source import register

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        **SETTINGS,
        "spark.task.maxDirectResultSize": "64m",  # larger ones go by way of the block manager, which has lost some
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName("rocketha-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    atexit.register(spark.stop)
    register(spark)
    return spark
