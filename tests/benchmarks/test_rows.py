"""The rows of ``python -m benchmarks``: their names, and those whose client is not there."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import tempfile
import unittest
from pathlib import Path
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
    time.sleep(settle_s + seconds)
    latencies = {"p50": 1.0, "p99": 2.0, "p99_9": 3.0}
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
        (same,) = {(each.side, each.row, each.body_bytes, each.errors) for each in found}
        self.assertEqual(same, ("ours", "batch32", 128, 3))

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
        """Not even one that was stopped by a signal."""
        with contextlib.ExitStack() as stack:
            load = self.load(stack)
            load.signal(signal.SIGSTOP)
        self.assertEqual(load._process.returncode, -signal.SIGKILL)


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

    def test_beside_an_older_state(self) -> None:
        """The ratio is to that, and as much as before is wanted of the rate alone."""
        older = rows.Result("before", "sync16", 128, 100, 50.0, 1.0, 2.0, 3.0, 0, 10.0, 0.5, 0.5, 0.0, 1 << 20)
        ours = attrs.evolve(older, side="ours", messages_per_s=48.0, broker_cpu_s_per_million=30.0)
        entries = report.summary([older, ours])
        self.assertEqual((entries[0]["throughput_ratio"], entries[0]["cpu_ratio"]), (0.96, 3.0))
        self.assertIn(
            "ours/before: messages/s 0.96! (at least 0.97), CPU a message 3.00\n", report.table(entries) + "\n"
        )

    def test_the_older_state_runs_its_own_code(self) -> None:
        given = program.options(["--before", "/there", "--rows", "sync16"])
        self.assertEqual(given.sides, ["before", "ours"])
        older = program.Older(Path("/there"), Path(self.id()), None)
        self.assertEqual(older.environment()["PYTHONPATH"], "/there/src")
        with mock.patch.object(older, "config_file", return_value="broker.conf"):
            self.assertEqual(older.command()[0], "/there/.venv/bin/python")
            self.assertEqual(older.command()[-3:], ["rocketha-broker", "--config", "broker.conf"])
