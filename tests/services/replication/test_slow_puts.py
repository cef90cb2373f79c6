"""Sends that wait for long, and what the broker says of it."""

from __future__ import annotations

from typing import Any

from rocketha.simulation.host import Host
from tests.services.dledger_case import DLedgerCase
from tests.services.events_case import events_of


class SlowPutTests(DLedgerCase):
    """In a group whose sends wait for the disk, and for a majority."""

    keys = "flushDiskType=SYNC_FLUSH\n"

    def setUp(self) -> None:
        super().setUp()
        self.leader = self.start_group()
        self.acknowledged(self.leader, 10)
        self.events = events_of(self)

    def told(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]

    def metric(self, host: Host, name: str) -> str:
        lines = self.service(host).broker.core.metrics.exposition().splitlines()
        return next(line for line in lines if line.startswith(name)).split()[-1]

    def test_nothing_to_say(self) -> None:
        """Of sends that are safe at once."""
        self.acknowledged(self.leader, 50)
        self.run_for(2)
        self.assertEqual(self.told("puts.slow") + self.told("reactor.stalled"), [])

    def test_replicas(self) -> None:
        """Who lacks what, told when it is over."""
        for follower in self.followers():
            for link in self.ways(self.leader, follower):
                link.blocks.add("slow")
        sending = self.sending(self.leader)
        self.run_for(0.5)
        self.world.network.heal_all()
        self.await_(sending, 10)
        self.until("word of it", lambda: self.told("puts.slow"))
        (event,) = self.told("puts.slow")
        self.assertEqual(event["lacked"], "replicas")
        self.assertGreaterEqual(event["waited_ms"], 400)
        for follower in self.followers():
            number = self.service(follower).broker.replication.own_id
            self.assertIn(f"replica {number} at {follower.address}:40911 lacks ", event["cause"])
        self.assertNotIn("sync of the log", event["cause"])
        self.assertEqual(self.metric(self.leader, 'rocketha_slow_puts_total{lacked="replicas"}'), "1.0")

    def test_the_disk(self) -> None:
        """For how long its sync has been under way."""
        self.leader.disk.slow = 300.0
        self.acknowledged(self.leader, 1)
        self.until("word of it", lambda: self.told("puts.slow"))
        event = self.told("puts.slow")[0]
        self.assertIn("a sync of the log has been under way for ", event["cause"])

    def test_a_process_that_stood_still(self) -> None:
        """While sends waited."""
        self.cut_off(self.leader)
        sending = self.sending(self.leader)
        self.run_for(0.1)
        self.leader.freeze(whole=False)
        self.run_for(0.6)
        self.leader.thaw()
        self.world.network.heal_all()
        self.await_(sending, 10)
        self.until("word of it", lambda: self.told("reactor.stalled"))
        self.assertGreater(self.told("reactor.stalled")[0]["stalled_ms"], 400)
