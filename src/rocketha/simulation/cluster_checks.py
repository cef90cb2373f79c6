"""The brokers' roles, logs and queues, compared with each other and with what clients were told.

Knows the stores of running brokers, which clients can not look into.  Numbers as in faults-and-invariants: 6 the
confirm offset never falls, 7 what was acknowledged is in every later master's log, 8 one master an epoch, 10 epoch
lists equal, 12 queue offsets dense and unique, 13 a queue entry points at its message, 14 the SyncStateSet holds its
master and nobody who lacks what is confirmed, 20 replicas are equal when all is quiet, 21 bounded timers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rocketha.broker.role import Role
from rocketha.simulation.cluster_setup import ALONE, CONTROLLER, DLEDGER, ClusterSetup
from rocketha.simulation.findings import Findings
from rocketha.simulation.host import Host, Process
from rocketha.simulation.message_oracle import MessageOracle, QueueName
from rocketha.store.log_walk import LogWalk
from rocketha.store.message_store import MessageStore
from rocketha.wire.dledger_terms import MEMBERS_TOPIC, TERM_TOPIC
from rocketha.wire.record import Record, scan

if TYPE_CHECKING:
    from rocketha.services.broker.running import RunningBroker
    from rocketha.services.broker.service import BrokerService
    from rocketha.services.replication.service import Replication

READ_BYTES = 1 << 20
TIMERS_MAX = 400


class ClusterChecks:
    def __init__(
        self,
        setup: ClusterSetup,
        findings: Findings,
        oracle: MessageOracle,
        brokers: list[Host],
        controllers: list[Host],
    ) -> None:
        self._setup = setup
        self._findings = findings
        self._oracle = oracle
        self._brokers = brokers
        self._controllers = controllers
        self._places = {place.host: place for place in setup.brokers}
        self._masters: dict[tuple[str, int], str] = {}
        self._confirmed: dict[str, tuple[Process, int]] = {}
        self._timely: set[str] = set()  # delayed messages that were looked at when their time was over
        self._vouched: dict[str, int] = {}  # by host: the confirm offset that its checkpoint was last seen to have

    # -- what happens

    def started(self, process: Process, service: BrokerService) -> None:
        """A broker has recovered its store and serves."""
        self._findings.count("broker starts")
        broker = service.broker
        if broker.recovery.truncated_bytes:
            self._findings.count("logs cut at the start")
        replication, name = broker.replication, process.host.name
        if self._setup.elects:
            self._kept(name, broker.store)

        def changed(role: Role) -> None:
            self._role(name, replication, role, broker)
            if role is Role.MASTER:
                process.reactor.callLater(0, self._topics, name, replication, broker)

        replication.role_changed.append(changed)
        changed(replication.role)

    def _topics(self, name: str, replication: Replication, broker: RunningBroker) -> None:
        """When a new master has done what it does at once.

        Beside members in Java's words it knows only what it has and what the log has: a topic without a message, of
        which it did not hear, is gone, as with Java (docs/dledger_mode.rst).
        """
        if replication.role is not Role.MASTER:
            return
        group, known = self._places[name].group, broker.state.topics.table
        sent = {queue.topic for queue in self._oracle.queues(group) if self._oracle.end(queue) > 0}
        for topic in self._oracle.topics.get(group, ()):
            if topic not in known and (replication.replicas.stamps_tables or topic in sent):
                self._findings.violated("a topic that was made stays", f"{name} lacks {topic}")

    def _role(self, name: str, replication: Replication, role: Role, broker: RunningBroker) -> None:
        if role is not Role.MASTER:
            return
        group = self._places[name].group
        self._findings.count("masters")
        if self._setup.elects:
            other = self._masters.setdefault((group, replication.epoch), name)
            if other != name:
                self._findings.violated("one master per epoch (8)", f"{replication.epoch}: {other} and {name}")
        for queue in self._oracle.queues(group):
            found = broker.store.queues.get(queue.topic, queue.queue_id)
            end = 0 if found is None else found.next_offset
            if end < self._oracle.end(queue):
                self._findings.violated(
                    "acknowledged => in every later master's log (7)",
                    f"{name}, master of epoch {replication.epoch}: {queue} ends at {end}, acknowledged is up to "
                    f"{self._oracle.end(queue)}",
                )

    def _kept(self, name: str, store: MessageStore) -> None:
        """A restart forgets no confirm offset that was saved, as far as the log is still there: it is what keeps the
        replica from following a master that lacks confirmed records, and from leading where it has a bad one itself.
        A lone master confirms all it has at once, so clients see that it was forgotten only after a second fault."""
        expected = min(self._vouched.get(name, 0), store.log.end)
        if store.confirm_offset < expected:
            self._findings.violated(
                "a restart keeps the confirm offset (6)",
                f"{name}: {expected} was saved, {store.confirm_offset} is known",
            )

    def look(self) -> None:
        """What must hold at any moment."""
        for host, broker in self._serving():
            process, replication = host.process, broker.replication
            assert process is not None
            if process.reactor.timers > TIMERS_MAX:
                self._findings.violated("bounded timers (21)", f"{host.name} has {process.reactor.timers}")
            if not self._setup.elects:
                continue
            before = self._confirmed.get(host.name)
            confirm = replication.confirm_offset
            if before is not None and before[0] is process and confirm < before[1]:
                self._findings.violated("confirm never falls (6)", f"{host.name}: {before[1]}, then {confirm}")
            self._confirmed[host.name] = process, confirm
            self._vouched[host.name] = broker.store.upkeep.saved.confirm_offset
            if replication.role is Role.MASTER and self._setup.mode == CONTROLLER:
                self._set(host.name, replication)

    def delays(self, calm_s: float) -> None:
        """Nothing goes wrong any more but the clocks: no delay level is more than a second behind its time."""
        levels = {
            self._places[host.name].group: broker.core.parts.delays.offsets
            for host, broker in self._serving()
            if broker.replication.role is Role.MASTER
        }
        for message in self._oracle.delayed.values():
            late = (
                message.sent_s >= calm_s and message.name not in self._timely and message.latest_s < self._findings.now
            )
            if not late or message.group not in levels:
                continue
            self._timely.add(message.name)
            self._findings.count("delayed messages at their time")
            if levels[message.group].get(message.level, 0) <= message.offset:
                self._findings.violated("delay levels deliver at their time", f"{message} has not come")

    @property
    def deleted(self) -> frozenset[str]:
        """Groups with a broker whose oldest files a full disk took."""
        return frozenset(self._places[host.name].group for host, broker in self._serving() if broker.store.log.begin)

    def _set(self, name: str, replication: Replication) -> None:
        """A master's SyncStateSet against the members' own logs."""
        members = replication.members
        if members and replication.own_id not in members:
            self._findings.violated("the set holds its master (14)", f"{name}: {members} without {replication.own_id}")
        for host, broker in self._serving():
            other = broker.replication
            if other.own_id in members and other.log_end < replication.confirm_offset and replication.lease_holds:
                self._findings.violated(
                    "members have what is confirmed (14)",
                    f"{name} confirms {replication.confirm_offset}, {host.name} ends at {other.log_end}",
                )

    # -- after the faults

    def recovered(self) -> str | None:
        """What is still missing."""
        serving = self._serving()
        absent = sorted({host.name for host in self._brokers} - {host.name for host, _ in serving})
        if absent:
            return f"{', '.join(absent)} do not serve"
        for host, broker in serving:
            why = broker.unready()
            if why is not None:
                return f"{host.name}: {why}"
        if self._setup.elects:
            for group in self._setup.groups:
                missing = self._led(group)
                if missing is not None:
                    return missing
        return None

    def _led(self, group: str) -> str | None:
        """A group that elects: one master, a full set, and what the leading controller means, where there is one."""
        brokers = [each for each in self._serving() if self._places[each[0].name].group == group]
        masters = [broker.replication for _, broker in brokers if broker.replication.role is Role.MASTER]
        if len(masters) != 1:
            roles = {host.name: broker.replication.role.name for host, broker in brokers}
            return f"{group} has {len(masters)} masters: {roles}"
        master, ids = masters[0], {broker.replication.own_id for _, broker in brokers}
        if self._setup.mode == DLEDGER:
            return None if set(master.members) == ids else f"{group}: of {sorted(ids)} {master.members} answer"
        leaders = [host for host in self._controllers if _leads(host)]
        if len(leaders) != 1:
            return f"{len(leaders)} controllers lead"
        process = leaders[0].process
        state: Any = process.service.state.group("c", group) if process is not None else None
        if state is None or (state.master, state.master_epoch) != (master.own_id, master.epoch):
            return f"{group}: {master.own_id} is master of epoch {master.epoch}, the controllers say otherwise: {state}"
        if set(state.in_sync) != ids or set(master.members) != ids:
            return f"{group}: in sync are {sorted(state.in_sync)}, its master says {master.members}, of {sorted(ids)}"
        return None

    def unequal(self) -> str | None:
        """When nobody sends any more: replicas that have not yet what their master has."""
        for group in self._setup.groups:
            brokers = [each for each in self._serving() if self._places[each[0].name].group == group]
            ends = {}
            for host, broker in brokers:
                store = broker.store
                dispatched = store.log.end if store.leads else store.dispatched
                ends[host.name] = store.log.end, store.confirm_offset, dispatched
            if self._setup.mode != ALONE and len(set(ends.values())) > 1:
                return f"{group}: logs end, are confirmed and dispatched up to {ends}"
        return None

    def finish(self) -> None:
        """Nobody sends any more: whole queues, whole logs, replicas byte by byte."""
        for host, broker in self._serving():
            self._queues(host, broker)
            self._log(host, broker)
        for group in self._setup.groups:
            self._replicas([each for each in self._serving() if self._places[each[0].name].group == group])

    def _serving(self) -> list[tuple[Host, RunningBroker]]:
        found: list[tuple[Host, RunningBroker]] = []
        for host in self._brokers:
            service: Any = host.process.service if host.process is not None else None
            if service is not None and service.serving:
                found.append((host, service.broker))
        return found

    def _replicas(self, brokers: list[tuple[Host, RunningBroker]]) -> None:
        (first, master), *others = brokers
        for host, broker in others:
            one, two = master.store.log, broker.store.log
            at, end = max(one.begin, two.begin), min(one.end, two.end)
            while at < end:
                size = min(READ_BYTES, end - at)
                here, there = one.segments.read(at, size), two.segments.read(at, size)
                if here != there:
                    place = next(i for i in range(size) if here[i : i + 1] != there[i : i + 1])
                    self._findings.violated(
                        "replicas are byte-equal (20)", f"{first.name} and {host.name} differ at {at + place}"
                    )
                    return
                at += size
            self._findings.count("bytes of replicas compared", end - max(one.begin, two.begin))
            mine, theirs = master.replication.log.epochs, broker.replication.log.epochs
            if self._setup.mode == CONTROLLER and list(mine)[-len(theirs) :] != list(theirs)[-len(mine) :]:
                self._findings.violated("epoch lists equal (10)", f"{first.name} {mine}, {host.name} {theirs}")

    def _queues(self, host: Host, broker: RunningBroker) -> None:
        """Every queue, as a consumer that reads all of it gets it."""
        group, store = self._places[host.name].group, broker.store
        if store.log.begin:
            self._findings.count("brokers that deleted files")  # as a full disk makes them
        for queue in self._oracle.queues(group):
            first = store.min_offset(queue.topic, queue.queue_id)
            if first and not store.log.begin:
                self._findings.violated("queue offsets dense (12)", f"{host.name}: {queue} begins at {first}")
            self._oracle.whole_queue(queue, first, _records(store, queue, first), host.name)

    def _log(self, host: Host, broker: RunningBroker) -> None:
        """Every record of the log has its place in its queue, once, and nobody else's."""
        store, places = broker.store, dict[tuple[str, int, int], int]()
        walk = LogWalk(store.log.segments, store.log.begin, store.confirm_offset, store.log.layouts)
        for record in walk:
            if record.topic in (TERM_TOPIC, MEMBERS_TOPIC):
                continue
            place = (record.topic, record.queue_id, record.queue_offset)
            other = places.setdefault(place, record.physical_offset)
            if other != record.physical_offset:
                self._findings.violated(
                    "queue offsets unique (12)", f"{host.name}: {place} is at {other} and at {record.physical_offset}"
                )
            found = store.physical_offset(*place)
            if found != record.physical_offset:
                self._findings.violated(
                    "a queue entry points at its message (13)",
                    f"{host.name}: {place} is at {record.physical_offset}, its queue says {found}",
                )
        if walk.position != store.confirm_offset:
            self._findings.violated(
                "the log is whole", f"{host.name}: at {walk.position} of {store.confirm_offset}: {walk.reason}"
            )


def _leads(host: Host) -> bool:
    service: Any = host.process.service if host.process is not None else None
    return bool(service is not None and service.leading)


def _records(store: MessageStore, queue: QueueName, first: int) -> Iterator[Record]:
    offset, end = first, store.max_offset(queue.topic, queue.queue_id)
    while offset < end:
        result = store.get(queue.topic, queue.queue_id, offset, 1000, READ_BYTES)
        for data in result.buffers:
            for _, record in scan(data):
                yield record
        if result.next_offset <= offset:
            return
        offset = result.next_offset
