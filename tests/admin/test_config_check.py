"""Configurations of every process: of which they are, whether they would start, and what they amount to."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

from rocketha.admin import cli, config_check
from rocketha.errors import ConfigError

PEERS = "n0-127.0.0.1:9878;n1-127.0.0.1:9879;n2-127.0.0.1:9880"
DLEDGER = "enableDLegerCommitLog=true\ndLegerGroup=g\ndLegerPeers=n0-127.0.0.1:1;n1-127.0.0.1:2;n2-127.0.0.1:3\n"

EXAMPLES = {
    "broker": "brokerName=broker-a\nbrokerRole=ASYNC_MASTER\nflushDiskType=ASYNC_FLUSH\n",
    "namesrv": "needWaitForService=true\nlistenPort=9876\n",
    "controller": f"controllerDLegerPeers={PEERS}\ncontrollerDLegerSelfId=n0\n",
    "witness": f"{DLEDGER}dLegerWitness=n2\n",
}


class KindTests(unittest.TestCase):
    """Of which process a file is."""

    def test_by_its_keys(self) -> None:
        """Those that only one kind of process has."""
        for kind, text in EXAMPLES.items():
            self.assertEqual(config_check.kind_of(text.encode(), "x.conf"), kind)

    def test_a_controller_in_a_nameserver(self) -> None:
        """It is the nameserver's file, whatever else is in it."""
        text = f"enableControllerInNamesrv=true\n{EXAMPLES['controller']}"
        self.assertEqual(config_check.kind_of(text.encode(), "x.conf"), "namesrv")

    def test_by_its_name(self) -> None:
        """Where the keys are those of all."""
        self.assertEqual(config_check.kind_of(b"listenPort=1\n", "/etc/namesrv.conf"), "namesrv")

    def test_nobody_can_tell(self) -> None:
        """It is asked for."""
        with self.assertRaisesRegex(ConfigError, "say --as broker, namesrv, controller, witness, learner"):
            config_check.kind_of(b"listenPort=1\n", "x.conf")


class CommandTests(unittest.TestCase):
    """``rocketha config check``."""

    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)

    def check(self, text: str, *words: str) -> tuple[int, str]:
        """Exit status, and what was printed."""
        path = self.work / "it.conf"
        path.write_text(text)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            status = cli.main(["config", "check", str(path), *words])
        return status, out.getvalue()

    def test_good(self) -> None:
        """Each kind, by itself and by name; a learner's file is a broker's."""
        for kind, text in EXAMPLES.items():
            for words in ((), ("--as", kind)):
                with self.subTest(kind, words=words):
                    status, out = self.check(text, *words)
                    self.assertEqual(status, 0, out)
                    self.assertIn(f"of a {kind}: good", out)
        status, out = self.check("brokerName=a\nnamesrvAddr=127.0.0.1:9876\n", "--as", "learner")
        self.assertEqual(status, 0, out)

    def test_what_stops_a_start(self) -> None:
        """What twistd would say, with file, line and key; also what only options check."""
        for kind, text, said in (
            ("broker", "flushDiskType=NEVER\n", "it.conf, line 1: flushDiskType"),
            ("broker", "bindAddress=0.0.0.0\nbrokerName=a\n", "insecureNetwork"),
            ("namesrv", "listenPort=banana\n", "it.conf, line 1: listenPort"),
            ("controller", f"controllerDLegerPeers={PEERS}\ncontrollerDLegerSelfId=n9\n", "n9"),
            ("witness", f"{DLEDGER}", "a witness needs dLegerWitness"),
            ("learner", "mappedFileSizeCommitLog=7\n", "it.conf, line 1: mappedFileSizeCommitLog"),
        ):
            with self.subTest(kind):
                status, out = self.check(text, "--as", kind)
                self.assertEqual(status, 1, out)
                self.assertIn("it would not start", out)
                self.assertIn(said, out)

    def test_unknown_keys(self) -> None:
        """With what may have been meant."""
        status, out = self.check("brokerNam=a\nbrokerRole=ASYNC_MASTER\n")
        self.assertEqual(status, 0)
        self.assertIn("brokerNam is not a key of RocketMQ or rocketha; did you mean brokerName?", out)

    def test_flags_over_the_file(self) -> None:
        """As twistd takes them."""
        status, out = self.check(EXAMPLES["broker"], "--set", "flushDiskType=SYNC_FLUSH", "--effective")
        self.assertEqual(status, 0, out)
        self.assertIn("flushDiskType = SYNC_FLUSH    # --set flushDiskType", out)

    def test_effective(self) -> None:
        """Every key, where its value comes from, and no secret."""
        text = f"{EXAMPLES['broker']}tls.server.keyPassword=hunter2\n"
        _, out = self.check(text, "--effective")
        self.assertIn("it.conf, line 1", next(line for line in out.splitlines() if line.startswith("brokerName =")))
        self.assertIn("# default", next(line for line in out.splitlines() if line.startswith("fileReservedTime =")))
        self.assertIn("# follows", next(line for line in out.splitlines() if line.startswith("storePathRootDir =")))
        self.assertNotIn("hunter2", out)
        _, out = self.check(text, "--effective", "--json")
        found = {each["key"]: each for each in json.loads(out)["effective"]}
        self.assertEqual(found["brokerName"]["value"], "broker-a")
        self.assertTrue(found["brokerName"]["doc"])
        self.assertNotIn("hunter2", out)

    def test_a_controller_in_a_nameserver(self) -> None:
        """Both are checked."""
        text = f"enableControllerInNamesrv=true\n{EXAMPLES['controller']}"
        status, out = self.check(text, "--effective")
        self.assertEqual(status, 0, out)
        self.assertIn("controllerDLegerSelfId = n0", out)
        self.assertIn("needWaitForService = ", out)
        status, out = self.check(text.replace("SelfId=n0", "SelfId=n9"))
        self.assertEqual(status, 1, out)

    def test_no_file(self) -> None:
        """That is wrong usage."""
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            self.assertEqual(cli.main(["config", "check", str(self.work / "none.conf")]), 2)
        self.assertIn("none.conf", out.getvalue())
