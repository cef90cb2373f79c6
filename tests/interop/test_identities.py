"""A group of ours whose processes have identities: it works, also for Java's clients, and strangers get nowhere.

A stranger is whoever reaches the ports: with no certificate, or with one that the cluster's authority gave to somebody
else (a client, a broker of another name, an operator where only brokers may ask).
"""

from __future__ import annotations

import datetime
import os
import signal
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from rocketha.access.identity import Identity, Part
from rocketha.access.routes import Asker, Route
from rocketha.broker import routes as broker_routes
from rocketha.controller import routes as controller_routes
from rocketha.namesrv import routes as namesrv_routes
from rocketha.services.tls.authority import Authority
from rocketha.wire import raft_frames
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.ha_frames import encode_slave_hello
from rocketha.wire.ha_values import SlaveHello
from rocketha.wire.spec import raft as spec

from .harness import InteropCase, JavaClient, OurCluster, mqadmin, remoting
from .harness.controllers import TOPIC, ReplicaGroup
from .harness.processes import wait_until
from .harness.roles import JavaBroker, JavaController

CLUSTER, NAME = "DefaultCluster", "broker-a"
HOSTS = ("127.0.0.1", "localhost")
FORGED = {
    "clusterName": CLUSTER,
    "brokerName": NAME,
    "brokerId": "1",
    "brokerAddr": "127.0.0.1:9",
    "brokerAddress": "127.0.0.1:9",
    "haServerAddr": "127.0.0.1:9",
    "appliedBrokerId": "9",
    "registerCheckCode": "127.0.0.1:9;1",
    "masterBrokerId": "1",
    "masterAddress": "127.0.0.1:9",
    "masterEpoch": "99",
    "syncStateSetEpoch": "99",
    "designateElect": "true",
    "topic": "Kept",
    "namespace": "n",
    "key": "k",
    "value": "v",
    "to": "n1",
    "remove": "n1",
}
"""What a stranger says, in the words of whoever may."""
SET = b'{"syncStateSet":[1],"syncStateSetEpoch":99}'


def children(parent: int) -> Iterator[tuple[int, list[str]]]:
    """The processes that another one started, and their command lines."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(stat.parent.name), (stat.parent / "cmdline").read_text().split("\0")
        except OSError:
            continue  # it is gone


class IdentityCase(InteropCase):
    """An authority, and certificates for everybody."""

    @classmethod
    def prepare(cls) -> None:
        cls.pki = cls.folder / "pki"
        now = datetime.datetime.now(datetime.UTC)
        cls.authority = Authority.make(str(cls.pki), "ours", now, 10)
        broker = [Identity(CLUSTER, Part.BROKER, NAME)]
        whole = {
            "cluster": [Identity(CLUSTER, Part.NAMESERVER, "cluster"), Identity(CLUSTER, Part.OPERATOR, "cluster")],
            "operator": [Identity(CLUSTER, Part.OPERATOR, "ann")],
            "client": [Identity(CLUSTER, Part.CLIENT, "shop")],
            "other": [Identity(CLUSTER, Part.BROKER, "broker-b")],
            "abroad": [Identity("OtherCluster", Part.BROKER, NAME), Identity("OtherCluster", Part.CONTROLLER, "n2")],
        }
        whole |= {f"broker-{number}": broker for number in (1, 2, 3)}
        whole["controller-0"] = [Identity(CLUSTER, Part.CONTROLLER, "n0")]
        whole |= {f"controller-{number}": [Identity(CLUSTER, Part.CONTROLLER, f"n{number}")] for number in (1, 2, 3)}
        for name, who in whole.items():
            cls.authority.issue(name, HOSTS, who, now, 5)
        remoting.tls = cls.context("operator")
        cls.addClassCleanup(setattr, remoting, "tls", None)

    @classmethod
    def context(cls, name: str | None = None) -> ssl.SSLContext:
        """How somebody speaks who has these files."""
        context = ssl.create_default_context(cafile=str(cls.pki / "ca.crt"))
        if name is not None:
            context.load_cert_chain(cls.pki / f"{name}.crt", cls.pki / f"{name}.key")
        return context

    def flags(self, name: str | None = None) -> tuple[str, ...]:
        """The same of a JVM."""
        flags = {"enable": "true", "test.mode.enable": "false", "client.authServer": "true"}
        flags["client.trustCertPath"] = str(self.pki / "ca.crt")
        if name is not None:
            flags |= {"client.certPath": str(self.pki / f"{name}.crt"), "client.keyPath": str(self.pki / f"{name}.key")}
        return tuple(f"-Dtls.{key}={value}" for key, value in flags.items())

    def ask(
        self, who: str | None, address: str, code: int, fields: Mapping[str, str] = FORGED, body: bytes = b""
    ) -> remoting.Reply:
        before, remoting.tls = remoting.tls, self.context(who)
        try:
            return remoting.call(address, code, dict(fields), body)
        finally:
            remoting.tls = before


class Identities(IdentityCase):
    """Three brokers, three controllers and a nameserver."""

    def test_everything(self) -> None:
        cluster = self.use(OurCluster(self.subfolder("cluster"), brokers=3, controllers=3, tls=self.pki))
        namesrv = cluster.namesrv_address
        controllers = [f"127.0.0.1:{cluster.controller_port + number}" for number in range(3)]
        client = self.use(JavaClient(namesrv, folder=self.subfolder("client"), flags=self.flags()))
        client.producer()
        sent = client.send("Kept", "sync", 200, prefix="before")

        said = self.ask("operator", controllers[0], RequestCode.CONTROLLER_GET_METADATA_INFO, {})
        leader = said.fields["controllerLeaderAddress"]
        state = self.ask("operator", leader, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, b'["broker-a"]').body
        routes = self.ask(None, namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Kept"}).body
        master = self.master(leader)
        strangers = (None, "client", "other", "abroad")
        for address, table in (
            (namesrv, namesrv_routes.ROUTES),
            (leader, controller_routes.ROUTES),
            (master, broker_routes.ROUTES),
        ):
            for who in strangers:
                self.turned_away(who, address, table)
        self.assertEqual(
            self.ask("operator", leader, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, b'["broker-a"]').body, state
        )
        self.assertEqual(self.ask(None, namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Kept"}).body, routes)
        for who in (None, "client", "other", "abroad", "operator", "controller-1"):
            self.assertEqual(self.copied(who, master), 0, f"{who} was shown the log")
        for who in (None, "client", "other", "abroad", "controller-1", "operator"):
            self.assertTrue(self.raft_refuses(who, controllers[0]), f"{who} passes for controller n2")

        self.assertIn(master, mqadmin(namesrv, "clusterList", flags=self.flags("operator")))
        self.kill_broker(cluster, master)
        wait_until("another master", lambda: self.master(self.leader(controllers)) not in (master, ""), 30)
        fresh = self.use(JavaClient(namesrv, "fresh", folder=self.subfolder("fresh"), flags=self.flags()))
        fresh.producer()
        sent += fresh.send("Kept", "sync", 200, prefix="after")
        client.consume("reader", "Kept")
        received = {each["key"] for each in client.await_received("reader", len(sent), 60)}
        self.assertEqual(received, {each["key"] for each in sent})

    def kill_broker(self, cluster: OurCluster, address: str) -> None:
        """The process of one, as its parent calls it by its port."""
        port = address.rsplit(":", 1)[1]
        (pid,) = (pid for pid, words in children(cluster.pid) if f"listenPort={port}" in words)
        os.kill(pid, signal.SIGKILL)

    def turned_away(self, who: str | None, address: str, table: Mapping[int, Route]) -> None:
        """Everything that is not for clients; but for what every member may know."""
        for code, route in table.items():
            if route.asker is Asker.CLIENT or route.claims is None:
                continue
            may = who == "other" and any(
                route.claims.holds(
                    Identity(CLUSTER, Part.BROKER, "broker-b"), (Identity("*", part, NAME),), FORGED, b""
                )
                for part in Part
            )
            if not may:
                reply = self.ask(who, address, code, body=SET)
                self.assertEqual(
                    reply.code, ResponseCode.NO_PERMISSION, f"{who} asks {route.name} of {address}: {reply}"
                )

    def leader(self, controllers: list[str]) -> str:
        for address in controllers:
            try:
                said = self.ask("operator", address, RequestCode.CONTROLLER_GET_METADATA_INFO, {})
            except OSError:
                continue
            if said.fields.get("controllerLeaderAddress"):
                return said.fields["controllerLeaderAddress"]
        return ""

    def master(self, leader: str) -> str:
        if not leader:
            return ""
        said = self.ask(
            "operator", leader, RequestCode.CONTROLLER_GET_REPLICA_INFO, {"clusterName": CLUSTER, "brokerName": NAME}
        )
        return said.fields.get("masterAddress", "")

    def copied(self, who: str | None, master: str) -> int:
        """How many bytes a stranger gets who greets the HA port as replica 2, from the begin of the log."""
        host, port = master.rsplit(":", 1)
        hello = encode_slave_hello(SlaveHello(2))
        got = 0
        with socket.create_connection((host, int(port) + 1), 5) as plain:
            plain.settimeout(3)
            try:
                with self.context(who).wrap_socket(plain, server_hostname=host) as sock:
                    sock.sendall(hello + struct.pack(">iq", 2, 0))
                    while data := sock.recv(65536):
                        got += len(data)
            except (TimeoutError, OSError):
                pass
        return got

    def raft_refuses(self, who: str | None, address: str) -> bool:
        """Whether a HELLO as controller n2 is refused for its certificate."""
        host, port = address.rsplit(":", 1)
        hello = raft_frames.Hello("group1", "n2", "n1", address, 7, False, b"", 1)
        with socket.create_connection((host, int(port)), 5) as plain:
            plain.settimeout(5)
            with self.context(who).wrap_socket(plain, server_hostname=host) as sock:
                sock.sendall(spec.MAGIC + raft_frames.seal(raft_frames.encode_hello(hello)))
                data = b""
                try:
                    while piece := sock.recv(65536):
                        data += piece
                except OSError:
                    pass
        return b"its certificate does not say" in data


class WithJava(IdentityCase):
    """Java's processes show certificates on remoting ports, as their ``tls.client.*`` properties say."""

    def group(self, controllers: str, replica: str) -> ReplicaGroup:
        """One replica under one controller of either kind, and a nameserver of ours, each with its identity."""

        def ours(name: str) -> dict[str, object]:
            return {"tls.config.file": self.pki / f"{name}.properties"}

        group = ReplicaGroup(
            controllers,
            self.folder / f"{controllers}-{replica}",
            count=1,
            controllers=1,
            extra=ours("broker-1") if replica == "ours" else {},
            controller_extra=ours("controller-0") if controllers == "ours" else {},
            kinds=(replica,),
            namesrv="ours",
        )
        assert group.namesrv is not None
        group.namesrv.extra |= ours("cluster")
        for role, name in ((group.brokers[0], "broker-1"), (group.controllers.nodes[0], "controller-0")):
            if isinstance(role, JavaBroker | JavaController):
                role.flags = self.javas(name)
        self.addCleanup(group.kill)
        group.start()
        return group

    def javas(self, name: str) -> tuple[str, ...]:
        """All of a Java server's: it takes and speaks nothing but TLS."""
        flags = {"config.file": "/nowhere", "server.mode": "enforcing", "server.need.client.auth": "none"}
        flags |= {"server.certPath": str(self.pki / f"{name}.crt"), "server.keyPath": str(self.pki / f"{name}.key")}
        return (*self.flags(name), *(f"-Dtls.{key}={value}" for key, value in flags.items()))

    def serves(self, group: ReplicaGroup) -> None:
        """It has a master, which clients find and send to, and a stranger changes nothing."""
        group.await_master()
        client = self.use(JavaClient(group.namesrv_addresses, folder=self.subfolder("client"), flags=self.flags()))
        client.producer()
        self.assertEqual(len(client.send(TOPIC, "sync", 50, prefix="java")), 50)

    def test_javas_broker_under_our_controller(self) -> None:
        group = self.group("ours", "java")
        self.serves(group)
        said = self.ask(None, group.controllers.nodes[0].address, RequestCode.CONTROLLER_REGISTER_BROKER)
        self.assertEqual(said.code, ResponseCode.NO_PERMISSION)
        said = self.ask("other", group.namesrv_addresses, RequestCode.REGISTER_BROKER)
        self.assertEqual(said.code, ResponseCode.NO_PERMISSION)

    def test_our_broker_under_javas_controller(self) -> None:
        group = self.group("java", "ours")
        self.serves(group)
        said = self.ask("other", group.brokers[0].address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED)
        self.assertEqual(said.code, ResponseCode.NO_PERMISSION)
