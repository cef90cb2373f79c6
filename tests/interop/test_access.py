"""Users of our brokers: Java's clients and mqadmin sign, and may do what they may; the users outlive their master."""

from __future__ import annotations

import base64
import datetime
import json
import os
import random
import signal
import ssl
import subprocess
import sys
from pathlib import Path

from rocketha.access.signature import sign, signed
from rocketha.admin.pki import members
from rocketha.services.tls.authority import Authority
from rocketha.wire.codes import PrivateCode

from .harness import InteropCase, JavaClient, OurCluster, jars, mqadmin, remoting
from .harness.clients import scratch
from .harness.foreign import Cpp, Go, Node
from .harness.processes import wait_until
from .test_identities import children

ROOT, ANN = ("root", "root-secret"), ("ann", "ann-secret")
REQUESTS = 10_000
LETTERS = "abcXYZ019 _-%|\x01\x02\u00fc\u4e2d\uff61\U0001f600\ud83d\ue000"
UNSIGNED = b"check signature failed."
GET_BROKER_CLUSTER_INFO, CREATE_TOPIC = 106, 17
CREATE_USER, UPDATE_USER, CREATE_ACL, UPDATE_ACL = 3001, 3002, 3006, 3007


def flags_of(user: tuple[str, str], *more: str) -> tuple[str, ...]:
    return (f"-Drocketha.user={user[0]}:{user[1]}", *more)


def keys(folder: Path) -> dict[str, object]:
    """Of a broker with a Super user."""
    secret = folder / "accounts-secret"
    if not secret.exists():
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
    user = json.dumps({"username": ROOT[0], "password": ROOT[1]})
    return {
        "authenticationEnabled": True,
        "authorizationEnabled": True,
        "authSecretFile": secret,
        "initAuthenticationUser": user,
    }


def config_file(folder: Path) -> Path:
    path = folder / "broker.conf"
    path.write_text(
        "".join(f"{key}={str(value).lower() if value is True else value}\n" for key, value in keys(folder).items())
    )
    path.chmod(0o600)
    return path


def ask(
    address: str, code: int, fields: dict[str, str], who: tuple[str, str] = ROOT, body: bytes = b""
) -> remoting.Reply:
    given = {**fields, "AccessKey": who[0]}
    given["Signature"] = sign(who[1], signed(given, body))
    return remoting.call(address, code, given, body)


class Signatures(InteropCase):
    """The Java client's hook and ours sign alike."""

    def test_ten_thousand(self) -> None:
        seed = int.from_bytes(os.urandom(4))
        chance = random.Random(seed)

        def text(most: int) -> str:
            found = "".join(chance.choices(LETTERS, k=chance.randint(0, most)))
            return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # as Java reads the line

        rows = []
        for _ in range(REQUESTS):
            fields = {text(8): text(30) for _ in range(chance.randint(0, 9))}
            rows.append(
                {
                    "user": text(8) or "u",
                    "secret": text(20) or "s",
                    "token": chance.choice((None, "token")),
                    "fields": fields,
                    "body": base64.b64encode(chance.randbytes(chance.choice((0, 1, 50)))).decode(),
                }
            )
        command = jars.java_command("Signing", heap_mb=256, home=scratch("signing"), quick=True, sources=jars.SOURCES)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True)
        theirs = [line for line in done.stdout.splitlines() if "|-" not in line]
        self.assertEqual(len(theirs), REQUESTS, done.stderr[-2000:])
        for row, found in zip(rows, theirs, strict=True):
            fields = {**row["fields"], "AccessKey": row["user"]} | ({"SecurityToken": "token"} if row["token"] else {})
            ours = sign(row["secret"], signed(fields, base64.b64decode(row["body"])))
            self.assertEqual(ours, found, f"seed {seed}: {row}")
        sys.stderr.write(f"{REQUESTS} requests signed alike\n")


class Users(InteropCase):
    """A broker alone, administered by mqadmin."""

    def test_clients_and_mqadmin(self) -> None:
        folder = self.subfolder("cluster")
        cluster = self.use(OurCluster(folder, config=config_file(folder)))
        namesrv, broker = cluster.namesrv_address, cluster.address

        def admin(*words: str, user: tuple[str, str] = ROOT) -> str:
            return mqadmin(namesrv, *words, "-b", broker, user=user)

        self.assertIn("success", admin("createUser", "-u", "ann", "-p", ANN[1], "-t", "Normal"))
        self.assertIn(
            "success", admin("createAcl", "-s", "User:ann", "-r", "Topic:ok*", "-a", "Pub,Sub", "-d", "Allow")
        )
        entries = [{"resource": "Group:*", "actions": ["Sub"], "decision": "Allow"}]
        body = json.dumps({"policies": [{"entries": entries}]}).encode()
        self.assertEqual(ask(broker, UPDATE_ACL, {"subject": "User:ann"}, body=body).code, 0)
        shown = admin("listUser") + admin("getAcl", "-s", "User:ann")
        for words in ("ann", "Normal", "root", "Super", "Topic:ok*", "Group:*"):
            self.assertIn(words, shown)
        self.assertNotIn(ANN[1], shown)
        self.assertIn("no permission", admin("createUser", "-u", "eve", "-p", "x", "-t", "Super", user=ANN))

        client = self.use(JavaClient(namesrv, folder=self.subfolder("ann"), flags=flags_of(ANN)))
        client.producer()
        sent = client.send("okTopic", "async", 300, prefix="ok")
        client.consume("reader", "okTopic")
        received = {each["key"] for each in client.await_received("reader", len(sent), 60)}
        self.assertEqual(received, {each["key"] for each in sent})
        self.assertEqual(client.send("otherTopic", "sync", 2, prefix="no", allow_errors=True), [])
        self.assertIn("no permission to access Topic:otherTopic", str(client.send_errors("no")))
        for name, flags in (("nobody", ()), ("forged", flags_of(("ann", "guess")))):
            stranger = self.use(JavaClient(namesrv, name, folder=self.subfolder(name), flags=flags))
            stranger.producer()
            self.assertEqual(stranger.send("okTopic", "sync", 1, prefix=name, allow_errors=True), [])
        off = json.dumps({"userStatus": "disable"}).encode()
        self.assertEqual(ask(broker, UPDATE_USER, {"username": "ann"}, body=off).code, 0)
        self.assertEqual(client.send("okTopic", "sync", 1, prefix="off", allow_errors=True), [])
        self.assertIn("is disabled", str(client.send_errors("off")))
        self.assertIn("success", admin("deleteUser", "-u", "ann"))
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix not in (".conf",):
                for secret in (ANN[1], ROOT[1]):
                    self.assertNotIn(secret.encode(), path.read_bytes(), path)
        command_lines = Path(f"/proc/{cluster.pid}/cmdline").read_bytes()
        self.assertNotIn(ROOT[1].encode(), command_lines)


PLAIN_ADMIN, PLAIN_ANN = ("admin-01", "admin-secret"), ("ann-0001", "ann-plain-secret")
PLAIN = """
{white}
accounts:
- {{accessKey: admin-01, secretKey: admin-secret, admin: true}}
- accessKey: ann-0001
  secretKey: {secret}
  defaultGroupPerm: SUB
  topicPerms: [okTopic=PUB|SUB, {more}=PUB|SUB, deniedTopic=DENY]
"""


class PlainAcl(InteropCase):
    """Accounts of ACL 1 at a broker alone: Java's client and mqadmin sign with them, as they do at Java's brokers."""

    def write(self, folder: Path, white: str = "", more: str = "otherTopic", secret: str = PLAIN_ANN[1]) -> Path:
        path, new = folder / "conf" / "plain_acl.yml", folder / "new"
        path.parent.mkdir(exist_ok=True)
        new.write_text(PLAIN.format(white=white, more=more, secret=secret))
        new.chmod(0o600)
        new.rename(path)
        return path

    def cluster(self, **given: object) -> OurCluster:
        folder = self.subfolder("cluster")
        self.write(folder)
        lines = {"rocketmqHome": folder, **given}
        conf = folder / "broker.conf"
        conf.write_text(
            "".join(f"{key}={str(value).lower() if value is True else value}\n" for key, value in lines.items())
        )
        conf.chmod(0o600)
        return self.use(OurCluster(folder, config=conf))

    def test_clients_and_reload(self) -> None:
        cluster = self.cluster(aclEnable=True)
        namesrv, broker, folder = cluster.namesrv_address, cluster.address, self.subfolder("cluster")

        def admin(*words: str, user: tuple[str, str] | None = PLAIN_ADMIN) -> str:
            return mqadmin(namesrv, *words, "-b", broker, user=user)

        self.assertIn("success", admin("updateTopic", "-t", "okTopic", "-r", "4", "-w", "4"))
        self.assertIn("no permission", admin("updateTopic", "-t", "evil", user=PLAIN_ANN))
        client = self.use(JavaClient(namesrv, folder=self.subfolder("ann"), flags=flags_of(PLAIN_ANN)))
        client.producer()
        sent = client.send("okTopic", "async", 300, prefix="ok")
        client.consume("reader", "okTopic")
        received = {each["key"] for each in client.await_received("reader", len(sent), 60)}
        self.assertEqual(received, {each["key"] for each in sent})
        self.assertEqual(client.send("deniedTopic", "sync", 1, prefix="no", allow_errors=True), [])
        self.assertIn("no permission to access Topic:deniedTopic", str(client.send_errors("no")))
        self.assertEqual(client.send("laterTopic", "sync", 1, prefix="early", allow_errors=True), [])
        strangers = {}
        for name, flags in (("nobody", ()), ("forged", flags_of(("ann-0001", "guess-guess")))):
            stranger = strangers[name] = self.use(JavaClient(namesrv, name, folder=self.subfolder(name), flags=flags))
            stranger.producer()
            self.assertEqual(stranger.send("okTopic", "sync", 1, prefix=name, allow_errors=True), [])

        self.write(folder, more="laterTopic", white="globalWhiteRemoteAddresses: [127.0.0.1]")
        tries = iter(range(1000))

        def later() -> bool:
            """The client is the same, on the same connection."""
            self.tried = f"later{next(tries)}-"
            return bool(client.send("laterTopic", "sync", 1, prefix=self.tried, allow_errors=True))

        wait_until("the changed file to count", later, 30)
        self.assertEqual(len(strangers["nobody"].send("okTopic", "sync", 5, prefix="white")), 5)
        self.assertIn("username cannot be null", admin("updateTopic", "-t", "evil", user=None))
        (folder / "conf" / "plain_acl.yml").write_text("accounts: [")
        wait_until("the broken file to be seen", lambda: "the old rules stay" in cluster.log_path.read_text(), 30)
        self.assertTrue(later())
        self.write(folder, more="laterTopic", secret="another-secret")
        wait_until("the old secret to be refused", lambda: not later(), 30)
        self.assertIn("check signature failed", str(client.send_errors(self.tried)))
        for secret in (PLAIN_ADMIN[1], PLAIN_ANN[1], "another-secret"):
            self.assertNotIn(secret, cluster.log_path.read_text())

    def test_migration(self) -> None:
        folder = self.subfolder("cluster")
        cluster = self.cluster(migrateAuthFromV1Enabled=True, **keys(folder))
        namesrv, broker = cluster.namesrv_address, cluster.address
        wait_until(
            "the accounts to be users", lambda: "new are 2: admin-01, ann-0001" in cluster.log_path.read_text(), 30
        )
        shown = mqadmin(namesrv, "listUser", "-b", broker, user=PLAIN_ADMIN)
        for words in ("ann-0001", "Normal", "admin-01", "Super"):
            self.assertIn(words, shown)
        self.assertNotIn(PLAIN_ANN[1], shown)
        shown = mqadmin(namesrv, "getAcl", "-s", "User:ann-0001", "-b", broker, user=ROOT)
        for words in ("Topic:okTopic", "Topic:deniedTopic", "Deny", "Group:*", "Default"):
            self.assertIn(words, shown)
        client = self.use(JavaClient(namesrv, folder=self.subfolder("ann"), flags=flags_of(PLAIN_ANN)))
        client.producer()
        self.assertEqual(len(client.send("okTopic", "sync", 20, prefix="ok")), 20)
        self.assertEqual(client.send("deniedTopic", "sync", 1, prefix="no", allow_errors=True), [])
        for path in (folder / "data").rglob("*"):
            if path.is_file():
                self.assertNotIn(PLAIN_ANN[1].encode(), path.read_bytes(), path)


class Foreign(InteropCase):
    """Clients of other languages log in, and may do what they may."""

    def test_each(self) -> None:
        folder = self.subfolder("cluster")
        cluster = self.use(OurCluster(folder, config=config_file(folder)))
        body = json.dumps({"password": ANN[1]}).encode()
        self.assertEqual(ask(cluster.address, CREATE_USER, {"username": "ann"}, ROOT, body).code, 0)
        entries = [{"resource": "Topic:ok*", "actions": ["Pub", "Sub"], "decision": "Allow"}]
        entries += [{"resource": "Group:*", "actions": ["Sub"], "decision": "Allow"}]
        body = json.dumps({"policies": [{"entries": entries}]}).encode()
        self.assertEqual(ask(cluster.address, CREATE_ACL, {"subject": "User:ann"}, ROOT, body).code, 0)
        for topic in ("okTopic", "otherTopic"):
            fields = {
                "topic": topic,
                "defaultTopic": "TBW102",
                "readQueueNums": "4",
                "writeQueueNums": "4",
                "perm": "6",
            }
            fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
            self.assertEqual(ask(cluster.address, CREATE_TOPIC, fields).code, 0)
        for kind in (Go, Node, Cpp):
            with self.subTest(kind.title):
                name = kind.__name__.lower()
                client = self.use(kind(cluster.namesrv_address, self.subfolder(name), ANN))
                client.await_sends("okTopic", f"{name}-first", 60)
                sent = client.send("okTopic", "sync", 20, prefix=name)
                client.consume("push", "push", "okTopic")
                client.await_keys("push", {each["key"] for each in sent}, 60)
                with self.assertRaises(AssertionError):
                    client.send("otherTopic", "sync", 1, prefix=f"{name}-no")
                self.assertIn(b"no permission to access Topic:otherTopic", self.connections(cluster))
                forged = self.use(kind(cluster.namesrv_address, self.subfolder(f"{name}-forged"), ("ann", "guess")))
                before, tries = self.connections(cluster).count(UNSIGNED), iter(range(1000))

                def refused() -> bool:
                    """A client first has to find the topic's route."""
                    with self.assertRaises(AssertionError):
                        forged.send("okTopic", "sync", 1, prefix=f"{name}-forged{next(tries)}")  # noqa: B023
                    return self.connections(cluster).count(UNSIGNED) > before  # noqa: B023

                wait_until(f"a forged signature of {kind.title} to be refused", refused, 60)

    def connections(self, cluster: OurCluster) -> bytes:
        """Those of the broker, each with what was refused on it last."""
        return ask(cluster.address, PrivateCode.CLIENTS, {}).body


class Failover(InteropCase):
    """Three replicas with identities: users are the group's."""

    def test_a_new_user_outlives_the_master(self) -> None:
        folder, pki = self.subfolder("cluster"), self.folder / "pki"
        now = datetime.datetime.now(datetime.UTC)
        authority = Authority.make(str(pki), "ours", now, 10)
        for name, who in members("DefaultCluster", "broker-a", 3, 3).items():
            authority.issue(name, ("127.0.0.1", "localhost"), who, now, 5)
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "operator.crt", pki / "operator.key")
        remoting.tls = context
        self.addCleanup(setattr, remoting, "tls", None)
        cluster = self.use(OurCluster(folder, brokers=3, controllers=3, tls=pki, config=config_file(folder)))
        brokers = [f"127.0.0.1:{cluster.port + 10 * number}" for number in range(3)]

        def master() -> str:
            """As the nameserver knows it: who registered as 0."""
            table = remoting.loads(remoting.call(cluster.namesrv_address, GET_BROKER_CLUSTER_INFO).body)
            return str(table["brokerAddrTable"]["broker-a"]["brokerAddrs"].get("0", ""))

        first = wait_until("a master", master, 30)
        everybody = "in sync: broker-1, broker-2, broker-3"
        wait_until("all replicas to be in sync", lambda: everybody in cluster.log_path.read_text(), 30)
        plain = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        remoting.tls = plain  # a client's: no identity
        body = json.dumps({"password": ANN[1], "userType": "Super"}).encode()
        self.assertEqual(ask(first, CREATE_USER, {"username": "ann"}, ROOT, body).code, 0)
        port = first.rsplit(":", 1)[1]
        (pid,) = (pid for pid, words in children(cluster.pid) if f"listenPort={port}" in words)
        os.kill(pid, signal.SIGKILL)

        def logs_in() -> str:
            """At whoever is master now, which says that it made another user."""
            for address in brokers:
                if address != first:
                    try:
                        said = ask(address, CREATE_USER, {"username": "bob"}, ANN, body)
                    except OSError:
                        continue
                    if said.code == 0:
                        return address
            return ""

        wait_until("a master that knows ann", logs_in, 30)
        flags = tuple(
            f"-Dtls.{key}={value}"
            for key, value in {
                "enable": "true",
                "test.mode.enable": "false",
                "client.authServer": "true",
                "client.trustCertPath": pki / "ca.crt",
            }.items()
        )
        client = self.use(
            JavaClient(cluster.namesrv_address, folder=self.subfolder("ann"), flags=flags_of(ANN, *flags))
        )
        client.producer()
        sent = client.send("Kept", "sync", 100, prefix="kept")
        client.consume("reader", "Kept")
        self.assertEqual(len(client.await_received("reader", 100, 60)), len(sent))
