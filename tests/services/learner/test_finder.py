"""What a learner asks its master for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest import mock

from twisted.internet import defer, task
from twisted.trial.unittest import SynchronousTestCase

from rocketha.broker import progress_requests
from rocketha.protocols.endpoints import Dialer
from rocketha.services.learner.finder import MasterFinder
from rocketha.wire import json_dialect
from rocketha.wire.remoting import Command
from tests.broker.support import NOW_MS, Broker


class ConsumerOffsetsTests(SynchronousTestCase):
    """consumerOffset.json of a master."""

    def setUp(self) -> None:
        self.broker = Broker()
        for number in range(100):
            self.broker.state.offsets.commit(f"G{number:02d}", "T", number % 3, number, lambda: NOW_MS)
        self.finder = MasterFinder(Dialer(task.Clock()), ("10.0.0.1:9876",), "broker-a")
        connection: Any = mock.Mock(request=self.request)
        self.finder._connections = mock.Mock(connect=lambda address, timeout_s: defer.succeed(connection))
        self.fits = True
        self.asked = 0

    def request(
        self, code: int, fields: Mapping[str, str] | None = None, timeout_s: float = 3.0
    ) -> defer.Deferred[Command]:
        self.asked += 1
        if not fields and not self.fits:
            return defer.succeed(Command(1, remark="the answer would be a frame of 20000000 bytes"))
        answer = self.broker.reply(code, dict(fields or {}))
        return defer.succeed(Command(answer.code, fields=dict(answer.fields or {}), body=answer.body))

    def offsets(self) -> Any:
        body = self.successResultOf(self.finder.consumer_offsets())
        return json_dialect.loads(body)

    def test_whole(self) -> None:
        """One answer, as it came; nothing before a master is known."""
        self.assertIsNone(self.successResultOf(self.finder.consumer_offsets()))
        self.finder.address = "10.0.0.2:10911"
        self.assertEqual(len(self.offsets()["groupTopicMap"]), 100)
        self.assertEqual(self.asked, 1)

    def test_in_parts(self) -> None:
        """Where no frame holds them: all of them, under the version of the first."""
        self.finder.address, self.fits = "10.0.0.2:10911", False
        with mock.patch.object(progress_requests, "OFFSETS_PAGE_BYTES", 500):
            found = self.offsets()
        self.assertGreater(self.asked, 5)
        self.assertEqual(found["offsetTable"], json_dialect.loads(self.broker.reply(43).body)["offsetTable"])
        self.assertEqual(found["dataVersion"], self.broker.state.offsets.data_version.as_json())
