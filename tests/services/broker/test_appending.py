"""What a master does when the senders of a turn have their answers."""

from __future__ import annotations

from rocketha.store.commitlog import PAGE, PREFAULT_BYTES
from rocketha.wire.codes import RequestCode
from tests.services.broker_case import BrokerCase
from tests.store.support import NOW_MS, message

BODY = bytes(50_000)


class PagesTests(BrokerCase):
    """Pages for the next turn's records."""

    ahead = PREFAULT_BYTES // PAGE

    def pages_ahead(self) -> int:
        """Whole pages behind the end of the log that are there."""
        end = self.broker.store.log.end
        name = self.disk.list("/store/commitlog")[0]
        with_page = self.disk.open(f"/store/commitlog/{name}").next_data
        first = -(-end // PAGE)
        return sum(with_page(page * PAGE) == page * PAGE for page in range(first, first + 100))

    def test_behind_a_turn_with_sends(self) -> None:
        self.send(self.connect(), BODY)
        self.assertEqual(self.pages_ahead(), self.ahead)

    def test_none_in_a_turn_without_sends(self) -> None:
        """Though the log has grown: a slave's does, from its link."""
        self.broker.store.append([[message(1, body=BODY)]], NOW_MS)
        self.connect().ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        self.assertEqual(self.pages_ahead(), 0)


class SyncFlushTests(PagesTests):
    """Each turn is synced, and the zeros would be, too."""

    config = "flushDiskType=SYNC_FLUSH"
    ahead = 0
