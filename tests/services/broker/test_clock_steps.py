"""Somebody sets the clock of a broker that serves: by hours or decades, back or on.  What waits goes on waiting
for as long as it would have, and what is written is found by the times that it bears.
"""

from __future__ import annotations

from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import BrokerCase, heartbeat, pull_fields, records
from tests.services.events_case import events_of

STEPS_S = (-3600.0, 3600.0, -86_400.0 * 9000, 86_400.0 * 9000)


class SaidTests(BrokerCase):
    """What the log says of it."""

    def test_once_a_step(self) -> None:
        said = events_of(self)
        self.advance(5, 1)
        for step_s in (*STEPS_S, 0.5, -0.5):
            self.set_by_s += step_s
            self.advance(5, 1)
        found = [each["seconds"] for each in said if each["event"] == "clock.stepped"]
        self.assertEqual(found, list(STEPS_S))


class WaitTests(BrokerCase):
    """Durations."""

    def test_a_held_pull(self) -> None:
        """Gets its answer after the time that it said, and not before."""
        client = self.connect()
        self.send(client)
        for step_s in STEPS_S:
            with self.subTest(step_s=step_s):
                client.say(client.command(11, pull_fields(offset=1, sysFlag="6")))
                self.set_by_s += step_s
                self.advance(14.8)
                self.assertEqual(client.heard(), [])
                self.advance(0.4)
                self.assertEqual([said.code for said in client.heard()], [ResponseCode.PULL_NOT_FOUND])

    def test_queue_locks(self) -> None:
        """Another client gets the queue 60 s after its owner was last heard."""
        queue = {"brokerName": "broker-a", "queueId": 0, "topic": "T"}

        def lock(client_id: str) -> int:
            body = {"consumerGroup": "G", "clientId": client_id, "mqSet": [queue]}
            answer = self.connect().ask(RequestCode.LOCK_BATCH_MQ, {}, json_dialect.dumps(body))
            return len(json_dialect.loads(answer.body)["lockOKMQSet"])

        for number, step_s in enumerate(STEPS_S):
            with self.subTest(step_s=step_s):
                self.assertEqual(lock(f"owner {number}"), 1)
                self.set_by_s += step_s
                self.advance(50, 1)
                self.assertEqual(lock("another"), 0)
                self.advance(20, 1)
                self.assertEqual(lock("another"), 1)
                self.advance(70, 1)

    def test_silent_clients(self) -> None:
        """Leave their group 120 s after their last heartbeat."""
        for number, step_s in enumerate(STEPS_S):
            with self.subTest(step_s=step_s):
                group = f"G{number}"
                self.connect().ask(RequestCode.HEART_BEAT, {}, heartbeat("c", group, "T"))
                self.set_by_s += step_s
                self.advance(100, 1)
                self.assertIn(group, self.broker.state.clients.consumers)
                self.advance(40, 1)
                self.assertNotIn(group, self.broker.state.clients.consumers)

    def test_what_broker_status_shows(self) -> None:
        """Rates and runtime of a broker that was started in another year."""
        self.stop()
        self.set_by_s = 86_400.0 * 9000
        self.service = self.start()
        client = self.connect()
        self.set_by_s = 0.0
        for _ in range(12):
            self.send(client)
            self.advance(1)
        table = json_dialect.loads(client.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
        self.assertEqual(table["runtime"], "[ 0 days, 0 hours, 0 minutes, 12 seconds ]")
        self.assertAlmostEqual(float(table["putTps"].split()[0]), 1.0, 1)


class WrittenTests(BrokerCase):
    """Times that messages bear."""

    def test_queries_by_key_and_time(self) -> None:
        """A key is found by its time, whatever the clock showed when the index file was begun."""
        client = self.connect()
        stored: list[tuple[str, int]] = []
        for number, step_s in enumerate((0.0, 3600.0, -1800.0, -3600.0, 86_400.0 * 9000, 0.0, -0.7)):
            self.set_by_s = step_s
            for each in range(3):
                name = f"key{number}-{each}"
                stored.append((name, self.broker.core.platform.wall_ms()))
                self.send(client, name.encode(), properties=f"KEYS\x01{name}\x02")
                self.advance(0.2)
        for restarted in (False, True):
            for name, at_ms in stored:
                with self.subTest(name=name, restarted=restarted):
                    fields = {"topic": "T", "key": name, "maxNum": "9", "beginTimestamp": str(at_ms)}
                    answer = client.ask(RequestCode.QUERY_MESSAGE, {**fields, "endTimestamp": str(at_ms)})
                    self.assertEqual([message.body for message in records(answer)], [name.encode()])
            self.stop()
            self.service = self.start()
            client = self.connect()

    def test_small_falls_begin_no_index_file(self) -> None:
        """A time server that corrects the clock costs nothing; a step back costs one file."""
        client, index = self.connect(), self.broker.store.index
        assert index is not None
        for number in range(20):
            self.set_by_s = -0.4 * (number % 2)
            self.send(client, properties=f"KEYS\x01key{number}\x02")
        index.settle()
        self.assertEqual(len(index.files), 1)
        self.set_by_s = -10.0
        self.send(client, properties="KEYS\x01last\x02")
        index.settle()
        self.assertEqual(len(index.files), 2)
