"""``rocketha pki``: what it makes serves two ends under TLS, and what it refuses."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from rocketha.access.identity import Identity, Part
from rocketha.admin import pki
from rocketha.errors import ConfigError
from rocketha.services.config import loading
from rocketha.services.tls.authority import look
from rocketha.services.tls.network import TlsNetwork
from tests.admin.test_cli import run


class PkiTests(SynchronousTestCase):
    """Whole command lines."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "pki"

    def pki(self, *arguments: object) -> str:
        code, out, err = run("pki", *arguments)
        self.assertEqual((code, err), (0, ""), arguments)
        return out

    def refused(self, *arguments: object) -> str:
        code, out, err = run("pki", *arguments)
        self.assertEqual((code, out), (2, ""), arguments)
        return err

    def test_what_it_makes_can_be_used_as_it_is(self) -> None:
        self.pki("init", self.folder)
        self.pki(
            "issue",
            self.folder,
            "a",
            "--host",
            "127.0.0.1",
            "--host",
            "a.example",
            "--host",
            "127.0.0.1",
            "--as",
            "broker:broker-a:2",
        )
        text = f"tls.config.file={self.folder / 'a.properties'}\n".encode()
        tls = loading.load_broker(text, environment={"HOME": "/nowhere"}).config.remoting.tls
        self.assertEqual((tls.server_mode, tls.enable, tls.server_need_client_auth), ("enforcing", True, "optional"))
        self.assertEqual(sorted(TlsNetwork(tls).credentials), ["client", "server"])
        issued = look(str(self.folder / "a.crt"))
        self.assertEqual(issued.identities, (Identity("DefaultCluster", Part.BROKER, "broker-a", 2),))
        self.assertEqual(issued.hosts, ["127.0.0.1", "a.example"])
        for name in ("ca.key", "a.key"):
            self.assertEqual(stat.S_IMODE(os.stat(self.folder / name).st_mode), 0o600)
        self.assertIn(b"BEGIN PRIVATE KEY", (self.folder / "a.key").read_bytes())  # the only form that Java reads

    def test_renewed_with_the_same_names(self) -> None:
        self.pki("init", self.folder)
        for name in ("a", "b"):
            self.pki("issue", self.folder, name, "--host", f"{name}.example", "--as", f"controller:{name}")
        before = {name: look(str(self.folder / f"{name}.crt")) for name in ("a", "b")}
        self.pki("renew", self.folder, "a", "--days", 30)
        after = {name: look(str(self.folder / f"{name}.crt")) for name in ("a", "b")}
        self.assertEqual(after["b"], before["b"])
        self.assertEqual((after["a"].hosts, after["a"].identities), (before["a"].hosts, before["a"].identities))
        self.assertNotEqual(after["a"].serial, before["a"].serial)
        self.assertLess(after["a"].ends, before["a"].ends)
        self.pki("renew", self.folder)
        self.assertNotEqual(look(str(self.folder / "b.crt")).serial, before["b"].serial)

    def test_a_whole_cluster(self) -> None:
        """Each process is what it will be configured to be, and nobody else."""
        self.pki("cluster", self.folder, "--brokers", 2, "--controllers", 1, "--host", "127.0.0.1")
        found = {path.stem: look(str(path)).identities for path in self.folder.glob("*.crt")}
        self.assertEqual(
            {
                name: [each.uri.removeprefix("rocketha://DefaultCluster/") for each in who]
                for name, who in found.items()
            },
            {
                "ca": [],
                "cluster": ["nameserver/cluster", "operator/cluster"],
                "operator": ["operator/operator"],
                "broker-1": ["broker/broker-a"],
                "broker-2": ["broker/broker-a"],
                "controller-1": ["controller/n1"],
            },
        )
        for name, part in (("cluster", Part.NAMESERVER), ("controller-1", Part.CONTROLLER), ("broker-1", Part.BROKER)):
            network = TlsNetwork(loading.load_tls(str(self.folder / f"{name}.properties")))
            network.must_be(part)
            for wrong in ({"part": Part.CLIENT}, {"part": part, "name": "x"}, {"part": part, "cluster": "d"}):
                with self.assertRaisesRegex(ConfigError, "the certificate says"):
                    network.must_be(**wrong)
        before = look(str(self.folder / "ca.crt")).serial
        self.pki("cluster", self.folder)
        self.assertEqual(look(str(self.folder / "ca.crt")).serial, before, "the authority is made once")
        self.assertIn(
            Identity("DefaultCluster", Part.BROKER, "broker-a"), look(str(self.folder / "cluster.crt")).identities
        )

    def test_shown(self) -> None:
        self.pki("init", self.folder, "--name", "ours")
        self.pki("issue", self.folder, "a", "--as", "operator:ann", "--cluster", "c")
        out = self.pki("show", self.folder)
        for words in (
            "CN=ours (authority)",
            "rocketha://c/operator/ann",
            "364 days left",
            "issuer CN=ours",
            "issuer itself",
        ):
            self.assertIn(words, out)
        self.assertNotIn("PRIVATE", out)

    def test_refused(self) -> None:
        self.assertIn("rocketha pki init", self.refused("issue", self.folder, "a"))
        self.pki("init", self.folder)
        self.assertIn("is there", self.refused("init", self.folder))
        for arguments, words in (
            (("issue", self.folder, "ca"), "not 'ca'"),
            (("issue", self.folder, "../a"), "a name for files"),
            (("issue", self.folder, ".a"), "a name for files"),
            (("issue", self.folder, "a", "--as", "broker"), "PART:NAME"),
            (("issue", self.folder, "a", "--as", "king:a"), "no part"),
            (("issue", self.folder, "a", "--as", "controller:a:1"), "only brokers"),
            (("issue", self.folder, "a", "--host", "a..b"), "no host name"),
            (("issue", self.folder, "a", "--days", "0"), "--days"),
            (("issue", self.folder, "a", "--days", "5000"), "the authority itself ends"),
            (("renew", self.folder, "nobody"), "cannot be read"),
            (("show", self.folder / "ca.key"), "no certificate"),
        ):
            self.assertIn(words, self.refused(*arguments))
        self.assertEqual(sorted(os.listdir(self.folder)), ["ca.crt", "ca.key"])
        (self.folder / "ca.key").chmod(0o644)
        self.assertIn("others can read", self.refused("issue", self.folder, "a"))

    def test_without_the_extra(self) -> None:
        with mock.patch.object(pki, "installed", lambda: False):
            self.assertIn("rocketha[tls]", self.refused("init", self.folder))
        self.assertFalse(self.folder.exists())
