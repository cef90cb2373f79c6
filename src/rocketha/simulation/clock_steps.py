"""Somebody sets the clocks: each host's time of day steps back and on, by up to an hour, all through every run.

It is no fault that heals: whatever waits goes by the steady clock (:mod:`rocketha.simulation.clock`), so nothing may
notice.
"""

from __future__ import annotations

import random

from rocketha.simulation.host import Host
from rocketha.simulation.world import World

STEP_MEAN_S = 8.0
HOUR_S = 3600.0


class ClockSteps:
    """Of one world; its chance is its own, so that it changes nothing that a seed draws elsewhere."""

    def __init__(self, world: World) -> None:
        self._world = world
        for name in sorted(world.hosts):
            self._wait(world.hosts[name], world.chance(f"clock steps {name}"))

    def _wait(self, host: Host, chance: random.Random) -> None:
        self._world.scheduler.after(STEP_MEAN_S * 2 * chance.random(), None, self._step, host, chance)

    def _step(self, host: Host, chance: random.Random) -> None:
        size_s = chance.choice((1.0, 10.0, HOUR_S)) * chance.uniform(-1, 1)
        self._world.trace.note(self._world.now, host.name, f"its clock is set by {size_s:.3f} s")
        host.clock.jump(size_s)
        self._wait(host, chance)
