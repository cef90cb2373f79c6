"""A broker whose store is not in memory, and the thread that reads it, which the test lets go on."""

from __future__ import annotations

from twisted.internet import defer

from rocketha.store import commitlog
from tests.services.broker_case import BrokerCase, Client


class ColdCase(BrokerCase):
    """A broker that was started again, and has nothing in memory."""

    thread_name = "rocketha-pulls"

    def setUp(self) -> None:
        super().setUp()
        self.patch(commitlog, "RECENT_BYTES", 0)
        client = self.connect()
        self.fill(client)
        self.stop()
        self.service = self.start()
        self.waits = 0
        self.disk.waited_for = self.waited_for  # type: ignore[method-assign]
        self.disk.cached = False
        self.thread = next(work for work in reversed(self.works) if work.name == self.thread_name)
        self.thread.held = True
        self.reading = False

    def fill(self, client: Client) -> None:
        for number in range(100):
            self.send(client, b"%03d" % number + bytes(900), queue_id=str(number % 2))
        self.places = [self.broker.store.physical_offset("T", 0, number) for number in range(50)]

    def waited_for(self, path: str) -> None:
        """Only the thread may."""
        self.assertTrue(self.reading, f"{path} is waited for in the reactor")
        self.waits += 1

    def let_go(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            waiting, self.thread.waiting = self.thread.waiting, []
            for call, result in waiting:
                self.reading = True
                found = defer.execute(call)
                self.reading = False
                found.chainDeferred(result)

    def forget(self) -> None:
        """Nothing is in memory any more."""
        for inode in self.disk._names.values():
            if inode is not None:
                inode.cached.clear()
