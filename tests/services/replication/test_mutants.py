"""``replication_mutants.py`` is run by hand; that its texts are still the source's is looked at here."""

from __future__ import annotations

from twisted.trial import unittest

from tests.services.replication_mutants import MUTANTS


class ReplicationMutantTests(unittest.SynchronousTestCase):
    """Rules of replication, each taken out."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        for mutant in MUTANTS:
            self.assertEqual(mutant.problem(), "")
