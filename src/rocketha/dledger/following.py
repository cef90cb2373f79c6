"""A Java leader of this follower: its pushes as the core's messages, and the core's answers as its own.

Pure.  Theory of operation.  A push names its entries and not the one before them; Java's leader compares first, and
relies on the follower to append nothing but what comes next.  So this part knows up to where the two logs are known to
be equal (``_equal``), and what comes next there is told to the core with the entry before it.  Whatever else comes is
"inconsistent", and has the leader compare anew.

*Order.*  What a connection brings is in order, but a leader may use two, one after the other.  Pushes that came too
early wait, for a short while and not too many of them; then they are answered, where Java's follower lets a second
pass.

*Acknowledgements.*  A push is answered once the core answers for its last entry.  So is a COMPARE that finds an equal
entry, and a TRUNCATE: for the leader they are acknowledgements, too.

*Cuts.*  TRUNCATE wants the log to end at an entry.  What is behind it stays until the leader has something else in its
place, as with a leader of ours: a TRUNCATE that comes late, from a connection that broke, cuts nothing.  Where this log
has nothing in common with the leader's it begins anew where the leader's does: to the core a snapshot.

Java: ``DLedgerEntryPusher.EntryHandler``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs

from rocketha.dledger.here import Here, Reply
from rocketha.raft.messages import COMMIT_ONLY, Entry, EntryKind, Kind, Message, SnapshotMeta
from rocketha.raft.storage import Compacted, Unavailable
from rocketha.wire import dledger
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_terms import build_log_begin
from rocketha.wire.dledger_values import DLedgerResponseCode, PushAnswer, PushRequest, PushType

EARLY_S = 0.1
"""How long a push waits for those before it."""
EARLY_PUSHES_MAX = 1000
"""As many as Java's leader sends without an answer."""
EARLY_BYTES_MAX = 16 << 20
OWED_BYTES_MAX = 64 << 20
"""Of entries that were taken and are not safe: a disk that stands still takes no more."""

_NORMAL = int(EntryKind.NORMAL)


@attrs.frozen
class _Owed:
    """What a push is answered with when its last entry is safe.

    :ivar size: bytes of its entries.
    """

    last: int
    size: int
    answer: PushAnswer
    reply: Reply


@attrs.frozen
class _Equal:
    """Up to where the logs are equal.

    :ivar term: of that entry, 0 before the first.
    :ivar end: where it ends in the log.
    """

    index: int
    term: int
    end: int


class JavaLeader:
    """See the module."""

    def __init__(self, here: Here, member: str) -> None:
        self._here = here
        self._member = member
        self._term = 0
        self._equal: _Equal | None = None
        self._owed: deque[_Owed] = deque()
        self._owed_bytes = 0
        self._early: dict[int, tuple[PushRequest, Reply]] = {}  # by first entry
        self._early_bytes = 0

    # --- what the leader says

    def push(self, request: PushRequest, reply: Reply) -> None:
        """A push; of a member of this group."""
        here, term = self._here, request.term + 1
        if term < here.node.term:
            reply(self._answer(request, DLedgerResponseCode.EXPIRED_TERM))
            return
        if term != self._term:
            self._lose(DLedgerResponseCode.EXPIRED_TERM)
            self._term = term
        if request.kind is PushType.COMMIT:
            self._commit(request, reply)
        elif not request.entries:
            reply(self._answer(request, DLedgerResponseCode.UNEXPECTED_ARGUMENT))
        elif request.kind is PushType.APPEND:
            self._append(request, reply)
        elif request.kind is PushType.COMPARE:
            self._forget_early()
            self._compare(request, reply)
        else:
            self._forget_early()
            self._truncate(request, reply)

    def _owe(self, request: PushRequest, reply: Reply, last: int) -> None:
        size = sum(entry.size for entry in request.entries)
        self._owed.append(_Owed(last, size, self._answer(request), reply))
        self._owed_bytes += size

    def _pay(self, owed: _Owed, code: DLedgerResponseCode = DLedgerResponseCode.SUCCESS) -> None:
        here, answer = self._here, owed.answer
        term = here.java_term if code is DLedgerResponseCode.EXPIRED_TERM else answer.term
        begin, end = here.java_begin, here.java_end
        owed.reply(attrs.evolve(answer, code=int(code), term=term, begin_index=begin, end_index=end))

    def _answer(self, request: PushRequest, code: DLedgerResponseCode = DLedgerResponseCode.SUCCESS) -> PushAnswer:
        here, commit = self._here, request.kind is PushType.COMMIT
        return here.answer(
            PushAnswer,
            request,
            code,
            term=request.term if code is not DLedgerResponseCode.EXPIRED_TERM else here.java_term,
            entry_index=None if commit else request.first_index,
            count=0 if commit else request.count,
            begin_index=here.java_begin,
            end_index=here.java_end,
        )

    def _tell(self, kind: Kind, index: int = 0, log_term: int = 0, **more: object) -> None:
        message = Message(kind, self._member, self._here.id, self._term, index, log_term, **more)  # type: ignore[arg-type]
        self._here.tell([message])

    def _lose(self, code: DLedgerResponseCode = DLedgerResponseCode.INCONSISTENT_STATE) -> None:
        """Nothing is known of the leader's log; what it waits for is answered."""
        self._equal = None
        owed, self._owed, self._owed_bytes = self._owed, deque(), 0
        early = list(self._early.values())
        self._forget_early()
        for each in owed:
            self._pay(each, code)
        for request, reply in early:
            reply(self._answer(request, code))

    def _forget_early(self) -> None:
        self._early.clear()
        self._early_bytes = 0

    def _commit(self, request: PushRequest, reply: Reply) -> None:
        self._tell(Kind.APPEND, commit=request.commit_index + 1, context=COMMIT_ONLY)
        reply(self._answer(request))

    # --- comparing

    def _compare(self, request: PushRequest, reply: Reply) -> None:
        entry = request.entries[0]
        if self._has(entry):
            self._is_equal(entry, request, reply)
            return
        self._tell(Kind.HEART_BEAT)
        reply(self._answer(request, DLedgerResponseCode.INCONSISTENT_STATE))

    def _has(self, entry: values.Entry) -> bool:
        """Whether the same entry, to the byte, is in this log."""
        here, index = self._here, entry.entry_index + 1
        if not here.log.matches(index, entry.term + 1):
            return False
        try:
            found = here.log.entries(index, index + 1, 1)
            return bool(found) and here.storage.raw(found[0]) == values.raw_entries([entry])
        except (Compacted, Unavailable):
            return False

    def _is_equal(self, entry: values.Entry, request: PushRequest, reply: Reply) -> None:
        index, term = entry.entry_index + 1, entry.term + 1
        self._equal = _Equal(index, term, entry.position + entry.size)
        self._owe(request, reply, index)
        self._tell(Kind.APPEND, index, term, commit=request.commit_index + 1)

    def _truncate(self, request: PushRequest, reply: Reply) -> None:
        entry = request.entries[0]
        if self._has(entry):
            self._is_equal(entry, request, reply)
            return
        here, index = self._here, entry.entry_index + 1
        commit = here.log.commit
        if index <= commit or entry.position % here.storage.file_size:
            reply(self._answer(request, DLedgerResponseCode.DISK_ERROR))
            return
        before, term = index - 1, entry.term + 1
        if index >= here.log.first_index and here.log.matches(index, entry.term + 1):
            # Only the entry that members with older logs make by themselves can be another one of the same term.
            reply(self._answer(request, DLedgerResponseCode.DISK_ERROR))
            return
        if before == 0:
            self._equal = _Equal(0, 0, entry.position)
        elif before == commit:
            self._equal = _Equal(before, here.log.term(before), here.storage.end_of(before))
        else:
            meta = SnapshotMeta(before, term, here.members)
            self._tell(Kind.SNAPSHOT, snapshot=meta, data=build_log_begin(entry.position), done=True)
            self._equal = _Equal(before, term, entry.position)
        self._append(request, reply)

    # --- appending

    def _append(self, request: PushRequest, reply: Reply) -> None:
        """A push, and those that waited for it."""
        self._append_one(request, reply)
        while self._equal is not None and (found := self._early.pop(self._equal.index + 1, None)):
            request, reply = found
            self._early_bytes -= sum(entry.size for entry in request.entries)
            self._append_one(request, reply)

    def _append_one(self, request: PushRequest, reply: Reply) -> None:
        equal, first, last = self._equal, request.first_index + 1, request.last_index + 1
        if equal is None or self._owed_bytes > OWED_BYTES_MAX:
            reply(self._answer(request, DLedgerResponseCode.INCONSISTENT_STATE))
        elif first > equal.index + 1:
            self._wait(first, request, reply)
        elif last <= equal.index:
            self._again(request, reply)
        elif self._contradicts(request.entries):
            reply(self._answer(request, DLedgerResponseCode.DISK_ERROR))
            self._lose()
        elif first <= equal.index or not self._take(equal, request, reply):
            reply(self._answer(request, DLedgerResponseCode.INCONSISTENT_STATE))
            self._lose()

    def _contradicts(self, entries: Sequence[values.Entry]) -> bool:
        """Whether something else is committed here: a Java leader may lack what a majority had in its page caches."""
        log = self._here.log
        return any(
            entry.entry_index < log.commit and not log.matches(entry.entry_index + 1, entry.term + 1)
            for entry in entries
        )

    def _again(self, request: PushRequest, reply: Reply) -> None:
        """Entries that came before: the answer was lost, or is not due yet."""
        last = request.entries[-1]
        if not all(self._here.log.matches(each.entry_index + 1, each.term + 1) for each in request.entries):
            reply(self._answer(request, DLedgerResponseCode.INCONSISTENT_STATE))
            return
        self._owe(request, reply, last.entry_index + 1)
        self._tell(Kind.APPEND, last.entry_index + 1, last.term + 1)

    def _take(self, equal: _Equal, request: PushRequest, reply: Reply) -> bool:
        """Have the core append; False where the entries can not stand there."""
        entries = request.entries
        runs = self._runs(equal, entries)
        if not runs:
            return False
        last = entries[-1]
        self._equal = _Equal(last.entry_index + 1, last.term + 1, last.position + last.size)
        self._owe(request, reply, last.entry_index + 1)
        self._tell(Kind.APPEND, equal.index, equal.term, commit=request.commit_index + 1, entries=tuple(runs))
        return True

    def _runs(self, equal: _Equal, entries: Sequence[values.Entry]) -> list[Entry]:
        """Entries as the core's: those of a term that lie one behind the other are one; none where a place is wrong."""
        size = self._here.storage.file_size
        runs: list[Entry] = []
        parts: list[bytes] = []
        end, term, index = equal.end, equal.term, equal.index
        for entry in entries:
            room = -end % size or size
            jumps = entry.position == end + room and room < size
            fits = entry.position % size + entry.size + dledger.FILLER_BYTES <= size
            if not fits or not (entry.position == end or jumps) or not term <= entry.term + 1 <= self._term:
                return []
            if parts and (jumps or entry.term + 1 != term):
                runs.append(_run(index, term, parts))
                parts = []
            if not parts:
                index = entry.entry_index + 1
            parts.append(values.raw_entries([entry]))
            end, term = entry.position + entry.size, entry.term + 1
        runs.append(_run(index, term, parts))
        return runs

    def _wait(self, first: int, request: PushRequest, reply: Reply) -> None:
        """A push that came before those before it."""
        size = sum(entry.size for entry in request.entries)
        if first in self._early:
            reply(self._answer(request, DLedgerResponseCode.REPEATED_PUSH))
        elif len(self._early) >= EARLY_PUSHES_MAX or self._early_bytes + size > EARLY_BYTES_MAX:
            reply(self._answer(request, DLedgerResponseCode.INCONSISTENT_STATE))
        else:
            self._early[first] = (request, reply)
            self._early_bytes += size
            if len(self._early) == 1:
                self._look_later()

    def _look_later(self) -> None:
        equal = self._equal

        def look() -> None:
            if self._early and self._equal == equal:
                self._lose()  # what is missing does not come
            elif self._early:
                self._look_later()

        self._here.later(EARLY_S, look)

    # --- what the core answers

    def answered(self, message: Message) -> None:
        """APPEND_ANSWER to this leader."""
        if message.term != self._term:
            self._lose(DLedgerResponseCode.EXPIRED_TERM)
        elif message.reject:
            self._lose()
        else:
            owed, self._owed = self._owed, deque()
            for each in owed:
                if each.last <= message.index:
                    self._owed_bytes -= each.size
                    self._pay(each)
                else:
                    self._owed.append(each)


def _run(index: int, term: int, parts: list[bytes]) -> Entry:
    return Entry(index, term, _NORMAL, b"".join(parts), len(parts))
