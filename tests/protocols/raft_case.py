"""What the tests of Raft connections share: a group that notes what it hears, and transports in memory."""

from __future__ import annotations

import random
from typing import Any

from twisted.internet import task
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.testing import MemoryReactorClock, StringTransport

from rocketha.protocols.raft import Identity
from rocketha.wire import raft_frames as frames
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.raft_frames import Hello
from rocketha.wire.raft_values import Members, Message
from rocketha.wire.spec import raft as spec

MEMBERS = Members(
    voters=frozenset({"n0", "n1", "n2"}),
    addresses={"n0": "127.0.0.1:1000", "n1": "127.0.0.1:1001", "n2": "controller-2.my-net.example:1002"},
)
IDENTITY = Identity("group", "n0", "127.0.0.1:1000", 77)


class Transport(StringTransport):
    """A StringTransport that says what was written, and how it was ended."""

    def __init__(self, host: str = "127.0.0.1", port: int = 40000) -> None:
        kind = IPv6Address if ":" in host else IPv4Address
        super().__init__(peerAddress=kind("TCP", host, port))
        self.writes: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        super().write(data)

    def abortConnection(self) -> None:
        self.aborted = True

    def taken(self) -> bytes:
        """What was written since the last time."""
        data = self.value()
        self.clear()
        return data


class Heard:
    """A group that notes what it is told."""

    def __init__(self) -> None:
        self.members = MEMBERS
        self.messages: list[Message] = []
        self.reads = 0
        self.histories: list[int] = []
        self.events: list[tuple[str, Any]] = []

    def received(self, messages: list[Message]) -> None:
        self.reads += 1
        self.messages += messages

    def address_of(self, member: str) -> str | None:
        return self.members.addresses.get(member)

    def encoded_members(self) -> bytes:
        return self.members.encode()

    ready = True

    def peer_up(self, member: str, last_index: int) -> None:
        self.events.append(("up", member))

    def peer_reached(self, member: str, last_index: int) -> None:
        self.histories.append(last_index)

    def last_index(self) -> int:
        return 12

    def peer_refused(self, member: str) -> None:
        self.events.append(("refused", member))

    def peer_lost(self, member: str) -> None:
        self.events.append(("lost", member))

    def learned(self, members: Members, last_index: int) -> None:
        self.events.append(("learned", members))


class Reactor(MemoryReactorClock):  # type: ignore[misc]
    """Connections in memory, time by hand."""


def hello(**changes: Any) -> bytes:
    """A good opening of n1 to n0, or one with something wrong."""
    fields: dict[str, Any] = {"group": "group", "sender": "n1", "receiver": "n0", "address": "x:1", "incarnation": 5}
    return spec.MAGIC + frames.seal(frames.encode_hello(Hello(**{**fields, **changes})))


def contents(data: bytes) -> list[bytes]:
    """The messages of some frames."""
    return [frames.opened(frame) for frame in FrameBuffer().feed(data)]


def chance() -> random.Random:
    """The same each time."""
    return random.Random(5)


def clock() -> task.Clock:
    """Time by hand."""
    return task.Clock()
