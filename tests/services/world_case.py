"""Hosts of a simulated world by name, and what runs on them."""

from __future__ import annotations

import unittest
from typing import Any

from rocketha.simulation.host import Host
from rocketha.simulation.world import World


class WorldCase(unittest.TestCase):
    """Makes the world in ``setUp``."""

    world: World

    def host(self, name: str) -> Host:
        return self.world.hosts[name]

    def running(self, name: str) -> Any:
        """The present incarnation of what a host runs."""
        process = self.host(name).process
        assert process is not None, f"{name} is down"
        return process.service
