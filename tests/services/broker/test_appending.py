"""What a master does when the senders of a turn have their answers."""

from __future__ import annotations

from tests.services.broker_case import BrokerCase

PAGE = 4096
BODY = bytes(50_000)


class PagesTests(BrokerCase):
    """Pages for the next turn's records."""

    def pages_ahead(self) -> int:
        """Whole pages behind the end of the log that are there."""
        end = self.broker.store.log.end
        name = self.disk.list("/store/commitlog")[0]
        with_page = self.disk.open(f"/store/commitlog/{name}").next_data
        first = -(-end // PAGE)
        return sum(with_page(page * PAGE) == page * PAGE for page in range(first, first + 100))

    def test_as_many_as_the_last_turn_took(self) -> None:
        self.send(self.connect(), BODY)
        self.assertEqual(self.pages_ahead(), len(BODY) // PAGE)


class SyncFlushTests(PagesTests):
    """Each turn is synced, and the zeros would be, too."""

    config = "flushDiskType=SYNC_FLUSH"

    def test_as_many_as_the_last_turn_took(self) -> None:
        self.send(self.connect(), BODY)
        self.assertEqual(self.pages_ahead(), 0)
