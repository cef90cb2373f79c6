"""Which engine a test case computes with; each case has a class with Spark, and one without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rocketha_spark.duck import Duck
from rocketha_spark.engines import Session
from tests.spark.session import session


class OnSpark:
    """Before the case itself, which has a `root`."""

    engine = "spark"

    def started(self) -> Session:
        """A session of the engine."""
        return session()

    def released(self) -> None:
        """No session is open that would be in the way of a command."""


class OnDuck:
    """The same answers without Spark: before the case that has Spark."""

    engine = "duckdb"
    root: Path
    addCleanup: Callable[..., Any]

    def started(self) -> Session:
        self._duck = Duck(str(self.root))
        self.addCleanup(self._duck.close)
        return self._duck

    def released(self) -> None:
        self._duck.close()
