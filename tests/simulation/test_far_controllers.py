"""Controllers far from each other: an answer takes longer than a round of reads waits before the next is begun."""

from __future__ import annotations

from rocketha.simulation.link import Quality
from tests.simulation.test_regressions import ClusterCase


class FarTests(ClusterCase):
    """130 ms each way, as between continents; elections and heartbeats stand that easily."""

    quality = Quality(delay_s=0.13, jitter_s=0.005)

    def test_reads_are_answered(self) -> None:
        """What an answer confirms it confirms, however many rounds were begun meanwhile."""
        self.start(settle_s=40.0)
        process = self.lead().process
        assert process is not None
        read = process.service.raft.barrier()
        self.until(lambda: read.called, 1.0)
        self.assertIsNone(self.successResultOf(read))
