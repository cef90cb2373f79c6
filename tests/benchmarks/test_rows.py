"""The rows of ``python -m benchmarks``: their names, and those whose client is not there."""

from __future__ import annotations

import contextlib
import io
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
