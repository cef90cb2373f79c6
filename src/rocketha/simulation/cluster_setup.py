"""A seed's cluster of brokers: how many groups of how many, replicated in which way, with which settings and faults.

Theory of operation: what every scenario draws comes from :mod:`rocketha.simulation.setup`; what is a broker's own is
drawn here, from a stream of its own, and printed with the rest.  Faults are drawn for the brokers and controllers as
the nodes; those that a setting makes pointless are left out (a power cut under ASYNC_FLUSH may lose what was
acknowledged, so it shows nothing), and flipped bits stay between controllers: the wire between brokers has no checksum,
in Java neither, and leaves that to TCP.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs

from rocketha.simulation import faults
from rocketha.simulation.faults import Fault
from rocketha.simulation.setup import SETTLE_S, Setup, expand

ALONE = "alone"
MODES = (ALONE,)
"""How brokers are replicated; a seed has one of them."""

BROKER_PORT, NAMESERVER_PORT, CONTROLLER_PORT = 10911, 9876, 9878
NAMESERVER, READER = "s0", "r0"
PRODUCERS = ("p0", "p1")
SEGMENT_BYTES = 128 << 10
"""Of a commit log file: a small one, so that runs go on to another often."""
MESSAGE_BYTES_MAX = 60_000

STUCK = 1500.0
"""How slow a disk that stands still is: a broker saves tables on its reactor, some syncs in a row, and is busy as long
as the disk was slow when it began."""

_POWER = frozenset({"power", "power-all"})


@attrs.frozen
class BrokerPlace:
    """A broker of a group.

    :ivar host: name of its host.
    :ivar group: ``brokerName``.
    :ivar number: ``brokerId`` where the configuration gives it.
    """

    host: str
    group: str
    number: int


@attrs.frozen
class ClusterSetup(Setup):
    """See the module.

    :ivar mode: one of :data:`MODES`.
    :ivar brokers: by host.
    :ivar controllers: hosts.
    :ivar sync_flush: SYNC_FLUSH, else ASYNC_FLUSH.
    :ivar topics: topics of each group, made one after the other.
    :ivar queues: of each topic.
    :ivar sends_per_s: of both producers together.
    :ivar body_bytes_max: longest body.
    :ivar stops: whether brokers are stopped in order now and then.
    """

    mode: str
    brokers: tuple[BrokerPlace, ...]
    controllers: tuple[str, ...]
    sync_flush: bool
    topics: int
    queues: int
    sends_per_s: float
    body_bytes_max: int
    stops: bool

    @property
    def groups(self) -> tuple[str, ...]:
        """Broker names."""
        return tuple(sorted({place.group for place in self.brokers}))

    def address(self, host: str, port: int) -> str:
        """``address:port`` of a host: hosts have addresses in the order in which the scenario adds them."""
        return f"10.0.0.{(*self.nodes, *self.clients).index(host) + 1}:{port}"


def expand_cluster(
    seed: int, seconds: float, kinds: Sequence[str] = faults.ALL_KINDS, mode: str | None = None,
    only: Sequence[Fault] | None = None,
) -> ClusterSetup:  # fmt: skip
    """The configuration of a seed.

    :param mode: instead of a drawn one.
    :param only: these faults instead of drawn ones.
    """
    chance = random.Random(f"{seed}/cluster")
    drawn_mode = chance.choice(MODES)
    mode = mode or drawn_mode
    brokers, controllers = _places(chance, mode)
    nodes = (*(place.host for place in brokers), *controllers)
    clients = (NAMESERVER, *PRODUCERS, READER)
    base = expand(seed, seconds, sizes=(len(nodes),), clients=len(clients), only=())
    sync_flush = chance.random() < 0.7
    made = ClusterSetup(
        **{
            **{field.name: getattr(base, field.name) for field in attrs.fields(Setup)},
            "nodes": nodes,
            "clients": clients,
        },
        mode=mode,
        brokers=brokers,
        controllers=controllers,
        sync_flush=sync_flush,
        topics=chance.choice((1, 2, 3)),
        queues=chance.choice((1, 2)),
        sends_per_s=chance.choice((2.0, 8.0, 20.0)),
        body_bytes_max=chance.choice((100, 1000, 8000)),
        stops=chance.random() < 0.4,
    )
    if only is not None:
        return attrs.evolve(made, faults=tuple(only))
    usable = [kind for kind in kinds if sync_flush or kind not in _POWER]
    if len(controllers) < 2:
        usable = [kind for kind in usable if kind != "corrupt"]
    drawn = faults.draw(chance, nodes, clients, SETTLE_S, made.heal_s, usable)
    return attrs.evolve(made, faults=tuple(_fitting(chance, fault, controllers) for fault in drawn))


def _places(chance: random.Random, mode: str) -> tuple[tuple[BrokerPlace, ...], tuple[str, ...]]:
    """The brokers and the controllers' hosts of a mode."""
    groups = chance.choice((1, 1, 2))
    return tuple(BrokerPlace(f"b{number}", f"g{number}", 0) for number in range(groups)), ()


def _fitting(chance: random.Random, fault: Fault, controllers: Sequence[str]) -> Fault:
    """A fault as it is done to brokers."""
    if fault.kind == "corrupt":
        return attrs.evolve(fault, targets=tuple(chance.sample(list(controllers), 2)))
    if fault.kind == "stuck-disk":
        return attrs.evolve(fault, size=STUCK)
    return fault
