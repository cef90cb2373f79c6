"""Several classic pairs under one nameserver: each is a group of its own (S1.1)."""

from __future__ import annotations

import json

from rocketha.simulation.host import Host
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Command
from tests.services.broker_case import records
from tests.services.replication_case import NAMESERVER_PORT, PORT, ReplicationCase

GROUPS = ("one", "two", "three")


class PairsTests(ReplicationCase):
    """Three pairs; a slave learns where its master is by the name they share, from the nameserver."""

    def setUp(self) -> None:
        super().setUp()
        self.names = self.nameserver()
        keys = f"namesrvAddr={self.names.address}:{NAMESERVER_PORT}\nregisterNameServerPeriod=10000\n"
        slave = f"{keys}brokerRole=SLAVE\nbrokerId=1\nslaveReadEnable=true\nautoCreateSubscriptionGroup=true\n"
        # Slaves and masters mixed, so that no slave's own master is the one that came last.
        self.slaves = {name: self.broker(f"{name}-slave", f"{slave}brokerName={name}") for name in GROUPS}
        self.masters = {name: self.broker(f"{name}-master", f"{keys}brokerName={name}") for name in GROUPS}
        for name in GROUPS:
            self.until(f"{name} has a link", lambda name=name: self.linked(name), 40.0)  # type: ignore[misc]

    def linked(self, name: str) -> bool:
        """Whether a slave is connected."""
        return not self.service(self.slaves[name]).broker.replication.following.problem

    def pair(self, name: str) -> tuple[Host, Host]:
        """Master and slave."""
        return self.masters[name], self.slaves[name]

    def fill(self, rounds: int) -> None:
        """Other messages, and another number of them, to each master."""
        for number, name in enumerate(GROUPS):
            for round_ in range(rounds * (number + 1)):
                self.assertEqual(self.send(self.masters[name], b"%s %d" % (name.encode(), round_)), 0)
        for name in GROUPS:
            self.until(f"{name} is level", lambda name=name: self.level(*self.pair(name)))  # type: ignore[misc]

    def bodies(self, host: Host) -> list[bytes]:
        """All of queue 0."""
        return [message.body for message in records(self.pull(host))]

    def route(self) -> dict[str, dict[str, str]]:
        """The brokers of topic T as the nameserver tells clients."""
        assert self.client_host.process is not None
        client = self.client_host.process.service
        where = f"{self.names.address}:{NAMESERVER_PORT}"
        asked = client.request(where, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, b"", 10.0)
        self.world.scheduler.flush()
        answer: Command = self.await_(asked)
        self.assertEqual(answer.code, 0)
        return {each["brokerName"]: each["brokerAddrs"] for each in json.loads(answer.body)["brokerDatas"]}

    def test_each_slave_has_its_masters_log(self) -> None:
        """Byte by byte, and nobody else's."""
        self.fill(3)
        for number, name in enumerate(GROUPS):
            master, slave = self.pair(name)
            self.same_logs(master, slave)
            expected = [b"%s %d" % (name.encode(), round_) for round_ in range(3 * (number + 1))]
            self.assertEqual(self.bodies(master), expected)
            status = self.service(slave).broker.replication
            self.assertEqual(status.master_address, f"{master.address}:{PORT}")

    def test_the_route_has_all(self) -> None:
        """Each group with its master as 0 and its slave as 1."""
        self.fill(1)
        self.until("the route is whole", lambda: len(self.route()) == len(GROUPS), 40.0)
        told = {
            name: {str(number): f"{host.address}:{PORT}" for number, host in enumerate(self.pair(name))}
            for name in GROUPS
        }
        self.assertEqual(self.route(), told)

    def test_one_pair_is_down(self) -> None:
        """The others take messages and copy them meanwhile; it goes on when it is back."""
        self.fill(2)
        master, slave = self.pair("two")
        master.kill()
        self.run_for(1.0)
        for name in ("one", "three"):
            self.assertEqual(self.send(self.masters[name], b"meanwhile"), 0)
            self.until("level", lambda name=name: self.level(*self.pair(name)), 1.0)  # type: ignore[misc]
            self.same_logs(*self.pair(name))
        self.assertEqual(self.bodies(slave), [b"two %d" % number for number in range(4)])
        self.restart(master)
        self.until("it has a link", lambda: self.linked("two"), 40.0)
        self.assertEqual(self.send(master, b"again"), 0)
        self.until("level", lambda: self.level(master, slave))
        self.assertEqual(self.bodies(slave)[-1], b"again")
