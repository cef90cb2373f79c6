"""``rocketha fuzz``: in this process, on files, against ports good and bad."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from typing import Any
from unittest import mock

import trustme

from rocketha.admin import fuzz, fuzz_port, fuzz_probe
from rocketha.admin.cli import main
from rocketha.admin.fuzz_port import MAY_STAY_SILENT, PortRun, expect
from rocketha.admin.fuzz_probe import alone
from rocketha.admin.fuzz_report import PortReport, code_name, resident_bytes
from rocketha.wire import remoting
from rocketha.wire.codes import ResponseCode
from rocketha.wire.fuzz.case import VALID, Case
from rocketha.wire.fuzz.generator import REMOTING, Generator
from rocketha.wire.registry import FORMATS
from tests.fuzz import readers, servers


def command(*arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of the command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["fuzz", *arguments])
    return status, out.getvalue(), err.getvalue()


def registered(**broken: Any) -> Any:
    """The registry with formats of tests added, for one test."""
    return mock.patch.dict(FORMATS, broken)


class OfflineTests(unittest.TestCase):
    """Without a port."""

    def test_clean(self) -> None:
        """A clean run says its seed, counts by kind, and exits 0; --json ends it with one line for programs."""
        status, out, _ = command("index-unit", "--seed", "5", "--cases", "200", "--json")
        self.assertEqual(status, 0)
        self.assertIn("index-unit: seed 5, 200 cases", out)
        summary = json.loads(out.splitlines()[-1])
        self.assertEqual((summary["seed"], summary["cases"], summary["found"]), (5, 200, []))
        self.assertEqual(sum(summary["accepted"].values()) + sum(summary["refused"].values()), 200)

    def test_fresh_seed_is_printed(self) -> None:
        """Without --seed each run has another one, printed, so that it can come again."""
        seeds = {re.findall(r"seed (\d+)", command("index-slot", "--cases", "5")[1])[0] for _ in range(3)}
        self.assertGreater(len(seeds), 1)

    def test_all(self) -> None:
        """The word all goes through every format."""
        status, out, _ = command("all", "--cases", "5", "--seed", "1")
        self.assertEqual(status, 0)
        for name in FORMATS:
            self.assertIn(f"{name}: seed 1, 5 cases", out)

    def test_a_finding_comes_again(self) -> None:
        """A broken reader: exit 1, each finding with the command that makes its case again, and that command finds
        it.
        """
        with registered(note=readers.note_format(readers.leaks_struct_error)):
            status, out, err = command("note", "--seed", "3", "--cases", "300", "--kinds", "cut,valid", "--json")
            self.assertEqual(status, 1)
            again = re.findall(r"again: rocketha fuzz (.*)", out)
            self.assertEqual(len(again), 10)
            self.assertGreater(json.loads(out.splitlines()[-1])["found_count"], 10)
            status, out, err = command(*again[0].split(), "--json")
            self.assertEqual((status, err), (1, ""))
            self.assertIn("FOUND parse raised error", out)
            self.assertEqual(len(json.loads(out.splitlines()[-1])["found"]), 1)

    def test_progress(self) -> None:
        """--progress talks on standard error."""
        with mock.patch.object(fuzz, "PROGRESS_SECONDS", 0.0):
            self.assertIn("1 cases, 0 found", command("index-slot", "--cases", "3", "--progress")[2])

    def test_usage(self) -> None:
        """What contradicts itself or names nothing is told in one line, exit 2."""
        for arguments, text in (
            (("nothing",), "no such format: nothing"),
            (("remoting", "--kinds", "valid,odd"), "no such kind: odd"),
            (("all", "--connect", "127.0.0.1:1"), "want one format"),
            (("all", "--case", "1"), "want one format"),
            (("remoting", "--cases", "0"), "positive"),
            (("remoting", "--case", "-1"), "positive"),
            (("index-slot", "--connect", "127.0.0.1:1"), "speaks remoting and"),
            (("remoting", "--connect", "10.0.0.1:9876"), "not on loopback"),
            (("remoting", "--connect", "example.org:9876"), "wants an address and a port"),
            (("remoting", "--connect", "127.0.0.1:0"), "no such port"),
            (("remoting", "--connect", "127.0.0.1"), "wants an address and a port"),
            (("checkpoint", "--file", "/nonexistent/x"), "cannot read /nonexistent/x"),
            (("checkpoint", "--file", "/nonexistent/x", "--case", "1"), "cannot write /nonexistent/x"),
        ):
            with self.subTest(arguments):
                status, _, err = command(*arguments)
                self.assertEqual(status, 2)
                self.assertIn(text, err)
        status, _, err = command("remoting", "--connect", "127.0.0.1:1", "--file", "x")
        self.assertEqual(status, 2)
        self.assertIn("--connect and --file exclude each other", err)

    def test_installed_command(self) -> None:
        """The console entry dispatches to it."""
        ran = subprocess.run(
            [sys.executable, "-m", "rocketha.admin.cli", "fuzz", "index-slot", "--cases", "3", "--seed", "1"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("0 found", ran.stdout)


class FileTests(unittest.TestCase):
    """--file, both ways."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name) / "case"

    def test_every_format_writes_and_reads(self) -> None:
        """--case N --file writes the case's very bytes; --file alone reads them and tells how the reader takes them."""
        for name in sorted(FORMATS):
            with self.subTest(name):
                status, out, _ = command(
                    name, "--seed", "8", "--case", "4", "--kinds", "valid", "--file", str(self.path)
                )
                self.assertEqual((status, "written to" in out), (0, True))
                self.assertEqual(self.path.read_bytes(), Generator(FORMATS[name], 8, (VALID,)).case(4).data)
                status, out, _ = command(name, "--file", str(self.path), "--json")
                self.assertEqual((status, json.loads(out.splitlines()[-1])["found"]), (0, []))

    def test_a_refused_file(self) -> None:
        """A file that is no checkpoint is told as refused with the reason; that is no finding."""
        self.path.write_bytes(b"short")
        status, out, _ = command("checkpoint", "--file", str(self.path))
        self.assertEqual(status, 0)
        self.assertRegex(out, "refused: 48 bytes wanted")


class ExpectationTests(unittest.TestCase):
    """What our own reader says a case must get."""

    def test_shapes(self) -> None:
        """Requests want answers, oneways and responses none, unreadable frames a close, unfinished ones our end."""
        ask = remoting.encode(remoting.Command(105, opaque=3))
        ask_too = remoting.encode(remoting.Command(106, opaque=4))
        oneway = remoting.encode(remoting.request(15, oneway=True))
        for data, shape, wanted in (
            (ask, "requests", ((3, 105),)),
            (ask + oneway + ask_too, "requests", ((3, 105), (4, 106))),
            (ask + ask, "silent", ()),
            (oneway, "silent", ()),
            (remoting.encode_answer(3, remoting.Answer()), "silent", ()),
            (ask[:-1], "unfinished", ()),
            (ask + b"\x00", "unfinished", ()),
            (b"", "unfinished", ()),
            (b"\xff" * 8, "unreadable", ()),
            (b"\x00\x00\x00\x04\x07\x00\x00\x00", "unreadable", ()),
        ):
            with self.subTest(data):
                expected = expect(data)
                self.assertEqual(expected.shape, shape)
                self.assertEqual(expected.requests if shape == "requests" else (), wanted)


class PortTests(unittest.TestCase):
    """Against small servers: what is answered, closed, and found."""

    def setUp(self) -> None:
        # Generous where time says nothing: a busy machine is no finding.
        self.bounds(PROBE_SECONDS=0.05, PATIENCE_SECONDS=30.0, LATE_SECONDS=20.0)

    def bounds(self, **seconds: float) -> None:
        """Other bounds for one test."""
        patched = mock.patch.multiple(fuzz_port, **seconds)
        patched.start()
        self.addCleanup(patched.stop)

    def attack(self, server: servers.Server, *more: str, cases: int = 1500) -> tuple[int, str, dict[str, Any]]:
        """Exit status, text and summary of a run."""
        with server:
            target = f"{server.address[0]}:{server.address[1]}"
            status, out, _ = command(
                "remoting",
                "--connect",
                target,
                "--seed",
                "2",
                "--cases",
                str(cases),
                "--close-seconds",
                "30" if "--strict" in more else "0.3",
                "--json",
                *more,
            )
        return status, out, json.loads(out.splitlines()[-1])

    def test_good_server(self) -> None:
        """Every case is accounted for, nothing differs from what our reader expects, the pid's memory is in the
        report.
        """
        server = servers.Server()
        status, out, summary = self.attack(
            server, "--strict", "--pid", str(os.getpid()), "--growth-mib", "500", "--progress"
        )
        self.assertEqual((status, summary["found"]), (0, []), out)
        outcomes = summary["outcomes"]
        answered = sum(sum(codes.values()) for codes in summary["answers"].values())
        self.assertGreater(answered, 700)
        self.assertGreater(outcomes["unreadable and closed"], 100)
        self.assertGreater(outcomes["closed after our end"], 50)
        self.assertGreater(outcomes["silent"], 50)
        self.assertEqual(summary["sent"], 1500)
        self.assertLess(summary["connections"], 1500)
        self.assertGreater(summary["memory_bytes"]["max"], 1 << 20)
        self.assertGreaterEqual(server.seen, answered)
        self.assertIn("REQUEST_CODE_NOT_SUPPORTED", out)
        self.assertIn("nothing found", out)

    def test_crash(self) -> None:
        """A port that takes no connections any more: found, with the last cases sent, exit 1."""
        self.bounds(PATIENCE_SECONDS=1.0)
        status, out, summary = self.attack(servers.Crashing())
        self.assertEqual(status, 1, out)
        self.assertRegex(summary["found"][0], "^crash: .*the last cases sent were [0-9]+")
        self.assertLess(summary["sent"], 1500)

    def test_hang(self) -> None:
        """A port that accepts and answers nothing: found by the plain request."""
        self.bounds(PATIENCE_SECONDS=1.0)
        status, out, summary = self.attack(servers.Hanging())
        self.assertEqual(status, 1, out)
        self.assertTrue(any(text.startswith("hang:") for text in summary["found"]), out)

    def test_late(self) -> None:
        """A plain request answered too late is found, with how late it was."""
        self.bounds(LATE_SECONDS=0.2)
        status, out, summary = self.attack(servers.Slow())
        self.assertEqual(status, 1, out)
        self.assertRegex(summary["found"][0], r"^late: a plain request took [0-9.]+ s after [0-9]+ cases")

    def test_process_gone(self) -> None:
        """A pid that is no process is a crash at the first look."""
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        status, out, summary = self.attack(servers.Server(), "--pid", str(child.pid))
        self.assertEqual(status, 1, out)
        self.assertIn("is gone", summary["found"][0])

    def test_kept_open(self) -> None:
        """Connections kept on unreadable frames are a difference: reported, and found only when strict."""
        status, out, summary = self.attack(servers.Lenient(), cases=150)
        self.assertEqual(status, 0, out)
        self.assertGreater(summary["outcomes"]["unreadable and kept open"], 10)
        status, out, summary = self.attack(servers.Lenient(), "--strict", "--close-seconds", "0.3", cases=150)
        self.assertEqual(status, 1, out)
        self.assertRegex(summary["found"][0], "difference: [0-9]+ cases unreadable and kept open")

    def test_closed_wrongly_is_attributed(self) -> None:
        """A close on readable requests is told with its suspects; --attribute names the case, by sending each alone."""
        status, out, summary = self.attack(servers.Strict(34), "--strict", "--attribute", cases=300)
        self.assertEqual(status, 1, out)
        self.assertGreater(summary["outcomes"]["readable and closed"], 0)
        named = re.findall(r"remoting case \d+ of seed 2 \([^)]*request 34\b[^)]*\): closed", out)
        self.assertTrue(named, out)
        self.assertIn("SYSTEM_ERROR (1) by remark", out)

    def test_unanswered(self) -> None:
        """A request without an answer is told after a while; the rest of its connection goes on elsewhere."""
        self.bounds(PATIENCE_SECONDS=1.5)
        status, out, summary = self.attack(servers.Forgetful(34), "--strict", cases=300)
        self.assertEqual(status, 1, out)
        self.assertRegex(out, r"remoting case \d+ of seed 2 .*: request 34")
        self.assertEqual(summary["sent"], 300)

    def test_chatter(self) -> None:
        """Answers to nothing, requests of the server and garbage are counted, not fatal."""
        _, out, summary = self.attack(servers.Chattering(), cases=400)
        outcomes = summary["outcomes"]
        self.assertGreater(outcomes["answers to no request"], 10)
        self.assertGreater(outcomes["server's own requests"], 10)
        self.assertGreater(outcomes["answer unreadable"], 0, out)

    def test_nobody_there(self) -> None:
        """A port where nobody listens is a crash, not an endless wait."""
        server = servers.Server()
        with server:
            pass
        self.bounds(PATIENCE_SECONDS=1.0)
        status, out, summary = self.attack_address(server.address)
        self.assertEqual(status, 1, out)
        self.assertEqual(summary["sent"], 0)

    def attack_address(self, address: tuple[str, int]) -> tuple[int, str, dict[str, Any]]:
        """A run against an address."""
        status, out, _ = command("remoting", "--connect", f"localhost:{address[1]}", "--cases", "20", "--json")
        return status, out, json.loads(out.splitlines()[-1])

    def test_one_case(self) -> None:
        """--case with --connect shows the bytes and what they got."""
        cases = map(Generator(FORMATS[REMOTING], 2, (VALID,)).case, range(100))
        case = next(each for each in cases if expect(each.data).shape == "requests")
        with servers.Server() as server:
            target = f"127.0.0.1:{server.address[1]}"
            wanted = ("--seed", "2", "--case", str(case.index), "--kinds", "valid")
            status, out, _ = command("remoting", "--connect", target, *wanted)
            self.assertEqual(status, 0)
            self.assertIn(f"remoting case {case.index} of seed 2 (valid: request", out)
            self.assertIn("answered: 1", out)
            self.assertEqual(alone(server.address, case), "answered 3")
            self.assertRegex(alone(server.address, Case("remoting", 0, 0, "cut", "", b"\xff" * 8)), "^closed")
            with mock.patch.object(fuzz_probe, "ALONE_SECONDS", 0.1):
                self.assertEqual(alone(server.address, Case("remoting", 0, 0, "cut", "", b"\x00")), "silent")


class OtherPortTests(unittest.TestCase):
    """Ports under TLS, and those that speak something else than remoting."""

    CASES = 400

    def setUp(self) -> None:
        patched = mock.patch.multiple(fuzz_port, PROBE_SECONDS=0.05, PATIENCE_SECONDS=30.0, LATE_SECONDS=20.0)
        patched.start()
        self.addCleanup(patched.stop)

    def run_at(self, server: servers.Server, **more: Any) -> PortReport:
        """A strict run."""
        with server:
            cases = map(Generator(FORMATS[REMOTING], 2).case, range(self.CASES))
            report = PortRun(server.address, cases, PortReport(), close_seconds=30.0, **more).run()
        report.conclude(500, strict=True)
        return report

    def test_inside_tls(self) -> None:
        """The same is found as in the clear: nothing; and it was answered inside the sessions."""
        authority = trustme.CA()
        serves, asks = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
        authority.issue_cert("127.0.0.1").configure_cert(serves)
        authority.configure_trust(asks)
        plain, inside = self.run_at(servers.Server()), self.run_at(servers.Encrypted(serves), tls=asks)
        self.assertEqual((inside.found, inside.sent), ([], self.CASES), "\n".join(inside.lines()))
        for report in (plain, inside):  # some may still be waited for when the connection ends
            report.answers = Counter({each: n for each, n in report.answers.items() if each[0] not in MAY_STAY_SILENT})
        self.assertEqual(inside.answers, plain.answers)
        self.assertGreater(len(inside.probes), 0)

    def test_a_certificate_that_is_not_believed(self) -> None:
        """The port is not taken for one that serves."""
        serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(serves)
        report = self.run_at(servers.Encrypted(serves), tls=ssl.create_default_context())
        self.assertRegex(report.found[0], "^crash: a plain request was not served: .*CERTIFICATE_VERIFY_FAILED")

    def test_streams(self) -> None:
        """Each case has a connection of its own, and what comes back is counted, not read."""
        report = self.run_at(servers.Talkative(), stream=True)
        self.assertEqual((report.found, report.sent), ([], self.CASES), "\n".join(report.lines()))
        self.assertGreaterEqual(report.connections, self.CASES)
        self.assertGreater(report.outcomes["bytes back"], len(servers.Talkative.WORDS))
        self.assertFalse(report.answers)


class ReportTests(unittest.TestCase):
    """What is counted and concluded."""

    def test_growth(self) -> None:
        """Growth counts from the settled quarter on; a start that fills pools does not."""
        mib = 1 << 20
        report = PortReport(memory=[10 * mib, 90 * mib, 95 * mib, 96 * mib, 99 * mib])
        report.conclude(64, False)
        self.assertEqual(report.found, [])
        grown = PortReport(memory=[10 * mib, 20 * mib, 60 * mib, 90 * mib, 120 * mib])
        grown.conclude(64, False)
        self.assertRegex(grown.found[0], "growth: 100 MiB")
        self.assertIsNone(PortReport(memory=[5]).growth())

    def test_remarks_are_grouped(self) -> None:
        """Remarks that differ by numbers and names are one kind, with an example; of an endless variety some are
        kept.
        """
        report, case = PortReport(), Case("remoting", 1, 9, VALID, "", b"")
        for number in range(50):
            report.answer(case, 33, ResponseCode.SYSTEM_ERROR, f"no message at {number}")
        for number in range(1000):
            report.answer(case, number, ResponseCode.SYSTEM_ERROR, None)
        self.assertEqual(report.errors[33, "no message at ~"], [50, 9, "no message at 0"])
        self.assertEqual(len(report.errors), 400)
        self.assertEqual(report.answers[33, 1], 51)

    def test_names(self) -> None:
        """Codes have Java's names, unknown ones none; memory of no process is None."""
        self.assertEqual((code_name(ResponseCode, 17), code_name(ResponseCode, -5)), ("TOPIC_NOT_EXIST", ""))
        self.assertIsNone(resident_bytes(2**22 + 1))
        self.assertGreater(resident_bytes(os.getpid()) or 0, 1 << 20)

    def test_run_without_cases(self) -> None:
        """Nothing to send: the last plain request, which is the first one unless that was answered already."""
        with servers.Server() as server:
            report = PortRun(server.address, iter(()), PortReport()).run()
        self.assertEqual((report.sent, report.found), (0, []))
        self.assertIn(len(report.probes), (1, 2))
