"""The simplest replicated thing worth checking: named registers, with clients that write, compare and read them.

Pure.  Theory of operation: each command carries its client and number; the machine's outcome of a command is what the
register held before, so that histories tell reorderings.  The machine keeps a digest chained over everything applied:
two nodes that applied the same prefix have the same digest at every index, with or without snapshots between.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from rocketha.raft.messages import Entry, EntryKind
from rocketha.simulation.linearizability import UNKNOWN

WRITE, CAS, READ = "write", "cas", "read"


class Command(NamedTuple):
    """What a client asks; ``expected`` only of a CAS."""

    client: str
    number: int
    kind: str
    key: str
    value: str = ""
    expected: str = ""

    def encode(self) -> bytes:
        """As it stands in the log."""
        return json.dumps(list(self)).encode()

    @staticmethod
    def decode(data: bytes) -> Command:
        """The command of a log entry."""
        return Command(*json.loads(data))


class RegisterMachine:
    """The state machine of :class:`rocketha.services.raft.service.RaftService`.

    :ivar index: the last entry applied.
    :ivar digest: over all entries applied.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.index = 0
        self.digest = 0

    def apply(self, entries: Sequence[Entry]) -> list[object]:
        """Entries in the order of the log; what each NORMAL one came to."""
        return [self.apply_one(entry) for entry in entries]

    def apply_one(self, entry: Entry) -> object:
        """One entry."""
        self.index = entry.index
        if entry.kind != EntryKind.NORMAL:
            return None
        self.digest = zlib.crc32(entry.data, self.digest)
        command = Command.decode(entry.data)
        before = self.values.get(command.key, "")
        if command.kind == WRITE:
            self.values[command.key] = command.value
            return before
        if command.kind == CAS:
            if before == command.expected:
                self.values[command.key] = command.value
            return before
        return before

    def save(self) -> bytes:
        """A snapshot."""
        return json.dumps([self.index, self.digest, sorted(self.values.items())]).encode()

    def restore(self, data: bytes) -> None:
        """The state of a snapshot, in place of this one."""
        self.index, self.digest, pairs = json.loads(data)
        self.values = dict(pairs)


def step(state: Hashable, command: Command, output: Any) -> tuple[bool, Hashable]:
    """The model of one register for :func:`rocketha.simulation.linearizability.linearizable`."""
    allowed = output is UNKNOWN or output == state
    if command.kind == WRITE or (command.kind == CAS and command.expected == state):
        return allowed, command.value
    return allowed, state
