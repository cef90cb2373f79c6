"""Blocks that have to be waited for: read somewhere else, they leave in order, one at a time, or not at all."""

from __future__ import annotations

import errno

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from rocketha.errors import DiskFailure
from rocketha.protocols.ha_master import NoLink, OpenLink
from rocketha.wire.ha_frames import encode_classic_head, encode_classic_report
from tests.protocols.ha_case import MARK, HaCase, MasterHaProtocol, Owner, Reader, Replica
from tests.replication.links import Log, entries, text


class SlowReader(Reader):
    """Gives what the test says it has read."""

    owner: SlowOwner

    def read(self, offset: int, size: int) -> bytes | Deferred[bytes]:  # type: ignore[override]
        body = super().read(offset, size)
        if not self.owner.slow:
            return body
        found: Deferred[bytes] = Deferred()
        self.owner.reads.append((body, found))
        return found


class SlowOwner(Owner):
    """A master whose disk takes as long as the test likes."""

    slow = True

    def open_link(self, connection: MasterHaProtocol, now_ms: int) -> OpenLink | NoLink:
        self.reads: list[tuple[bytes, Deferred[bytes]]] = getattr(self, "reads", [])
        opened = super().open_link(connection, now_ms)
        return opened if isinstance(opened, str) else opened._replace(reader=SlowReader(self))

    def done(self) -> None:
        """The oldest read is done."""
        body, found = self.reads.pop(0)
        found.callback(body)


class SlowReadTests(HaCase):
    """A disk that takes its time."""

    def begin(self, size: int = 60, batch: int = 1 << 20) -> SlowOwner:
        owner = SlowOwner(Log(text(size), file_size=1 << 20))
        owner.batch = batch
        self.listen(owner)
        return owner

    def test_a_block_leaves_when_it_was_read(self) -> None:
        """Head and body together, and nothing before."""
        owner = self.begin()
        protocol, transport = self.accept()
        protocol.dataReceived(encode_classic_report(10))
        self.assertEqual((transport.waiting, protocol.bytes_sent, len(owner.reads)), (b"", 0, 1))
        owner.done()
        self.assertEqual(transport.waiting, encode_classic_head(10, 50) + text(50, 10))
        self.assertEqual(protocol.bytes_sent, 62)

    def test_one_at_a_time_and_in_order(self) -> None:
        """Whatever grows or is confirmed meanwhile; also where some are had at once."""
        owner = self.begin(batch=20)
        replica = Replica(Log(text(10), file_size=1 << 20))
        self.join(replica)
        for number in range(40):
            self.pump()
            self.assertLessEqual(len(owner.reads), 1)
            owner.slow = number % 3 > 0
            if number < 20:
                owner.log.append(owner.log.end, text(7, owner.log.end))
                self.port.log_grew()
            if owner.reads:
                owner.done()
        owner.slow = False
        while owner.reads:
            owner.done()
        self.pump()
        self.assertEqual(bytes(replica.log.data), text(200))
        self.assertEqual(owner.of("acked")[-1], ("acked", 200))

    def test_confirms_wait_behind_it(self) -> None:
        """The link of controller mode: no frame overtakes a block that is being read."""
        owner = SlowOwner(Log(text(60), file_size=1 << 20), entries((1, 0)))
        self.listen(owner)
        replica = Replica(Log(text(10), file_size=1 << 20), entries((1, 0)))
        self.join(replica)
        self.pump()
        self.assertEqual(len(owner.reads), 1)
        owner.confirm.advance(40, 60)
        self.port.confirm_moved()
        self.wait(15.0)
        self.assertEqual(replica.log.end, 10)
        owner.done()
        self.pump()
        self.wait(1.0)
        self.assertEqual((replica.log.end, replica.of("closed")), (60, []))
        self.assertEqual(replica.of("confirm")[-1], ("confirm", 40))

    def test_it_fails(self) -> None:
        """As one that fails at once: the owner hears of it, no part leaves, the link ends."""
        owner = self.begin()
        protocol, transport = self.accept()
        protocol.dataReceived(encode_classic_report(10))
        error = DiskFailure("/store/commitlog/0", "read", errno.EIO, "Input/output error")
        owner.reads.pop()[1].errback(Failure(error))
        self.assertEqual((transport.waiting, transport.disconnecting), (b"", True))
        self.assertEqual(
            self.owner.events[1:], [("disk failed", error), ("closed", 1, f"the log cannot be read: {error}", None)]
        )

    def test_a_bug(self) -> None:
        """Any other error ends the link too, and is not swallowed."""
        owner = self.begin()
        protocol, transport = self.accept()
        protocol.dataReceived(encode_classic_report(10))
        owner.reads.pop()[1].errback(Failure(ZeroDivisionError()))
        self.assertTrue(protocol.over)
        self.assertTrue(transport.aborted)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_the_link_ended_meanwhile(self) -> None:
        """What was read, or was not, concerns nobody."""
        for how in ("fence", "lost", "closed"):
            for fails in (False, True):
                self.setUp()
                owner = self.begin()
                protocol, transport = self.accept()
                protocol.dataReceived(encode_classic_report(10))
                if how == "fence":
                    self.port.abort_all("fenced")
                elif how == "lost":
                    protocol.connectionLost()
                else:
                    self.port.close_all("closed")
                before = len(owner.events)
                if fails:
                    owner.reads.pop()[1].errback(Failure(DiskFailure("/f", "read", errno.EIO, "gone")))
                else:
                    owner.done()
                self.assertEqual((transport.waiting, len(owner.events)), (b"", before), how)

    def test_the_transport_drains_meanwhile(self) -> None:
        """It says that it took what it was given before: the next block waits for this one all the same."""
        owner = self.begin(2 * MARK + 60, batch=MARK + 20)
        owner.slow = False
        protocol, transport = self.accept()
        protocol.dataReceived(encode_classic_report(10))
        owner.slow = True
        protocol.resumeProducing()
        self.assertEqual(len(owner.reads), 1)
        protocol.resumeProducing()
        protocol.resumeProducing()
        self.assertEqual(len(owner.reads), 1)
        owner.done()
        self.assertEqual(len(transport.waiting), 2 * (12 + MARK + 20))

    def test_others_go_on(self) -> None:
        """A slave whose block is being read holds no other up."""
        owner = self.begin()
        first, second = self.accept(), self.accept()
        first[0].dataReceived(encode_classic_report(10))
        owner.slow = False
        second[0].dataReceived(encode_classic_report(30))
        self.assertEqual((first[1].waiting, len(second[1].waiting)), (b"", 12 + 30))
