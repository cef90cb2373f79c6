"""A disk that fills: what the log and the metrics say of it before messages are refused."""

from __future__ import annotations

from twisted.logger import formatEvent

from tests.services.broker_case import BrokerCase
from tests.services.events_case import events_of


class DiskCase(BrokerCase):
    """Files of 128 KiB, five minutes apart."""

    config = "mappedFileSizeCommitLog=131072\nmaxMessageSize=60000\ncleanResourceInterval=1000"

    def setUp(self) -> None:
        super().setUp()
        self.events = events_of(self)

    def said(self) -> list[tuple[str, str]]:
        """Names and texts of the events since the last look; a step of minutes is also a process that stood still."""
        events, self.events[:] = [*self.events], []
        return [(event["event"], formatEvent(event)) for event in events if event["event"] != "reactor.stalled"]

    def fill(self) -> None:
        client = self.connect()
        for _ in range(20):
            self.send(client, bytes(50_000))
            self.advance(300, 60)

    def files(self) -> list[str]:
        return self.disk.list("/store/commitlog")


class FillingTests(DiskCase):
    """With the keys' defaults."""

    def expired_early(self) -> int:
        lines = self.service.metrics.exposition().splitlines()
        (line,) = [each for each in lines if each.startswith("rocketha_log_files_expired_early_total ")]
        return int(float(line.split()[1]))

    def test_it_is_said(self) -> None:
        """At 77 % nothing that is not expired goes; at 86 % each file that does is named, with its age and why."""
        self.fill()
        before = self.files()
        self.disk.ratio = 0.77
        self.advance(15, 1)
        self.assertEqual(self.files(), before)
        self.assertEqual(
            self.said(), [("disk.filling", "the disk under /store is 77% full: expired files go at any hour")]
        )
        self.disk.ratio = 0.86
        self.advance(15, 1)
        gone = [name for name in before if name not in self.files()]
        self.assertGreater(len(gone), 5)
        (filling, *early) = self.said()
        self.assertEqual(
            filling, ("disk.filling", "the disk under /store is 86% full: the oldest files go, expired or not")
        )
        self.assertEqual({name for name, _ in early}, {"log.expired_early"})
        self.assertEqual(len(early), len(gone))
        self.assertRegex(
            early[0][1],
            r"^/store/commitlog/0{20} is deleted 1\.[0-9] h after its newest message, before its 72\.0 h: the disk is"
            " 86% full$",
        )
        self.assertEqual(self.expired_early(), len(gone))
        self.advance(60, 1)
        self.assertEqual(self.said(), [])


class KeptTests(DiskCase):
    """``cleanFileForciblyEnable=false``: what is not expired stays, whatever the disk says."""

    config = f"{DiskCase.config}\ncleanFileForciblyEnable=false"

    def test_nothing_goes(self) -> None:
        """Up to the mark from which messages are refused, and beyond it; what has expired goes."""
        self.fill()
        before = self.files()
        for ratio in (0.86, 0.97):
            self.disk.ratio = ratio
            self.advance(15, 1)
            self.assertEqual(self.files(), before)
        self.assertEqual(
            [text for _, text in self.said()],
            [
                "the disk under /store is 86% full: expired files go at any hour",
                "the disk under /store is 97% full: no message is taken",
            ],
        )
        self.advance(72 * 3600, 600)
        self.assertEqual(self.files(), before[-2:])  # that of now, and the next one
