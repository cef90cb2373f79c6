"""The configurations that people copy, of deploy/conf and of every page: each is taken without a warning, and starts.

They start on a disk in memory and a network that connects to nobody.  Files that they name are made here.
"""

from __future__ import annotations

import io
import pathlib
import random
import re
import tempfile
import textwrap
import unittest
from contextlib import redirect_stdout
from typing import Any

import trustme
from twisted.internet.testing import MemoryReactorClock

from rocketha.admin import cli
from rocketha.services.broker import tap as broker_tap
from rocketha.services.broker.service import BrokerService
from rocketha.services.controller import tap as controller_tap
from rocketha.services.controller.service import ControllerService
from rocketha.services.namesrv import tap as namesrv_tap
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.platform import Platform
from rocketha.services.waiting.blocking import AtOnce
from rocketha.store.memory_disk import MemoryDisk
from tests.tidy.source import ROOT

CONF = ROOT / "deploy" / "conf"
PAGES = (ROOT / "README.rst", *sorted((ROOT / "docs").rglob("*.rst")), *sorted((ROOT / "deploy").rglob("*.rst")))
LINE = re.compile(r"#.*|[a-zA-Z][\w.]*\s*=\s*\S.*")
KEY = re.compile(r"^#?([a-zA-Z][\w.]*)\s*=", re.MULTILINE)
PLACES = re.compile(r"/(?:etc|srv|var/lib)/(?:rocketmq|rocketha|controller)\b")

SERVERS: dict[str, tuple[Any, Any]] = {
    "broker.conf": (broker_tap.Options, BrokerService),
    "namesrv.conf": (namesrv_tap.Options, NameServerService),
    "controller.conf": (controller_tap.Options, ControllerService),
}
OF_A_CONTROLLER = "controllerDLegerPeers"
ELSEWHERE = {"plugins": "tests/services/features/test_examples.py installs the plug-ins that it names"}
BESIDE = {
    "proxyProtocolNetworks": "insecureNetwork=true",
    "metricsPromExporterHost": "insecureNetwork=true",
    OF_A_CONTROLLER: "insecureNetwork=true\nraftSecretFile=/etc/rocketha/raft.secret",
    "tls.trustedPeers": "brokerName=broker-a\ntls.config.file=/etc/rocketha/pki/broker-1.properties",
    "tls.server.need.client.auth": "tls.server.certPath=/etc/rocketmq/server.crt\n"
    "tls.server.keyPath=/etc/rocketmq/server.key",
}
"""What the page around a part of a configuration says that it also needs, by a key of it."""


def samples(text: str) -> list[str]:
    """The literal blocks of a page in which every line is a key, or a comment."""
    blocks = re.findall(r"(?:::|code-block:: (?:ini|text))\n\n((?: {2,}.*\n|\n)+)", text)
    shown = [textwrap.dedent(each).strip() for each in blocks]
    return [each for each in shown if all(LINE.fullmatch(line) for line in each.splitlines() if line)]


def of_a_group(text: str) -> str:
    """A sample file with everything said that stands behind ``#``, but for certificates."""
    return re.sub(r"^#(?!tls\.)([a-zA-Z][\w.]* = )", r"\1", text, flags=re.MULTILINE)


class SampleTests(unittest.TestCase):
    """Each is written to a file, as an operator does."""

    def setUp(self) -> None:
        self.place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        authority = trustme.CA()
        own = authority.issue_cert("localhost")
        files = {
            "accounts-secret": bytes(range(32)),
            "raft.secret": b"sixteen bytes or more",
            "plain_acl.yml": b"accounts:\n- accessKey: shop-user\n  secretKey: shop-secret\n",
            "server.crt": own.cert_chain_pems[0].bytes(),
            "server.key": own.private_key_pem.bytes(),
            "ca.crt": authority.cert_pem.bytes(),
            "clients-ca.crt": authority.cert_pem.bytes(),
        }
        for name, content in files.items():
            (self.place / name).touch(0o600)
            (self.place / name).write_bytes(content)
        with redirect_stdout(io.StringIO()):
            self.assertEqual(cli.main(["pki", "cluster", str(self.place / "pki"), "--host", "127.0.0.1"]), 0)

    def start(self, name: str, text: str) -> None:
        """It has no warning, and its server serves."""
        make_options, make_service = SERVERS[name]
        path = self.place / name
        path.write_text(PLACES.sub(str(self.place), text), encoding="utf-8")
        options = make_options()
        options.parseOptions(["--config", str(path)])
        said = [each for each in options.loaded.warnings if "brokerIP1 is not set" not in each]
        self.assertEqual(said, [], text)
        clock = MemoryReactorClock()
        platform = Platform(
            disk=MemoryDisk(random.Random(0)),
            reactor=clock,
            network=options.network,
            work=AtOnce,
            sync_work=AtOnce,
            on_fatal=lambda why: self.fail(f"{why}\n{text}"),
        )
        service = make_service(options.loaded.config, platform)
        service.privilegedStartService()
        service.startService()
        clock.advance(1)
        self.assertTrue(clock.tcpServers, text)
        service.stopService()
        clock.advance(100)

    def test_files_as_they_are(self) -> None:
        for name in SERVERS:
            with self.subTest(name):
                self.start(name, (CONF / name).read_text(encoding="utf-8"))

    def test_files_of_a_group(self) -> None:
        """The key that is said last counts, so what stands behind ``#`` must follow what it replaces."""
        for name in SERVERS:
            with self.subTest(name):
                text = of_a_group((CONF / name).read_text(encoding="utf-8"))
                last = {key: line for line in text.splitlines() for key in KEY.findall(line)}
                self.start(name, "\n".join(each for each in last.values() if not each.startswith("#")))

    def test_every_key_is_explained(self) -> None:
        """A comment stands above each, or above the one before it."""
        for name in SERVERS:
            comment = False
            for line in (CONF / name).read_text(encoding="utf-8").splitlines():
                if not KEY.match(line):
                    comment = line.startswith("# ")
                self.assertTrue(comment or not KEY.match(line), f"{name}: {line}")

    def test_pages(self) -> None:
        """README and docs."""
        seen = 0
        for page in PAGES:
            for text in samples(page.read_text(encoding="utf-8")):
                keys = set(KEY.findall(text))
                if keys & ELSEWHERE.keys():
                    continue
                seen += 1
                more = [line for key, line in BESIDE.items() if key in keys]
                with self.subTest(page.name, text=text):
                    name = "controller.conf" if OF_A_CONTROLLER in keys else "broker.conf"
                    self.start(name, "\n".join((text, *more)))
        self.assertGreater(seen, 10)
