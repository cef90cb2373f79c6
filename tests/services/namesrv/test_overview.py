"""What a nameserver's page shows: who is registered, which topics, and no more."""

from __future__ import annotations

from rocketha.simulation.host import Host
from tests.services.events_case import events_of
from tests.services.replication_case import NAMESERVER_PORT, ReplicationCase


class OverviewTests(ReplicationCase):
    """A nameserver, a master and a slave."""

    def setUp(self) -> None:
        super().setUp()
        self.said = events_of(self)
        self.names = self.nameserver()
        address = f"namesrvAddr={self.names.address}:{NAMESERVER_PORT}\n"
        self.master = self.broker("m", f"brokerRole=SYNC_MASTER\nbrokerName=g\n{address}")
        settings = f"brokerRole=SLAVE\nbrokerId=1\nbrokerName=g\n{address}haMasterAddress={self.master.address}:10912\n"
        self.slave = self.broker("s", settings)
        self.until("both are registered", lambda: len(self.table().live) == 2)

    def table(self) -> object:
        assert self.names.process is not None
        return self.names.process.service.server.table

    def page(self, host: Host) -> object:
        assert host.process is not None
        return host.process.service.overview()

    def test_page(self) -> None:
        """Roles by ids; topics of clients only; nothing of logs, sets or lag."""
        self.send_many(self.master, 3)
        self.until("the topic is known", lambda: "T" in self.table().topics)
        found = self.page(self.names)
        (group,) = found.groups
        rows = [(each.broker_id, each.role, each.in_sync, each.end, each.lag_bytes) for each in group.replicas]
        self.assertEqual(rows, [(0, "master", None, None, None), (1, "slave", None, None, None)])
        self.assertEqual([(each.name, each.brokers, each.messages) for each in found.topics], [("T", ["g"], None)])
        self.assertEqual([each.state for each in found.processes], ["master", "slave"])
        self.assertEqual(found.consumers, ())

    def test_a_broker_that_leaves(self) -> None:
        """It is an event, with the reason, and is on the page no more."""
        self.stop(self.slave)
        self.until("it is gone", lambda: len(self.table().live) == 1)
        (gone,) = [each for each in self.said if each["event"] == "route.removed"]
        self.assertEqual((gone["broker"], gone["broker_id"]), ("DefaultCluster/g", 1))
        self.assertEqual(len(self.page(self.names).groups[0].replicas), 1)
        registered = [each["broker_id"] for each in self.said if each["event"] == "route.registered"]
        self.assertEqual(sorted(registered), [0, 1])
        self.assertEqual([each["event"] for each in self.said].count("namesrv.started"), 1)

    def test_a_classic_pair(self) -> None:
        """A master whose slaves say no ids; a slave that knows its master's port."""
        self.until("the link is there", lambda: self.page(self.master).groups[0].replicas[1:])
        own, linked = self.page(self.master).groups[0].replicas
        self.assertEqual((own.role, own.in_sync, linked.role, linked.broker_id), ("master", None, "slave", None))
        states = {each.kind: each.state for each in self.page(self.slave).processes}
        self.assertEqual(states, {"broker": "master", "nameserver": "registered"})
