"""One member of a Raft group of ours that keeps registers, with one port for clients and members, as a controller has.

    python -m benchmarks.raft_ours_node '{"id": "n0", "members": {"n0": "127.0.0.1:7001", ...}, "folder": "..."}'

The real service, log and disk with default options; only the state machine is the benchmark's.  A request is one
remoting frame, answered when its entry is applied.  With ``"profile"`` it writes a cProfile report when it ends.
"""

from __future__ import annotations

import cProfile
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.internet import reactor as global_reactor
from twisted.python.failure import Failure

from rocketha.protocols.remoting import RemotingProtocol, ServerParts
from rocketha.protocols.shared_port import SharedPort
from rocketha.protocols.turn import Turn
from rocketha.raft.messages import Entry
from rocketha.services.process.lean_rounds import LeanRounds
from rocketha.services.process.platform import Platform
from rocketha.services.process.server import FrozenHeap, SteadyClock
from rocketha.services.raft.machine_store import MachineStore
from rocketha.services.raft.options import RaftMember, RaftOptions
from rocketha.services.raft.service import RaftService
from rocketha.store.posix_disk import PosixDisk
from rocketha.wire.remoting import Answer, Command

SYSTEM_ERROR = 1


class Registers:
    """key -> value; the outcome of a write is how many there were."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.writes = 0

    def apply(self, entries: Sequence[Entry]) -> list[object]:
        outcomes: list[object] = []
        for entry in entries:
            self.values[entry.data[:8]] = entry.data[8:]
            self.writes += 1
            outcomes.append(self.writes)
        return outcomes

    def save(self) -> bytes:
        return self.writes.to_bytes(8, "big") + b"".join(key + value for key, value in sorted(self.values.items()))

    def restore(self, data: bytes) -> None:
        self.writes = int.from_bytes(data[:8], "big")
        self.values = {data[at : at + 8]: data[at + 8 : at + 264] for at in range(8, len(data), 264)}


class Write:
    """A write under way."""

    __slots__ = ("_command", "_connection")

    def __init__(self, connection: RemotingProtocol, command: Command) -> None:
        self._connection = connection
        self._command = command.head()

    def callback(self, result: int) -> None:
        """It was applied: so many were."""
        self._connection.answer(self._command, Answer(body=result.to_bytes(8, "big")))

    def errback(self, fail: Failure | BaseException) -> None:
        """It was not, or nobody knows."""
        problem = fail.value if isinstance(fail, Failure) else fail
        self._connection.answer(self._command, Answer(SYSTEM_ERROR, str(problem)))


class Requests:
    """Every request is a write."""

    def __init__(self, raft: RaftService) -> None:
        self._propose_for = raft.propose_for

    def connected(self, connection: RemotingProtocol) -> None:
        """Fine."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """Fine."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        self._propose_for(Write(connection, command), command.body)
        return None

    def turn_ended(self) -> None:
        """The proposals of a turn are taken together by the service."""


def run(given: dict[str, Any]) -> None:
    """Until SIGTERM."""
    reactor: Any = global_reactor
    SteadyClock(reactor).privilegedStartService()
    FrozenHeap().privilegedStartService()
    LeanRounds(reactor).privilegedStartService()
    folder, turn = Path(given["folder"]), Turn()
    member = RaftMember(given["id"], "bench", given["members"], str(folder / "raft"))
    platform, options = Platform(disk=PosixDisk(), reactor=reactor), RaftOptions()
    raft = RaftService(member, MachineStore(member, Registers(), platform, options), platform, options, turn=turn)

    def changed() -> None:
        (folder / "role").write_text("leader" if raft.is_leader else "follower")

    raft.on_role(changed)
    host, _, port = given["members"][given["id"]].rpartition(":")
    reactor.listenTCP(
        int(port), SharedPort(Requests(raft), reactor, raft.port, parts=ServerParts(turn=turn)), 2048, host
    )
    raft.startService()
    signal.signal(signal.SIGTERM, lambda *_: reactor.callFromThread(reactor.stop))
    reactor.run(installSignalHandlers=False)


def main(given: dict[str, Any]) -> None:
    if not given.get("profile"):
        run(given)
        return
    profile = cProfile.Profile(time.thread_time)
    profile.runcall(run, given)
    profile.dump_stats(given["profile"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
