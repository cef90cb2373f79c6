"""A snapshot that arrives in parts, and can go on where it stopped.

Pure.  Parts are taken in order only; the answer names the byte wanted next, so that a leader whose connection broke
goes on there.  Two nodes' snapshots of one index may differ in their bytes: parts of another leader or term do not mix.
"""

from __future__ import annotations

from rocketha.raft.messages import Message, SnapshotMeta


class SnapshotReceipt:
    """What arrived of at most one snapshot.

    :ivar received: bytes that arrived in order.
    """

    __slots__ = ("_from", "_parts", "received")

    def __init__(self) -> None:
        self._from: tuple[str, int, SnapshotMeta] | None = None
        self._parts: list[bytes] = []
        self.received = 0

    def take(self, message: Message, meta: SnapshotMeta, max_bytes: int) -> tuple[bool, bytes | None]:
        """A SNAPSHOT message.

        :param max_bytes: a snapshot that grows beyond this is dropped and begins anew.
        :returns: whether the part was the one wanted, and all bytes if it was the last.
        """
        source = (message.sender, message.term, meta)
        if source != self._from:
            self.clear()
            self._from = source
        if message.offset != self.received:
            return False, None
        if self.received + len(message.data) > max_bytes:
            self.clear()
            return False, None
        self._parts.append(message.data)
        self.received += len(message.data)
        if not message.done:
            return True, None
        data = b"".join(self._parts)
        self.clear()
        return True, data

    def clear(self) -> None:
        """Forget what arrived."""
        self._from = None
        self._parts = []
        self.received = 0
