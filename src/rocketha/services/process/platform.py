"""What a service takes from its process and its machine."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable
from typing import Any

import attrs

from rocketha.access.askers import Askers
from rocketha.access.signer import Credentials, Signer
from rocketha.access.stamp import NONCE_BYTES
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.network import InTheClear, Network
from rocketha.services.process.fatal import end_process
from rocketha.services.process.physical_memory import physical_memory_bytes
from rocketha.services.process.stalls import Stalls
from rocketha.services.waiting.blocking import BlockingWork, Worker
from rocketha.services.waiting.sync_thread import sync_work
from rocketha.store.disk import Disk

MakeWork = Callable[[Any, str], BlockingWork]
"""Makes a thread for blocking work, of a reactor and a name."""


def new_nonce() -> bytes:
    """For a signature."""
    return secrets.token_bytes(NONCE_BYTES)


def _global_reactor() -> Any:
    from twisted.internet import reactor

    return reactor


@attrs.frozen(kw_only=True)
class Platform:
    """A service's surroundings; tests and the simulator give others.

    :ivar disk: where its files are.
    :ivar reactor: its clock counts steadily in a server's process (:mod:`rocketha.services.process.server`).
    :ivar network: how it listens and connects.
    :ivar credentials: of the user that it is to other servers; None: it does not sign what it asks them.
    :ivar chance: for whatever is left to chance.
    :ivar work: for blocking work of all kinds.
    :ivar sync_work: for the syncs of a Raft log.
    :ivar wall: the time of day, seconds since 1970: for what is written down.
    :ivar pid: this process's number.
    :ivar memory_bytes: how much there is for the page cache.
    :ivar stalls: whether the process stood still.
    :ivar on_fatal: ends the process, given a reason; by default as :func:`end_process`.
    """

    disk: Disk = attrs.field()
    reactor: Any = attrs.field(factory=_global_reactor)
    network: Network = attrs.field(factory=InTheClear)
    credentials: Credentials | None = None
    chance: random.Random = attrs.field(factory=random.Random)
    work: MakeWork = Worker
    sync_work: MakeWork = sync_work
    wall: Callable[[], float] = time.time
    pid: Callable[[], int] = os.getpid
    memory_bytes: Callable[[], int] = physical_memory_bytes
    stalls: Stalls = attrs.field(default=attrs.Factory(lambda self: Stalls(self.reactor), takes_self=True))
    on_fatal: Callable[[str], None] | None = None

    @property
    def dialer(self) -> Dialer:
        """For connections to other servers."""
        signer = None if self.credentials is None else Signer(self.credentials, self.wall_ms, new_nonce)
        return Dialer(self.reactor, self.network.endpoint, signer)

    @property
    def askers(self) -> Askers:
        """Who is at the other end of connections."""
        return self.network.askers

    def seconds(self) -> float:
        """Of the steady clock."""
        return float(self.reactor.seconds())

    def now_ms(self) -> int:
        """Likewise: for whatever waits."""
        return int(self.reactor.seconds() * 1000)

    def wall_ms(self) -> int:
        """ms since 1970."""
        return int(self.wall() * 1000)

    def end(self, why: str) -> None:
        """This process can not do what it is for."""
        if self.on_fatal is not None:
            self.on_fatal(why)
        else:
            end_process(self.reactor, why)
