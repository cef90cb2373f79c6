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

ALONE, CLASSIC, CONTROLLER, DLEDGER = "alone", "classic", "controller", "dledger"
MODES = (ALONE, CLASSIC, CONTROLLER)
"""How brokers are replicated; a seed has one of them: not at all, by brokerRole for good, or as controllers say.
DLEDGER, where brokers elect their master, is a scenario of its own."""

BROKER_PORT, NAMESERVER_PORT, CONTROLLER_PORT, RAFT_PORT = 10911, 9876, 9878, 40911
NAMESERVER, READER = "s0", "r0"
PRODUCERS = ("p0", "p1")
SEGMENT_BYTES = 128 << 10
"""Of a commit log file: a small one, so that runs go on to another often."""
MESSAGE_BYTES_MAX = 60_000

STUCK = 1500.0
"""How slow a disk that stands still is: a broker that saves tables on its reactor, some syncs in a row, is busy for
several seconds, or until the disk is well again."""

_POWER = frozenset({"power", "power-all"})


@attrs.frozen
class BrokerPlace:
    """A broker of a group.

    :ivar host: name of its host.
    :ivar group: ``brokerName``.
    :ivar number: ``brokerId`` where the configuration gives it.
    :ivar role: ``brokerRole``.
    """

    host: str
    group: str
    number: int
    role: str = "ASYNC_MASTER"


@attrs.frozen
class ClusterSetup(Setup):
    """See the module.

    :ivar mode: one of :data:`MODES`.
    :ivar brokers: by host.
    :ivar controllers: hosts.
    :ivar sync_flush: SYNC_FLUSH, else ASYNC_FLUSH.
    :ivar slave_reads: ``slaveReadEnable``.
    :ivar replicas_min: ``minInSyncReplicas``.
    :ivar topics: topics of each group, made one after the other.
    :ivar queues: of each topic.
    :ivar sends_per_s: of both producers together.
    :ivar body_bytes_max: longest body.
    :ivar stops: whether brokers are stopped in order now and then.
    :ivar moves: whether members of the group come and go.
    :ivar witness: one of the brokers' hosts on which a witness runs instead; "": none.
    :ivar java_words: brokers in DLedger mode that speak DLedger's protocol with the others.
    """

    mode: str
    brokers: tuple[BrokerPlace, ...]
    controllers: tuple[str, ...]
    sync_flush: bool
    slave_reads: bool
    replicas_min: int
    topics: int
    queues: int
    sends_per_s: float
    body_bytes_max: int
    stops: bool
    java_words: tuple[str, ...] = ()
    moves: bool = False
    witness: str = ""

    @property
    def elects(self) -> bool:
        """Whether a group has one master after another."""
        return self.mode in (CONTROLLER, DLEDGER)

    @property
    def groups(self) -> tuple[str, ...]:
        """Broker names."""
        return tuple(sorted({place.group for place in self.brokers}))

    def address(self, host: str, port: int) -> str:
        """``address:port`` of a host: hosts have addresses in the order in which the scenario adds them."""
        return f"10.0.0.{(*self.nodes, *self.clients).index(host) + 1}:{port}"


def expand_cluster(
    seed: int,
    seconds: float,
    kinds: Sequence[str] = faults.ALL_KINDS,
    mode: str | None = None,
    only: Sequence[Fault] | None = None,
) -> ClusterSetup:
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
        slave_reads=chance.random() < 0.5,
        replicas_min=chance.choice((1, 1, 2)) if mode == CONTROLLER else 1,
        topics=chance.choice((1, 2, 3)),
        queues=chance.choice((1, 2)),
        sends_per_s=chance.choice((2.0, 8.0, 20.0)),
        body_bytes_max=chance.choice((100, 1000, 8000)),
        stops=chance.random() < 0.4,
        java_words=_java_words(seed, brokers) if mode == DLEDGER else (),
    )
    # By a chance of its own, so that all else of a seed stays what it was.
    moves = mode == DLEDGER and not made.java_words and random.Random(f"{seed}/moves").random() < 0.5
    made = attrs.evolve(made, moves=moves, witness=_witness(seed, made))
    if only is not None:
        return attrs.evolve(made, faults=tuple(only))
    usable = [kind for kind in kinds if sync_flush or kind not in _POWER]
    if len(controllers) < 2:
        usable = [kind for kind in usable if kind != "corrupt"]
    drawn = faults.draw(chance, nodes, clients, SETTLE_S, made.heal_s, usable)
    return attrs.evolve(made, faults=tuple(_fitting(chance, fault, made) for fault in drawn))


def _places(chance: random.Random, mode: str) -> tuple[tuple[BrokerPlace, ...], tuple[str, ...]]:
    """The brokers and the controllers' hosts of a mode."""
    groups = chance.choice((1, 1, 2))
    if mode == ALONE:
        return tuple(BrokerPlace(f"b{number}", f"g{number}", 0) for number in range(groups)), ()
    if mode == CLASSIC:
        role = chance.choice(("SYNC_MASTER", "SYNC_MASTER", "ASYNC_MASTER"))
        roles = (role, *("SLAVE",) * chance.choice((1, 1, 2)))
        places = [(group, number, role) for group in range(groups) for number, role in enumerate(roles)]
        return tuple(BrokerPlace(f"b{at}", f"g{place[0]}", place[1], place[2]) for at, place in enumerate(places)), ()
    if mode == DLEDGER:
        return tuple(BrokerPlace(f"b{number}", "g0", 0) for number in range(chance.choice((3, 3, 3, 5)))), ()
    brokers = chance.choice((2, 3, 3, 3))
    controllers = chance.choice((1, 3, 3, 3))
    return (
        tuple(BrokerPlace(f"b{number}", "g0", 0) for number in range(brokers)),
        tuple(f"c{number}" for number in range(controllers)),
    )


def _java_words(seed: int, brokers: Sequence[BrokerPlace]) -> tuple[str, ...]:
    """Nobody, one or all.  By a chance of its own, so that all else of a seed stays what it was."""
    hosts = tuple(place.host for place in brokers)
    return random.Random(f"{seed}/words").choice(((), (), hosts[:1], hosts))


def _witness(seed: int, setup: ClusterSetup) -> str:
    """Nobody, or one of the brokers of a group of ours."""
    if setup.mode != DLEDGER or setup.java_words:
        return ""
    chance = random.Random(f"{seed}/witness")
    return chance.choice(setup.brokers).host if chance.random() < 0.4 else ""


def _fitting(chance: random.Random, fault: Fault, setup: ClusterSetup) -> Fault:
    """A fault as it is done to these brokers."""
    if fault.kind == "corrupt":
        return attrs.evolve(fault, targets=tuple(chance.sample(list(setup.controllers), 2)))
    if fault.kind == "stuck-disk":
        return attrs.evolve(fault, size=STUCK)
    if fault.kind in _POWER and setup.mode == CLASSIC:
        # What a classic master sent and had not synced is in its slaves' logs only, and the wire has nothing to find
        # that by: the power of a master is left alone, here as by whoever runs one.
        masters = {place.host for place in setup.brokers if place.number == 0}
        slaves = [host for host in setup.nodes if host not in masters]
        return attrs.evolve(fault, targets=tuple(host for host in fault.targets if host not in masters) or (slaves[0],))
    return fault
