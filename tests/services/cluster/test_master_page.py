"""Topics and consumer groups on the page of a whole group: as its master's own page has them."""

from __future__ import annotations

import json

from rocketha.errors import RemoteProtocolError
from rocketha.observe import overview
from rocketha.observe.overview import Consumption, Overview, Topic
from rocketha.protocols.endpoints import Dialer
from rocketha.services.cluster.master_page import ASK_S, MasterPage
from rocketha.simulation.host import Host
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode
from tests.services.broker_case import heartbeat
from tests.services.replication_case import PORT, ReplicationCase


class MasterPageTests(ReplicationCase):
    """A master with a topic, and a group that lags there."""

    keys = "brokerRole=ASYNC_MASTER\n"

    def setUp(self) -> None:
        super().setUp()
        self.master = self.filled("b1", 5)
        process = self.client_host.process
        assert process is not None
        self.page = MasterPage(Dialer(process.reactor))
        self.addCleanup(self.page.close)

    def filled(self, name: str, count: int) -> Host:
        host = self.broker(name, self.keys)
        for _ in range(count):
            self.assertEqual(self.send(host, topic="T", queue_id="0"), 0)
        for group, offset in (("near", count - 1), ("far", 1)):
            self.ask(host, RequestCode.HEART_BEAT, body=heartbeat(f"{group}@1", group, "T"))
            fields = {"consumerGroup": group, "topic": "T", "queueId": "0", "commitOffset": str(offset)}
            self.assertEqual(self.ask(host, RequestCode.UPDATE_CONSUMER_OFFSET, fields).code, 0)
        return host

    def look(self, host: Host | None) -> Overview:
        """After it was asked."""
        address = f"{host.address}:{PORT}" if host is not None else ""
        self.page.look(address)
        self.run_for(ASK_S / 2)
        return self.page.look(address)

    def test_as_the_master_has_it(self) -> None:
        """The same rows in the same order, and again when something has changed."""
        found = self.look(self.master)
        own = self.service(self.master).overview()
        self.assertEqual(overview.tables(found)["topics"], overview.tables(own)["topics"])
        self.assertEqual(overview.tables(found)["consumers"], overview.tables(own)["consumers"])
        self.assertEqual([(each.group, each.lag) for each in found.consumers], [("far", 4), ("near", 1)])
        self.send(self.master, topic="T", queue_id="0")
        self.run_for(ASK_S)
        self.assertEqual([each.lag for each in self.look(self.master).consumers], [5, 2])

    def test_another_master(self) -> None:
        """Nothing is kept of the one before, nor of one that is gone."""
        other = self.filled("b2", 3)
        self.look(self.master)
        self.assertEqual(self.page.look(f"{other.address}:{PORT}"), Overview())
        self.assertEqual([each.lag for each in self.look(other).consumers], [2, 1])
        self.assertEqual(self.look(None), Overview())

    def test_one_that_does_not_answer(self) -> None:
        """The page says why there is nothing."""
        self.look(self.master)
        self.master.kill()
        self.run_for(ASK_S)
        self.look(self.master)
        self.run_for(2.0)
        found = self.look(self.master)
        self.assertEqual((len(found.topics), len(found.consumers)), (0, 0))
        self.assertIn("The master did not tell its topics and consumer groups", found.notes[0])

    def test_what_is_told(self) -> None:
        """The first rows, and how many more there are."""
        topics = [Topic(f"T{number:03d}", 4, ["b"], number) for number in range(overview.ROWS_MAX + 3)]
        groups = [Consumption("G", "T", 7, 2)]
        found = overview.told(overview.tell(Overview(topics=topics, consumers=groups)))
        self.assertEqual(overview.tables(found), overview.tables(Overview(topics=topics, consumers=groups)))
        merged = overview.merged("both", found, Overview(topics=[Topic("T000", 1, []), Topic("U", 1, [])]))
        self.assertEqual(merged.topics[0], topics[0])
        self.assertEqual(merged.topics[-1].name, "U")
        for bad in (b"", b"[]", b"{}", b'{"topics":{"rows":[{}],"more":0},"consumers":{"rows":[],"more":0}}'):
            self.assertRaises(RemoteProtocolError, overview.told, bad)
        value = json.loads(overview.tell(Overview()))
        value["consumers"]["more"] = -1
        self.assertRaises(RemoteProtocolError, overview.told, json_dialect.dumps(value))
