"""The brokers' logs and queues, compared with each other and with what clients were told.

Knows the stores of running brokers, which clients can not look into.  Numbers as in faults-and-invariants: 6 the
confirm offset never falls, 12 queue offsets dense and unique, 13 a queue entry points at its message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rocketha.simulation.host import Host, Process
from rocketha.simulation.message_oracle import QueueName
from rocketha.store.log_walk import LogWalk
from rocketha.store.message_store import MessageStore
from rocketha.wire.record import Record, scan

if TYPE_CHECKING:
    from rocketha.services.broker import BrokerService
    from rocketha.simulation.cluster_scenario import ClusterScenario

READ_BYTES = 1 << 20
TIMERS_MAX = 400


class ClusterChecks:
    """See the module."""

    def __init__(self, scenario: ClusterScenario) -> None:
        self._scenario = scenario
        self._findings = scenario.findings
        self._oracle = scenario.oracle

    # -- what happens

    def started(self, process: Process, service: BrokerService) -> None:
        """A broker has recovered its store and serves."""
        self._findings.count("broker starts")
        report = service.recovery
        if report is not None and report.truncated_bytes:
            self._findings.count("logs cut at the start")
        group = self._scenario.places[process.host.name].group
        known = service.state.topics.table
        for topic in self._oracle.topics.get(group, ()):
            if topic not in known:
                self._findings.violated("a topic that was made stays", f"{process.host.name} lacks {topic}")

    def look(self) -> None:
        """What must hold at any moment."""
        for host, _ in self._serving():
            timers = host.process.reactor.timers if host.process is not None else 0
            if timers > TIMERS_MAX:
                self._findings.violated("bounded timers (21)", f"{host.name} has {timers}")

    # -- after the faults

    def recovered(self) -> str | None:
        """What is still missing."""
        serving = {host.name for host, _ in self._serving()}
        for host, service in self._serving():
            why = service.ready()
            if why is not None:
                return f"{host.name}: {why}"
        missing = [host.name for host in self._scenario.brokers if host.name not in serving]
        return f"{', '.join(missing)} do not serve" if missing else None

    def finish(self) -> None:
        """Nobody sends any more: whole queues, whole logs."""
        for host, service in self._serving():
            self._queues(host, service)
            self._log(host, service)

    def _serving(self) -> list[tuple[Host, BrokerService]]:
        found: list[tuple[Host, BrokerService]] = []
        for host in self._scenario.brokers:
            service: Any = host.process.service if host.process is not None else None
            if service is not None and service.serving:
                found.append((host, service))
        return found

    def _queues(self, host: Host, service: BrokerService) -> None:
        """Every queue, as a consumer that reads all of it gets it."""
        group, store = self._scenario.places[host.name].group, service.store
        if store.log.begin:
            self._findings.count("brokers that deleted files")  # as a full disk makes them
        for queue in self._oracle.queues(group):
            first = store.min_offset(queue.topic, queue.queue_id)
            if first and not store.log.begin:
                self._findings.violated("queue offsets dense (12)", f"{host.name}: {queue} begins at {first}")
            self._oracle.whole_queue(queue, first, _records(store, queue, first), host.name)

    def _log(self, host: Host, service: BrokerService) -> None:
        """Every record of the log has its place in its queue, once, and nobody else's."""
        store, places = service.store, dict[tuple[str, int, int], int]()
        walk = LogWalk(store.log.segments, store.log.begin, store.confirm_offset)
        for record in walk:
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
