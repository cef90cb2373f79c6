"""``rocketha check``: what it says of good and bad configurations, for people and for programs."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

from rocketha import plugins
from rocketha.admin import cli

EXAMPLES = pathlib.Path(__file__).parents[2] / "docs" / "examples"


class CheckTests(unittest.TestCase):
    """With two of the examples installed, and one that is broken."""

    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)
        (self.work / "bad.py").write_text("import nowhere_to_be_found\n")
        before = list(plugins.__path__)
        shown = ("ticker", "property-filter")
        plugins.__path__[:] = [str(EXAMPLES / each / "rocketha" / "plugins") for each in shown] + [str(self.work)]
        self.addCleanup(plugins.__path__.__setitem__, slice(None), before)
        self.addCleanup(self.forget)

    def forget(self) -> None:
        for name in [each for each in sys.modules if each.startswith("rocketha.plugins.")]:
            del sys.modules[name]
            vars(plugins).pop(name.rpartition(".")[2], None)

    def check(self, *arguments: str) -> tuple[int, str]:
        """Exit status, and what was printed."""
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            status = cli.main(["check", *arguments])
        return status, out.getvalue()

    def configuration(self, text: str) -> str:
        path = self.work / "broker.conf"
        path.write_text(text)
        return str(path)

    def test_good(self) -> None:
        """A broken one that is not named is shown, and is no reason."""
        path = self.configuration("plugins = ticker\nticker.every_s = 5\nnoSuchKey=1\n")
        status, text = self.check("-c", path)
        self.assertEqual(status, 0, text)
        for line in (
            f"configuration ({path}): good",
            "  warning: ",
            "  on      ticker 1.0, broker feature: puts a message into TICKS every so often",
            "ticker.every_s = 5  (Seconds between two ticks.)",
            "requests: 20001 TICKER_COUNT, answered by every broker, in every role",
            "timers: tick every 5 s",
            "topics: TICKS, 1 queue",
            "  off     property-filter 1.0",
            "  broken  rocketha.plugins.bad",
        ):
            self.assertIn(line, text)

    def test_json(self) -> None:
        status, text = self.check("--json", "--set", "plugins=property-filter")
        self.assertEqual(status, 0, text)
        found = json.loads(text)
        states = {each["module"].rpartition(".")[2]: each["state"] for each in found["plugins"]}
        self.assertEqual(states, {"bad": "broken", "property_filter": "on", "ticker": "off"})
        (broken,) = [each for each in found["plugins"] if each["state"] == "broken"]
        self.assertIn("nowhere_to_be_found", broken["trace"])
        self.assertIn({"code": 10, "name": "SEND_MESSAGE", "owner": "rocketha"}, found["requests"])

    def test_bad(self) -> None:
        """Each reason is told, and the status is 1."""
        for text, reason in (
            ("plugins = nobody", "plug-in nobody is named and not installed"),
            ("plugins = ticker\nticker.every_s = x", "every_s is no number: 'x'"),
            ("plugins = ticker\nticker.size = 3", "ticker.size is no key of plug-in ticker; it has: every_s"),
            ("plugins = ticker, ticker", "each once"),
            ("plugins = Ticker!", "names of small letters"),
            ("flushDiskType = MAYBE", "flushDiskType"),
        ):
            with self.subTest(text):
                status, printed = self.check("-c", self.configuration(text))
                self.assertEqual(status, 1)
                self.assertIn("it would not start", printed)
                self.assertIn(reason, printed)

    def test_certificates(self) -> None:
        """Those that would stop the start; nothing else of the keys is looked at in vain."""
        path = self.configuration(
            "tls.server.certPath=/nowhere/a.crt\ntls.server.keyPath=/nowhere/a.key\nplugins=nobody\n"
        )
        status, text = self.check("-c", path)
        self.assertEqual(status, 1)
        self.assertIn("/nowhere/a.crt: cannot be read", text)
        self.assertIn("nobody", text)

    def test_a_key_of_a_plugin_that_is_off(self) -> None:
        status, printed = self.check("-c", self.configuration("ticker.every_s = 3"))
        self.assertEqual(status, 0)
        self.assertIn("ticker.every_s is a key of plug-in ticker, which `plugins` does not name", printed)

    def test_usage(self) -> None:
        self.assertEqual(self.check("--set", "x")[0], 2)
        self.assertEqual(self.check("-c", "/nowhere/broker.conf")[0], 1)
