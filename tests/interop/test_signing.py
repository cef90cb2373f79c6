"""Our own commands and brokers sign what they ask: Java's brokers and ours let them in, and nobody sends it again."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from rocketha.access.signer import Credentials, Signer
from rocketha.admin.pki import members
from rocketha.services.process.platform import new_nonce
from rocketha.services.tls.authority import Authority

from .harness import InteropCase, JavaBroker, OurCluster, mqadmin, remoting
from .harness.clients import scratch
from .harness.controllers import GROUP, ReplicaGroup
from .harness.learners import OurLearner
from .harness.pairs import ClassicPair, await_equal
from .harness.processes import wait_until
from .harness.roles import NAMESRVS, our_environment
from .test_access import ANN, GET_BROKER_CLUSTER_INFO, ROOT, ask, config_file
from .test_identities import children
from .test_metadata import fill, send_fields, tables

INNER = ("inner", "inner-secret")
TOPICS = 30
PROVIDERS = {
    f"{half}MetadataProvider": f"org.apache.rocketmq.auth.{half}.provider.Local{half.capitalize()}MetadataProvider"
    for half in ("authentication", "authorization")
}
JAVA_USERS: dict[str, object] = {
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    **PROVIDERS,
    "initAuthenticationUser": f'{{"username":"{ROOT[0]}","password":"{ROOT[1]}"}}',
}
PATIENCE_S = 90


def inner(user: tuple[str, str]) -> dict[str, object]:
    return {"innerClientAuthenticationCredentials": f'{{"accessKey":"{user[0]}","secretKey":"{user[1]}"}}'}


def tools_file(user: tuple[str, str]) -> Path:
    path = scratch("tools") / "tools.yml"
    path.write_text(f"accessKey: {user[0]}\nsecretKey: {user[1]}\n")
    path.chmod(0o600)
    return path


def rocketha(user: tuple[str, str] | None, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as somebody, to its end."""
    more = () if user is None else ("--credentials", str(tools_file(user)))
    return subprocess.run(
        [sys.executable, "-m", "rocketha.admin.cli", *words, *more],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=our_environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )


class Tap:
    """Between a client and a server: passes all on, and keeps what the client said.

    :param replaced: texts of the same length in what the server says, in place of others.
    """

    def __init__(self, server: str, replaced: dict[bytes, bytes] | None = None) -> None:
        host, port = server.rsplit(":", 1)
        self._server = host, int(port)
        self._replaced = replaced or {}
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.said = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            for source, sink, keeps in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._carry, args=(source, sink, keeps), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, keeps: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if keeps:
                    self.said += data
                else:
                    for old, new in self._replaced.items():
                        data = data.replace(old, new)
                sink.sendall(data)
        except OSError:
            pass
        finally:
            source.close()
            sink.close()

    def frames(self) -> list[bytes]:
        found, at = [], 0
        while at < len(self.said):
            (size,) = struct.unpack_from(">i", self.said, at)
            found.append(self.said[at : at + 4 + size])
            at += 4 + size
        return found

    def close(self) -> None:
        self._socket.close()


def say(address: str, frame: bytes) -> remoting.Reply:
    """A captured frame, and what is answered."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as there:
        there.sendall(frame)
        return remoting.read_reply(there)


class CommandCase(InteropCase):
    """``rocketha`` with a broker that demands users."""

    namesrv = broker = ""

    def setUp(self) -> None:
        self.addCleanup(setattr, remoting, "user", None)

    def use_commands(self) -> None:
        """As an operator, as a user with some rights, and as who is none."""
        done = rocketha(ROOT, "send", "okTopic", "first", "second", "-n", self.namesrv, "--timeout", "20")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("SEND_OK"), 2)
        words = ("receive", "okTopic", "-n", self.namesrv, "--from", "first", "--count", "2", "--group", "reader")
        done = rocketha(ROOT, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("first", done.stdout)
        self.assertIn("second", done.stdout)
        done = rocketha(ROOT, "clients", "-n", self.namesrv)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for words in (
            ("createUser", "-u", ANN[0], "-p", ANN[1], "-t", "Normal"),
            ("createAcl", "-s", "User:ann", "-r", "Topic:ok*", "-a", "Pub", "-d", "Allow"),
        ):
            self.assertIn("success", mqadmin(self.namesrv, *words, "-b", self.broker, user=ROOT))
        self.assertEqual(rocketha(ANN, "send", "okTopic", "third", "-n", self.namesrv).returncode, 0)
        done = rocketha(ANN, "send", "otherTopic", "x", "-n", self.namesrv)
        self.assertEqual(done.returncode, 1)
        self.assertIn("User:ann has no permission to access Topic:otherTopic", done.stderr)
        for user, why in ((None, "username cannot be null"), (("ann", "guess"), "check signature failed")):
            done = rocketha(user, "send", "okTopic", "x", "-n", self.namesrv)
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)
            self.assertNotIn("guess", done.stderr)

    def captured_send(self) -> bytes:
        """Send through a tap; the frame of the send."""
        between = Tap(self.broker)
        self.addCleanup(between.close)
        port = self.broker.rsplit(":", 1)[1].encode()
        self.assertEqual(len(port), len(str(between.port)))
        names = Tap(self.namesrv, {b":" + port: b":%d" % between.port})
        self.addCleanup(names.close)
        done = rocketha(ROOT, "send", "okTopic", "captured", "-n", names.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        (frame,) = [each for each in between.frames() if each.endswith(b"captured")]
        self.assertIn(b"rocketha/1 310 ", frame)
        return frame


class WithJava(CommandCase):
    """Java's broker, and its nameserver."""

    def test_commands(self) -> None:
        namesrv = self.use(NAMESRVS["java"]("namesrv", self.subfolder("namesrv")))
        remoting.user = ROOT
        broker = self.use(JavaBroker(self.subfolder("broker"), namesrv, JAVA_USERS))
        self.namesrv, self.broker = namesrv.address, broker.address
        self.use_commands()
        frame = self.captured_send()
        self.assertEqual(say(self.broker, frame).code, 0)  # it does not know stamps


class WithOurs(CommandCase):
    """Ours."""

    def test_commands(self) -> None:
        folder = self.subfolder("cluster")
        cluster = self.use(OurCluster(folder, config=config_file(folder)))
        self.namesrv, self.broker = cluster.namesrv_address, cluster.address
        self.use_commands()
        frame = self.captured_send()
        for bad, why in (
            (frame, "this request was sent before."),
            (frame.replace(b'"code":310', b'"code":215'), "signed as a request 310, sent as 215."),
            (frame.replace(b'"0Stamp"', b'"0Other"'), "signed with other fields."),
        ):
            reply = say(self.broker, bad)
            self.assertEqual((reply.code, reply.remark), (16, why))
        frame = self.captured_send()
        fields = {"topic": "okTopic", "queueId": "0"}
        stored = [int(ask(self.broker, 30, {**fields, "queueId": str(number)}).fields["offset"]) for number in range(4)]
        self.assertEqual(sum(stored), 5)
        cluster.stop()
        cluster.start()
        reply = say(self.broker, frame)
        self.assertEqual(reply.code, 2)
        self.assertIn("before this broker began to serve", str(reply.remark))


class Slave(InteropCase):
    """Ours, of a Java master that demands users."""

    def test_tables(self) -> None:
        self.addCleanup(setattr, remoting, "user", None)
        remoting.user = ROOT
        pair = ClassicPair(("java", "ours"), self.subfolder("pair"), extra={"timerWheelEnable": True})
        pair.master.extra |= {**JAVA_USERS, **inner(INNER)}
        pair.slave.extra |= inner((INNER[0], "guess"))
        for process in pair.processes:
            self.use(process)
        pair.await_linked()
        fill(pair.master, TOPICS)
        refused = "check signature failed"
        wait_until("the slave to be refused", lambda: refused in pair.slave.log_path.read_text(), PATIENCE_S)
        self.assertNotEqual(tables(pair.slave), tables(pair.master))
        pair.slave.stop()
        pair.slave.extra |= inner(INNER)
        pair.slave.start()
        wait_until("the master's tables", lambda: tables(pair.slave) == tables(pair.master), PATIENCE_S)
        found = tables(pair.slave)
        self.assertEqual(len(found["topics"]), TOPICS)
        self.assertEqual(found["offsets"]["zMade00004@zMade00001"]["0"], 2)
        folder = self.subfolder("learner")
        learner = self.use(OurLearner(folder, pair.namesrv.address, GROUP, extra=inner(INNER)))
        learner.await_exported(await_equal([pair.master]))
        path = folder / "store" / "config" / "consumerOffset.json"
        self.assertIn("zMade00004@zMade00001", path.read_text())


class Group(InteropCase):
    """Three replicas of ours, which pass on what a stale client sends: nothing is stored twice by that."""

    def test_through_another_replica(self) -> None:
        folder, pki = self.subfolder("cluster"), self.folder / "pki"
        now = datetime.datetime.now(datetime.UTC)
        authority = Authority.make(str(pki), "ours", now, 10)
        for name, who in members("DefaultCluster", "broker-a", 3, 3).items():
            authority.issue(name, ("127.0.0.1", "localhost"), who, now, 5)
        self.addCleanup(setattr, remoting, "tls", None)
        plain, operator = (ssl.create_default_context(cafile=str(pki / "ca.crt")) for _ in range(2))
        operator.load_cert_chain(pki / "operator.crt", pki / "operator.key")
        remoting.tls = operator
        cluster = self.use(OurCluster(folder, brokers=3, controllers=3, tls=pki, config=config_file(folder)))
        brokers = [f"127.0.0.1:{cluster.port + 10 * number}" for number in range(3)]
        everybody = "in sync: broker-1, broker-2, broker-3"
        wait_until("all replicas to be in sync", lambda: everybody in cluster.log_path.read_text(), 30)

        def master() -> str:
            table = remoting.loads(remoting.call(cluster.namesrv_address, GET_BROKER_CLUSTER_INFO).body)
            return str(table["brokerAddrTable"]["broker-a"]["brokerAddrs"].get("0", ""))

        def send(address: str, fields: dict[str, str]) -> int:
            remoting.tls = plain  # a client's: no identity
            try:
                return remoting.call(address, 310, fields, b"body", timeout_s=10).code
            finally:
                remoting.tls = operator

        def fresh() -> dict[str, str]:
            return signer.sign(310, send_fields("okTopic", ""), b"body")

        def stored(address: str) -> int:
            return int(ask(address, 30, {"topic": "okTopic", "queueId": "0"}).fields["offset"])

        signer = Signer(Credentials(*ROOT), lambda: time.time_ns() // 1_000_000, new_nonce)
        first = wait_until("a master", master, 30)
        one, other = (address for address in brokers if address != first)
        direct, passed_on = fresh(), fresh()
        self.assertEqual(send(first, direct), 0)
        self.assertEqual(send(one, passed_on), 0)
        for address in (one, other, first):
            for frame in (direct, passed_on):
                self.assertEqual(send(address, frame), 16)
        unseen = fresh()  # by the other two
        self.assertEqual(send(first, unseen), 0)
        self.assertEqual(stored(first), 3)
        port = first.rsplit(":", 1)[1]
        (pid,) = (pid for pid, words in children(cluster.pid) if f"listenPort={port}" in words)
        os.kill(pid, signal.SIGKILL)
        wait_until("another master", lambda: send(one, fresh()) == 0 and master() in (one, other), 30)
        for address in (one, other):
            for frame in (direct, passed_on):
                self.assertIn(send(address, frame), (2, 16))
        for address in (one, other):
            self.assertEqual(send(address, unseen), 2)
        there = master()
        before = stored(there)
        self.assertEqual(send(other if there == one else one, fresh()), 0)
        self.assertEqual(stored(there), before + 1)


class Elected(InteropCase):
    """A replica of ours beside a Java master that demands users, under Java's controllers and nameserver."""

    def test_a_master_of_ours(self) -> None:
        self.addCleanup(setattr, remoting, "user", None)
        remoting.user = ROOT
        group = ReplicaGroup("java", self.subfolder("group"), count=2, controllers=1, kinds=("java", "ours"))
        javas, ours = group.brokers
        javas.extra |= {**JAVA_USERS, **inner(INNER)}
        ours.extra |= inner(INNER)
        for process in group.processes:
            self.use(process, start=False)
        group.start(first=True)
        fill(javas, TOPICS)
        wait_until("the master's tables", lambda: tables(ours) == tables(javas), PATIENCE_S)
        javas.kill()
        wait_until("ours to be master", ours.masterships, PATIENCE_S)
