"""Which copy of the core is tested: the one that test_mutants.py made, if it runs us."""

from __future__ import annotations

import os

from twisted.trial import unittest

from rocketha.raft import node


class CopyTests(unittest.SynchronousTestCase):
    """A mutant that is not loaded would always survive."""

    def test_the_copy_is_loaded(self) -> None:
        """The path of the module says so."""
        directory = os.environ.get("ROCKETHA_RAFT_MUTANT", "")
        self.assertTrue((node.__file__ or "").startswith(directory))
