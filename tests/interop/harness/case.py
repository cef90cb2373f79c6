"""The base of interop tests: which pair of nameserver and broker, how much of it, and logs beside a failure.

``make test`` runs a sample; ``ROCKETHA_INTEROP_FULL=1`` (``make interop-full``) everything, including the tests on
Java alone, which prove the tests themselves.
"""

from __future__ import annotations

import functools
import os
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from . import jars
from .clients import Admin, JavaClient
from .processes import LIVE, Process, end_all, scratch
from .roles import BROKERS, NAMESRVS, Role, _Broker, _Namesrv

FULL = bool(os.environ.get("ROCKETHA_INTEROP_FULL"))
PAIRS = (("java", "java"), ("java", "ours"), ("ours", "java"), ("ours", "ours"))
T = TypeVar("T", bound=Process)


def _explained(test: Callable[[], Any], name: str) -> Callable[[], Any]:
    @functools.wraps(test)
    def run() -> Any:
        try:
            return test()
        except unittest.SkipTest:
            raise
        except BaseException as error:
            logs = "\n".join(filter(None, (process.tail() for process in sorted(LIVE, key=lambda p: p.name))))
            error.add_note(logs)
            sys.stderr.write(f"\n=== {name} failed: {error!r:.300}\n{logs}\n")
            raise

    return run


class InteropCase(unittest.TestCase):
    """One folder a class; processes started with `use()` end after the test, with `share()` after the class."""

    folder: Path
    _shared: list[Process]

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        test = getattr(self, methodName, None)
        if test is not None:  # here, so that tests that were added to a finished class are explained as well
            setattr(self, methodName, _explained(test, self.id()))

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        jars.jars()
        cls.folder = scratch(cls.__name__)
        cls._shared = []
        cls.addClassCleanup(cls._end_shared)
        try:
            cls.prepare()
        except BaseException:
            sys.stderr.write("\n".join(filter(None, (process.tail() for process in cls._shared))) + "\n")
            raise

    @classmethod
    def prepare(cls) -> None:
        """Start what the class's tests share."""

    @classmethod
    def share(cls, process: T) -> T:
        cls._shared.append(process)
        process.start()  # type: ignore[attr-defined]
        return process

    @classmethod
    def _end_shared(cls) -> None:
        for process in reversed(cls._shared):
            process.kill()

    def use(self, process: T, start: bool = True) -> T:
        self.addCleanup(process.kill)
        if start:
            process.start()  # type: ignore[attr-defined]
        return process

    def subfolder(self, name: str) -> Path:
        folder = self.folder / f"{self._testMethodName}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class PairCase(InteropCase):
    """A nameserver and a broker of the two kinds in `pair`, and a Java client, shared by the class."""

    pair = ("java", "java")
    broker_extra: dict[str, object] = {}
    namesrv: _Namesrv
    broker: _Broker
    client: JavaClient

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(NAMESRVS[cls.pair[0]]("namesrv", cls.folder / "namesrv"))
        cls.broker = cls.share(BROKERS[cls.pair[1]](cls.folder / "broker", cls.namesrv, cls.broker_extra))
        cls.client = cls.share(JavaClient(cls.namesrv.address, folder=cls.folder / "client"))
        cls.client.producer()

    @classmethod
    def admin(cls) -> Admin:
        return cls.share(Admin(cls.namesrv.address, cls.folder / "admin"))


def for_pairs(base: type[PairCase], *, sample: tuple[tuple[str, str], ...] = PAIRS[1:]) -> dict[str, type]:
    """A test class for each pair, for ``globals().update(...)`` as Twisted does for its reactors.

    `sample` are those that ``make test`` runs; all four run with ROCKETHA_INTEROP_FULL=1.
    """
    made: dict[str, type] = {}
    for pair in PAIRS if FULL else sample:
        name = f"{base.__name__}_{pair[0]}_namesrv_{pair[1]}_broker"
        made[name] = type(name, (base,), {"pair": pair, "__module__": base.__module__, "__doc__": base.__doc__})
    return made


__all__ = ["FULL", "PAIRS", "InteropCase", "PairCase", "Role", "end_all", "for_pairs"]
