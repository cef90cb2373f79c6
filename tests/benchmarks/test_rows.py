"""The rows of ``python -m benchmarks``: their names, and those whose client is not there."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import signal
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import attrs

from benchmarks import __main__ as program
from benchmarks import report, rows


class NamesTests(unittest.TestCase):
    """What ``--rows`` takes."""

    def test_every_load_by_every_client(self) -> None:
        """Each name is a load, with keys or not, and a client; what is measured without being asked is among them."""
        for row in set(rows.EVERY) - {"push"}:
            load, _, client = row.partition(rows.BY)
            self.assertIn(load, rows.LOADS)
            self.assertIn(client, rows.CLIENTS)
        self.assertLessEqual(set(rows.ROWS), set(rows.EVERY))
        for client in rows.CLIENTS:
            self.assertLessEqual(
                {"sync16", "async256+keys"}, {r.partition(rows.BY)[0] for r in rows.ROWS if r.endswith(client)}
            )

    def test_unknown_names_are_refused(self) -> None:
        """Also behind --profile."""
        for arguments in (["--rows", "sync16@perl"], ["--rows", "sync16,push@go"], ["--profile", "sync17"]):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
                program.options(arguments)
            self.assertIn(f"unknown: {arguments[1].rpartition(',')[2]}", said.getvalue())


class GroupsTests(unittest.TestCase):
    """Which rows share their rounds."""

    def test_with_keys_and_without(self) -> None:
        """By the same client only; each row once, in the order asked for."""
        self.assertEqual(
            rows.groups(["sync16", "push", "batch32+keys", "sync16+keys", "sync16@go", "sync16+keys@go"]),
            [["sync16", "sync16+keys"], ["push"], ["batch32+keys"], ["sync16@go", "sync16+keys@go"]],
        )
        self.assertEqual(sorted(itertools.chain(*rows.groups(rows.EVERY))), sorted(rows.EVERY))


class AbsentClientTests(unittest.TestCase):
    """A machine without Go."""

    def test_left_out_with_a_reason(self) -> None:
        """Its rows only; the client is looked for once."""
        asked = []

        def java(main: str, home: Path) -> list[str]:
            return ["java", main]

        def go(main: str, home: Path) -> list[str]:
            asked.append(main)
            raise unittest.SkipTest("there is no go on the PATH")

        said = io.StringIO()
        with mock.patch.dict(rows.CLIENTS, {"": java, "go": go}), contextlib.redirect_stdout(said):
            found = rows.possible(["sync16", "sync16@go", "push", "batch32@go"], Path("unused"))
        self.assertEqual(found, ["sync16", "push"])
        self.assertEqual(asked, ["LoadProducer"])
        self.assertEqual(
            said.getvalue().splitlines(),
            [f"{row} is left out: there is no go on the PATH" for row in ("sync16@go", "batch32@go")],
        )


CLIENT = """
import json, sys, time
print("a line of a library", flush=True)
for number, line in enumerate(sys.stdin, 1):
    settle_s, seconds = map(float, line.split())
    if seconds > 9:
        sys.exit("no route")
    began, messages = time.time(), 100 * number if seconds else 0
    time.sleep(settle_s + seconds)  # as long as it was told to send
    latencies = {"p50": 1.0, "p99": 2.0, "p99_9": 3.0, "max": 4.0}
    print(json.dumps({"start_ms": began * 1000, "seconds": 0.3, "msgs": messages, "msgs_s": 500.0 * number,
                      "lat_ms": latencies, "errors": 1, "not_ok": {"FLUSH_DISK_TIMEOUT": 2}}), flush=True)
"""


class WindowTests(unittest.TestCase):
    """One process of a load client, and what it says of each window."""

    def load(self, stack: contextlib.ExitStack) -> rows.Load:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(
            mock.patch.dict(rows.CLIENTS, {"": lambda main, home: [sys.executable, "-c", CLIENT, main]})
        )
        broker = mock.Mock(pid=os.getpid())
        return stack.enter_context(rows.Load("ours", broker, "127.0.0.1:1", "batch32", 128, folder))

    def test_one_after_the_other(self) -> None:
        with contextlib.ExitStack() as stack:
            load = self.load(stack)
            load.warm(0.0)
            found = [load.window(0.0, 0.3) for _ in range(3)]
        self.assertEqual([each.messages for each in found], [200, 300, 400])
        self.assertEqual({(each.side, each.row, each.body_bytes) for each in found}, {("ours", "batch32", 128)})
        self.assertEqual(
            {(each.p50_ms, each.p99_ms, each.p999_ms, each.max_ms) for each in found}, {(1.0, 2.0, 3.0, 4.0)}
        )
        self.assertEqual([each.errors for each in found], [6, 3, 3])  # the first tells of the warm-up, too

    def test_nothing_was_acknowledged(self) -> None:
        with contextlib.ExitStack() as stack, self.assertRaisesRegex(rows.LoadFailed, "nothing was acknowledged"):
            self.load(stack).window(0.0, 0.0)

    def test_a_client_that_ends(self) -> None:
        """What it complained of is told, then and at the next window."""
        with contextlib.ExitStack() as stack:
            load = self.load(stack)
            for _ in range(2):
                with self.assertRaisesRegex(rows.LoadFailed, "(?s)ours batch32: .*no route"):
                    load.window(0.0, 10.0)

    def test_it_does_not_outlive_the_row(self) -> None:
        """It stands still behind a window."""
        with contextlib.ExitStack() as stack:
            load = self.load(stack)
            load.warm(0.0)
        self.assertEqual(load._process.returncode, -signal.SIGKILL)


class FakeSide:
    """Notes what is done to it."""

    def __init__(self, name: str, heard: list[str]) -> None:
        self.name, self.heard = name, heard
        self.fails = False

    @contextlib.contextmanager
    def sending(self, wanted: list[str], size: int, warmup_s: float) -> Iterator[None]:
        self.heard.append(f"{self.name} begins {' '.join(wanted)}")
        yield
        self.heard.append(f"{self.name} ends {' '.join(wanted)}")

    def measure(self, row: str, size: int, given: Any) -> rows.Result:
        if self.fails:
            raise rows.LoadFailed("broken")
        self.heard.append(f"{self.name} sends {row}")
        return rows.Result(self.name, row, size, 100, 50.0, 1.0, 2.0, 3.0, 1, 10.0, 0.5, 0.5, 0.0, 1 << 20)

    def start(self, starts: int, idle_s: float) -> dict[str, Any]:
        return {"ready_s": [1.0], "idle_rss_bytes": 0, "idle_cpu_percent": 0.0}

    def warm(self, seconds: float) -> None: ...

    def signal(self, number: signal.Signals) -> None:
        self.heard.append(f"{self.name} {number.name}")

    def make_room(self) -> None:
        self.heard.append(f"{self.name} makes room")

    def stop(self) -> None:
        self.heard.append(f"{self.name} stops")


class TurnsTests(unittest.TestCase):
    """Who sends when, and who stands still meanwhile."""

    def setUp(self) -> None:
        self.heard: list[str] = []
        self.sides = {name: FakeSide(name, self.heard) for name in ("java", "ours")}
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(program, "Side", lambda name, folder, kind: self.sides[name]))
        self.enterContext(mock.patch.object(program, "disk_percent", lambda folder: 1))
        self.enterContext(mock.patch.object(program.shutil, "which", lambda name: name))

    def compare(self, *arguments: str) -> str:
        given = program.options(["--rows", "sync16", "--sizes", "128", "--out", f"{self.folder}/out.json", *arguments])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            program.compare(given, self.folder)
        return said.getvalue()

    def test_in_turn(self) -> None:
        """The other one is stopped before, and goes on after; who was first in a round is second in the next."""
        said = self.compare("--rows", "sync16,sync16+keys", "--repeat", "2")

        def turn(one: str, other: str, what: str) -> list[str]:
            return [f"{other} SIGSTOP", f"{one} {what}", f"{other} SIGCONT"]

        rounds = [("java", "ours", "begins sync16 sync16+keys")]
        rounds += [("java", "ours", f"sends {row}") for row in ("sync16", "sync16+keys")]
        rounds += [("ours", "java", f"sends {row}") for row in ("sync16", "sync16+keys")]
        turns = [[*turn(one, other, what), *turn(other, one, what)] for one, other, what in rounds]
        ends = [
            "ours ends sync16 sync16+keys",
            "java ends sync16 sync16+keys",
            "java makes room",
            "ours makes room",
            "java stops",
            "ours stops",
        ]
        self.assertEqual(self.heard, [*itertools.chain(*turns), *ends])
        self.assertIn("ours/Java: messages/s 1.00", said)

    def test_all_errors_are_told(self) -> None:
        self.compare("--repeat", "3")
        (entry,) = json.loads((self.folder / "out.json").read_text())["rows"]
        self.assertEqual([entry[side]["errors"] for side in ("java", "ours")], [3, 3])

    def test_what_was_measured_before_a_failure_is_kept(self) -> None:
        self.sides["ours"].fails = True
        with self.assertRaises(rows.LoadFailed):
            self.compare()
        (run,) = json.loads((self.folder / "out.json").read_text())["runs"]
        self.assertEqual((run["side"], self.heard[-2:]), ("java", ["java stops", "ours stops"]))

    def test_a_full_page_cache(self) -> None:
        """By a file that takes no room."""
        self.compare("--page-cache", "3", "--repeat", "1")
        found = (self.folder / "page-cache").stat()
        self.assertEqual((found.st_size, found.st_blocks), (3 << 20, 0))


def punched(command: list[Any], check: bool) -> None:
    """What fallocate leaves: a file of the same size without blocks."""
    os.truncate(command[-1], 0)
    os.truncate(command[-1], int(command[-2]))


class RoomTests(unittest.TestCase):
    """The disk that a row has used."""

    def test_what_is_freed(self) -> None:
        """Not the two newest files, not those that the row of reads needs, and none twice; they keep their size."""
        with tempfile.TemporaryDirectory() as name:
            log = Path(name, "commitlog")
            log.mkdir()
            for number in range(5):
                (log / f"{number:020d}").write_bytes(b"x" * 65536)
            side = program.Side("ours", Path(name), mock.Mock())
            side.broker = mock.Mock(root=Path(name))
            side.read_again.add(f"{1:020d}")
            run = mock.Mock(side_effect=punched)
            for _ in range(2):
                with mock.patch.object(program.subprocess, "run", run):
                    side.make_room()
            asked = [Path(call.args[0][-1]).name for call in run.call_args_list]
            sizes = {file.stat().st_size for file in log.iterdir()}
        self.assertEqual((asked, sizes), ([f"{0:020d}", f"{2:020d}"], {65536}))


class ReportTests(unittest.TestCase):
    """What stands beside what."""

    def test_keys_are_compared_within_a_client(self) -> None:
        """What keys cost is of the same client's row without."""
        plain = rows.Result("ours", "sync16", 128, 100, 50.0, 1.0, 2.0, 3.0, 0, 10.0, 0.5, 0.5, 0.0, 1 << 20)
        results = [plain]
        for row, cpu in (("sync16@go", 20.0), ("sync16+keys", 15.0), ("sync16+keys@go", 22.0)):
            results.append(attrs.evolve(plain, row=row, broker_cpu_s_per_million=cpu))
        entries = {entry["row"]: entry.get("keyed_ratio") for entry in report.summary(results)}
        self.assertEqual(entries, {"sync16": None, "sync16@go": None, "sync16+keys": 1.5, "sync16+keys@go": 1.1})

    def test_windows_are_compared_within_a_round(self) -> None:
        """A machine that is slow in some rounds is so for both."""
        window = rows.Result("java", "sync16", 128, 100, 50.0, 1.0, 2.0, 3.0, 0, 10.0, 0.5, 0.5, 0.0, 1 << 20)
        results = []
        for side, speeds in (("java", (1.0, 4.0, 2.0)), ("ours", (2.0, 8.0, 3.0))):
            for speed in speeds:
                cpu = 10 / speed if side == "java" else 5.0
                results.append(
                    attrs.evolve(window, side=side, messages_per_s=100 * speed, broker_cpu_s_per_million=cpu)
                )
        (entry,) = report.summary(results)
        self.assertEqual((entry["throughput_ratio"], entry["cpu_ratio"]), (2.0, 1.0))

    def test_beside_an_older_state(self) -> None:
        """Ratios are to that state; only the throughput has a target."""
        older = rows.Result("before", "sync16", 128, 100, 50.0, 1.0, 2.0, 3.0, 0, 10.0, 0.5, 0.5, 0.0, 1 << 20)
        ours = attrs.evolve(older, side="ours", messages_per_s=48.0, broker_cpu_s_per_million=30.0)
        entries = report.summary([older, ours])
        self.assertEqual((entries[0]["throughput_ratio"], entries[0]["cpu_ratio"]), (0.96, 3.0))
        self.assertIn(
            "ours/before: messages/s 0.96! (at least 0.97), CPU a message 3.00\n", report.table(entries) + "\n"
        )

    def test_the_older_state_runs_its_own_code(self) -> None:
        there = Path(self.enterContext(tempfile.TemporaryDirectory()))
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            program.options(["--before", str(there)])
        self.assertIn("there is no .venv/bin/python", said.getvalue())
        (there / ".venv/bin").mkdir(parents=True)
        (there / ".venv/bin/python").touch()
        given = program.options(["--before", str(there), "--rows", "sync16"])
        self.assertEqual(given.sides, ["before", "ours"])
        older = program.Older(given.before, there / "broker", None)
        self.assertEqual(older.environment()["PYTHONPATH"], f"{there}/src")
        with mock.patch.object(older, "config_file", return_value="broker.conf"):
            self.assertEqual(older.command()[0], f"{there}/.venv/bin/python")
            self.assertEqual(older.command()[-3:], ["rocketha-broker", "--config", "broker.conf"])
