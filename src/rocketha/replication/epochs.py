"""Which master wrote which bytes of the log: the epoch cache, and up to where two logs are equal.

Must not know the file it is kept in (``store/epoch_file.py``) nor the frames that carry it.

Theory of operation.  Each master epoch begins at one offset of the log and ends where the next one begins; the newest
is open.  Two logs that have the same epoch with the same start were written by the same master up to the nearer of its
two ends (S0.31), so a slave looks from its newest epoch to its oldest for one that its master has too, cuts its log
there, and takes over its master's list for what is left.  All of this hangs on one rule: **no two masters write under
the same (epoch, start)**.  Three things follow that Java does not do:

- an epoch without a byte is *void*.  When the next one begins at the same offset it takes its place.  Java keeps the
  void one and refuses the new one; if a slave learned of the void epoch, two masters then write under its name, and the
  bytes in which they differ are never found (regression C2);
- a slave's list follows its master's, so that lists are equal when logs are, whatever frames it saw;
- a master that comes back in the epoch it died in goes on in it only if its log is whole; else it must be elected anew.

Invariant: entries ascend strictly in epoch and in start offset.

Java: ``EpochFileCache``, ``EpochEntry``, ``AutoSwitchHAClient.doTruncate``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rocketha.errors import RemoteProtocolError, RockethaError, ensure
from rocketha.wire.ha_frames import EPOCHS_MAX, EpochEntry

__all__ = [
    "EPOCHS_MAX",
    "NO_EPOCH",
    "OPEN_END",
    "ElectionNeeded",
    "EpochCache",
    "EpochEntry",
    "EpochSpan",
    "consistent_point",
    "fault",
]

NO_EPOCH = -1
OPEN_END = 2**63 - 1
"""End of the newest epoch, as Java keeps it in memory."""


class ElectionNeeded(RockethaError):
    """This log's keeper may not be master in the epoch that it was master of; it may be in a new one."""


class EpochSpan(NamedTuple):
    """An epoch with both its ends; ``end_offset`` is OPEN_END of the newest."""

    epoch: int
    start_offset: int
    end_offset: int


def fault(entries: Sequence[EpochEntry]) -> str:
    """Why a list is none that a log can have; "" if it is one.

    Starts may be equal here, of epochs without a byte.
    """
    if len(entries) > EPOCHS_MAX:
        return f"{len(entries)} epochs, at most {EPOCHS_MAX} are kept"
    epoch, start = NO_EPOCH, 0
    for place, entry in enumerate(entries):
        if entry.epoch <= epoch or entry.start_offset < start:
            before = f"(epoch {epoch}, start {start})" if place else "nothing: neither may be negative"
            return f"entry {place} (epoch {entry.epoch}, start {entry.start_offset}) does not rise after {before}"
        epoch, start = entry
    return ""


class EpochCache:
    """The epochs of one log, in memory.

    Methods that return a bool say whether the list changed, that is whether the file has to be written.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        found = tuple(entries)
        reason = fault(found)
        ensure(not reason, f"epochs: {reason}")
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in found:
            if self._starts and self._starts[-1] == start_offset:
                self._keep(len(self._starts) - 1)  # void: the next took its place
            self._epochs.append(epoch)
            self._starts.append(start_offset)

    @classmethod
    def received(cls, entries: Iterable[EpochEntry]) -> EpochCache:
        """A peer's list.

        :raises RemoteProtocolError: it is none.
        """
        found = tuple(entries)
        reason = fault(found)
        if reason:
            raise RemoteProtocolError(f"the master's epochs: {reason}")
        return cls(found)

    def __len__(self) -> int:
        return len(self._epochs)

    def __repr__(self) -> str:
        return f"EpochCache({[tuple(entry) for entry in self.entries]})"

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All, ascending."""
        return tuple(map(EpochEntry, self._epochs, self._starts))

    @property
    def first(self) -> EpochEntry | None:
        """The oldest."""
        return self._entry(0) if self._epochs else None

    @property
    def last(self) -> EpochEntry | None:
        """The newest."""
        return self._entry(-1) if self._epochs else None

    @property
    def last_epoch(self) -> int:
        """The newest epoch's number; NO_EPOCH without any."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def get(self, epoch: int) -> EpochEntry | None:
        """The entry of an epoch."""
        place = bisect_left(self._epochs, epoch)
        return self._entry(place) if place < len(self._epochs) and self._epochs[place] == epoch else None

    def after(self, epoch: int) -> EpochEntry | None:
        """The entry of the next higher epoch."""
        place = bisect_right(self._epochs, epoch)
        return self._entry(place) if place < len(self._epochs) else None

    def at(self, offset: int) -> EpochSpan | None:
        """The epoch that a byte belongs to, or would if it were the next; None without any epoch.

        Bytes before the first epoch are of the days before there were epochs, and are sent under the first one.
        """
        if not self._epochs:
            return None
        place = max(0, bisect_right(self._starts, offset) - 1)
        return EpochSpan(self._epochs[place], self._starts[place], self._end(place))

    def end_of(self, epoch: int) -> int:
        """Where a known epoch ends."""
        return self._end(bisect_left(self._epochs, epoch))

    # -- a master's ---------------------------------------------------------------------------------------------------

    def begin(self, epoch: int, log_begin: int, log_end: int) -> bool:
        """This log's keeper becomes master of an epoch.

        It begins at the log's end; the very first one at the log's beginning, so that every byte has an epoch.

        :raises RemoteProtocolError: the log has bytes of that epoch already, or of a newer one.
        """
        if epoch <= self.last_epoch:
            raise RemoteProtocolError(f"master of epoch {epoch}, but this log knows epoch {self.last_epoch}")
        self._keep(bisect_left(self._starts, log_end))
        if len(self._epochs) >= EPOCHS_MAX:
            del self._epochs[0], self._starts[0]
        self._epochs.append(epoch)
        self._starts.append(log_end if len(self._epochs) > 1 else log_begin)
        return True

    def resume(self, epoch: int, log_end: int, intact: bool) -> None:
        """This log's keeper is master still, or again, of the newest epoch of its log: nothing changes.

        :param intact: nothing that was ever sent can be missing at the end of the log.  Where it can, slaves may have
            it, acknowledged and all; bytes that this master then wrote in their place would be others under the same
            name, and to begin the epoch anew at the log's end, as Java does, has the slaves cut all that they have of
            it.  An election by epoch and end of log finds the replica that has most.
        :raises ElectionNeeded: it is not the newest epoch, or bytes of it may be missing.
        """
        last = self.last
        if last is None or last.epoch != epoch:
            raise ElectionNeeded(f"master of epoch {epoch} again, but this log's newest is {self.last_epoch}")
        if not intact or log_end < last.start_offset:
            raise ElectionNeeded(
                f"master of epoch {epoch} again, which began at {last.start_offset}, but the log, which ends at"
                f" {log_end}, may lack bytes that were sent: a new epoch is needed"
            )

    # -- a slave's ----------------------------------------------------------------------------------------------------

    def announce(self, epoch: int, start_offset: int, offset: int, size: int) -> bool:
        """A frame's stamp, to the *master's* list as its slave knows it.

        :param offset: of the frame's first byte, which is the end of the slave's log.
        :param size: of the frame's body, 0 of a heartbeat.
        :raises RemoteProtocolError: the stamp contradicts the list.
        """
        known = self.get(epoch)
        stamp = f"a frame of [{offset}, {offset + size}) is stamped (epoch {epoch}, start {start_offset})"
        if known is not None:
            if known.start_offset != start_offset:
                raise RemoteProtocolError(f"{stamp}, but that epoch began at {known.start_offset}")
            return False
        if epoch < self.last_epoch or epoch < 0:
            raise RemoteProtocolError(f"{stamp}, which is not among the master's epochs up to {self.last_epoch}")
        if not 0 <= start_offset <= offset + size:
            raise RemoteProtocolError(f"{stamp}: the epoch begins where nothing was sent yet")
        if len(self._epochs) >= EPOCHS_MAX:
            raise RemoteProtocolError(f"{stamp}: more than {EPOCHS_MAX} epochs")
        last = self.last
        if last is not None and start_offset <= last.start_offset:
            if start_offset < last.start_offset or offset > start_offset:
                raise RemoteProtocolError(f"{stamp}, but bytes there were of (epoch {last.epoch})")
            self._keep(len(self._epochs) - 1)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def adopt(self, masters: EpochCache, log_end: int) -> bool:
        """Take over the master's list for ``[.., log_end]``, in which both logs are equal, or will be in a moment.

        Before the bytes are appended, and in the file first: an epoch that is recorded and has no byte yet is harmless,
        a byte under the wrong epoch is cut at the next handshake.
        """
        first = masters.first
        if first is None:
            return False
        older = min(bisect_left(self._epochs, first.epoch), bisect_left(self._starts, first.start_offset))
        # Bytes before the master's first epoch are under the first one; else a log that has only these had none.
        count = bisect_right(masters._starts, log_end) or (0 if older else 1)
        epochs = self._epochs[:older] + masters._epochs[:count]
        starts = self._starts[:older] + masters._starts[:count]
        if epochs == self._epochs and starts == self._starts:
            return False
        self._epochs, self._starts = epochs[-EPOCHS_MAX:], starts[-EPOCHS_MAX:]
        return True

    # -- both ---------------------------------------------------------------------------------------------------------

    def truncate_suffix(self, offset: int) -> bool:
        """The log was cut at ``offset``: epochs that began there or later have no byte left."""
        return self._keep(bisect_left(self._starts, offset))

    def truncate_prefix(self, log_begin: int) -> bool:
        """The log's oldest files are gone: so are epochs that ended before its beginning, but never the newest.

        One that ended exactly there stays: a slave whose log ends there finds it and goes on.
        """
        gone = max(0, bisect_left(self._starts, log_begin) - 1)
        del self._epochs[:gone], self._starts[:gone]
        return gone > 0

    # -- within -------------------------------------------------------------------------------------------------------

    def _entry(self, place: int) -> EpochEntry:
        return EpochEntry(self._epochs[place], self._starts[place])

    def _end(self, place: int) -> int:
        return self._starts[place + 1] if place + 1 < len(self._starts) else OPEN_END

    def _keep(self, count: int) -> bool:
        """Only the first ``count``."""
        dropped = count < len(self._epochs)
        del self._epochs[count:], self._starts[count:]
        return dropped


def consistent_point(
    own: EpochCache, own_begin: int, own_end: int, masters: Sequence[EpochEntry], master_end: int, confirmed: int
) -> int | None:
    """Up to where a slave's log is equal to its master's: there it is cut.

    :param own_begin: where the slave's log begins; nothing of it is left if the two differ before.
    :param masters: the handshake's list.
    :param master_end: the handshake's end of the master's log.  Epochs beyond it are of bytes that the master lost, and
        prove nothing; nor does anything of the slave's beyond it stay (regression A12).
    :param confirmed: the own confirm offset.
    :returns: an offset from ``own_begin`` to ``own_end``; ``own_end`` of an empty log; 0 if no epoch is equal, both
        logs go back to offset 0 and nothing was ever confirmed (the first master of all died before anybody had its
        first byte); None if nothing is known to be equal: then the slave must not follow.  Where both are equal only
        up to a place below ``confirmed`` it is that place, and the caller must not cut there without being told to.
    :raises RemoteProtocolError: the list is none.
    """
    theirs = EpochCache.received(masters)
    theirs.truncate_suffix(max(0, master_end) + 1)
    if own_begin >= own_end:
        return own_end
    for entry in reversed(own.entries):
        if theirs.get(entry.epoch) == entry:
            point = min(own.end_of(entry.epoch), own_end, theirs.end_of(entry.epoch), master_end)
            return point if point >= own_begin else None
    if confirmed > 0:
        return None
    whole = own_begin == 0 and own.first is not None and own.first.start_offset == 0
    return 0 if whole and theirs.first is not None and theirs.first.start_offset == 0 else None
