"""Who has how much of the log: acknowledgements by replica, never by connection.

Must not know which replicas count; the SyncStateSet and the classic rules ask.

Theory of operation.  A connection is of one replica (a broker id, or in classic mode what names the peer).  A second
connection of the same replica takes the place of the first, whose acknowledgements count no more (regression A13), so
one replica is one acknowledgement.  An acknowledgement is checked against the end of the log (A11, A12) and against
the one before it on its connection, and belongs to the epoch of that connection's handshake: asked for another epoch it
is none.  A connection that has said nothing has acknowledged nothing (A4).

Java: ``HAConnection.slaveAckOffset``, ``GroupTransferService`` (which counts connections).
"""

from __future__ import annotations

from collections.abc import Container

import attrs

from rocketha.errors import RemoteProtocolError, ensure

ReplicaId = int | str
"""A controller's broker id; of a classic link, whatever names the peer."""
NO_ACK = -1
ALL = -1
"""The need of a put that waits for every member of the SyncStateSet (``allAckInSyncStateSet``), as Java writes it."""


@attrs.define(slots=True)
class _Link:
    """A connection: ``offset`` is NO_ACK until it said something."""

    replica: ReplicaId
    epoch: int
    offset: int = NO_ACK


class ReplicaAcks:
    """A master's table.

    Invariant: ``_of[replica]`` is a connection in ``_links``, of that replica.
    """

    __slots__ = ("_links", "_of")

    def __init__(self) -> None:
        self._links: dict[int, _Link] = {}
        self._of: dict[ReplicaId, int] = {}

    def connected(self, connection: int, replica: ReplicaId, epoch: int = 0) -> int | None:
        """A connection said whose it is.

        :param connection: a number never used before.
        :returns: the replica's older connection, which is to be closed.
        """
        ensure(connection not in self._links, f"connection {connection} introduced itself twice")
        displaced = self._of.get(replica)
        if displaced is not None:
            del self._links[displaced]
        self._links[connection] = _Link(replica, epoch)
        self._of[replica] = connection
        return displaced

    def acked(self, connection: int, offset: int, log_end: int) -> bool:
        """A replica says that it has everything before ``offset``; whether that is more than before.

        :raises RemoteProtocolError: that cannot be; the connection is to be closed, and what it said no longer counts.
        """
        link = self._links.get(connection)
        if link is None:
            raise RemoteProtocolError("an acknowledgement before a handshake, or after another connection took over")
        wrong = ""
        if offset < 0:
            wrong = "negative"
        elif offset > log_end:
            wrong = f"beyond the log's end {log_end}"
        elif offset < link.offset:
            wrong = f"below {link.offset}, which it acknowledged before"
        if wrong:
            self.disconnected(connection)
            raise RemoteProtocolError(f"replica {link.replica} acknowledges {offset}: {wrong}")
        rose = offset > link.offset
        link.offset = offset
        return rose

    def disconnected(self, connection: int) -> ReplicaId | None:
        """A connection is gone; the replica that lost it, None if it had another by then."""
        link = self._links.pop(connection, None)
        if link is None:
            return None
        del self._of[link.replica]
        return link.replica

    def replica(self, connection: int) -> ReplicaId | None:
        """Whose connection it is; None if displaced or unknown."""
        link = self._links.get(connection)
        return None if link is None else link.replica

    def present(self, replica: ReplicaId) -> bool:
        """Whether it has a connection."""
        return replica in self._of

    def offset(self, replica: ReplicaId, epoch: int = 0) -> int:
        """Up to where it has the log, as it said in ``epoch``; NO_ACK if it did not."""
        connection = self._of.get(replica)
        if connection is None:
            return NO_ACK
        link = self._links[connection]
        return link.offset if link.epoch == epoch else NO_ACK

    def reached(self, need: int, log_end: int, epoch: int = 0, among: Container[ReplicaId] | None = None) -> int:
        """Up to where ``need`` replicas have the log, the master being one; NO_ACK if there are not as many.

        :param among: which replicas count; None: all that are connected.
        """
        if need <= 1:
            return log_end
        offsets = [
            link.offset
            for link in self._links.values()
            if link.epoch == epoch and link.offset != NO_ACK and (among is None or link.replica in among)
        ]
        if len(offsets) < need - 1:
            return NO_ACK
        offsets.sort(reverse=True)
        return min(log_end, offsets[need - 2])

    def carry_over(self, before: int, epoch: int) -> None:
        """The same master goes on in a new epoch, with the log that its connections acknowledged: it still counts.

        :param before: the epoch that it was master of; acknowledgements of another one go on counting for nothing.
        """
        for link in self._links.values():
            if link.epoch == before:
                link.epoch = epoch
