"""A cluster as it was found at one moment: plain values, made by :mod:`rocketha.admin.looking`.

Pure.  Whoever judges or shows a cluster (:mod:`rocketha.admin.findings`, :mod:`rocketha.admin.status_page`) is given
this and nothing else, so that every fault can be staged in a test without a process.

What a process could not be asked, or did not tell, is None, empty, or a text in ``problem``: Java's processes tell
less than ours.  Times are ms since 1970 where their names end in ``_ms``, else seconds before the look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from rocketha.wire.cluster_info import BrokerSet

MASTER, SLAVE, FENCED = "MASTER", "SLAVE", "FENCED"


@attrs.frozen(kw_only=True)
class Refusal:
    """Refusals of one kind: the same request (or connection), reason and host.

    :ivar what: the request's name, or ``connection`` for one that was ended.
    """

    what: str
    reason: str
    peer: str
    count: int = 1
    seconds_ago: float = 0.0
    client: str = ""
    remark: str = ""


@attrs.frozen(kw_only=True)
class Connection:
    """One connection of a server.

    :ivar groups: that it consumes for, each client getting a share of the messages.
    :ivar pulled_s: when it last asked for messages; None: it never did.
    :ivar pulls_told: whether its server knows that: Java's do not.
    :ivar brokers: that registered by it: ``cluster/name host:port``.
    """

    address: str
    open_s: float = 0.0
    clients: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    pulled_s: float | None = None
    pulls_told: bool = True
    brokers: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Process:
    """What every server tells.

    :ivar kind: ``nameserver``, ``controller`` or ``broker``.
    :ivar reached: whether a connection to its address came about.
    :ivar end: ``IP:port`` where that connection ended: of one process the same, by whatever name it was asked.
    :ivar problem: why it did not answer at all; empty: it did.
    :ivar refused: why it did not answer an operator's question; empty: it did.
    :ivar ours: None where nobody knows.
    :ivar clock_ahead_ms: of its clock to the one here; ``clock_doubt_ms`` is how far that may be wrong.
    """

    kind: str
    address: str
    reached: bool = False
    end: str = ""
    problem: str = ""
    refused: str = ""
    ours: bool | None = None
    version: str = ""
    clock_ahead_ms: int | None = None
    clock_doubt_ms: int = 0
    started_ms: int | None = None
    log_level: str = ""
    connections: tuple[Connection, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def name(self) -> str:
        """For a person."""
        return f"{self.kind} {self.address}"


@attrs.frozen(kw_only=True)
class Nameserver:
    """One that was asked.

    :ivar sets: that are registered.
    """

    process: Process
    sets: tuple[BrokerSet, ...] = ()

    def ids_of(self, address: str) -> list[tuple[BrokerSet, int]]:
        """As what a broker is registered here."""
        return [(each, number) for each in self.sets for number, at in each.addresses.items() if at == address]


@attrs.frozen(kw_only=True)
class ControlledSet:
    """A broker set as controllers have it.

    :ivar master: the broker's id; None: there is no master.
    :ivar in_sync: the SyncStateSet.
    :ivar alive: ids of those whose heartbeats come.
    :ivar heard_s: how long ago the last one came, by id; Java's controllers do not say it.
    :ivar stale: said by a controller that does not lead, where nobody does.
    """

    cluster: str
    name: str
    addresses: Mapping[int, str]
    master: int | None = None
    epoch: int = 0
    in_sync: tuple[int, ...] = ()
    set_epoch: int = 0
    alive: tuple[int, ...] = ()
    heard_s: Mapping[int, float] = attrs.field(factory=dict)
    said_by: str = ""
    stale: bool = False

    @property
    def title(self) -> str:
        """For a person; Java's controllers do not tell the cluster."""
        return f"{self.cluster}/{self.name}" if self.cluster else self.name

    def id_at(self, address: str) -> int | None:
        """The id of the member at an address; of several the one that is heard, else the newest."""
        found = [number for number, at in self.addresses.items() if at == address]
        return max(found, key=lambda number: (number in self.alive, number), default=None)

    @property
    def replaced(self) -> Mapping[int, int]:
        """Ids that nobody has any more, each with the id that is heard at the address now."""
        heard = {self.addresses[number]: number for number in self.alive if number in self.addresses}
        return {
            number: heard[address]
            for number, address in sorted(self.addresses.items())
            if number not in self.alive and address in heard
        }


@attrs.frozen(kw_only=True)
class Controller:
    """One that was asked.

    :ivar id: its own, empty where it did not say.
    :ivar leader: id of who leads in its eyes, empty: nobody.
    :ivar peers: id to address of all, as it has them.
    :ivar role: in the Raft group; empty of Java's.
    :ivar matches: id to the end of that member's log, as this leader has it.
    :ivar sets_told: whether ``sets`` are all that it has: of many it tells some.
    """

    process: Process
    id: str = ""
    leads: bool = False
    leader: str = ""
    leader_address: str = ""
    peers: Mapping[str, str] = attrs.field(factory=dict)
    role: str = ""
    term: int | None = None
    committed: int | None = None
    applied: int | None = None
    matches: Mapping[str, int] = attrs.field(factory=dict)
    suspicions: Mapping[str, str] = attrs.field(factory=dict)
    sets: tuple[ControlledSet, ...] = ()
    sets_told: bool = False


@attrs.frozen(kw_only=True)
class Replica:
    """A slave as its master sees it; offsets and ``lag`` in bytes of the log."""

    address: str
    acknowledged: int
    lag: int
    in_sync: bool


@attrs.frozen(kw_only=True)
class Ledger:
    """A member of a Raft group of brokers (DLedger mode) as it describes itself.

    :ivar leader: whom it names, empty: nobody.
    :ivar term: None of Java's.
    """

    group: str
    id: str
    address: str
    problem: str = ""
    ours: bool | None = None
    leader: str = ""
    term: int | None = None
    last: int | None = None
    committed: int | None = None
    members: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Queue:
    """How far a group is in one queue; offsets are numbers of messages.

    :ivar before: what was committed at an earlier look, None where there was none.
    """

    topic: str
    id: int
    end: int
    committed: int
    pulled: int
    before: int | None = None

    @property
    def lag(self) -> int:
        """Messages that are not consumed."""
        return max(0, self.end - self.committed)


@attrs.frozen(kw_only=True)
class Group:
    """A consumer group at one broker.

    :ivar looked_s: between the earlier look and this one.
    """

    name: str
    queues: tuple[Queue, ...]
    looked_s: float = 0.0

    @property
    def lag(self) -> int:
        """Messages that are not consumed."""
        return sum(queue.lag for queue in self.queues)


@attrs.frozen(kw_only=True)
class Broker:
    """One that was asked.

    :ivar id: in its set: 0 is a master's in classic and DLedger mode, and in routes; its own in controller mode.
    :ivar role: :data:`MASTER` ...; empty where it did not say.
    :ivar role_s: since when it has that role.
    :ivar epoch: the newest it knows, None where there are none.
    :ivar unready: why it is not what it should be, in its own words.
    :ivar store_refusal: why its store takes no messages.
    :ivar slow_put, slow_sync: the last slow wait, with how long ago it ended, in seconds.
    :ivar namesrv: where it registers.
    :ivar controllers: whom it obeys; empty: it is in another mode.
    :ivar groups_untold: why a master did not tell how far its groups are; empty: it did.
    """

    process: Process
    cluster: str = ""
    name: str = ""
    id: int | None = None
    role: str = ""
    role_s: float | None = None
    epoch: int | None = None
    log_begin: int | None = None
    log_end: int | None = None
    disk_used: float | None = None
    unready: str = ""
    store_refusal: str = ""
    slow_put: tuple[str, float] | None = None
    slow_sync: tuple[str, float] | None = None
    in_sync: tuple[int, ...] = ()
    replicas: tuple[Replica, ...] = ()
    master: str = ""
    namesrv: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    ledger: Ledger | None = None
    groups: tuple[Group, ...] = ()
    groups_untold: str = ""

    @property
    def address(self) -> str:
        """Where it was asked."""
        return self.process.address


@attrs.frozen(kw_only=True)
class Picture:
    """All that was found.

    :ivar at_ms: when, by the clock here.
    :ivar version: of who looked.
    """

    at_ms: int
    version: str = ""
    nameservers: tuple[Nameserver, ...] = ()
    controllers: tuple[Controller, ...] = ()
    brokers: tuple[Broker, ...] = ()
    ledgers: tuple[Ledger, ...] = ()

    @property
    def processes(self) -> Iterator[Process]:
        """Of all kinds."""
        yield from (each.process for each in self.nameservers)
        yield from (each.process for each in self.controllers)
        yield from (each.process for each in self.brokers)

    @property
    def leader(self) -> Controller | None:
        """The controller that leads."""
        return next((each for each in self.controllers if each.leads), None)

    @property
    def sets(self) -> tuple[ControlledSet, ...]:
        """What the leading controller says; where none leads, what was heard from the one that knows most, as stale."""
        leader = self.leader
        if leader is not None:
            return leader.sets
        newest = max(self.controllers, key=lambda each: each.applied or -1, default=None)
        return () if newest is None else tuple(attrs.evolve(each, stale=True) for each in newest.sets)

    def broker(self, address: str) -> Broker | None:
        """The one at an address."""
        return next((each for each in self.brokers if each.address == address), None)
