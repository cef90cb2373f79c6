"""Heartbeats of clients that consume for many groups."""

from __future__ import annotations

from collections.abc import Sequence

from rocketha.services.tables.broker_files import Saved
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode
from tests.services.broker_case import BrokerCase, heartbeat

GROUPS = [f"G-{number}" for number in range(100)]


def of_groups(groups: Sequence[str]) -> bytes:
    """One heartbeat for all of them."""
    bodies = [json_dialect.loads(heartbeat("c", group, "T")) for group in groups]
    return json_dialect.dumps(bodies[0] | {"consumerDataSet": [body["consumerDataSet"][0] for body in bodies]})


class ManyGroupsTests(BrokerCase):
    """One heartbeat makes a hundred groups."""

    def test_what_follows_from_it_happens_once(self) -> None:
        """Each table is saved once, and the topics are told together; all of it is on the disk with the answer."""
        saved: list[str] = []
        told: list[Sequence[str]] = []
        save, tell = self.broker.core.effects.save, self.broker.reading.wakeups.topics_changed

        def count_saves(which: str) -> Saved:
            saved.append(which)
            return save(which)

        def count_topics(topics: Sequence[str], now_ms: int) -> None:
            told.append(topics)
            tell(topics, now_ms)

        self.patch(self.broker.core.effects, "save", count_saves)
        self.patch(self.broker.reading.wakeups, "topics_changed", count_topics)
        client = self.connect()
        client.say(client.command(RequestCode.HEART_BEAT, body=of_groups(GROUPS)))
        said = client.heard()
        self.assertEqual(len([each for each in said if each.is_response]), 1)
        self.assertEqual(sorted(saved), ["groups", "topics"])
        self.assertEqual([sorted(topics) for topics in told], [sorted(f"%RETRY%{group}" for group in GROUPS)])
        self.stop()
        self.service = self.start()
        self.assertTrue(all(self.broker.state.groups.get(group) for group in GROUPS))
        self.assertTrue(all(self.broker.state.topics.get(f"%RETRY%{group}") for group in GROUPS))
