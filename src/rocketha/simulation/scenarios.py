"""The scenarios by name, and one run of one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketha.simulation import setup
from rocketha.simulation.cluster_scenario import ClusterScenario
from rocketha.simulation.cluster_setup import DLEDGER, ClusterSetup, expand_cluster
from rocketha.simulation.controller_scenario import ControllerScenario
from rocketha.simulation.raft_scenario import RaftScenario
from rocketha.simulation.run import Outcome, Scenario, run
from rocketha.simulation.setup import Setup
from rocketha.simulation.world import World


def _raft(seed: int, seconds: float, kinds: tuple[str, ...]) -> Setup:
    return setup.expand(seed, seconds, kinds)


def _controller(seed: int, seconds: float, kinds: tuple[str, ...]) -> Setup:
    return setup.expand(seed, seconds, kinds, sizes=(1, 3, 3, 3, 5), clients=4)


def _dledger(seed: int, seconds: float, kinds: tuple[str, ...]) -> ClusterSetup:
    return expand_cluster(seed, seconds, kinds, DLEDGER)


SCENARIOS: dict[str, tuple[Callable[[int, float, tuple[str, ...]], Any], Callable[[Any, World], Scenario]]] = {
    "cluster": (expand_cluster, ClusterScenario),
    "controller": (_controller, ControllerScenario),
    "dledger": (_dledger, ClusterScenario),
    "raft": (_raft, RaftScenario),
}


def outcome(scenario: str, seed: int, seconds: float, kinds: tuple[str, ...], trace_lines: int = 0) -> Outcome:
    """Run one seed of a scenario."""
    expand, build = SCENARIOS[scenario]
    return run(build, expand(seed, seconds, kinds), trace_lines)
