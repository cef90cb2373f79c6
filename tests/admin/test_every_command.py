"""What holds for every command and action: help, JSON, exit codes, options anywhere, suggestions, completion."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

import click
from twisted.trial.unittest import SynchronousTestCase

from rocketha.admin import cli, commands, controller, dledger, help, output
from rocketha.admin.client import NoAnswer
from rocketha.errors import ConfigError, RockethaError
from tests.admin.parsing import parsed
from tests.admin.test_cli import run

ROOT = pathlib.Path(__file__).resolve().parents[2]

TELLS_LINES = {"send", "receive", "requests", "metrics", "formats", "pyfiles", "simulate", "completion", "help"}
"""They print messages, files, pages or a log as it comes; ``receive`` has ``--format json``."""


TAKES_AWAY = {"clean", "decommission", "delete", "drain", "elect", "force-new-cluster", "remove", "reset"}


class Terminal(io.StringIO):
    """Standard output that is one."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class EveryCommandTests(SynchronousTestCase):
    """Walks all of them."""

    def test_help(self) -> None:
        """Each has one, which begins with a capital letter and ends with a full stop; each option, too."""
        for ctx in help.everything():
            with self.subTest(ctx.command_path):
                text = ctx.command.help or ""
                self.assertRegex(text.split("\n\n")[0].strip(), r"(?s)^[A-Z].*\.$")
                code, out, err = run(*ctx.command_path.split()[1:], "--help")
                self.assertEqual((code, err), (0, ""))
                self.assertIn(ctx.command.name, out)
                for param in ctx.command.params:
                    if isinstance(param, click.Option):
                        self.assertTrue((param.help or "").endswith("."), param.opts)
                        self.assertIn(param.opts[-1], out)

    def test_json(self) -> None:
        """Whatever reports something can report it to programs."""
        lacking = {
            ctx.command_path.split()[1]
            for ctx in help.everything()
            if not any("--json" in param.opts for param in ctx.command.params)
        }
        self.assertEqual(lacking, TELLS_LINES)

    def test_wrong_usage(self) -> None:
        """Code 2 with one line, or one object, on standard error and nothing else, of each."""
        for ctx in help.everything():
            words = ctx.command_path.split()[1:]
            with self.subTest(ctx.command_path):
                code, out, err = run(*words, "--no-such-option")
                self.assertEqual((code, out, err.count("\n")), (2, "", 1))
                self.assertTrue(err.startswith("rocketha "))
                self.assertIn("--no-such-option", err)
                code, out, err = run(*words, "--no-such-option", "--json")
                self.assertEqual((code, out), (2, ""))
                self.assertEqual(json.loads(err)["exit"], 2)

    def test_failures(self) -> None:
        """Each error of ours has its code, and the system's has one."""
        for problem, expected in (
            (ConfigError("a key"), 2),
            (RockethaError("no\nluck"), 1),
            (NoAnswer("silence"), 1),
            (click.Abort(), 1),
            (PermissionError(13, "denied", "/x"), 1),
            (KeyboardInterrupt(), 130),
        ):
            with mock.patch.object(commands.Command, "invoke", side_effect=problem):
                code, out, err = run("plan", "--bandwidth", "1")
                self.assertEqual((code, out, err.count("\n")), (expected, "", expected != 130), problem)
                code, out, err = run("plan", "--bandwidth", "1", "--json")
                self.assertEqual((code, out), (expected, ""))
                if expected != 130:
                    self.assertEqual(json.loads(err)["exit"], expected)

    def test_the_manual_is_up_to_date(self) -> None:
        """docs/command.rst is what the commands say now: `rocketha help --rst docs/command.rst`."""
        self.assertEqual((ROOT / "docs" / "command.rst").read_text(encoding="utf-8"), help.page())

    def test_help_of_words(self) -> None:
        code, out, _ = run("help", "group", "reset")
        self.assertEqual(code, 0)
        self.assertIn("Usage: rocketha group reset", out)
        self.assertEqual(out, run("group", "reset", "--help")[1])
        self.assertEqual(run("help", "send", "now")[0], 2)


class WordsTests(SynchronousTestCase):
    """Where options may stand, and what a mistyped word may have meant."""

    def test_options_of_a_command_stand_anywhere(self) -> None:
        """Before its action, behind it, and among its words."""
        for words in (
            "--json -a h:1 why b --last 3",
            "why b --json --last 3 -a h:1",
            "--controllers=h:1 why --json --last 3 b",
            "-ah:1 why --last=3 b --json",
        ):
            with self.subTest(words):
                action, given = parsed(controller.command, *words.split())
                self.assertEqual(action.__name__, "why")
                self.assertEqual((given.controllers, given.json, given.broker, given.last), ("h:1", True, "b", 3))

    def test_the_last_one_counts(self) -> None:
        _, given = parsed(controller.command, "-a", "h:1", "status", "-a", "h:2")
        self.assertEqual(given.controllers, "h:2")

    def test_the_environment(self) -> None:
        """Only where no option says otherwise."""
        with mock.patch.dict(os.environ, {"ROCKETHA_CONTROLLERS": "h:9"}):
            self.assertEqual(parsed(controller.command, "status")[1].controllers, "h:9")
            self.assertEqual(parsed(controller.command, "-a", "h:1", "status")[1].controllers, "h:1")

    def test_what_is_required_of_a_command(self) -> None:
        """May stand behind the action, and is missed in both places."""
        _, given = parsed(dledger.command, "status", "-p", "n0-h:1", "-g", "g")
        self.assertEqual((given.group, given.peers), ("g", "n0-h:1"))
        caught = self.assertRaises(click.UsageError, parsed, dledger.command, "-g", "g", "status")
        self.assertIn("--peers", caught.format_message())

    def test_suggestions(self) -> None:
        for words, said in (
            (("sned", "T"), "Did you mean send?"),
            (("controller", "staus"), "Did you mean status?"),
            (("controller", "status", "--jsn"), "--json"),
            (("send", "T", "--tag", "A"), "--tags"),
            (("topic", "qqqq"), "There are list, show, create"),
            (("controller",), "status"),
            (("controller", "--json"), "Missing action"),
        ):
            code, out, err = run(*words)
            self.assertEqual((code, out), (2, ""), words)
            self.assertIn(said, err)

    def test_what_takes_away_asks(self) -> None:
        """Each action that does so by its name."""
        found = set()
        for ctx in help.everything():
            if ctx.command.name in TAKES_AWAY:
                found.add(ctx.command.name)
                self.assertIn("yes", {param.name for param in ctx.command.params}, ctx.command_path)
        self.assertEqual(found, TAKES_AWAY)

    def test_nobody_can_be_asked(self) -> None:
        """What cannot be undone wants --yes where there is no terminal; on one, "no" does nothing."""
        given = commands.Given(yes=False)
        with mock.patch.object(sys, "stdin", io.StringIO("y\n")), self.assertRaisesRegex(click.UsageError, "--yes"):
            commands.confirm(given, "Delete it")
        for answer, refused in (("n\n", True), ("\n", True), ("", True), ("y\n", False), ("Yes\n", False)):
            with (
                self.subTest(answer),
                mock.patch.object(sys, "stdin", Terminal(answer)),
                contextlib.redirect_stderr(io.StringIO()) as asked,
                contextlib.redirect_stdout(io.StringIO()) as out,
                self.assertRaises(click.Abort) if refused else contextlib.nullcontext(),
            ):
                commands.confirm(given, "Delete it")
            self.assertEqual((out.getvalue(), asked.getvalue()), ("", "Delete it? [y/N]: "))
        commands.confirm(commands.Given(yes=True), "Delete it")

    def test_a_question_that_is_interrupted(self) -> None:
        """Ctrl-C ends it at once, though a reactor has the signal; afterwards the reactor has it again."""

        class Pressed(Terminal):
            def readline(self, *rest: Any) -> str:
                signal.raise_signal(signal.SIGINT)
                return "y\n"

        heard: list[int] = []

        def reactors(number: int, frame: Any) -> None:
            heard.append(number)

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, reactors))
        with mock.patch.object(sys, "stdin", Pressed()), contextlib.redirect_stderr(io.StringIO()):
            self.assertRaises(KeyboardInterrupt, commands.confirm, commands.Given(yes=False), "Delete it")
        self.assertEqual((heard, signal.getsignal(signal.SIGINT)), ([], reactors))


class ExamplesTests(SynchronousTestCase):
    """Command lines in the documents."""

    def test_they_are_right(self) -> None:
        """Each is one that the command takes; nothing is run."""
        seen = 0
        for path in [ROOT / "README.rst", *sorted((ROOT / "docs").glob("*.rst"))]:
            for line in re.findall(r"\$ (?:\.venv/bin/)?rocketha (.*)", path.read_text(encoding="utf-8")):
                if "$" in line or line.startswith("completion"):
                    continue  # the shell's own
                words = shlex.split(re.split(r" \| | > ", line)[0], comments=True)
                if "..." in words:
                    continue
                with self.subTest(line), contextlib.redirect_stdout(io.StringIO()):
                    context = click.Context(cli.root())
                    found = cli.root().get_command(context, words[0])
                    assert found is not None
                    parsed(found, *words[1:])
                seen += 1
        self.assertGreater(seen, 50)


class OutputTests(SynchronousTestCase):
    """Tables."""

    def drawn(self, rows: list[tuple[object, ...]], **environment: str) -> str:
        out = Terminal()
        with mock.patch.dict(os.environ, {"TERM": "xterm-256color", **environment}), contextlib.redirect_stdout(out):
            output.table(("NAME", "WORDS"), rows)
        return out.getvalue()

    def test_elsewhere(self) -> None:
        """Aligned; what a terminal would act upon is escaped, nothing is a dash, and a row is a line."""
        lines = output.aligned(("NAME", "WORDS"), [("a", "x\x1b[2J\ny"), ("long", None)])
        self.assertEqual(lines, ["NAME  WORDS", "a     x\\x1b[2J\\ny", "long  -"])

    def test_on_a_terminal(self) -> None:
        """With a bold head, unless NO_COLOR is set; never with what a cell would have a terminal do."""
        coloured = self.drawn([("a", "[red]x\x1b[2J")])
        self.assertIn("\x1b[1m", coloured)
        self.assertIn("[red]x\\x1b[2J", coloured)
        self.assertNotIn("\x1b[3", self.drawn([("a", "b")], NO_COLOR="1"))

    def test_a_narrow_terminal(self) -> None:
        """Nothing is cut off, and no line is longer."""
        text = self.drawn([("a", "0123456789" * 6)], COLUMNS="30", NO_COLOR="1")
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 30)
        self.assertEqual("".join(each for each in text if each.isdigit()), "0123456789" * 6)

    def test_without_rich(self) -> None:
        with mock.patch.dict(sys.modules, {"rich": None}):
            self.assertEqual(self.drawn([("a", "b")]), "NAME  WORDS\na     b\n")


@unittest.skipUnless(shutil.which("bash"), "no bash")
class CompletionTests(unittest.TestCase):
    """A real bash with the script of ``rocketha completion bash``."""

    def complete(self, *words: str) -> set[str]:
        """What bash is offered for the last word."""
        with tempfile.TemporaryDirectory() as folder:
            command = pathlib.Path(folder) / "rocketha"
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rocketha.admin.cli "$@"\n')
            command.chmod(0o755)
            program = 'eval "$(rocketha completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            program += '_rocketha_completion rocketha; printf "%s\\n" "${COMPREPLY[@]}"'
            done = subprocess.run(
                ["bash", "--norc", "-c", program, "bash", "rocketha", *words],
                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return set(done.stdout.split())

    def test_bash(self) -> None:
        self.assertEqual(self.complete("cont"), {"controller"})
        self.assertEqual(self.complete("controller", "-a", "h:1", "re"), {"remove"})
        self.assertEqual(self.complete("controller", "why", "--la"), {"--last"})
        self.assertEqual(self.complete("controller", "why", "--contr"), {"--controllers"})
        self.assertEqual(self.complete("receive", "T", "--format", ""), {"text", "json", "body"})

    def test_other_shells(self) -> None:
        for shell, word in (("zsh", "#compdef rocketha"), ("fish", "complete --no-files --command rocketha")):
            code, out, _ = run("completion", shell)
            self.assertEqual(code, 0)
            self.assertIn(word, out)
        self.assertEqual(run("completion", "ash")[0], 2)

    def test_names_are_completed_without_imports(self) -> None:
        """Of commands; a command's module is imported when its own words are completed."""
        program = (
            "import os, sys; from rocketha.admin.cli import main; os.environ['_ROCKETHA_COMPLETE'] = 'bash_complete'; "
            "os.environ['COMP_WORDS'] = 'rocketha '; os.environ['COMP_CWORD'] = '1'; main([]); "
            "assert not [name for name in sys.modules if name.startswith('twisted')]"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(done.stdout.splitlines()), len(cli.SUBCOMMANDS))
