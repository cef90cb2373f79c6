"""``rocketha bundle``: what is in it, and what must not be."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
from types import SimpleNamespace
from typing import Any

from twisted.internet import defer, reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase

from rocketha.admin import bundle, bundle_contents
from rocketha.admin.looking import Looker
from rocketha.errors import ConfigError
from rocketha.observe.http import StatusFactory
from rocketha.observe.metrics import Registry
from rocketha.simulation.host import Host
from rocketha.wire.codes import RequestCode
from tests.admin.doctor_case import DoctorCase
from tests.services.broker_case import heartbeat

KEY, LOGIN, RAFT = "keypass-4711-x", "login-0815-secret", "raft-secret-of-everybody"
TOKEN, PEM, PEER = "token-in-a-line-99", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "client-with-pw-77"
SECRETS = (KEY, LOGIN, RAFT, TOKEN, PEM, PEER)


class BundleTests(DoctorCase):
    """Of a whole cluster, and of a directory with secrets in each place where one may be."""

    def setUp(self) -> None:
        super().setUp()
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)
        self.here = self.work / "broker"
        for name, text in {
            "broker.conf": (
                f"brokerName=g\ntls.server.keyPassword={KEY}\n"
                f"raftSecretFile={self.work / 'raft.secret'}\n"
                'innerClientAuthenticationCredentials={"accessKey":"operator-name",'
                f'"secretKey":"{LOGIN}"}}\n'
            ),
            "log/broker-1": (
                f'{{"level":"info","message":"asked","password":"{TOKEN}"}}\n'
                f'{{"level":"info","message":"sent {KEY}"}}\n'
                f"12:00:00 info  token: {RAFT}\n"
            ),
            "old.log": f"-----BEGIN PRIVATE KEY-----\n{PEM}\n-----END PRIVATE KEY-----\nafter\n",
            "config/topics.json": json.dumps({"T": {"secret": TOKEN}}),
            "commitlog/00000000000000000000": "messages of customers",
            "server.key": PEM,
            "plain_acl.yml": f"secretKey: {LOGIN}",
        }.items():
            path = self.here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.work / "raft.secret").write_text(f"{RAFT}\n")
        os.symlink(self.work / "raft.secret", self.here / "link.log")
        (self.here / "binary.log").write_bytes(b"\0\1\2")

    def collected(self, *directories: str) -> dict[str, str]:
        """What would be packed."""
        return dict(self.raw(*directories).redacted())

    def raw(self, *directories: str) -> bundle_contents.Collected:
        """The same with its secrets."""
        process = self.client_host.process
        assert process is not None
        reactor = process.reactor
        looker = Looker(process.service, reactor, lambda: int(reactor.wall() * 1000), 0.0)
        names, controllers = list(map(self.namesrv, self.names)), list(map(self.controller, self.controllers))

        class Connected:
            """As the command has it, on the operator's host."""

            def __init__(self) -> None:
                self.client, self.reactor = process.service, reactor

            async def look(self, args: Any, pause_s: float = 0.0) -> Any:
                return await looker.picture(names, controllers)

        args: Any = SimpleNamespace(directory=directories, http=())
        connected: Any = Connected()
        waiting: Deferred[Any] = Deferred.fromCoroutine(bundle.collect(connected, args))
        self.world.scheduler.flush()
        found: bundle_contents.Collected = self.await_(waiting, 60.0)
        return found

    def leak(self, master: Host) -> None:
        """Peers say secrets, too: a client's id, and what was refused."""
        name = f"secretKey={PEER}"
        self.ask(master, RequestCode.HEART_BEAT, body=heartbeat(name, "G", "T"))
        self.ask(master, RequestCode.UPDATE_BROKER_CONFIG, {}, f"password={PEER}".encode())

    def test_no_secret_is_in_it(self) -> None:
        """Planted in files, logs, tables, and in what processes tell; what they stand beside is there."""
        self.leak(self.whole_cluster())
        raw = self.raw(str(self.here))
        files, before = dict(raw.redacted()), "\n".join(raw.files.values())
        whole = "\n".join(f"{name}\n{text}" for name, text in files.items())
        for secret in SECRETS:
            self.assertIn(secret, before)
            self.assertNotIn(secret, whole)
        for absent in ("commitlog", "server.key", "plain_acl", "link.log", "binary.log", "customers"):
            self.assertNotIn(absent, "\n".join(files) if absent != "customers" else whole)
        self.assertIn("after", files["directories/1-broker/old.log"])
        self.assertIn("brokerName=g", files["directories/1-broker/broker.conf"])
        self.assertIn(f"raftSecretFile={self.work / 'raft.secret'}", files["directories/1-broker/broker.conf"])

    def test_what_is_in_it(self) -> None:
        """Of each process what it tells, and the pages."""
        master = self.whole_cluster()
        files = self.collected()
        where = f"processes/broker-{self.at(master).replace(':', '_')}"
        for name in ("effective.properties", "runtime.json", "clients.json", "epochs.json", "replication.json"):
            self.assertIn(f"{where}/{name}", files)
        self.assertIn("brokerName=g", files[f"{where}/effective.properties"])
        self.assertIn("commitLogMaxOffset", files[f"{where}/runtime.json"])
        self.assertIn("nothing was left out", files["MANIFEST.txt"])
        self.assertEqual(files["MANIFEST.txt"].partition("\n\n")[0], "\n".join(sorted(files.keys() - {"MANIFEST.txt"})))
        self.assertIn("0 findings", files["doctor.txt"])
        self.assertTrue(json.loads(files["doctor.json"])["healthy"])
        self.assertEqual(len(json.loads(files["status.json"])["brokers"]), 3)
        self.assertTrue(json.loads(files["why/g.json"])["decisions"])
        for host in self.controllers:
            place = self.controller(host).replace(":", "_")
            self.assertIn("committedIndex", files[f"processes/controller-{place}/status.json"])
        self.assertEqual([name for name in files if name.endswith(".failed")], [])

    def test_what_did_not_answer(self) -> None:
        """The reason is in its place, and the others are there."""
        self.whole_cluster()
        self.brokers[2].kill()
        self.run_for(1.0)
        files = self.collected()
        self.assertIn("broker.unreachable", files["doctor.txt"])
        self.assertEqual(sum(name.endswith("runtime.json") for name in files), 2)


class PackTests(DoctorCase):
    """The archive."""

    def test_pack(self) -> None:
        """Its owner alone may read it; it is not written over another."""
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "b.tar.gz")
            self.assertEqual(bundle.pack(path, "root", [("a/b.txt", "text\n"), ("c", "")], 5.0), 2)
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with tarfile.open(path) as archive:
                self.assertEqual(archive.getnames(), ["root/a/b.txt", "root/c"])
                self.assertEqual(archive.extractfile("root/a/b.txt").read(), b"text\n")  # type: ignore[union-attr]
            with self.assertRaisesRegex(ConfigError, "b.tar.gz"):
                bundle.pack(path, "root", [], 5.0)

    def test_a_long_file(self) -> None:
        """Its end, from a whole line on."""
        with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
            stack.callback(setattr, bundle_contents, "FILE_BYTES_MAX", bundle_contents.FILE_BYTES_MAX)
            bundle_contents.FILE_BYTES_MAX = 12
            pathlib.Path(work, "x.log").write_text("first line\nsecond\nthird\n")
            found = bundle_contents.Collected()
            bundle_contents.of_directories([work], found)
            self.assertEqual(list(found.files.values()), ["third\n"])
            self.assertEqual(found.why_left_out(), {"only the last 12 bytes are here": 1})

    def test_too_many_files(self) -> None:
        """The newest are taken; all others are named with the reason, as is whatever else is left out."""
        with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
            stack.callback(setattr, bundle_contents, "FILES_MAX", bundle_contents.FILES_MAX)
            bundle_contents.FILES_MAX = 3
            here = pathlib.Path(work, "logs")
            here.mkdir()
            for age in range(5):
                (here / f"{age}.log").write_text("line\n")
                os.utime(here / f"{age}.log", (1000 - age, 1000 - age))
            (here / "0.log").write_bytes(b"\0")
            (here / "passwords.log").write_text("line\n")
            found = bundle_contents.Collected()
            bundle_contents.of_directories([str(here)], found)
            where = "directories/1-logs"
            self.assertEqual(sorted(found.files), [f"{where}/1.log", f"{where}/2.log"])
            many = "a directory has more than 3 files, and these are not its newest"
            named = "its name is one of messages, keys or passwords"
            self.assertEqual(found.why_left_out(), {many: 2, "it is no text": 1, named: 1})
            for part in (
                f"{where}/1.log\n{where}/2.log\n\n2 files left out: {many}\n    {where}/3.log\n    {where}/4.log\n",
                f"1 files left out: it is no text\n    {where}/0.log\n",
                f"1 files left out: {named}\n    {where}/passwords.log\n",
            ):
                self.assertIn(part, found.manifest())

    def test_what_standard_error_says(self) -> None:
        """The command tells how many files it left out."""
        with tempfile.TemporaryDirectory() as work:
            (pathlib.Path(work) / "x.log").write_bytes(b"\0")
            path = os.path.join(work, "b.tar.gz")
            words = ("bundle", "-o", path, "-d", work, "--namesrv", "127.0.0.1:1", "--json")
            done = subprocess.run(
                [sys.executable, "-m", "rocketha.admin.cli", *words],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, "1 files left out, see MANIFEST.txt: it is no text\n")
            self.assertEqual(json.loads(done.stdout)["leftOut"], {"it is no text": 1})
            with tarfile.open(path) as archive:
                (name,) = (each for each in archive.getnames() if each.endswith("/MANIFEST.txt"))
                self.assertIn("1 files left out: it is no text\n", archive.extractfile(name).read().decode())  # type: ignore[union-attr]

    def test_no_directory(self) -> None:
        """It is named."""
        with self.assertRaisesRegex(ConfigError, "--directory /nowhere: it is no directory"):
            bundle_contents.of_directories(["/nowhere"], bundle_contents.Collected())

    def test_names(self) -> None:
        """Whatever a peer calls itself, nothing leaves the archive's directory."""
        self.assertEqual(bundle_contents._safe("../../etc/passwd"), "_.._etc_passwd")
        self.assertEqual(bundle_contents._safe(".."), "_")


class StatusPortTests(TestCase):
    """Metrics, over a real port."""

    @defer.inlineCallbacks
    def test_pages(self) -> Any:
        """Of a port that answers; of one that does not, why."""
        metrics = Registry()
        metrics.ask("rocketha_words", "Words.", lambda: 3)
        factory = StatusFactory(metrics, lambda: None, lambda: "its disk is full", reactor)
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        here, nowhere = f"127.0.0.1:{port.getHost().port}", "127.0.0.1:1"
        found = bundle_contents.Collected()
        yield Deferred.fromCoroutine(bundle_contents.of_status_ports(reactor, [here, nowhere], found))
        place = here.replace(":", "_")
        self.assertIn("rocketha_words 3", found.files[f"status-ports/{place}/metrics.txt"])
        self.assertEqual(found.files[f"status-ports/{place}/readyz.txt"], "its disk is full\n")
        self.assertIn("status-ports/127.0.0.1_1/metrics.failed", found.files)

    @defer.inlineCallbacks
    def test_a_port_that_says_nothing(self) -> Any:
        """It is waited for as long as any other."""
        self.patch(bundle_contents, "ANSWER_S", 0.2)
        port = reactor.listenTCP(0, Factory.forProtocol(Protocol), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        here = f"127.0.0.1:{port.getHost().port}"
        found = bundle_contents.Collected()
        waiting = Deferred.fromCoroutine(bundle_contents.of_status_ports(reactor, [here], found))
        yield waiting.addTimeout(5.0, reactor)
        self.assertEqual(len([name for name in found.files if name.endswith(".failed")]), 3)
