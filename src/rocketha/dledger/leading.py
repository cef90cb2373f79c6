"""A Java follower of this leader: the core's messages to it as pushes, and what they led to as the core's answers.

Pure.  Theory of operation.  The core says what it wants the follower to have, and from which entry on.  Before anything
is pushed the two logs are compared, for a push does not say what it follows::

    LOST ---- it follows in this term, the core wants something ----> COMPARING
     ^                                                                 |   |
     +-- no answer, a connection broken, "inconsistent", a new term ---+   +-- the last equal entry is known,
     |                                                                     |   and its log ends there
     +---------------------------------------------------------------------+--> READY: pushed without waiting

A COMPARE carries a whole entry and is answered with yes or no, and with where the follower's log begins and ends.  Logs
that have an entry in common are equal before it, so the last one is found by bisection, where Java's leader goes down
one by one.  Only what differs is cut, or is behind the end of this log: TRUNCATE carries the last equal entry.  Where
none is equal it carries the first of this log, and Java's log begins anew there: what a snapshot is to the core.

Java acknowledges what its page cache has.

Java: ``DLedgerEntryPusher.EntryDispatcher`` on this side, ``EntryHandler`` on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import chain
from typing import Any

import attrs

from rocketha.dledger.here import Answered, Here
from rocketha.errors import RemoteProtocolError
from rocketha.raft.messages import COMMIT_ONLY, Entry, Kind, Message
from rocketha.raft.storage import Compacted, Unavailable
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_values import DLedgerResponseCode, PushAnswer, PushRequest, PushType

PUSH_AGAIN_S = 1.0
"""After so long without an answer; Java's maxPushTimeOutMs."""
ONE_ENTRY = 1
PUSH_BYTES = 64 << 10
"""Of the entries that leave in one push, as far as they are appended in smaller runs.

A follower that was away for long is owed as much as the core's window holds: a push for each run of it would be
thousands of requests, each with its timer.
"""


class Phase(Enum):
    """What is known of the follower's log."""

    LOST = "lost"
    COMPARING = "comparing"
    READY = "ready"


@attrs.define
class _Push:
    last: int
    request: PushRequest
    sent_s: float


@attrs.frozen
class _Search:
    """For the last equal entry.

    :ivar low: equal, if ``equal`` says so; else the one before the first that both logs have.
    :ivar high: what is behind it is not equal, or not there.
    :ivar end: where the follower's log ends.
    """

    low: int
    high: int
    end: int
    equal: bool = False


Run = tuple[Entry, bytes]
"""A run of entries, and its bytes as on the disk."""


def bundles(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """What leaves in one push each, in order."""
    bundle: list[Run] = []
    size = 0
    for run in runs:
        if bundle and size + len(run[1]) > PUSH_BYTES:
            yield bundle
            bundle, size = [], 0
        bundle.append(run)
        size += len(run[1])
    if bundle:
        yield bundle


class JavaFollower:
    """See the module.

    :param ask: sends it a request; the answer is None where the connection breaks, or none comes in time.
    """

    def __init__(self, here: Here, member: str, ask: Callable[[values.Message, Answered], None]) -> None:
        self._here = here
        self._member = member
        self._ask = ask
        self._term = 0
        self._phase = Phase.LOST
        self._follows = False
        self._wanted: Message | None = None  # what the core said last, while the logs are compared
        self._life = 0  # counts what ends with a phase: answers to what was asked before do not matter
        self._sent = 0
        self._told = 0  # committed, as it was told
        self._pushes: dict[int, _Push] = {}  # by first entry, in order
        self._acked = 0

    # --- what the core says

    def say(self, message: Message) -> None:
        """HEART_BEAT, APPEND or SNAPSHOT."""
        if message.term != self._term:
            self._term, self._follows, self._acked = message.term, False, 0
            self._lose()
        if message.kind == Kind.HEART_BEAT:
            self._heart_beat(message)
        elif message.context == COMMIT_ONLY and message.kind == Kind.APPEND:
            self._commit(message.commit)
        elif self._phase is not Phase.READY or message.kind == Kind.SNAPSHOT:
            if self._phase is Phase.READY:  # what comes next is not in this log any more
                self._lose()
            self._wanted = message
            self._compare()
        else:
            self._append(message)

    def lost(self) -> None:
        """The connection ended."""
        self._follows = False
        self._lose()

    def _lose(self) -> None:
        self._phase = Phase.LOST
        self._life += 1
        self._wanted = None
        self._told = 0
        self._pushes.clear()

    def _commit(self, commit: int) -> None:
        """Tell how far is committed, of what it is known to have, if that is news: else it would take more for it."""
        commit = min(commit, self._acked)
        if self._phase is Phase.READY and commit > self._told:
            self._told = commit
            self._send(self._made(PushType.COMMIT, commit_index=commit - 1), lambda _: None)

    def _heart_beat(self, message: Message) -> None:
        here, term = self._here, message.term
        request = values.HeartBeatRequest(
            group=here.group, remote_id=self._member, local_id=here.id, leader_id=here.id, term=term - 1
        )

        def answered(answer: values.Message | None) -> None:
            if answer is None or term != self._term:
                return
            if answer.code == DLedgerResponseCode.EXPIRED_TERM and answer.term + 1 > term:
                self._say(Kind.APPEND_ANSWER, answer.term + 1, reject=True)
            elif answer.code == DLedgerResponseCode.SUCCESS:
                self._follows = True
                self._compare()
                self._say(
                    Kind.HEART_BEAT_ANSWER, term, index=self._acked, hint_index=self._acked, context=message.context
                )

        self._ask(request, answered)
        self._commit(message.commit)  # Java's heartbeat does not say it

    def _append(self, message: Message) -> None:
        if message.index > self._sent:
            sent, term = self._sent, self._term
            try:
                hint_term = self._here.log.term(sent)
            except Compacted:
                self._lose()
                return
            self._say(Kind.APPEND_ANSWER, term, index=message.index, reject=True, hint_index=sent, hint_term=hint_term)
            return
        entries = self._here.log.behind(message.entries, self._sent) if message.entries else []
        if entries:
            self._push(entries, message.commit)
        elif self._pushes:
            self._push_again()
        else:
            self._accept()

    def _accept(self) -> None:
        self._say(Kind.APPEND_ANSWER, self._term, index=self._acked, hint_index=self._acked)

    def _say(self, kind: Kind, term: int, index: int = 0, reject: bool = False, **more: Any) -> None:
        self._here.tell([Message(kind, self._member, self._here.id, term, index, reject=reject, **more)])

    def _made(self, kind: PushType, **more: Any) -> PushRequest:
        here = self._here
        return PushRequest(
            group=here.group,
            remote_id=self._member,
            local_id=here.id,
            leader_id=here.id,
            term=self._term - 1,
            kind=kind,
            **more,
        )

    def _send(self, request: PushRequest, answered: Callable[[PushAnswer | None], None]) -> None:
        life = self._life

        def came(answer: values.Message | None) -> None:
            if life == self._life:
                answered(answer if isinstance(answer, PushAnswer) else None)

        self._ask(request, came)

    # --- pushing

    def _push(self, entries: Sequence[Entry], commit: int) -> None:
        life = self._life
        for runs in bundles(self._there(entries)):
            batch = tuple(chain.from_iterable(values.entries_of(raw) for _, raw in runs))
            first, last = runs[0][0].index, runs[-1][0].last
            request = self._made(PushType.APPEND, commit_index=commit - 1, batch=batch)
            self._pushes[first] = _Push(last, request, self._here.seconds())
            self._sent = last
            self._send(request, partial(self._pushed, first))
            if life != self._life:  # it can not be said
                return
        self._told = max(self._told, min(commit, self._sent))

    def _there(self, entries: Sequence[Entry]) -> Iterator[Run]:
        """Up to one that is gone, or that the disk has yet to take: the core says it again."""
        for run in entries:
            try:
                yield run, self._here.storage.raw(run)
            except (Compacted, Unavailable):
                return

    def _pushed(self, first: int, answer: PushAnswer | None) -> None:
        push = self._pushes.get(first)
        if push is None:
            return
        if answer is None or answer.code == DLedgerResponseCode.INCONSISTENT_STATE:
            sent = self._sent
            self._lose()
            self._say(Kind.APPEND_ANSWER, self._term, index=sent, reject=True)
        elif answer.code == DLedgerResponseCode.SUCCESS:
            # It appends in order: whatever was pushed before is there.
            for each in [each for each, other in self._pushes.items() if other.last <= push.last]:
                del self._pushes[each]
            if push.last > self._acked:
                self._acked = push.last
            self._accept()

    def _push_again(self) -> None:
        """The oldest, if it was not answered for long."""
        first, push = next(iter(self._pushes.items()))
        now_s = self._here.seconds()
        if now_s - push.sent_s >= PUSH_AGAIN_S:
            push.sent_s = now_s
            self._send(push.request, partial(self._pushed, first))

    # --- comparing

    def _compare(self) -> None:
        """Begin, if there is a reason to and it can answer."""
        log = self._here.log
        if self._phase is Phase.LOST and self._follows and self._wanted is not None and log.last_index:
            self._phase = Phase.COMPARING
            self._look(_Search(log.first_index - 1, log.last_index, -1), log.last_index)

    def _look(self, search: _Search, index: int) -> None:
        entry = self._entry(index)
        if entry is None:
            self._lose()
        else:
            self._send(self._made(PushType.COMPARE, entry=entry), partial(self._looked, search, index))

    def _looked(self, search: _Search, index: int, answer: PushAnswer | None) -> None:
        if answer is None or answer.code not in (DLedgerResponseCode.SUCCESS, DLedgerResponseCode.INCONSISTENT_STATE):
            self._lose()  # the next heartbeat that it answers, and word of the core's, has it asked again
            return
        log, end = self._here.log, answer.end_index + 1
        if answer.code == DLedgerResponseCode.SUCCESS:
            low, high, equal = index, search.high, True
        else:
            # An entry before its first one is answered likewise: nothing there can be compared.
            low, high, equal = search.low, index - 1, search.equal
            low = low if equal else max(low, answer.begin_index)
        high = max(low, min(high, end, log.last_index))
        if low < high:
            # Most often all that both have is equal.
            all_it_has = answer.code != DLedgerResponseCode.SUCCESS and index > end
            self._look(_Search(low, high, end, equal), high if all_it_has else (low + high + 1) // 2)
        elif not equal:
            self._truncate(log.first_index)
        elif end > low:
            self._truncate(low)
        else:
            self._is_ready(low)

    def _truncate(self, index: int) -> None:
        """Have its log end with this entry of ours."""
        entry = self._entry(index)
        if entry is None:
            self._lose()
            return

        def done(answer: PushAnswer | None) -> None:
            if answer is None or answer.code != DLedgerResponseCode.SUCCESS:
                self._lose()
            else:
                self._is_ready(index)

        self._send(self._made(PushType.TRUNCATE, entry=entry), done)

    def _entry(self, index: int) -> values.Entry | None:
        """An entry of ours; None where it is not there any more, or not yet."""
        try:
            found = self._here.log.entries(index, index + 1, ONE_ENTRY)
            return values.entries_of(self._here.storage.raw(found[0]))[0] if found else None
        except (Compacted, Unavailable, RemoteProtocolError):
            return None

    def _is_ready(self, index: int) -> None:
        """Its log ends with this entry, and is equal up to there."""
        wanted, self._wanted = self._wanted, None
        self._phase, self._sent, self._acked = Phase.READY, index, index
        if wanted is not None and wanted.kind == Kind.SNAPSHOT and wanted.snapshot is not None:
            meta = wanted.snapshot
            self._say(
                Kind.SNAPSHOT_ANSWER,
                self._term,
                index=meta.index,
                log_term=meta.term,
                offset=wanted.offset + len(wanted.data),
                done=True,
            )
        self._accept()
