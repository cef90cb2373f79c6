"""The master's side of shared tables: what it sets right when it becomes master, how replicas hear of changes, and the
answers that wait until they have them.

Theory of operation.  One request of our own, AWAIT_METADATA: a replica says who it is and which versions of topics
and groups are on its disk; it is answered with the master's versions as soon as they are others, or when the time it
asked for is over.  The question is the acknowledgement of everything before it, and the answer says what to fetch by
the requests that Java has (21, 201, 43, 45).  A Java master answers "not supported" and is polled as by a Java slave;
a Java slave never asks, and is not waited for.

Fields of AWAIT_METADATA: ``brokerId``, ``epoch`` (of the master that the replica follows), ``topicVersion`` and
``groupVersion`` (JSON of DataVersion, empty: none taken yet), ``holdMillis``.  Fields of the answer: ``epoch``,
``topicVersion``, ``groupVersion``, ``delayVersion``, ``offsetStamp`` (another text than before: offsets changed),
``brokers`` (ids of those that ask it, so that the next master knows for whom to wait).
Who is not master answers SERVICE_NOT_AVAILABLE: nobody takes tables from a demoted broker.

*Who counts.*  A question says that a replica has the tables, so that it may join the set, or that a change outlives
this master; and anybody may ask it.  It is heard only in the name of a replica that the controller knows (else
NO_PERMISSION) and whose log follows this master's (else SERVICE_NOT_AVAILABLE: a replica that tells the truth asks only
while it does).  That the connection is that replica's own can not be known: neither protocol has a secret, and a
replica's two connections may come from two addresses.  Without a controller nobody is waited for, and nothing counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from rocketha.broker.data_version import DataVersion
from rocketha.broker.metadata_recovery import Ends, QueueEnd, lower_offsets, topics_of_log
from rocketha.broker.metadata_waits import STRANGER_MS, MetadataWaits, Versions, WaitingAnswer
from rocketha.observe.logging import make_logger
from rocketha.services.replication.metadata_context import TablesContext
from rocketha.wire import fields, json_dialect
from rocketha.wire.codes import PrivateCode, ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.remoting import Answer, Command

AWAIT_METADATA = int(PrivateCode.AWAIT_METADATA)
"""Request code; Java's end at 3010 and begin again at 200050, and the packed header takes none above 32767."""

HELD_MAX = 64
"""Questions that wait; a further one is answered at once."""
HOLD_MS_MAX = 10_000

NOT_MASTER = Answer(ResponseCode.SERVICE_NOT_AVAILABLE, "this broker is not the master")
_UNSURE = Answer(
    ResponseCode.SYSTEM_ERROR,
    "the master changed before every replica had the change: it may or may not stay, ask again",
)


def version_text(version: DataVersion) -> str:
    """As it travels in a header."""
    return json_dialect.dumps(version.as_json()).decode()


@attrs.frozen(eq=False)
class _Held:
    """A replica's question that waits for a change."""

    connection: Any
    command: Command
    known: tuple[str, str]
    timer: Any


class MasterTables:
    """The tables of one broker while it is master."""

    def __init__(self, context: TablesContext) -> None:
        self._context = context
        self._clock, self._now = context.clock, context.now_ms
        self._state, self._store, self._delays = context.state, context.store, context.delays
        self._watch, self._own_id, self._replicas = context.watch, context.own_id, context.replicas
        self._ack_timeout_ms = context.ack_timeout_ms
        self._waits = MetadataWaits(self._replicas.is_present)
        self._epoch: int | None = None  # of the term under way
        self._ended = 0  # times that this broker stopped to lead
        self._held: list[_Held] = []
        self._telling: Any = None
        self._deadline: Any = None
        self._look_again: Any = None
        self._log = make_logger()
        for table in (self._state.topics, self._state.groups):
            table.watch(self._changed)

    # --- terms

    def mastership_changed(self) -> None:
        """The watch says something new."""
        watch = self._watch
        if not watch.leads:
            if self._epoch is not None:
                # A topic is in the table before it has a message.
                self._store.topics_complete(self._state.topics.data_version.numbers)
                self._end()
            return
        if self._epoch != watch.epoch:  # elected again, it keeps the answers that wait: its tables stay
            self._epoch = watch.epoch
            self._waits.begin(self._others(), self._now())
            self._set_right()
            self._replicas.fitness_changed()
        else:
            self._release()

    def _others(self) -> frozenset[int]:
        """Who may be elected."""
        return (self._watch.members | self._replicas.needed) - {self._own_id()}

    def is_fit(self, replica: int) -> bool:
        """Whether a replica may become a member of the SyncStateSet, as far as the tables go."""
        if self._epoch is None or not self._ack_timeout_ms:
            return True  # a term begins in the step in which its log does, when nobody is connected
        if self._waits.is_fit(replica, self._present_versions(), self._now()):
            return True
        if self._look_again is None or not self._look_again.active():  # its silence will say that it is Java's
            self._look_again = self._clock.callLater(STRANGER_MS / 1000, self._replicas.fitness_changed)
        return False

    def _present_versions(self) -> Versions:
        return Versions.of(self._state.topics.data_version, self._state.groups.data_version)

    def stop(self) -> None:
        """The service stops."""
        self._end()

    def _end(self) -> None:
        self._epoch = None
        self._ended += 1
        self._end_waits()
        held, self._held = self._held, []
        for question in held:
            self._answer(question, NOT_MASTER)
        for timer in (self._telling, self._deadline, self._look_again):
            if timer is not None and timer.active():
                timer.cancel()
        self._telling = self._deadline = self._look_again = None

    def _end_waits(self) -> None:
        for waiting in self._waits.end():
            waiting.connection.answer(waiting.command, _UNSURE)

    def _set_right(self) -> None:
        """See :mod:`rocketha.broker.metadata_recovery`; then the versions say whose tables these are."""
        state, wall_ms, epoch = self._state, self._state.wall_ms(), self._watch.epoch
        ends = self._ends()
        complete = self._store.deleted_topics.complete
        found = topics_of_log(state.topics, ends, None if complete is None else complete.below)
        for lowered in lower_offsets(state.offsets, ends):
            self._log.warn(
                "group {group} was at {committed} of {topic}/{queue_id}, which ends at {end}: it goes on there",
                **lowered._asdict(),
            )
        for config in found:
            state.topics.put(config, wall_ms)
        if epoch:
            stamps = self._context.replicas.stamps_tables
            for table in (state.topics, state.groups, state.offsets):
                table.begin_term(epoch if stamps else table.data_version.state_version, wall_ms)
        for which in ("topics", "groups", "offsets"):
            self._context.save(which)  # a failure is logged there, and tried again every second
        if found:
            names = [config.topic_name for config in found]
            self._log.warn("topics that only the log knew are made again: {names}", names=", ".join(names[:50]))
            self._context.topics_changed(names)

    def _ends(self) -> Ends:
        store, topics = self._store, self._state.topics
        ends: dict[str, dict[int, QueueEnd]] = {}
        for queue in store.queues.all():
            end = QueueEnd(queue.next_offset, -1)
            if queue.topic not in topics:  # reads the log, so only where it is asked for
                newest_ms = store.store_time_at(queue.topic, queue.queue_id, queue.next_offset - 1)
                end = QueueEnd(queue.next_offset, newest_ms, queue.last().physical_offset)
            ends.setdefault(queue.topic, {})[queue.queue_id] = end
        return ends

    # --- replicas ask

    def await_metadata(self, connection: Any, command: Command, now_ms: int) -> Answer | None:
        """AWAIT_METADATA: see the module's theory of operation."""
        if not self._watch.leads:
            return NOT_MASTER
        header = command.fields
        replica = fields.integer(header, "brokerId", 0)
        epoch = fields.integer(header, "epoch", 0)
        hold_ms = fields.integer(header, "holdMillis", 0, HOLD_MS_MAX)
        if epoch > self._watch.epoch:
            raise refused("this master's epoch is an older one", ResponseCode.SERVICE_NOT_AVAILABLE)
        known = (header.get("topicVersion", ""), header.get("groupVersion", ""))
        taken = Versions.of(DataVersion.from_text(known[0]), DataVersion.from_text(known[1]))
        if self._watch.members:
            self._heard(replica, taken, now_ms)
        if not hold_ms or known != self._versions() or len(self._held) >= HELD_MAX:
            return self._news()
        question = _Held(connection, command.head(), known, None)
        timer = self._clock.callLater(hold_ms / 1000, self._time_over, question)
        self._held.append(attrs.evolve(question, timer=timer))
        return None

    def _heard(self, replica: int, taken: Versions, now_ms: int) -> None:
        if replica == self._own_id() or not self._replicas.knows(replica):
            raise refused(f"broker {replica} is no replica that this master knows of", ResponseCode.NO_PERMISSION)
        if not self._replicas.is_present(replica):
            remark = f"the log of replica {replica} does not follow this master"
            raise refused(remark, ResponseCode.SERVICE_NOT_AVAILABLE)
        self._waits.has(replica, taken, now_ms)
        self._release()
        if replica not in self._watch.members:
            self._replicas.fitness_changed()

    def _versions(self) -> tuple[str, str]:
        return version_text(self._state.topics.data_version), version_text(self._state.groups.data_version)

    def _news(self) -> Answer:
        topics, groups = self._versions()
        state = self._state
        return Answer(
            fields={
                "epoch": str(self._watch.epoch),
                "topicVersion": topics,
                "groupVersion": groups,
                "delayVersion": version_text(self._delays.data_version),
                "offsetStamp": f"{state.stats.boot_ms}-{state.offsets.changes}",
                "brokers": ",".join(map(str, self._waits.ours(self._now()))),
            }
        )

    def _time_over(self, question: _Held) -> None:
        for held in self._held:
            if held.connection is question.connection and held.command.opaque == question.command.opaque:
                self._held.remove(held)
                self._answer(held, self._news())
                return

    def _answer(self, question: _Held, answer: Answer) -> None:
        if question.timer.active():
            question.timer.cancel()
        if not question.connection.closed:
            question.connection.answer(question.command, answer)

    def heard_of(self, brokers: Iterable[int]) -> None:
        """These brokers of the group are of our make: its master says so."""
        self._waits.heard_of(brokers, self._now())

    def _changed(self) -> None:
        """A table changed: tell whoever waits, once the request that did it is through.

        Who was about to join the set does not before it has the change, or is waited for with it.
        """
        if self._epoch is not None:
            self._replicas.fitness_changed()
        if self._held and self._telling is None:
            self._telling = self._clock.callLater(0, self._tell)

    def _tell(self) -> None:
        self._telling = None
        versions = self._versions()
        waiting, self._held = self._held, []
        for question in waiting:
            if question.known == versions:
                self._held.append(question)
            else:
                self._answer(question, self._news())

    def disconnected(self, connection: Any) -> None:
        """Whoever asked on this connection hears no answer."""
        gone = [question for question in self._held if question.connection is connection]
        for question in gone:
            self._held.remove(question)
            if question.timer.active():
                question.timer.cancel()
        self._waits.forget(connection)

    # --- answers wait for replicas

    def term(self) -> int | None:
        """For :meth:`acknowledged`, when a change is made; None where nobody else can become master."""
        return self._ended if self._watch.members and self._ack_timeout_ms else None

    def acknowledged(self, connection: Any, command: Command, answer: Answer, term: int | None) -> Answer | None:
        """The answer to a change that is saved here: now, or (None) when the replicas have it too.

        :param term: in which it was made: who led then and does not any more can not say that it stays.
        """
        if term is not None and term != self._ended:
            return _UNSURE
        if not self._watch.leads or not self._ack_timeout_ms or answer.code or command.is_oneway:
            return answer
        now_ms = self._now()
        versions = self._present_versions()
        self._waits.members_are(self._others(), now_ms)
        if not self._waits.lacking(versions, now_ms):
            return answer
        deadline_ms = now_ms + self._ack_timeout_ms
        if not self._waits.add(WaitingAnswer(versions, deadline_ms, connection, command.head(), answer)):
            return answer
        self._arm()
        return None

    def _arm(self) -> None:
        due_ms = self._waits.next_deadline_ms()
        if due_ms is not None and (self._deadline is None or not self._deadline.active()):
            self._deadline = self._clock.callLater(max(0.001, (due_ms - self._now()) / 1000), self._release)

    def _release(self) -> None:
        if self._epoch is not None:
            self._waits.members_are(self._others(), self._now())
        for waiting, lacking in self._waits.released(self._now()):
            answer = waiting.answer
            if lacking:
                who = f"replicas {', '.join(map(str, lacking))}"
                remark = f"the change is made here and {who} did not take it within {self._ack_timeout_ms} ms"
                self._log.warn("{remark}: an election now may undo it", remark=remark)
                answer = Answer(ResponseCode.SYSTEM_ERROR, f"{remark}: ask again")
            if not waiting.connection.closed:
                waiting.connection.answer(waiting.command, answer)
        if not len(self._waits) and self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._arm()
