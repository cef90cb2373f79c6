"""The ring: every reader of ours, against every kind of case, from a fixed seed and a fresh one.

Source: issue 1, "a generic fuzzer over every registered spec"; security.md, hostile inputs.
"""

from __future__ import annotations

import os
import sys
import unittest
from random import Random

from rocketha.admin.fuzz_meter import CPU_SECONDS_MAX, Meter
from rocketha.wire.fuzz.case import CUT, HOSTILE, KINDS, MUTATED, VALID, Case
from rocketha.wire.fuzz.damage import prefixes
from rocketha.wire.fuzz.generator import Generator
from rocketha.wire.registry import FORMATS
from rocketha.wire.spec.format import Format
from tests import processor

FIXED_SEED = 20251103
FRESH_SEED = int(os.environ.get("ROCKETHA_FUZZ_SEED") or int.from_bytes(os.urandom(4), "big"))
FIXED_CASES = 600
FRESH_CASES = 300
PREFIXES_OF = 6
PREFIX_BYTES_MAX = 600

# What is accepted of valid cases must not sink: a generator whose values nobody takes tests nothing but refusals.
ACCEPTED_MIN = 0.6


class RingTests(unittest.TestCase):
    """Each test goes through every registered format; a failure prints the command that makes the case again."""

    def setUp(self) -> None:
        # The costliest cases take a fifth of the bound where it was set; elsewhere they must not take the rest.
        self.cpu_seconds_max = CPU_SECONDS_MAX * processor.slowness()

    def problems(self, target: Format, seed: int, count: int, accepted: dict[str, int]) -> list[str]:
        """What the cases of one format and seed found."""
        found = []
        generator = Generator(target, seed)
        with Meter(self.cpu_seconds_max) as meter:
            for index in range(count):
                case = generator.case(index)
                judgment = meter.judge(target, case)
                accepted[case.kind] = accepted.get(case.kind, 0) + judgment.accepted
                if judgment.problem is not None:
                    found.append(f"{case}: {judgment.problem}")
        return found

    def test_fixed_seed(self) -> None:
        """The same cases in every run, so that a failure is a change of the code."""
        for name, target in sorted(FORMATS.items()):
            with self.subTest(name):
                accepted: dict[str, int] = {}
                self.assertEqual(self.problems(target, FIXED_SEED, FIXED_CASES, accepted), [])
                share = accepted[VALID] / (FIXED_CASES / len(KINDS))
                self.assertGreater(share, ACCEPTED_MIN, f"{name}: few valid cases are accepted: see fuzz/fittings.py")

    def test_fresh_seed(self) -> None:
        """Other cases in every run; rocketha fuzz FORMAT --seed SEED --case N brings one back."""
        sys.stdout.write(f"fresh fuzz seed {FRESH_SEED} (ROCKETHA_FUZZ_SEED sets it)\n")
        for name, target in sorted(FORMATS.items()):
            with self.subTest(name, seed=FRESH_SEED):
                self.assertEqual(self.problems(target, FRESH_SEED, FRESH_CASES, {}), [])

    def test_every_prefix(self) -> None:
        """Cut at each byte, not only where chance cuts; and one byte too many."""
        for name, target in sorted(FORMATS.items()):
            generator = Generator(target, FIXED_SEED, (VALID,))
            short = [case.data for case in map(generator.case, range(80)) if len(case.data) <= PREFIX_BYTES_MAX]
            with self.subTest(name), Meter(self.cpu_seconds_max) as meter:
                self.assertTrue(short, "no short valid value among 80")
                for data in short[:PREFIXES_OF]:
                    for piece in (*prefixes(data), data + b"\x00"):
                        case = Case(name, FIXED_SEED, len(piece), CUT, f"first {len(piece)} of {data.hex()}", piece)
                        self.assertIsNone(meter.judge(target, case).problem, case.note)

    def test_every_kind_is_made(self) -> None:
        """A run without a filter holds all four kinds for every format, and a filter is kept."""
        for name, target in sorted(FORMATS.items()):
            with self.subTest(name):
                generator = Generator(target, FIXED_SEED)
                self.assertEqual({generator.case(index).kind for index in range(80)}, set(KINDS))
                only = Generator(target, FIXED_SEED, (HOSTILE, MUTATED))
                self.assertEqual({only.case(index).kind for index in range(40)}, {HOSTILE, MUTATED})

    def test_valid_values_fit_their_bound(self) -> None:
        """Format.bound is the largest value that is accepted: a valid one beyond it would be no valid one."""
        for name, target in sorted(FORMATS.items()):
            with self.subTest(name):
                generator, chance = Generator(target, FIXED_SEED), Random(FIXED_SEED)
                self.assertLessEqual(max(len(generator.valid(chance)) for _ in range(50)), target.bound)
