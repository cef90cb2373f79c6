"""A slave takes its master's tables: topics, consumer offsets, delay offsets, groups and POP modes.

Theory of operation.  A :class:`Following` lives from when a master is named until another is, or none.  It asks at
once, and then

- a master of ours by AWAIT_METADATA (:mod:`rocketha.services.replication.metadata_master`): one small question under
  way all the time, answered when something changed; then only what changed is fetched.  Topics and groups arrive one
  round trip after the change, consumer and delay offsets within a second (a table of offsets over 100 kB less often: it
  costs at most that much a second, until the period is reached);
- a Java master, which does not know that question, for everything every period (syncBrokerMetadataPeriod), in
  Java's order.

*Whose tables are taken.*  A master's that came back on an empty disk, or was elected with one, lacks the topics of
messages that only this broker has; to follow it in that would delete their queues.  So nothing is taken from a master
before this broker's log is known to be a part of its log, and only while it is copied from there:

- a link of controller mode has found where both logs are equal, and this one was cut there;
- a classic link has compared the end of this log, but who is behind the HA port need not be who answers for the
  tables.  So the master is asked for the newest message that our queues pointed at before its log was copied (request
  33): it has the same bytes there, or its log already begins behind them.  Once a connection, for behind one
  connection there is one process.

The link is never waiting for this: the log first, then the tables, then this replica may join the set.

Each table is taken whole or not at all, one that cannot be taken does not keep the others, and topics and groups are
on the disk before the master hears that this broker has them.  A fault of this program ends nothing either: it is
logged with its trace, counted, and what failed is tried again after longer and longer pauses.

What differs from Java's slave: entries are compared and only what differs is touched; a topic that went takes its
queues and offsets with it (regression F4); offsets that the master has no more go too; an older table than the own
takes nothing away (:mod:`rocketha.broker.metadata_diff`).

Java: ``SlaveSynchronize``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

import attrs
from twisted.internet import defer, error, task
from twisted.python.failure import Failure

from rocketha.broker.data_version import DataVersion
from rocketha.broker.delay_levels import read_progress
from rocketha.broker.groups import PREDEFINED_GROUPS
from rocketha.broker.metadata_diff import difference, is_behind
from rocketha.broker.metadata_modes import read_modes
from rocketha.broker.metadata_pages import GROUPS, TOPICS, Kind, Pages
from rocketha.broker.offsets import read_offsets
from rocketha.broker.progress_requests import OFFSETS_AFTER
from rocketha.errors import DiskFailure, RemoteProtocolError, RequestRefused
from rocketha.observe.logging import make_logger
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.replication.metadata_context import TablesContext
from rocketha.services.replication.metadata_master import AWAIT_METADATA, version_text
from rocketha.store.message_store import MessageStore
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command

HOLD_MS = 1000
"""How long a master of ours may keep a question: as old consumer and delay offsets may be."""
RETRY_S = 0.5
FAULT_RETRY_MAX_S = 5.0
"""The longest pause after faults of this program; it begins at twice :data:`RETRY_S`."""
CONNECT_S = 1.0
BUSY_S = 0.05
NOT_MASTER_RETRY_S = 0.2
"""Between the naming of a master and its first moment as one."""
OTHER_LOG_RETRY_S = 5.0
"""Between two questions to a classic master whose log is not ours."""
ANSWER_S = 3.0
UNHELD_S = 0.2
"""A question without news that was answered sooner was not held: the next one waits this long."""
OFFSET_BYTES_A_SECOND = 100_000

Steps = Generator[defer.Deferred[Any], Any, Any]
EXPECTED = (
    RequestRefused,
    RemoteProtocolError,
    DiskFailure,
    error.ConnectError,
    error.ConnectionClosed,
    error.TimeoutError,
)


class _NotMaster(Exception):
    """Who was asked is one of ours and not the master, or not yet; or this broker's log does not follow it any more."""


class _OtherLog(Exception):
    """The master of a classic pair does not have what this broker's queues point at."""


@attrs.define
class SlaveTables:
    """What all followings of one broker share.

    :ivar known_end: where the log ended when it was last known to be a part of its master's; at first, as it was found.
    :ivar heard_of: told ids of brokers that are of our make.
    :ivar faults: exceptions that nobody reckoned with, in all followings.
    """

    context: TablesContext
    client: RemotingClient
    heard_of: Callable[[Iterable[int]], None]
    known_end: int
    faults: int = 0


@attrs.define
class _Taken:
    """What was taken from the present master, as it names it."""

    topics: DataVersion | None = None
    lowered: int = 0
    groups: DataVersion | None = None
    delays: str = ""
    offsets: str = ""
    offsets_at_s: float = 0.0
    offsets_bytes: int = 0


class Following:
    """Takes the tables of one master.

    :cvar complete: whether the table of topics names all that are in the log: a master of ours sees to that before it
        serves.
    :ivar rounds: times that all tables were asked for.
    :ivar fresh_s: when all of them were last known to be the master's, in the clock's seconds; None before the first
        time.
    """

    complete = True

    def __init__(self, tables: SlaveTables, address: str, epoch: int) -> None:
        self._tables = tables
        self._context = tables.context
        self._address = address
        self._epoch = epoch
        self._taken = _Taken()
        self._task: defer.Deferred[Any] | None = None
        self._complaints: dict[str, str] = {}
        self._trusted: RemotingProtocol | None = None  # the process behind it has this broker's log
        self._retry_s = RETRY_S
        self._over = False
        self._log = make_logger()
        self.rounds = 0
        self.fresh_s: float | None = None

    def begin(self) -> None:
        """Ask now."""
        self._task = self._run()
        self._task.addErrback(self._ended)

    def end(self) -> None:
        """Ask no more; what is under way is dropped, the connection too: one that a partition broke may sleep on."""
        self._over = True
        if self._task is not None:
            self._task.cancel()
        self._tables.client.give_up(self._address)

    def _ended(self, failure: Any) -> None:
        if not failure.check(defer.CancelledError):
            trace = failure.getTraceback()
            self._log.error("taking the tables of {master}: {trace}", master=self._address, trace=trace)

    @defer.inlineCallbacks
    def _run(self) -> Steps:
        knows_us = True
        while not self._over:
            pause_s = RETRY_S
            try:
                if knows_us:
                    knows_us = yield from self._as_ours()
                if not knows_us:
                    yield from self._as_java()
                    pause_s = self._context.period_s
            except _NotMaster:
                pause_s = NOT_MASTER_RETRY_S
            except _OtherLog as problem:
                self._complain("its log", problem)
                pause_s = OTHER_LOG_RETRY_S
            except EXPECTED as problem:
                self._complain("its tables", problem)
            except Exception as problem:
                self._fault("its tables", problem)
                pause_s = self._retry_s
            yield self._pause(pause_s)

    def _pause(self, seconds: float) -> defer.Deferred[None]:
        return task.deferLater(self._context.clock, seconds, lambda: None)

    # --- whose log this is

    def _trust(self) -> Steps:
        """Wait until this broker's log follows the master's and is a part of it; the connection to whoever has that.

        :raises _OtherLog: it is not.
        """
        tables = self._tables
        while self._context.store_busy() or not self._context.log.follows(self._address):
            yield self._pause(BUSY_S)
        connection = yield tables.client.connect(self._address, CONNECT_S)
        if connection is not self._trusted:
            if not self._context.log.compares_logs:
                yield from self._compare(connection)
            self._trusted = connection
            self._complaints.pop("its log", None)
        return connection

    def _compare(self, connection: RemotingProtocol) -> Steps:
        """Has a classic master what our queues point at?"""
        store = self._context.store
        newest = _newest_message(store, self._tables.known_end)
        if newest < store.min_physical_offset:
            return  # nothing that could be lost
        answer = yield self._request(connection, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(newest)}, ANSWER_S)
        if answer.code == ResponseCode.SUCCESS and answer.body == store.message_at(newest):
            return
        answer = _successful((yield self._request(connection, RequestCode.GET_BROKER_RUNTIME_INFO, None, ANSWER_S)))
        if newest >= _log_begin(answer.body):
            raise _OtherLog(
                f"it does not have the message that this broker has at {newest} of its log: nothing is taken from it,"
                " for it may have lost its disk"
            )

    def _still_follows(self) -> None:
        if not self._context.log.follows(self._address):
            raise _NotMaster

    # --- a master of ours

    def _as_ours(self) -> Steps:
        """Until something fails; False when this is a Java master."""
        hold_ms = 0
        while True:
            asked_s = self._context.clock.seconds()
            answer = yield self._ask(AWAIT_METADATA, self._question(hold_ms), ANSWER_S + hold_ms / 1000)
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return False
            if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
                raise _NotMaster
            before = self._question(0)
            news = _successful(answer).fields
            self._tables.heard_of([int(number) for number in news.get("brokers", "").split(",") if number.isdecimal()])
            whole = yield from self._take_news(news)
            self._heard_all(whole)
            if not whole:
                yield self._pause(self._retry_s)
            elif hold_ms and before == self._question(0) and self._context.clock.seconds() - asked_s < UNHELD_S:
                yield self._pause(UNHELD_S)  # it holds too many questions
            hold_ms = HOLD_MS if whole else 0

    def _question(self, hold_ms: int) -> dict[str, str]:
        taken = self._taken
        return {
            "brokerId": str(self._context.own_id()),
            "epoch": str(self._epoch),
            "topicVersion": "" if taken.topics is None else version_text(taken.topics),
            "groupVersion": "" if taken.groups is None else version_text(taken.groups),
            "holdMillis": str(hold_ms),
        }

    def _take_news(self, news: Mapping[str, str]) -> Steps:
        """Fetch what is another than what was taken; whether all of that came."""
        taken, whole, first = self._taken, True, self.fresh_s is None
        lowered = self._context.store.deleted_topics.lowered  # what was cut may come again, and be void
        version = DataVersion.from_text(news.get("topicVersion"))
        if taken.topics is None or version != taken.topics or lowered != taken.lowered:
            whole &= yield from self._try("topics", self._topics())
        stamp = news.get("offsetStamp", "")
        if stamp != taken.offsets and self._offsets_due():
            done = yield from self._try("consumer offsets", self._offsets())
            taken.offsets = stamp if done else ""
            whole &= done
        delays = news.get("delayVersion", "")
        if delays != taken.delays:
            done = yield from self._try("delay offsets", self._delay_offsets())
            taken.delays = delays if done else ""
            whole &= done
        if taken.groups is None or DataVersion.from_text(news.get("groupVersion")) != taken.groups:
            whole &= yield from self._try("groups", self._groups())
        if first:
            whole &= yield from self._try("POP modes", self._modes())
        return whole

    def _offsets_due(self) -> bool:
        taken = self._taken
        pause_s = min(taken.offsets_bytes / OFFSET_BYTES_A_SECOND, self._context.period_s)
        return self._context.clock.seconds() - taken.offsets_at_s >= pause_s or not taken.offsets

    # --- a Java master

    def _as_java(self) -> Steps:
        """One round, in Java's order."""
        whole = yield from self._try("topics", self._topics())
        for what, take in (
            ("consumer offsets", self._offsets()),
            ("delay offsets", self._delay_offsets()),
            ("groups", self._groups()),
            ("POP modes", self._modes()),
        ):
            whole &= yield from self._try(what, take)
        self._heard_all(whole)

    # --- one table each

    def _try(self, what: str, take: Steps) -> Steps:
        """Whether it could be taken; what could not is logged once."""
        try:
            yield from take
        except EXPECTED as problem:
            self._complain(what, problem)
            return False
        except (_NotMaster, _OtherLog):
            raise
        except Exception as problem:
            self._fault(what, problem)
            return False
        self._complaints.pop(what, None)
        return True

    def _topics(self) -> Steps:
        asked_end, lowered = self._context.store.max_physical_offset, self._context.store.deleted_topics.lowered
        pages = yield from self._pages(TOPICS)
        while self._context.store_busy():  # a deleted topic's queues go with it
            yield self._pause(BUSY_S)
        self._still_follows()
        state = self._context.state
        behind = is_behind(pages.version, state.topics.data_version)
        self._note_behind("topics", behind)
        diff = difference(state.topics.table, pages.table, state.topics.system, not behind)
        self._none_made_again(diff.removed, asked_end)
        changed = not diff.empty or pages.version != state.topics.data_version
        if changed:
            for name in diff.removed:  # while the table names it: after a failure the next round goes on here
                state.offsets.remove_topic(name)
                state.stats.forget_topic(name)
                state.store.delete_topic(name, asked_end)
            state.topics.replace(diff.table, state.topics.data_version if behind else pages.version)
        if pages.deleted is not None and not behind:
            self._context.store.replace_deleted(*pages.deleted)
        if diff.changed or diff.removed:
            self._context.topics_changed((*diff.changed, *diff.removed))
        yield from self._save("deleted")
        yield from self._save("topics")  # nothing to do where it is the file's; after a failure it is not
        if self.complete and not behind:
            yield from self._note_complete(pages, asked_end, changed)
        self._taken.topics, self._taken.lowered = pages.version, lowered

    def _note_complete(self, pages: Pages[Any], asked_end: int, changed: bool) -> Steps:
        """Up to where the table names all topics of the log.  The table is on the disk: with a note that is newer than
        it, a topic that only the lost table had would be taken for deleted."""
        self._still_follows()
        store = self._context.store
        if pages.deleted is None:  # a new master of Java's makes no topic again: its table may lack some
            store.deleted_topics.topics_unknown()
        elif changed or self._taken.topics != pages.version or store.deleted_topics.complete is None:
            store.topics_complete(self._context.state.topics.data_version.numbers, asked_end)
        yield from self._save("deleted")

    def _none_made_again(self, removed: Iterable[str], asked_end: int) -> None:
        """A topic that is not in the table, and of which messages came since that was asked for, may be there again:
        its queues are of the new one then.  The next answer knows.

        :raises RemoteProtocolError: there is one.
        """
        gone = frozenset(removed)
        for queue in self._context.store.queues.all():
            if queue.topic in gone and queue.last().physical_offset >= asked_end:
                raise RemoteProtocolError(f"topic {queue.topic} is not in the table, and messages of it came meanwhile")

    def _groups(self) -> Steps:
        pages = yield from self._pages(GROUPS)
        state = self._context.state
        behind = is_behind(pages.version, state.groups.data_version)
        self._note_behind("groups", behind)
        diff = difference(state.groups.table, pages.table, PREDEFINED_GROUPS, not behind)
        forbidden = {**state.groups.forbidden, **pages.forbidden} if behind else pages.forbidden
        if not diff.empty or pages.version != state.groups.data_version:
            state.groups.replace(diff.table, forbidden, state.groups.data_version if behind else pages.version)
            for name in diff.removed:
                state.stats.forget_group(name)
        yield from self._save("groups")
        self._taken.groups = pages.version

    def _offsets(self) -> Steps:
        table: dict[str, dict[int, int]] = {}
        version, size, after = None, 0, ""
        while version is None or after:
            answer = _successful((yield self._ask(RequestCode.GET_ALL_CONSUMER_OFFSET, {OFFSETS_AFTER: after})))
            value = json_dialect.loads_large(answer.body)
            table |= read_offsets(value)
            size += len(answer.body)
            version = version or DataVersion.from_json(value.get("dataVersion"))
            before, after = after, answer.fields.get(OFFSETS_AFTER, "")
            if after and after <= before:
                raise RemoteProtocolError(f"offsets behind {before[:300]!r} end at {after[:300]!r}")
        offsets = self._context.state.offsets
        behind = is_behind(version, offsets.data_version)
        diff = difference(offsets.committed, table, (), not behind)
        if not diff.empty or (version != offsets.data_version and not behind):
            offsets.replace(diff.table, offsets.data_version if behind else version)
        self._taken.offsets_at_s, self._taken.offsets_bytes = self._context.clock.seconds(), size

    def _delay_offsets(self) -> Steps:
        answer = _successful((yield self._ask(RequestCode.GET_ALL_DELAY_OFFSET)))
        value = json_dialect.loads(answer.body)
        delays = self._context.delays
        progress = {**delays.offsets, **read_progress(value)}
        version = DataVersion.from_json(value.get("dataVersion"))
        if (progress, version) != (delays.offsets, delays.data_version):
            delays.replace(progress, version)

    def _modes(self) -> Steps:
        answer = _successful((yield self._ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)))
        self._context.state.modes.replace(read_modes(json_dialect.loads(answer.body)))
        yield from self._save("modes")

    def _pages(self, kind: Kind[Any]) -> Steps:
        pages: Pages[Any] = Pages(kind)
        while not pages.whole:
            answer = _successful((yield self._ask(kind.code, pages.fields())))
            pages.take(answer.fields, answer.body)
        if not pages.table:
            raise RemoteProtocolError("the table is empty, which no broker's is")
        return pages

    # --- asking, saving, complaining

    @defer.inlineCallbacks
    def _ask(self, code: int, header: Mapping[str, str] | None = None, timeout_s: float = ANSWER_S) -> Steps:
        """The answer of a process that has this broker's log, and is still followed when it came."""
        connection = yield from self._trust()
        answer = yield self._request(connection, code, header, timeout_s)
        self._still_follows()
        self._tables.known_end = self._context.store.max_physical_offset
        return answer

    @staticmethod
    def _request(
        connection: RemotingProtocol, code: int, header: Mapping[str, str] | None, timeout_s: float
    ) -> defer.Deferred[Command]:
        def silent(failure: Failure) -> Failure:
            connection.abort()  # after a partition a new one is there before the old one has sent again
            return failure

        asked = connection.request(code, header, timeout_s=timeout_s)
        return asked.addErrback(lambda failure: silent(failure) if failure.check(error.TimeoutError) else failure)

    def _save(self, which: str) -> Steps:
        failure = yield self._context.save(which)
        if failure is not None:
            raise failure

    def _heard_all(self, whole: bool) -> None:
        self.rounds += 1
        if whole:
            self._retry_s = RETRY_S
            if self.fresh_s is None:
                self._log.info("the tables are those of master {master}", master=self._address)
            self.fresh_s = self._context.clock.seconds()
            self._complaints.pop("its tables", None)

    def _complain(self, what: str, problem: BaseException, trace: str = "") -> None:
        text = str(problem)
        if self._complaints.get(what) != text:  # once, not every second
            self._complaints[what] = text
            say = self._log.error if trace else self._log.warn
            say("{what} of master {master}: {why}", what=what, master=self._address, why=trace or text)

    def _fault(self, what: str, problem: Exception) -> None:
        if self._over:  # it was ended
            raise problem
        self._tables.faults += 1
        self._retry_s = min(2 * self._retry_s, FAULT_RETRY_MAX_S)
        self._complain(what, problem, Failure().getTraceback())

    def _note_behind(self, what: str, behind: bool) -> None:
        if behind:
            self._complain(f"the version of the {what}", RemoteProtocolError("older than ours: nothing is taken away"))


def _newest_message(store: MessageStore, end: int) -> int:
    """The largest place below ``end`` of the log that a queue points at; negative: there is none."""
    newest = -1
    for queue in store.queues.all():
        unit = queue.last()
        if unit.physical_offset >= end:
            behind = queue.find_first(lambda each: each.physical_offset >= end, queue.first_held(), queue.next_offset)
            unit = queue.unit(behind - 1)
        newest = max(newest, unit.physical_offset)
    return newest


def _log_begin(body: bytes) -> int:
    """Of a broker's runtime information (28): where its log begins."""
    try:
        return int(json_dialect.loads(body)["table"]["commitLogMinOffset"])
    except (KeyError, TypeError, ValueError) as error:
        raise RemoteProtocolError("the runtime information does not say where the log begins") from error


def _successful(answer: Command) -> Command:
    if answer.code != ResponseCode.SUCCESS:
        raise RequestRefused(answer.code, answer.remark or "no remark")
    return answer
