"""What the fuzzer notices: readers and writers broken on purpose, and a sound one that is left alone."""

from __future__ import annotations

import resource
import signal
import tracemalloc
import unittest
from typing import Any

import attrs

from rocketha.admin.fuzz_meter import Meter
from rocketha.wire.fuzz.case import MUTATED, VALID, Case
from rocketha.wire.fuzz.contract import agreement, judge
from rocketha.wire.fuzz.generator import Generator
from rocketha.wire.spec.format import Format
from tests.fuzz import readers
from tests.fuzz.readers import note_format

PATIENCE_CPU_S = 120.0
"""For what ends by itself: on a slow machine it may take long, and must be found for what it is."""
HANG_CPU_S = 0.3


def first_problem(target: Format, cases: int = 400, cpu_seconds: float = PATIENCE_CPU_S) -> str | None:
    """The first thing a run finds."""
    generator = Generator(target, 1)
    with Meter(cpu_seconds) as meter:
        for index in range(cases):
            judgment = meter.judge(target, generator.case(index))
            if judgment.problem is not None:
                return judgment.problem
    return None


class BrokenReaderTests(unittest.TestCase):
    """Each broken reader is found within a few hundred cases, and named rightly."""

    def test_a_sound_reader_is_left_alone(self) -> None:
        """No finding where the contract is kept; also not for a format that is only read."""
        self.assertIsNone(first_problem(note_format()))
        self.assertIsNone(first_problem(note_format(writer=None)))

    def test_struct_error(self) -> None:
        """An error of struct that leaves the reader is a crash."""
        self.assertRegex(
            first_problem(note_format(readers.leaks_struct_error)) or "", "parse raised error: unpack_from"
        )

    def test_hang(self) -> None:
        """A loop that a negative length makes endless is stopped, by CPU time."""
        problem = first_problem(note_format(readers.loops_on_negative), cpu_seconds=HANG_CPU_S) or ""
        self.assertRegex(problem, f"not done after {HANG_CPU_S} s of CPU")

    def test_memory_is_measured_against_the_input(self) -> None:
        """A few times more than a case may hold, and far less than the address space: only the measure finds it."""
        problem = first_problem(note_format(readers.believes_length_in_part)) or ""
        self.assertRegex(problem, "held [0-9]+ bytes for [0-9]+ of input")

    def test_allocation_by_claimed_length(self) -> None:
        """Memory is measured against the input, or the address space ends it: either way it is found."""
        problem = first_problem(note_format(readers.believes_length)) or ""
        self.assertRegex(problem, "held [0-9]+ bytes for [0-9]+ of input|parse raised MemoryError")

    def test_broken_invariant(self) -> None:
        """InvariantBroken is ours, but says the bytes broke us: a crash."""
        self.assertRegex(first_problem(note_format(readers.breaks_its_own_rule)) or "", "a rule of ours is broken")

    def test_misreading(self) -> None:
        """A reader that gives another value than plain construct is found by the comparison."""
        problem = first_problem(note_format(readers.misreads, writer=None)) or ""
        self.assertRegex(problem, "not what plain construct reads: .kind: '-[0-9]+' for construct")

    def test_writers(self) -> None:
        """Writers that lose, refuse or crash on what the reader returned."""
        for writer, text in (
            (readers.forgets, "read, written and read again it differs"),
            (readers.refuses, "build refuses what parse returned: negative kind"),
            (readers.crashes, "build of what parse returned raised error"),
            (readers.garbles, "parse refuses what build wrote of its own value: RemoteProtocolError"),
        ):
            with self.subTest(text):
                self.assertRegex(first_problem(note_format(writer=writer)) or "", text)

    def test_a_spec_that_refuses_its_own_bytes(self) -> None:
        """A valid case that plain construct does not parse: the spec is wrong, whatever the reader says."""
        case = Case("note", 1, 0, VALID, "by hand", b"\x00\x01\x00\x00\x00\x05ab")
        judgment = judge(note_format(lambda data: {"kind": 1}, None), case)
        self.assertRegex(judgment.problem or "", "the spec refuses what it built")


class MeterTests(unittest.TestCase):
    """The bounds leave nothing behind."""

    def test_everything_is_put_back(self) -> None:
        """Signal handler, address space limit and tracing are as before, also after an error."""
        traced = []

        def interrupted(data: bytes) -> Any:
            traced.append(tracemalloc.is_tracing())
            raise KeyboardInterrupt

        before = signal.getsignal(signal.SIGPROF), resource.getrlimit(resource.RLIMIT_AS), tracemalloc.is_tracing()
        with self.assertRaises(KeyboardInterrupt), Meter() as meter:
            meter.judge(note_format(interrupted, None), Case("note", 1, 0, VALID, "by hand", b"\x00"))
        after = signal.getsignal(signal.SIGPROF), resource.getrlimit(resource.RLIMIT_AS), tracemalloc.is_tracing()
        self.assertEqual((before, traced), (after, [True]))

    def test_nested(self) -> None:
        """A second meter inside the first does not widen its limit."""
        with Meter():
            limit = resource.getrlimit(resource.RLIMIT_AS)
            with Meter():
                self.assertLessEqual(resource.getrlimit(resource.RLIMIT_AS)[0], limit[0])
            self.assertEqual(resource.getrlimit(resource.RLIMIT_AS), limit)

    def test_anothers_tracing(self) -> None:
        """Who traces already goes on."""
        tracemalloc.start(1)
        self.addCleanup(tracemalloc.stop)
        with Meter() as meter:
            meter.judge(note_format(), Generator(note_format(), 1).case(0))
        self.assertTrue(tracemalloc.is_tracing())


@attrs.frozen
class Pair:
    """A value with attributes, as attrs classes of ours are."""

    a: Any
    b: Any = None


class AgreementTests(unittest.TestCase):
    """The comparison with plain construct names what differs, and says nothing where nothing can be said."""

    def agree(self, oracle: Any, value: Any) -> tuple[int, list[str]]:
        """(leaves compared, differences)."""
        differences: list[str] = []
        return agreement(oracle, value, "", differences), differences

    def test_shapes(self) -> None:
        """Attributes, mappings, single members, lists, rows of pairs, bytes against text."""
        for oracle, value, expected in (
            ({"a": 1, "_io": None, "c": 2}, Pair(1), (1, [])),
            ({"a": 1}, Pair(2), (1, [".a: '1' for construct, '2' for the reader"])),
            ({"only": 7}, 7, (1, [])),
            ({"only": [1, 2]}, [1, 3], (2, [".1: '2' for construct, '3' for the reader"])),
            ([1], [1, 2], (1, ["value: 1 items for construct, 2 for the reader"])),
            ({"rows": [{"n": b"k", "v": b"1"}, {"n": b"k", "v": b"2"}]}, {"k": "2"}, (1, [])),
            ({"rows": [{"n": b"k", "v": b"1"}, {"n": b"k", "v": b""}]}, {"k": "1"}, (1, [])),
            ({"rows": [{"n": b"k", "v": b""}]}, {"k": ""}, (1, [])),
            ({"rows": [{"n": b"k", "v": b"1"}]}, {"z": "1"}, (0, ["['z'] is in no row of construct's"])),
            ({"rows": [{"n": b"k"}]}, {"k": "1"}, (0, [])),
            ({"a": b"x"}, {"a": "x"}, (1, [])),
            ({"a": 1, "b": 2}, 5, (0, [])),
            ({"a": "PLAIN"}, {"a": 1}, (0, [])),
        ):
            with self.subTest(oracle=oracle, value=value):
                self.assertEqual(self.agree(oracle, value), expected)

    def test_only_valid_cases_are_compared(self) -> None:
        """Of damaged bytes construct has no say: the reader may be stricter or more lenient."""
        data = readers.build((-3, b"x"))
        self.assertIsNotNone(judge(note_format(readers.misreads, None), Case("note", 1, 0, VALID, "", data)).problem)
        self.assertIsNone(judge(note_format(readers.misreads, None), Case("note", 1, 0, MUTATED, "", data)).problem)
