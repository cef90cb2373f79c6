"""Brokers, broken on purpose: each of these the cluster scenario must catch.

``python -m tests.simulation.cluster_mutations`` runs all of them (``NAME`` runs one); see
:mod:`tests.simulation.mutations`, whose way this is.  A mutation's ``scenario`` is the mode of the cluster.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet import defer
from twisted.logger import globalLogBeginner

from rocketha.broker.delay_levels import StoreTimes
from rocketha.broker.delayed_delivery import DelayedDelivery
from rocketha.broker.send import SendAnswers
from rocketha.broker.unsaved import Unsaved
from rocketha.replication import autoswitch_slave
from rocketha.replication.acks import NO_ACK
from rocketha.replication.lease import Lease
from rocketha.replication.sync_state import SyncState
from rocketha.services.process.platform import Platform
from rocketha.services.tables.broker_files import TableFile
from rocketha.services.waiting.log_reads import LinkReader
from rocketha.simulation.cluster_scenario import ClusterScenario
from rocketha.simulation.cluster_setup import ALONE, CLASSIC, CONTROLLER, expand_cluster
from rocketha.simulation.faults import ALL_KINDS
from rocketha.simulation.run import run
from rocketha.store import commitlog, log_walk
from rocketha.store.memory_disk import MemoryFile
from rocketha.store.message_store import MessageStore
from rocketha.store.reading import Reader
from rocketha.store.recovery import Recovery
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.record import decode_any
from tests.simulation import hunting
from tests.simulation.mutations import Mutation, patch

SECONDS = 36.0
EVERY = 20
"""Mutations that are not about faults happen every so many times."""
POWER = ("power", "power-all", "slow-disk")
CUTS = ("kill", "halves", "single", "one-way", "freeze", "reset")

MUTATIONS: dict[str, Mutation] = {}


def mutation(
    mode: str, what: str, kinds: tuple[str, ...] = ALL_KINDS, seeds: int = 40
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register one; its name is the function's, with dashes."""

    def register(apply: Callable[[], None]) -> Callable[[], None]:
        MUTATIONS[apply.__name__.replace("_", "-")] = Mutation(mode, what, kinds, seeds, apply)
        return apply

    return register


# -- one broker: what is on its disk


@mutation(ALONE, "syncs of the log do nothing, and SYNC_FLUSH acknowledges", POWER)
def log_not_synced() -> None:
    sync = MemoryFile.sync

    def lazy(self: MemoryFile) -> None:
        if "/commitlog/" not in self.path:
            sync(self)

    patch(MemoryFile, "sync", lazy)


@mutation(ALONE, "recovery takes the page cache for the disk", ("sync-error", "power"), 120)
def page_cache_is_the_disk() -> None:
    patch(Recovery, "_write_again", lambda self, start: None)


@mutation(ALONE, "recovery makes no queue entries", ("kill",))
def queues_not_rebuilt() -> None:
    patch(Recovery, "_put", lambda self, queue, record, code: None)


@mutation(ALONE, "recovery does not check bodies", ("power", "slow-disk", "stuck-disk"), 600)
def bodies_not_checked() -> None:
    patch(log_walk, "decode_any", lambda data, at: decode_any(data, at, check_crc=False))


@mutation(ALONE, "recovery does not erase what is behind the end", ("power", "slow-disk", "stuck-disk"), 400)
def tail_not_erased() -> None:
    def forgetful(self: commitlog.CommitLog, end: int) -> int:
        self.close()
        self.segments.remove_after(end)
        self._spoiled.clear()
        self.end = self.flushed = end
        return 0

    patch(commitlog.CommitLog, "truncate", forgetful)


@mutation(ALONE, "a topic is acknowledged before it is saved", ("kill",))
def topics_not_saved() -> None:
    patch(TableFile, "begin", lambda self: None)
    patch(TableFile, "save", lambda self: defer.succeed(None))
    patch(Unsaved, "__contains__", lambda self, name: False)


# -- one broker: what it says


@mutation(ALONE, "a message is refused and stored all the same", ())
def refused_and_stored() -> None:
    stored, count = SendAnswers.stored, itertools.count(1)

    def refusing(self: SendAnswers, connection: Any, opaque: int, *more: Any) -> Any:
        if next(count) % EVERY:
            return stored(self, connection, opaque, *more)
        return stored(self, _Changed(connection, b'{"code":0', b'{"code":2'), opaque, *more)

    patch(SendAnswers, "stored", refusing)


class _Changed:
    """A connection that says something else."""

    def __init__(self, connection: Any, old: bytes, new: bytes) -> None:
        self._connection, self._old, self._new = connection, old, new

    def write(self, data: bytes) -> None:
        """With the one thing changed."""
        self._connection.write(data.replace(self._old, self._new))


@mutation(ALONE, "a message is stored twice", ())
def stored_twice() -> None:
    append, count = MessageStore.append, itertools.count(1)

    def twice(self: MessageStore, groups: Any, now_ms: int) -> Any:
        if next(count) % EVERY == 0:
            append(self, groups, now_ms)
        return append(self, groups, now_ms)

    patch(MessageStore, "append", twice)


@mutation(ALONE, "an answer says an offset that is one too high", ())
def wrong_offset_told() -> None:
    stored, count = SendAnswers.stored, itertools.count(1)

    def wrong(self: SendAnswers, *given: Any) -> Any:
        connection, opaque, queue_id, key, wait, offset, *more = given
        return stored(self, connection, opaque, queue_id, key, wait, offset + (next(count) % EVERY == 0), *more)

    patch(SendAnswers, "stored", wrong)


@mutation(ALONE, "a pull goes over a message", ())
def pull_skips() -> None:
    get, count = Reader.get, itertools.count(1)

    def skipping(self: Reader, queue: Any, offset: int, *more: Any) -> Any:
        result = get(self, queue, offset, *more)
        if result.buffers and next(count) % EVERY == 0:
            return attrs.evolve(result, next_offset=result.next_offset + 1)
        return result

    patch(Reader, "get", skipping)


@mutation(ALONE, "a held pull is never answered", ())
def held_pulls_forgotten() -> None:
    from rocketha.broker.long_polling import HeldPulls

    patch(HeldPulls, "arrived", lambda self, *given: [])
    patch(HeldPulls, "due", lambda self, now_ms: [])


# -- replicas


@mutation(CLASSIC, "a slave is sent a wrong byte now and then", ())
def wrong_bytes_sent() -> None:
    read, count = LinkReader.read, itertools.count(1)

    def wrong(self: LinkReader, offset: int, size: int) -> memoryview | defer.Deferred[bytes]:
        data = read(self, offset, size)
        if isinstance(data, memoryview) and size > 40 and next(count) % EVERY == 0:
            data[-1] ^= 1
        return data

    patch(LinkReader, "read", wrong)


@mutation(CONTROLLER, "sends are acknowledged before the replicas have them", CUTS)
def acknowledged_before_replicas() -> None:
    patch(SyncState, "reached", lambda self, need, now_ms: self.log_end)


@mutation(CONTROLLER, "the confirm offset is the master's own end (A7)", CUTS)
def confirmed_before_replicas() -> None:
    patch(SyncState, "advance", lambda self, now_ms: self.confirm.advance(self.log_end, self.log_end))


@mutation(CONTROLLER, "members that have not acknowledged in this epoch are not waited for (A4)", CUTS)
def silent_members_not_waited_for() -> None:
    def advance(self: SyncState, now_ms: int) -> bool:
        if not self.lease.holds(now_ms):
            return False
        acks = [self.acks.offset(replica, self.epoch) for replica in self.needed]
        return self.confirm.advance(min([self.log_end, *(ack for ack in acks if ack != NO_ACK)]), self.log_end)

    patch(SyncState, "advance", advance)


@mutation(CONTROLLER, "consumers see what is not confirmed (A7)", CUTS, 120)
def unconfirmed_is_read() -> None:
    patch(Reader, "visible_end", lambda self, queue: queue.next_offset)


@mutation(CONTROLLER, "the lease never ends (A21)", ("freeze", "freeze-machine", "halves", "single", "one-way"), 80)
def lease_never_ends() -> None:
    patch(Lease, "holds", lambda self, now_ms: self._asked_ms is not None)


@mutation(CONTROLLER, "a replica does not cut what its master lacks (A12)", CUTS)
def truncation_skipped() -> None:
    patch(autoswitch_slave, "consistent_point", lambda own, own_begin, own_end, masters, master_end, confirmed: own_end)


@mutation(CONTROLLER, "epochs are not saved", ("kill", "kill-majority", "power-all"))
def epochs_not_saved() -> None:
    def forgetful(self: ReplicaLog, epochs: Any) -> None:
        self.epochs = tuple(epochs)
        self._epochs_due = None

    patch(ReplicaLog, "save_epochs", forgetful)


@mutation(CONTROLLER, "replicas acknowledge before their sync (A16)", ("power-all", "slow-disk", "power"), 120)
def acknowledged_before_sync() -> None:
    patch(ReplicaLog, "ack_offset", property(lambda self: self.end))


@mutation(CONTROLLER, "the confirm offset is forgotten in a restart", ("power-all", "kill-majority", "kill"), 80)
def confirm_offset_not_kept() -> None:
    patch(MessageStore, "_confirm_found", lambda self, *given: 0)


@mutation(
    CONTROLLER, "a topic is acknowledged before the replicas have it (F2)", ("kill", "halves", "single", "one-way"), 150
)
def topics_not_waited_for() -> None:
    from rocketha.services.replication.metadata_master import MasterTables

    patch(MasterTables, "acknowledged", lambda self, connection, command, answer, term: answer)


@mutation(CONTROLLER, "delayed messages are measured by a clock that somebody sets (rocketmq#9455)", ("slow-link",))
def clock_steps_forgotten() -> None:
    patch(StoreTimes, "stores_at", lambda self, place, now_ms, wall_ms: None)


@mutation(ALONE, "what waits goes by a clock that somebody sets (rocketmq#9455)", ("slow-link",))
def waits_by_the_time_of_day() -> None:
    patch(Platform, "now_ms", Platform.wall_ms)


@mutation(ALONE, "a delayed message is delivered twice", ())
def delivered_twice() -> None:
    stage, count = DelayedDelivery._stage, itertools.count(1)

    def twice(self: DelayedDelivery, level: Any, message: Any, last: Any, now_ms: int) -> Any:
        if next(count) % EVERY == 0:
            stage(self, level, message, last, now_ms)
        return stage(self, level, message, last, now_ms)

    patch(DelayedDelivery, "_stage", twice)


@mutation(CONTROLLER, "who takes over delivers what its progress does not say, without a look at the log", ("kill",))
def progress_believed() -> None:
    patch(DelayedDelivery, "_was_delivered", lambda self, level, message: None)


# -- running them


def hunt(name: str, first: int = 1) -> tuple[int, str] | None:
    """Apply a mutation to this process, and the first seed that catches it with what it found."""
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    chosen = MUTATIONS[name]
    chosen.apply()
    for seed in range(first, first + chosen.seeds):
        came = run(ClusterScenario, expand_cluster(seed, SECONDS, chosen.kinds, chosen.scenario))
        if came.violations:
            return seed, str(came.violations[0]).splitlines()[0][:200]
    return None


MODULE = "tests.simulation.cluster_mutations"


def in_a_process(name: str, first: int = 1) -> tuple[bool, str]:
    """Hunt in a process of its own."""
    return hunting.in_a_process(MODULE, name, first)


if __name__ == "__main__":
    sys.exit(hunting.main(MODULE, MUTATIONS, hunt, "Break brokers on purpose; each must be caught."))
