"""What the two ends of an HA link have in common: the effects they ask for, their times, and when silence is too long.

Pure.  A link is one connection's machine: bytes, news of the log and the time go in, a list of effects comes out, to be
carried out in order and before the machine is told anything else.  It opens nothing, reads no clock and never sees the
bytes that a master sends: :class:`SendLog` names them.  See docs/ha_links.rst for the four machines.

Java: ``HAConnection``, ``HAClient``.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.replication.epochs import EpochEntry
from rocketha.wire.ha_frames import SlaveHello

BATCH_BYTES = 1024 * 1024
"""Largest body a master sends unless told otherwise; a Java slave takes 4 MiB with the head."""


class Send(NamedTuple):
    """These bytes to the peer."""

    data: bytes


class SendLog(NamedTuple):
    """``head``, then ``size`` bytes of the log from ``offset``; all of one file.  Then :meth:`MasterLink.drained`."""

    offset: int
    size: int
    head: bytes


class Introduced(NamedTuple):
    """To a master: whose link this is.  ``epoch`` is the newest that it was told; its acknowledgements are of that.

    With its first report, if that can be served, not with its greeting: whoever only greets displaces nobody.
    """

    hello: SlaveHello
    epoch: int


class Ack(NamedTuple):
    """To a master: the slave has everything before ``offset``."""

    offset: int


class Align(NamedTuple):
    """To a slave: cut the log at ``offset`` if it is longer, and have these epochs, so that no crash leaves other pairs
    than the old or the new one.  Then :meth:`AutoswitchSlave.aligned`.
    """

    offset: int
    epochs: tuple[EpochEntry, ...]


class SaveEpochs(NamedTuple):
    """To a slave: have these epochs in the file, before the bytes that follow are appended."""

    epochs: tuple[EpochEntry, ...]


class Append(NamedTuple):
    """To a slave: these bytes at the log's end, which is ``offset`` (an empty log begins there); all of one file.

    When they are as durable as they have to be: :meth:`SlaveLink.appended`.
    """

    offset: int
    data: bytes | memoryview


class Compare(NamedTuple):
    """To a slave: the own log has to have these bytes at ``offset``, or the master's is another one.

    :data:`Cause.OTHER_LOG` if it has not.
    """

    offset: int
    data: bytes | memoryview


class Compared(NamedTuple):
    """To a slave: all before the end of the own log was compared, and what comes now is appended."""


class Confirm(NamedTuple):
    """To a slave: every replica that counts has everything before ``offset``, which is not beyond the log's end."""

    offset: int


class Cause(Enum):
    """Why a link closed, for whoever has to decide what to do about it; its text is for a person."""

    BREACH = "the peer said what it may not say"
    SILENT = "the peer said nothing, or too late"
    UNREAD = "the peer does not read"
    OLD_EPOCH = "the master has not heard of the epoch that the controller named"
    NOTHING_IN_COMMON = "nothing says where both logs are equal"
    SLAVE_IS_ELSEWHERE = "the slave's log ends outside of this master's"
    MASTER_BEGINS_LATER = "the master's log begins behind the end of this one"
    MASTER_ENDS_BEFORE = "the master's log ends before this one"
    PART_IS_GONE = "the master no longer has the part of its log that follows"
    BELOW_CONFIRM = "to follow this master, bytes would be cut that were confirmed"
    OTHER_LOG = "before the end of this log the master's has other bytes"
    OTHER_IDENTITY = "the peer's certificate does not say what the peer says"


PASSING = frozenset((Cause.BREACH, Cause.SILENT, Cause.UNREAD, Cause.OTHER_IDENTITY))
"""Those about one connection: the next one may do better."""


class LinkRefused(RemoteProtocolError):
    """The link cannot go on, although no frame was wrong."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause


class Close(NamedTuple):
    """Close the connection; a person can be told ``reason``.  The last effect of a link."""

    reason: str
    cause: Cause = Cause.BREACH


Effect = Send | SendLog | Introduced | Ack | Align | SaveEpochs | Compare | Compared | Append | Confirm | Close


@attrs.frozen
class LinkTiming:
    """Times of a link.

    :ivar heartbeat_ms: ``haSendHeartbeatInterval``: with nothing else to say a link says so this often.
    :ivar silence_ms_max: ``haHousekeepingInterval``: a peer that says nothing for so long is given up.
    :ivar handshake_ms: from the connection to a slave's first report, or to the master's answer, whatever bytes come.
    :ivar confirm_ms: how long the news of a higher confirm offset waits for a frame that carries it anyway.
    """

    heartbeat_ms: int = 5_000
    silence_ms_max: int = 20_000
    handshake_ms: int = 20_000
    confirm_ms: int = 20


class Link:
    """One end of one connection.

    Each call returns the effects it has; after :class:`Close` there are none any more.
    """

    __slots__ = ("_effects", "_met_by_ms", "_read_ms", "_timing", "_written_ms", "closed")

    def __init__(self, timing: LinkTiming, now_ms: int) -> None:
        self._timing = timing
        self._read_ms = self._written_ms = now_ms
        self._met_by_ms: int | None = None  # when the handshake has to be over
        self._effects: list[Effect] = []
        self.closed = ""
        """Why there is nothing left to do; empty: the link is open."""

    def received(self, data: bytes, now_ms: int) -> list[Effect]:
        """The peer's bytes, in whatever cut."""
        if self.closed:
            return []
        self._read_ms = now_ms
        try:
            self._hear(data, now_ms)
        except LinkRefused as error:
            self._close(str(error), error.cause)
        except RemoteProtocolError as error:
            self._close(str(error))
        return self._taken()

    def tick(self, now_ms: int) -> list[Effect]:
        """It is :meth:`next_due_ms`, or later.

        A link that is called long after its time was itself standing still (a frozen process, a machine asleep).  What
        its peer said meanwhile is still unread: the peer gets time to be heard, once.
        """
        due_ms = self.next_due_ms()
        if due_ms is None or now_ms < due_ms:
            return []
        late = now_ms - due_ms >= self._timing.heartbeat_ms
        if late and self._listens():
            self._read_ms = max(self._read_ms, now_ms - self._timing.silence_ms_max + self._timing.heartbeat_ms)
        if late and self._met_by_ms is not None:
            self._met_by_ms = max(self._met_by_ms, now_ms + self._timing.heartbeat_ms)
        silent_ms = now_ms - self._read_ms
        if self._listens() and silent_ms >= self._timing.silence_ms_max:
            self._close(f"nothing was heard for {silent_ms} ms", Cause.SILENT)
        elif self._met_by_ms is not None and now_ms >= self._met_by_ms:
            self._close(f"no handshake in {self._timing.handshake_ms} ms, though something was heard", Cause.SILENT)
        else:
            self._due(now_ms)
        return self._taken()

    def next_due_ms(self) -> int | None:
        """When to call :meth:`tick`; None: nothing is due before something else happens."""
        if self.closed:
            return None
        dues = self._dues()
        if self._listens():
            dues.append(self._read_ms + self._timing.silence_ms_max)
        if self._met_by_ms is not None:
            dues.append(self._met_by_ms)
        return min(dues, default=None)

    # -- of each machine ----------------------------------------------------------------------------------------------

    def _hear(self, data: bytes, now_ms: int) -> None:
        """The peer's bytes; may raise RemoteProtocolError."""
        raise NotImplementedError

    def _due(self, now_ms: int) -> None:
        """Say what is due by now."""
        raise NotImplementedError

    def _dues(self) -> list[int]:
        """When :meth:`_due` has something to say."""
        raise NotImplementedError

    def _listens(self) -> bool:
        """Whether the peer has to say something."""
        return True

    # -- within -------------------------------------------------------------------------------------------------------

    def _send(self, data: bytes, now_ms: int) -> None:
        self._written_ms = now_ms
        self._effects.append(Send(data))

    def _close(self, reason: str, cause: Cause = Cause.BREACH) -> None:
        self.closed = reason
        self._effects.append(Close(reason, cause))

    def _taken(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
