"""kill -9 at random moments under load, SYNC_FLUSH: what was acknowledged is there, once, whole, and the queues say so.

``make test`` kills five times, ``make soak`` (ROCKETHA_SOAK=1) fifty. Source: issue 3 "Shows" 5.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest

from .harness import BROKERS, FULL, InteropCase, JavaClient, JavaNamesrv, disk

Event = dict[str, Any]
TOPIC = "Crash"
KILLS = 50 if os.environ.get("ROCKETHA_SOAK") else 5
SEED = int(os.environ.get("ROCKETHA_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)


class Acknowledged:
    """What the producers were told, read from the client's events as they come."""

    def __init__(self, client: JavaClient) -> None:
        self.client = client
        self.by_key: dict[str, Event] = {}
        self._at = 0

    def update(self) -> int:
        with self.client.changed:
            new, self._at = self.client.events[self._at :], len(self.client.events)
        for event in new:
            if event.get("ev") == "sent" and event["status"] == "SEND_OK":
                self.by_key[event["key"]] = event
        return len(self.by_key)


@pytest.mark.soak
class CrashUnderLoad(InteropCase):
    """One store through many violent ends."""

    kind = "ours"

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        cls.client = cls.share(JavaClient(cls.namesrv.address, folder=cls.folder / "client"))

    def check_log(self, records: list[disk.Record], acked: dict[str, Event], when: str) -> None:
        """Every acknowledged message is in the log at the place that was told, whole; no key twice."""
        mine = {r.properties["KEYS"]: r for r in records if r.topic == TOPIC}
        self.assertEqual(
            [k for k, n in Counter(r.properties["KEYS"] for r in records if r.topic == TOPIC).items() if n > 1],
            [],
            when,
        )
        self.assertEqual(sorted(set(acked) - set(mine))[:10], [], f"acknowledged, and lost {when}")
        for key, event in acked.items():
            record = mine[key]
            place = (event["q"], event["off"], int(event["offset_id"][-16:], 16), event["size"])
            self.assertEqual((record.queue, record.queue_offset, record.at, len(record.body)), place, f"{key} {when}")

    def test_kill_at_random_moments(self) -> None:
        """Kill, look at the files, start again on them, and go on; in the end a real consumer reads everything once."""
        chance = random.Random(SEED)
        broker = BROKERS[self.kind](self.folder / "broker", self.namesrv, {"flushDiskType": "SYNC_FLUSH"})
        self.use(broker)
        client, acked = self.client, Acknowledged(self.client)
        client.producer("load", timeout_ms=2000)
        client.send(TOPIC, "sync", 4, prefix="first", producer="load")
        endless: dict[str, Any] = {
            "producer": "load",
            "count": 1 << 30,
            "run": "crash",
            "flush": True,
            "error_pause_ms": 20,
        }
        runs = [
            client.post_send(TOPIC, "sync", prefix="one", threads=6, max_size=2000, tags=["A", "B"], **endless),
            client.post_send(TOPIC, "batch", prefix="many", threads=2, max_size=500, batch=8, **endless),
        ]
        for kill in range(KILLS):
            target = acked.update() + chance.randrange(1, 1500)
            client.until(f"{target} acknowledged messages (seed {SEED})", lambda _, n=target: acked.update() >= n, 60)
            broker.kill()
            before = dict(acked.by_key)  # the reader thread may still add some: those count from the next time on
            self.check_log(disk.log_after_kill(broker.root), before, f"after kill {kill}, seed {SEED}")
            broker.restart()
        target = acked.update() + 200
        client.until("the load to go on after the last start", lambda _: acked.update() >= target, 60)
        client.ask(op="stop_send", run="crash")
        for run in runs:
            client.answer(run, 60)
        acked.update()
        broker.stop()
        records = disk.check(broker.root)
        self.check_log(records, acked.by_key, f"in the end, seed {SEED}")
        broker.restart()
        self.read_back(records, acked)

    def read_back(self, records: list[disk.Record], acked: Acknowledged) -> None:
        stored = {r.properties["KEYS"]: r for r in records if r.topic == TOPIC}
        client = self.client
        client.consume("all", TOPIC, consume_batch=32)
        client.await_received("all", len(stored), 180)
        client.stop_consumer("all")
        got = client.received("all")
        self.assertEqual(Counter(m["key"] for m in got), Counter(list(stored)))
        for message in got:
            told = acked.by_key.get(message["key"])
            if told:
                self.assertEqual((message["sha"], message["q"], message["off"]), (told["sha"], told["q"], told["off"]))


class CrashOracle(CrashUnderLoad):
    """Java's own broker under the same blows."""

    kind = "java"


if not FULL:
    del CrashOracle
