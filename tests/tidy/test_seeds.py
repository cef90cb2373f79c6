"""A failure of a seeded test names its seed, and the seed replays it."""

from __future__ import annotations

import io
import os
import unittest
from contextlib import redirect_stderr
from unittest import mock

from tests.seeds import VARIABLE, SeededCase


class SeedTests(unittest.TestCase):
    """With a test that fails at what it drew."""

    def drawn(self) -> tuple[str, str]:
        """What a run drew, and what its failure says of the seed."""

        class Failing(SeededCase):
            def test_draw(self) -> None:
                raise ValueError(str(self.chance.random()))

        case = Failing("test_draw")
        with redirect_stderr(io.StringIO()) as told, self.assertRaises(ValueError) as caught:
            case.test_draw()
        return str(caught.exception), told.getvalue().split()[0]

    def test_replay(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop(VARIABLE, None)
            first, note = self.drawn()
            self.assertNotEqual(self.drawn()[0], first)
            name, _, seed = note.partition("=")
            self.assertEqual(name, VARIABLE)
            os.environ[name] = seed
            self.assertEqual(self.drawn(), (first, note))
