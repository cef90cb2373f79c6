"""Hosts in network namespaces of their own, and what can be wrong between them. See wire.py for how it is done."""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import unittest
from collections.abc import Iterable

from . import wire
from .clients import LineProcess
from .roles import ROOT, Host


@functools.cache
def why_not() -> str:
    """Empty where namespaces, tun devices and root are to be had; else what is missing, for a skip."""
    missing = wire.needs()
    return f"real partitions: {missing}" if missing else ""


class _Cable(LineProcess):
    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.interop.harness.wire"]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}


class Network:
    """Ask for hosts by name with `host()`; the test itself can reach all of them whatever the rules say.

    Rules name hosts. `cut("a", "b")` stops what a sends to b and back, `deafen("a", "b")` only what b would hear of a.
    """

    def __init__(self) -> None:
        if why_not():
            raise unittest.SkipTest(why_not())
        self.cable = _Cable("cable")
        self.cable.start()
        self.hosts: dict[str, Host] = {}
        self._subnet = self._free_subnet()
        self._cut: set[tuple[str, str]] = set()
        self._loss, self._delay_ms = 0.0, 0.0
        self.cable.ask(op="add", name="test", ip=f"{self._subnet}.254", here=True)

    @staticmethod
    def _free_subnet() -> str:
        """Of 198.18.0.0/15, which is set aside for tests of networks (RFC 2544)."""
        taken = subprocess.run(["ip", "-o", "-4", "addr"], capture_output=True, text=True, check=True).stdout
        free = [f"198.{a}.{b}" for a in (18, 19) for b in range(256) if f" 198.{a}.{b}." not in taken]
        return random.choice(free)

    def host(self, name: str) -> Host:
        if name not in self.hosts:
            ip = f"{self._subnet}.{len(self.hosts) + 1}"
            pid = self.cable.ask(op="add", name=name, ip=ip)["pid"]
            self.hosts[name] = Host(name, ip, ("nsenter", "-t", str(pid), "-n", "--"))
        return self.hosts[name]

    def _tell(self) -> dict[str, int]:
        return self.cable.ask(op="rules", cut=sorted(self._cut), loss=self._loss, delay_ms=self._delay_ms)

    def cut(self, one: str | Iterable[str], other: str | Iterable[str]) -> None:
        """Nothing passes between `one` and `other` (each a name or several) any more, either way."""
        self.deafen(one, other)
        self.deafen(other, one)

    def deafen(self, speakers: str | Iterable[str], listeners: str | Iterable[str]) -> None:
        """What `speakers` send to `listeners` is thrown away."""
        for a in [speakers] if isinstance(speakers, str) else list(speakers):
            for b in [listeners] if isinstance(listeners, str) else list(listeners):
                self._cut.add((a, b))
        self._tell()

    def weather(self, *, loss: float = 0.0, delay_ms: float = 0.0) -> None:
        """Every packet between hosts is lost with this probability, and late by this much."""
        self._loss, self._delay_ms = loss, delay_ms
        self._tell()

    def heal(self) -> dict[str, int]:
        """All well again; packets passed, cut and lost so far."""
        self._cut.clear()
        self._loss = self._delay_ms = 0.0
        return self._tell()

    def close(self) -> None:
        self.cable.kill()


class OnNetwork(unittest.TestCase):
    """A base for cases that ask `hosts` where a process runs: each gets a host of its own. Skips without namespaces."""

    network: Network

    @classmethod
    def setUpClass(cls) -> None:
        cls.network = Network()
        cls.addClassCleanup(cls.network.close)
        super().setUpClass()

    @classmethod
    def hosts(cls, name: str) -> Host:
        return cls.network.host(name)
