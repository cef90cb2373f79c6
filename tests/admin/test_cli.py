"""The rocketha command line: what a person sees of a mistake, and which exit code a script sees."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from rocketha.admin import cli, options, receive, send
from rocketha.admin.client import Queue
from rocketha.admin.received import Received
from rocketha.errors import ConfigError
from tests.admin.parsing import parsed


def run(*arguments: object) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of one call."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([str(each) for each in arguments])
    return code, out.getvalue(), err.getvalue()


class CommandTests(SynchronousTestCase):
    """Whole command lines that need no cluster."""

    def test_help_names_every_subcommand(self) -> None:
        """--help lists them; each has a --help of its own with its flags."""
        code, out, _err = run("--help")
        self.assertEqual(code, 0)
        for name in cli.SUBCOMMANDS:
            self.assertIn(name, out)
            code, detail, _err = run(name, "--help")
            self.assertEqual(code, 0)
            self.assertIn("--help", detail)

    def test_help_is_lazy(self) -> None:
        """A subcommand's module is imported only when it is used: one broken subcommand must not break the others."""
        sys.modules.pop("rocketha.admin.send", None)
        run("--help")
        run("formats", "properties")
        self.assertNotIn("rocketha.admin.send", sys.modules)
        sys.modules["rocketha.admin.send"] = send

    def test_wrong_usage_is_2(self) -> None:
        """Each mistake is named on standard error, and nothing is printed on standard output."""
        for arguments, word in (
            ((), "COMMAND"),
            (("sned",), "sned"),
            (("send",), "TOPIC"),
            (("formats", "nope"), "nope"),
            (("send", "T", "x", "--count", "0"), "--count"),
            (("send", "T", "x", "--property", "novalue"), "novalue"),
            (("send", "T", "x", "--delay-level", "0"), "--delay-level"),
            (("send", "T", "x", "--batch", "--oneway"), "--oneway"),
            (("send", "T", "x", "--batch", "--queue", "1"), "--batch"),
            (("receive", "T", "--from", "yesterday"), "yesterday"),
            (("receive", "T", "--count", "0"), "--count"),
        ):
            with self.subTest(arguments):
                code, out, err = run(*arguments)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(word, err)

    def test_words_may_stand_behind_options(self) -> None:
        """And what begins with a dash behind two of them."""
        for words, bodies in (
            ("T a --tags x b", ("a", "b")),
            ("--tags x T a", ("a",)),
            ("T --tags x", ()),
            ("T --tags x -- -a --b", ("-a", "--b")),
        ):
            with self.subTest(words):
                _, args = parsed(send.command, *words.split())
                self.assertEqual((args.topic, args.tags, args.bodies), ("T", "x", bodies))

    def test_nameservers_are_split_as_java_does(self) -> None:
        """By semicolons, and by commas, because shells take semicolons for themselves."""
        self.assertEqual(options.split("a:1;b:2, c:3;"), ["a:1", "b:2", "c:3"])


ENDED_BY_A_SIGNAL = """
import os, signal
from twisted.internet.defer import Deferred
from rocketha.admin.main_loop import run_coroutine

async def main(reactor, interrupted):
    finished = Deferred()
    async def finish():
        finished.callback(None)
    interrupted.finish = finish
    reactor.callLater(0, os.kill, os.getpid(), signal.SIGTERM)
    await finished
    return 3

print(run_coroutine(main))
"""


class SignalTests(SynchronousTestCase):
    """A command that is told to stop."""

    def test_it_may_end_while_it_is_told_to(self) -> None:
        """As one that has its last message in that moment: the reactor is not stopped twice."""
        done = subprocess.run([sys.executable, "-c", ENDED_BY_A_SIGNAL], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "3\n", ""))


class ReceiveFormatTests(SynchronousTestCase):
    """What receive prints."""

    def message(self, body: bytes, **properties: str) -> Received:
        """A message as the consumer hands it over."""
        return Received(Queue("T", "broker-a", 2), 15, 1_000, 1_700_000_000_123, 0, "7F000001", body, properties)

    def test_text(self) -> None:
        """Place, time, tags and keys, body; what a terminal would act upon is escaped, UTF-8 stays."""
        line = receive.as_text(self.message("grüße\x1b[2J\n".encode(), TAGS="A", KEYS="k1 k2"))
        expected = "T@broker-a:2#15 2023-11-14T22:13:20.123Z tags=A keys=k1 k2 grüße\\x1b[2J\\n"
        self.assertEqual(line.decode(), expected)

    def test_json(self) -> None:
        """One object; a body that is not UTF-8 comes as base64."""
        self.assertIn(b'"body":"hello"', receive.as_json(self.message(b"hello")))
        self.assertIn(b'"body_base64":"/w=="', receive.as_json(self.message(b"\xff")))

    def test_a_retried_message_shows_its_own_topic(self) -> None:
        """Out of %RETRY%group it still belongs to the topic it was sent to."""
        self.assertEqual(self.message(b"x", RETRY_TOPIC="Orders").topic, "Orders")

    def test_impossible_times_are_shown(self) -> None:
        """A producer's clock can say anything."""
        self.assertEqual(receive.moment(1 << 62), str(1 << 62))

    def test_from(self) -> None:
        """first, last, or an ISO time in ms."""
        self.assertEqual(receive.parse_start("first"), "first")
        self.assertEqual(receive.parse_start("2023-11-14T22:13:20+00:00"), 1_700_000_000_000)
        self.assertRaises(ConfigError, receive.parse_start, "")
