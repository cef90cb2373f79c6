"""What the tests of the Raft service share: members on real loopback ports in one process."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet import defer, reactor, task
from twisted.trial.unittest import TestCase

from rocketha.protocols.shared_port import SharedPort
from rocketha.raft.errors import NotLeader
from rocketha.raft.messages import Entry
from rocketha.services.process.platform import Platform
from rocketha.services.raft.machine_store import MachineStore
from rocketha.services.raft.options import RaftMember, RaftOptions
from rocketha.services.raft.service import RaftService
from rocketha.services.raft.waiting import Lost
from rocketha.store.posix_disk import PosixDisk
from rocketha.wire.remoting import Answer
from tests.interop.harness.ports import free_ports


class Words:
    """A state machine: a list of the proposals."""

    def __init__(self) -> None:
        self.words: list[bytes] = []

    def apply(self, entries: Sequence[Entry]) -> list[object]:
        outcomes: list[object] = []
        for entry in entries:
            self.words.append(entry.data)
            outcomes.append((entry.index, entry.data))
        return outcomes

    def save(self) -> bytes:
        return b"\0".join(self.words)

    def restore(self, data: bytes) -> None:
        self.words = data.split(b"\0") if data else []


class NoRequests:
    """The remoting side of a shared port."""

    def connected(self, connection: Any) -> None:
        """Nothing to do."""

    def disconnected(self, connection: Any, reason: str) -> None:
        """Nothing to do."""

    def request(self, connection: Any, command: Any) -> Answer | None:
        return Answer(0, None, None, b"served")

    def turn_ended(self) -> None:
        """Nothing to do."""


class Member:
    """One member: its service, its port, its directory."""

    def __init__(self, case: RaftCase, name: str, directory: str) -> None:
        self.case = case
        self.name = name
        self.directory = directory
        self.disk: Any = PosixDisk()
        self.port: Any = None
        self.service: RaftService = None  # type: ignore[assignment]
        self.store: MachineStore = None  # type: ignore[assignment]
        self.fatal: list[str] = []
        self.machine = Words()

    def start(self, members: dict[str, str], secret: bytes = b"", joins: bool = False) -> defer.Deferred[None]:
        """Start, or start again from what is on the disk."""
        self.machine = self.case.machine()
        member = RaftMember(self.name, "group", members, self.directory, joins, secret)
        platform = Platform(disk=self.disk, chance=random.Random(hash(self.name)), on_fatal=self.fatal.append)
        options = self.case.arguments.get("options") or RaftOptions()
        self.store = MachineStore(member, self.machine, platform, options)
        self.service = RaftService(
            member,
            self.store,
            platform,
            **self.case.arguments,
        )
        port = int(members[self.name].rpartition(":")[2])
        factory = SharedPort(NoRequests(), reactor, self.service.port)
        self.port = reactor.listenTCP(port, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.service.startService()
        return self.service.started

    @defer.inlineCallbacks
    def stop(self) -> Any:
        """Stop in order."""
        if self.port is not None:
            port, self.port = self.port, None
            yield self.service.stopService()
            yield port.stopListening()

    @defer.inlineCallbacks
    def kill(self) -> Any:
        """As kill -9, as far as the others can see: port and connections end at once."""
        port, self.port = self.port, None
        yield port.stopListening()
        self.service._leave("killed")
        yield self.service.stopService()

    @property
    def runs(self) -> bool:
        return self.port is not None


class RaftCase(TestCase):
    """Three members n0, n1, n2."""

    timeout = 300
    arguments: dict[str, Any] = {}
    machine: Callable[[], Words] = Words

    def setUp(self) -> None:
        self.members: dict[str, Member] = {}
        self.addresses: dict[str, str] = {}
        self.addCleanup(self.stop_all)

    def add(self, *names: str) -> None:
        """Choose ports and directories."""
        for name, port in zip(names, free_ports(len(names)), strict=True):
            self.addresses[name] = f"127.0.0.1:{port}"
            self.members[name] = Member(self, name, os.path.abspath(f"{self.mktemp()}/{name}"))

    @defer.inlineCallbacks
    def start(self, *names: str) -> Any:
        self.add(*names)
        for name in names:
            yield self.members[name].start(dict(self.addresses))

    @defer.inlineCallbacks
    def stop_all(self) -> Any:
        for member in self.members.values():
            if member.runs:
                member.service._leave("the test is over")
        for member in self.members.values():
            yield member.stop()

    @defer.inlineCallbacks
    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Wait until something holds; its value."""
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {self.picture()}")
            yield task.deferLater(reactor, 0.005)  # type: ignore[arg-type]

    def picture(self) -> str:
        """Who believes what."""
        return "; ".join(
            f"{name}: {m.service.node.role.value} term {m.service.node.term} leader {m.service.leader_id!r} "
            f"commit {m.service.node.commit} applied {m.service.node.applied} {' '.join(m.fatal)}"
            for name, m in self.members.items()
            if m.runs and m.service._node is not None
        )

    def leader(self) -> Member | None:
        """Who leads with the highest term and serves."""
        leaders = [m for m in self.members.values() if m.runs and m.service.is_leader]
        return max(leaders, key=lambda member: member.service.node.term, default=None)

    def followers(self) -> list[Member]:
        leader = self.leader()
        return [m for m in self.members.values() if m.runs and m is not leader]

    @defer.inlineCallbacks
    def propose(self, data: bytes, seconds: float = 60.0) -> Any:
        """Propose until it is surely applied, to whoever leads; a proposal with an unknown result is not repeated."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            leader = self.leader()
            if leader is not None:
                try:
                    outcome = yield leader.service.propose(data)
                    return outcome
                except NotLeader:
                    pass
                except Lost as lost:
                    if lost.maybe_applied:
                        return None
            yield task.deferLater(reactor, 0.005)  # type: ignore[arg-type]
        raise AssertionError(f"{data!r} was not taken within {seconds} s: {self.picture()}")

    def assert_same_words(self, *names: str) -> defer.Deferred[Any]:
        """All have applied the same, soon."""
        machines = [self.members[name].machine for name in names or self.members]
        return self.until(lambda: all(each.words == machines[0].words for each in machines))
