"""Test cases that draw from a random seed: fresh in each run, named by a failure, and replayed from the environment."""

from __future__ import annotations

import functools
import os
import random
import sys
import unittest
from collections.abc import Callable

VARIABLE = "ROCKETHA_SEED"


class SeededCase(unittest.TestCase):
    """``chance`` draws from ``seed``; ``ROCKETHA_SEED=... pytest path::Case::test`` runs a test again with its seed."""

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self.seed = int(os.environ.get(VARIABLE) or random.randrange(1, 1 << 32))
        self.chance = random.Random(self.seed)
        method = getattr(self, methodName, None)
        if method is not None:
            setattr(self, methodName, self._naming(method))

    def _naming(self, method: Callable[[], object]) -> Callable[[], object]:
        @functools.wraps(method)
        def run() -> object:
            try:
                return method()
            except BaseException:  # written, for trial shows no notes of an exception
                sys.stderr.write(f"{VARIABLE}={self.seed} {self.id()}\n")
                raise

        return run
