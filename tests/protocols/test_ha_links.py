"""Both ends of an HA link on connections in memory: order, backpressure, disks that fail, time."""

from __future__ import annotations

import errno

from twisted.internet.defer import Deferred

from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError
from rocketha.observe.refusals import Ended
from rocketha.protocols.ha_connection import CLOSE_S
from rocketha.protocols.ha_master import TURN_BYTES, UNREAD_BYTES_MAX, NoLink
from rocketha.replication.link import Cause
from rocketha.wire.ha_frames import (
    MasterHello,
    SlaveHello,
    encode_classic_head,
    encode_classic_report,
    encode_log_head,
    encode_master_hello,
    encode_report,
    encode_slave_hello,
)
from tests.protocols.ha_case import MARK, HaCase, Owner, Replica
from tests.replication.links import FILE, Log, bytewise, entries, text

BIG = 1 << 30
ANSWER = encode_master_hello(MasterHello(90, 2, entries((1, 0), (2, 50))))
"""What a slave of epoch 1 has to cut its log at 50 for."""


def big(size: int) -> Log:
    """A log in one file."""
    return Log(bytes(size), file_size=BIG)


class TransferTests(HaCase):
    """The log gets over."""

    def test_classic(self) -> None:
        """All of the log, then what comes; the master hears how far the slave is."""
        self.listen(Owner(Log(text(200))))
        replica = Replica(Log(text(30)))
        self.join(replica)
        self.pump()
        self.owner.log.append(200, text(50, 200))
        self.port.log_grew()
        self.pump()
        self.assertEqual(bytes(replica.log.data), text(250))
        self.assertEqual((self.owner.of("acked")[0], self.owner.of("acked")[-1]), (("acked", 30), ("acked", 250)))
        self.assertEqual(self.clock.seconds(), 0)

    def test_controller_mode(self) -> None:
        """Greeting, a cut of what the master has not, the log, confirm offsets; the owner hears whose link it is."""
        self.listen(Owner(Log(text(200)), entries((1, 0), (3, 100), (5, 150))))
        self.owner.confirm.advance(150, 200)
        replica = Replica(Log(text(100) + text(40, 100, by=1)), entries((1, 0), (2, 100)))
        self.join(replica)
        self.pump()
        self.assertEqual(bytes(replica.log.data), text(200))
        self.assertEqual(replica.of("align"), [("align", 100)])
        self.assertEqual(replica.epochs, entries((1, 0), (3, 100), (5, 150)))
        self.assertEqual(self.owner.events[:2], [("introduced", 1, 2, 5), ("acked", 100)])
        self.assertEqual(self.owner.of("acked")[-1], ("acked", 200))
        self.assertEqual(replica.of("confirm")[-1], ("confirm", 150))

    def test_each_byte_alone(self) -> None:
        """C8: nothing depends on how the streams are cut."""
        for epochs in (None, entries((1, 0), (3, 100))):
            self.setUp()
            self.listen(Owner(Log(text(200)), epochs))
            replica = Replica(Log(text(77)), None if epochs is None else epochs[:1])
            self.join(replica, bytewise)
            self.pump()
            self.assertEqual(bytes(replica.log.data), text(200))
            self.assertEqual(self.owner.of("acked")[-1], ("acked", 200))

    def test_confirm_moved(self) -> None:
        """A higher confirm offset is told within 20 ms, though nothing else is to be said."""
        self.listen(Owner(Log(text(200)), entries((1, 0))))
        replica = Replica(Log(), ())
        self.join(replica)
        self.pump()
        self.assertEqual(replica.of("confirm"), [])
        self.owner.confirm.advance(200, 200)
        self.port.confirm_moved()
        self.wait(0.021)
        self.assertEqual(replica.of("confirm"), [("confirm", 200)])

    def test_news_from_within_a_callback(self) -> None:
        """What an owner does when it hears of an acknowledgement may be news for the link: it is told afterwards."""
        self.listen(Owner(Log(text(20))))
        replica = Replica(Log(text(20)))

        def write() -> None:
            if self.owner.log.end < 60:
                (link,) = self.port.connections.values()
                sent = link.bytes_sent
                self.owner.log.append(self.owner.log.end, text(10, self.owner.log.end))
                self.port.log_grew()
                self.assertEqual(link.bytes_sent, sent)

        self.owner.on_ack = write
        self.join(replica)
        self.pump()
        self.assertEqual(bytes(replica.log.data), text(60))
        self.assertEqual(self.owner.of("acked"), [("acked", offset) for offset in (20, 30, 40, 50, 60)])

    def test_follower_that_flushes_within_a_turn(self) -> None:
        """Its word is heard when all of the read was appended."""
        replica = Replica(Log())
        replica.flushes = False
        protocol, transport = self.dial(replica)
        reported: list[bytes] = []

        def append(offset: int, data: bytes | memoryview) -> None:
            replica.log.append(offset, bytes(data))
            reported.append(transport.waiting)
            protocol.appended(replica.log.end)

        replica.append_raw = append  # type: ignore[method-assign]
        transport.waiting = b""
        frames = encode_classic_head(0, FILE) + text(FILE) + encode_classic_head(FILE, 10) + text(10, FILE)
        protocol.dataReceived(frames)
        self.assertEqual(reported, [b"", b""])
        self.assertEqual(transport.waiting, encode_classic_report(FILE) + encode_classic_report(FILE + 10))

    def test_report_waits_for_the_disk(self) -> None:
        """What was received is reported when the follower says that it is durable, as far as it is."""
        self.listen(Owner(Log(text(60))))
        replica = Replica(Log(text(10)))
        replica.flushes = False
        wire = self.join(replica)
        self.pump()
        self.assertEqual((self.owner.of("acked"), replica.log.end), ([("acked", 10)], 60))
        wire.slave.protocol.appended(40)
        self.pump()
        self.assertEqual(self.owner.of("acked")[-1], ("acked", 40))

    def test_one_turn_for_one_read(self) -> None:
        """Three frames in one read are appended before the follower is asked to flush, once."""
        replica = Replica(Log())
        protocol, transport = self.dial(replica)
        frames = b"".join(encode_classic_head(at, 10) + text(10, at) for at in (0, 10, 20))
        protocol.dataReceived(frames)
        self.assertEqual(replica.events, [("append", 0, 30), ("turn ended", 30)])
        self.assertEqual(transport.waiting, encode_classic_report(0) + encode_classic_report(30))

    def test_nothing_is_read_while_the_log_is_cut(self) -> None:
        """The transport is read again when the cut is durable, and the report says where it was made."""
        replica = Replica(Log(text(80)), entries((1, 0)))
        replica.cut_later = Deferred()
        protocol, transport = self.dial(replica)
        transport.waiting = b""
        protocol.dataReceived(ANSWER)
        self.assertEqual((transport.reading, transport.waiting), (False, b""))
        protocol.appended(80)  # a flush from before
        self.wait(60)  # the disk is slow: the silence is ours
        self.assertEqual((protocol.over, transport.waiting), ("", b""))
        replica.cut_later.callback(None)
        self.assertEqual((transport.reading, transport.waiting), (True, encode_report(50)))

    def test_what_comes_while_the_log_is_cut(self) -> None:
        """Of a transport that hands over what it had read already: the machine is told of it when it knows the cut."""
        replica = Replica(Log(text(80)), entries((1, 0)))
        replica.cut_later = Deferred()
        protocol, transport = self.dial(replica)
        protocol.dataReceived(ANSWER)
        transport.waiting = b""
        protocol.dataReceived(encode_log_head(50, 10, 2, 50, 0) + text(10, 50))
        self.assertEqual(replica.events, [("align", 50)])
        replica.cut_later.callback(None)
        self.assertEqual((protocol.over, bytes(replica.log.data)), ("", text(60)))
        self.assertEqual(transport.waiting, encode_report(50) + encode_report(60))


class CompareTests(HaCase):
    """A classic slave whose disk is slow is sent the end of its own log, and more."""

    def setUp(self) -> None:
        super().setUp()
        self.replica = Replica(Log(text(80)))
        self.replica.compare_from = 66
        self.looked: Deferred[None] = Deferred()
        self.replica.compare_later = self.looked
        self.protocol, self.transport = self.dial(self.replica)
        self.transport.waiting = b""

    def test_nothing_is_read_meanwhile(self) -> None:
        """Nor appended, nor acknowledged, whoever says that something is durable; then all of it, and it goes on."""
        self.protocol.dataReceived(encode_classic_head(66, 30) + text(30, 66))
        self.protocol.appended(80)
        self.wait(60)
        self.assertEqual((self.protocol.over, self.transport.reading, self.transport.waiting), ("", False, b""))
        self.assertEqual(self.replica.events, [])
        self.looked.callback(None)
        self.assertEqual(self.replica.events, [("compared",), ("append", 80, 16), ("turn ended", 96)])
        self.assertEqual(self.transport.reading, True)
        self.assertEqual(self.transport.waiting[-8:], encode_classic_report(96))

    def test_another_log(self) -> None:
        """Whatever is found out late: the link ends, and nothing of what waits is appended."""
        failure = DiskFailure("/store/commitlog/0", "read", errno.EIO, "Input/output error")
        for bad, told, reason in ((b"#", 0, "other bytes at 66"), (b"", 1, str(failure))):
            self.setUp()
            self.replica.fails = None if bad else failure
            frame = bad + text(30, 66)[len(bad) :]
            self.protocol.dataReceived(encode_classic_head(66, 30) + frame)
            self.assertEqual(self.protocol.over, "")
            self.looked.callback(None)
            self.assertIn(reason, self.protocol.over)
            self.assertEqual((bytes(self.replica.log.data), self.transport.waiting), (text(80), b""))
            self.assertEqual((len(self.replica.of("disk failed")), self.replica.of("compared")), (told, []))
            self.assertEqual(len(self.replica.of("closed")), 1)

    def test_a_link_that_ended_meanwhile(self) -> None:
        """What is found concerns nobody."""
        for fails in (None, RemoteProtocolError("another log")):
            self.setUp()
            self.replica.fails = fails
            self.protocol.dataReceived(encode_classic_head(66, 30) + text(30, 66))
            self.protocol.abort("stopped")
            self.looked.callback(None)
            self.assertEqual(self.replica.events, [("closed", "stopped", None)])


class EpochTests(HaCase):
    """A master that is elected again sends bytes of another epoch on the same link; the slave's disk is slow."""

    def setUp(self) -> None:
        super().setUp()
        self.replica = Replica(Log(text(10)), entries((1, 0)))
        self.protocol, self.transport = self.dial(self.replica)
        self.protocol.dataReceived(encode_master_hello(MasterHello(10, 1, entries((1, 0)))))
        self.saved: Deferred[None] = Deferred()
        self.replica.save_later = self.saved
        self.replica.events.clear()
        self.transport.waiting = b""

    @staticmethod
    def frame(offset: int, epoch: int, start: int) -> bytes:
        """Ten bytes."""
        return encode_log_head(offset, 10, epoch, start, 0) + text(10, offset)

    def test_bytes_wait_for_their_epoch(self) -> None:
        """Those before it are appended; those of it when it is in the file, and only then all of the read is reported;
        nothing more is read meanwhile, however long that takes."""
        self.protocol.dataReceived(self.frame(10, 1, 0) + self.frame(20, 2, 20))
        self.assertEqual((self.replica.events, self.transport.reading), ([("append", 10, 10)], False))
        self.wait(60)
        self.assertEqual((self.protocol.over, self.transport.waiting, self.replica.log.end), ("", b"", 20))
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.saved.callback(None)
        epoch, append, turn = ("epochs", 20, 2), ("append", 20, 10), ("turn ended", 30)
        self.assertEqual(self.replica.events, [("append", 10, 10), epoch, append, turn])
        heard = encode_report(10) + encode_report(30)  # the first is a heartbeat that was due
        self.assertEqual((self.transport.waiting, self.transport.reading), (heard, True))
        self.wait(0.1)
        self.assertEqual(self.protocol.over, "")
        self.protocol.dataReceived(self.frame(30, 2, 20))
        self.assertEqual(self.transport.waiting, heard + encode_report(40))

    def test_what_comes_meanwhile(self) -> None:
        """A transport may hand over what it had read already, and a flush from before may end: both come after."""
        self.protocol.dataReceived(self.frame(10, 2, 10))
        self.protocol.dataReceived(self.frame(20, 2, 10) + self.frame(30, 3, 30))
        self.protocol.appended(10)
        self.assertEqual((self.replica.events, self.transport.waiting), ([], b""))
        again: Deferred[None] = Deferred()
        self.replica.save_later = again
        self.saved.callback(None)
        self.assertEqual(self.replica.events, [("epochs", 10, 2), ("append", 10, 10), ("append", 20, 10)])
        self.assertEqual((self.transport.waiting, self.transport.reading), (b"", False))
        again.callback(None)
        self.assertEqual(self.replica.events[3:], [("epochs", 30, 3), ("append", 30, 10), ("turn ended", 40)])
        self.assertEqual((self.transport.waiting[-8:], self.transport.reading), (encode_report(40)[-8:], True))

    def test_an_epoch_that_cannot_be_written(self) -> None:
        """Its bytes are not appended: the link ends, and nothing of the read is reported."""
        failure = DiskFailure("/store/epoch", "write", errno.ENOSPC, "No space left on device")
        for error, told in ((failure, 1), (RemoteProtocolError("no list"), 0), (ZeroDivisionError("our mistake"), 0)):
            self.setUp()
            self.protocol.dataReceived(self.frame(10, 2, 10))
            self.saved.errback(error)
            self.assertEqual((self.replica.log.end, self.transport.waiting), (10, b""))
            self.assertEqual(len(self.replica.of("disk failed")), told)
            self.assertIn(str(error), self.replica.of("closed")[0][1])
            self.assertTrue(self.transport.disconnecting)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_a_link_that_ended_meanwhile(self) -> None:
        """What comes of the write concerns nobody, and nothing is appended."""
        for error in (None, DiskFailure("/store/epoch", "write", errno.EIO, "Input/output error")):
            self.setUp()
            self.protocol.dataReceived(self.frame(10, 2, 10))
            self.protocol.abort("fenced")
            self.transport.lose()
            self.saved.callback(None) if error is None else self.saved.errback(error)
            self.assertEqual(self.replica.log.end, 10)
            self.assertEqual(self.replica.of("append") + self.replica.of("turn ended"), [])
            self.assertEqual(self.replica.of("disk failed"), [])
            self.assertEqual(self.replica.of("closed"), [("closed", "fenced", None)])


class BackpressureTests(HaCase):
    """What a peer that does not read costs."""

    def test_slow_slave_costs_a_block(self) -> None:
        """However far it is behind: one block, and what the transport takes before it says that it is full."""
        self.listen(Owner(big(20 << 20)))
        self.owner.batch = 256 * 1024
        wire = self.join(Replica(Log(bytes(1), file_size=BIG)))
        wire.stuck = True
        self.pump()
        self.wait(15)
        self.assertLessEqual(wire.master.most, MARK + self.owner.batch + 100)
        self.assertGreater(wire.master.most, self.owner.batch)
        self.assertEqual(self.owner.of("closed"), [])

    def test_goes_on_when_the_slave_reads(self) -> None:
        """Block by block, each when the one before is through."""
        self.listen(Owner(big(20 << 20)))
        self.owner.batch = 256 * 1024
        replica = Replica(Log(bytes(1), file_size=BIG))
        wire = self.join(replica)
        wire.stuck = True
        self.pump()
        wire.stuck = False
        self.pump()
        self.assertEqual(replica.log.end, 20 << 20)
        self.assertLessEqual(wire.master.most, MARK + self.owner.batch + 100)

    def test_other_work_gets_its_turn(self) -> None:
        """A transport that takes whatever it is given is not given the whole log in one turn of the reactor."""
        self.listen(Owner(big(20 << 20)))
        self.owner.batch = 60_000
        protocol, transport = self.accept()
        transport.producer = None  # it never says that it is full
        protocol.dataReceived(encode_classic_report(1))
        self.assertLessEqual(len(transport.waiting), TURN_BYTES + self.owner.batch + 100)
        first = len(transport.waiting)
        self.clock.advance(0)
        self.assertGreater(len(transport.waiting), first)
        other, between = self.accept()
        between.producer = None
        other.dataReceived(encode_classic_report(1))
        self.port.abort_all("fenced, between two turns of the reactor")
        transport.lose()
        between.lose()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_master_that_does_not_read_reports(self) -> None:
        """Reports pile up to the transport's mark, not without end."""
        replica = Replica(Log(file_size=BIG))
        protocol, transport = self.dial(replica)
        for at in range(MARK // 8 + 1):
            protocol.dataReceived(encode_classic_head(at, 1) + b"x")
        self.assertEqual((protocol.over, replica.of("closed")[0][2]), ("the master does not read", Cause.UNREAD))
        self.assertLessEqual(transport.most, MARK + 8)

    def test_slave_that_does_not_read_heartbeats(self) -> None:
        """It keeps reporting, so it is not silent; what it does not read piles up to a limit."""
        self.listen(Owner(Log(text(200)), entries((1, 0))))
        protocol, transport = self.accept()
        transport.waiting = bytes(MARK)  # an answer of thousands of epochs would be as long
        protocol.dataReceived(encode_slave_hello(SlaveHello(2)) + encode_report(200))
        for step in range(4000):
            self.owner.confirm.offset = step % 200
            self.port.confirm_moved()
            self.clock.advance(0.02)
            protocol.dataReceived(encode_report(200))
        self.assertEqual(protocol.over, "the slave does not read")
        self.assertLess(transport.most, MARK + UNREAD_BYTES_MAX + 1000)


class DiskTests(HaCase):
    """Disks that fail."""

    def test_block_that_cannot_be_read(self) -> None:
        """The owner hears of it, the slave is sent no part of the block, and the link ends."""
        failure = DiskFailure("/store/commitlog/0", "read", errno.EIO, "Input/output error")
        for error in (failure, CorruptStore("/store/commitlog/0", 17, "cut short")):
            self.setUp()
            self.listen(Owner(Log(text(60))))
            self.owner.read_fails = error
            protocol, transport = self.accept()
            protocol.dataReceived(encode_classic_report(10))
            self.assertEqual((transport.waiting, transport.disconnecting), (b"", True))
            reason = f"the log cannot be read: {error}"
            self.assertEqual(self.owner.events[1:], [("disk failed", error), ("closed", 1, reason, None)])
            self.assertEqual((self.owner.open_readers, self.port.connections), (0, {}))

    def test_replica_that_cannot_write(self) -> None:
        """What was not appended is not reported; its turn does not end, the link does; the next one has it again."""
        failure = DiskFailure("/store/commitlog/0", "write", errno.ENOSPC, "No space left on device")
        self.listen(Owner(Log(text(60))))
        replica = Replica(Log(text(10)))
        replica.fails = failure
        self.join(replica)
        self.pump()
        reason = f"the log cannot be written: {failure}"
        self.assertEqual(replica.events, [("disk failed", failure), ("closed", reason, None)])
        self.assertEqual([event[:2] for event in self.owner.events], [("acked", 10), ("closed", 1)])
        replica.fails = None
        self.join(replica)
        self.pump()
        self.assertEqual((bytes(replica.log.data), self.owner.of("acked")[-1]), (text(60), ("acked", 60)))

    def test_replica_that_cannot_cut(self) -> None:
        """At once or later: the link ends, and what comes of the cut when it ended before concerns nobody."""
        failure = DiskFailure("/store/commitlog/0", "truncate", errno.EIO, "Input/output error")
        for late in (False, True):
            self.setUp()
            replica = Replica(Log(text(80)), entries((1, 0)))
            replica.fails = failure
            cut: Deferred[None] = Deferred()
            replica.cut_later = cut if late else None
            protocol, _ = self.dial(replica)
            protocol.dataReceived(ANSWER)
            if late:
                self.assertEqual(protocol.over, "")
                cut.callback(None)
            reason = f"the log cannot be written: {failure}"
            self.assertEqual(replica.events[1:3], [("disk failed", failure), ("closed", reason, None)])
        for fails in (failure, None):
            replica = Replica(Log(text(80)), entries((1, 0)))
            replica.cut_later, replica.fails = Deferred(), fails
            protocol, _ = self.dial(replica)
            protocol.dataReceived(ANSWER)
            protocol.abort("fenced")
            replica.cut_later.callback(None)
            self.assertEqual(protocol.machine.reported, -1)
            self.assertEqual(replica.events, [("align", 50), ("closed", "fenced", None)])

    def test_cut_that_is_a_bug(self) -> None:
        """What no disk and no peer did is logged, and ends the link too."""
        replica = Replica(Log(text(80)), entries((1, 0)))
        replica.cut_later = Deferred()
        protocol, _ = self.dial(replica)
        protocol.dataReceived(ANSWER)
        replica.cut_later.errback(ZeroDivisionError("our mistake"))
        self.assertEqual(replica.events[1:], [("closed", "the log was not cut: our mistake", None)])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_bytes_that_the_log_refuses(self) -> None:
        """The follower's store is the last to say whether bytes belong there."""
        replica = Replica(Log())
        replica.fails = RemoteProtocolError("not these")
        protocol, _ = self.dial(replica)
        protocol.dataReceived(encode_classic_head(0, 3) + b"abc")
        self.assertEqual(replica.events, [("closed", "not these", Cause.BREACH)])


class EndTests(HaCase):
    """How links end."""

    def test_last_frame_leaves_before_the_connection_ends(self) -> None:
        """A slave that is ahead is shown the master's end, so it knows why the link ended."""
        self.listen(Owner(Log(text(60)), entries((1, 0))))
        replica = Replica(Log(text(60)), entries((1, 0)))
        wire = self.join(replica)
        self.pump()
        self.assertEqual(wire.slave.protocol.over, "")
        protocol, transport = self.accept()
        protocol.dataReceived(encode_slave_hello(SlaveHello(3)))
        transport.waiting = b""
        protocol.dataReceived(encode_report(61))
        self.assertEqual(transport.waiting, encode_log_head(60, 0, 1, 0, 0))
        self.assertEqual((transport.disconnecting, transport.aborted), (True, False))
        self.assertEqual(self.owner.events[-1][3], Cause.SLAVE_IS_ELSEWHERE)

    def test_peer_that_does_not_take_the_last_frame(self) -> None:
        """It has some seconds."""
        self.listen(Owner(Log(text(60))))
        protocol, transport = self.accept()
        protocol.dataReceived(encode_classic_report(61))
        self.clock.advance(CLOSE_S - 1)
        self.assertFalse(transport.aborted)
        self.clock.advance(1)
        self.assertTrue(transport.aborted)

    def test_ends_once(self) -> None:
        """Whoever ends it first, the owner hears of it once, at once, and of nothing after; no timer is left."""
        self.listen(Owner(Log(text(60))))
        replica = Replica(Log(text(10)))
        wire = self.join(replica)
        self.pump()
        ours, theirs = wire.master.protocol, wire.slave.protocol
        ours.close("stopped")
        self.assertEqual(self.owner.events[-1], ("closed", 1, "stopped", None))
        heard = list(self.owner.events)
        ours.dataReceived(encode_classic_report(60))
        self.owner.log.append(60, b"more")
        ours.tell(ours.machine.log_grew)
        ours.close("again")
        ours.abort("and again")
        self.pump()
        theirs.appended(60)
        self.assertEqual(self.owner.events, heard)
        self.assertEqual(len(replica.of("closed")), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_reset(self) -> None:
        """In the middle of a block: both ends hear it, and the next link goes on where the log ends."""
        self.listen(Owner(big(3 << 20)))
        replica = Replica(Log(bytes(1), file_size=BIG))
        wire = self.join(replica, lambda waiting: min(len(waiting), 100_000))
        for _ in range(5):
            wire.step()
        wire.reset()
        self.assertEqual([len(end.of("closed")) for end in (self.owner, replica)], [1, 1])
        self.assertEqual((self.owner.open_readers, self.clock.getDelayedCalls()), (0, []))
        here = replica.log.end
        self.assertTrue(1 < here < 1 << 20, here)
        self.wires.clear()
        self.join(replica)
        self.pump()
        self.assertEqual(replica.log.end, 3 << 20)

    def test_abort_all(self) -> None:
        """A fence: when it returns no reader is open, and what waited in our buffers is gone."""
        self.listen(Owner(big(3 << 20)))
        ends = [self.accept() for _ in range(3)]
        for protocol, _ in ends:
            protocol.dataReceived(encode_classic_report(1))
        self.assertEqual(self.owner.open_readers, 3)
        self.port.abort_all("fenced")
        self.assertEqual((self.owner.open_readers, self.port.connections), (0, {}))
        self.assertEqual([(end.aborted, end.waiting) for _, end in ends], [(True, b"")] * 3)
        self.assertEqual([event[2] for event in self.owner.of("closed")], ["fenced"] * 3)

    def test_close_all(self) -> None:
        """A stop: what was written is said."""
        self.listen(Owner(Log(text(60))))
        replica = Replica(Log(text(10)))
        wire = self.join(replica)
        wire.step()
        self.port.close_all("stopped")
        self.pump()
        self.assertEqual((replica.log.end, wire.master.aborted), (60, False))

    def test_owner_refuses(self) -> None:
        """A greeting, or an acknowledgement: the link ends with the owner's reason, and nothing is sent."""
        for place in ("hello", "ack"):
            self.setUp()
            self.listen(Owner(Log(text(60)), entries((1, 0))))
            setattr(self.owner, f"refuses_{place}", f"no such {place}")
            protocol, transport = self.accept()
            protocol.dataReceived(encode_slave_hello(SlaveHello(9)))
            transport.waiting = b""
            protocol.dataReceived(encode_report(10))
            self.assertEqual((protocol.over, transport.waiting), (f"no such {place}", b""))
            self.assertEqual(self.owner.events[-1], ("closed", 1, f"no such {place}", Cause.BREACH))

    def test_owner_that_is_wrong(self) -> None:
        """A bug of ours in the middle of a turn is not swallowed, and the link, of which half was done, is over."""
        self.listen(Owner(Log(text(60))))
        protocol, transport = self.accept()

        def bug() -> None:
            raise ZeroDivisionError("our mistake")

        self.owner.on_ack = bug
        with self.assertRaises(ZeroDivisionError):
            protocol.dataReceived(encode_classic_report(10))
        self.assertTrue(transport.aborted)
        self.assertEqual((transport.writes, len(self.owner.of("closed")), self.port.connections), ([], 1, {}))

    def test_not_served(self) -> None:
        """A broker that is no master, a follower that does not want the connection any more: reset, without a word."""
        self.listen(Owner(Log(text(60))))
        self.owner.refusal = NoLink(Ended.NOT_SERVED, "not the master")
        protocol, transport = self.accept()
        self.assertEqual((transport.aborted, protocol.over, self.owner.events), (True, "not the master", []))
        self.assertEqual(self.port.refusals.ended, {"not_served": 1})
        replica = Replica(Log())
        replica.refusal = "fenced"
        _, transport = self.dial(replica)
        transport.lose()
        self.assertEqual((transport.aborted, transport.writes, replica.events), (True, [], []))

    def test_hostile_bytes(self) -> None:
        """A breach ends the link with its reason, at either end, in either wire."""
        hostile = (b"\xff" * 64, b"\0\0\0\x07" * 16, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 4)
        for data in hostile:
            for epochs in (None, entries((1, 0))):
                self.setUp()
                self.listen(Owner(Log(text(60)), epochs))
                protocol, transport = self.accept()
                protocol.dataReceived(data)
                self.assertNotEqual(protocol.over, "", (data, epochs))
                self.assertTrue(transport.disconnecting)
                replica = Replica(Log(text(5)), epochs)
                slave, transport = self.dial(replica)
                slave.dataReceived(data)
                self.assertEqual([event[0] for event in replica.events], ["closed"], (data, epochs))
                self.assertTrue(transport.disconnecting)


class TimeTests(HaCase):
    """Silence, heartbeats."""

    def test_idle_link_lives(self) -> None:
        """Nothing is written for an hour: heartbeats keep it, and two timers are all there are."""
        self.listen(Owner(Log(text(60)), entries((1, 0))))
        replica = Replica(Log(), ())
        self.join(replica)
        self.wait(3600)
        self.assertEqual((self.owner.of("closed"), replica.of("closed")), ([], []))
        self.assertEqual(len(self.clock.getDelayedCalls()), 2)

    def test_silent_peer(self) -> None:
        """20 s without a word end the link, whether the peer greeted before or not."""
        self.listen(Owner(Log(text(60))))
        for words in (b"", encode_classic_report(10)):
            protocol, _ = self.accept()
            protocol.dataReceived(words) if words else None
            self.wait(19.9)
            self.assertEqual(protocol.over, "")
            self.wait(0.2)
            self.assertIn("nothing was heard", protocol.over)
        replica = Replica(Log())
        self.dial(replica)
        self.wait(20.1)
        self.assertIn("nothing was heard", replica.of("closed")[0][1])

    def test_who_never_reports_goes(self) -> None:
        """A slave that only repeats its greeting is given up after 20 s."""
        self.listen(Owner(Log(text(60)), entries((1, 0))))
        protocol, _ = self.accept()
        for _ in range(21):
            protocol.dataReceived(encode_slave_hello(SlaveHello(2)))
            self.wait(1)
        self.assertIn("no handshake", protocol.over)

    def test_reads_move_no_timer(self) -> None:
        """Thousands of reports, one timer."""
        self.listen(Owner(Log(text(60))))
        protocol, _ = self.accept()
        protocol.dataReceived(encode_classic_report(60))
        made: list[float] = []
        later = self.clock.callLater
        self.clock.callLater = lambda delay, *rest: made.append(delay) or later(delay, *rest)  # type: ignore
        for _ in range(1000):
            self.clock.advance(0.001)
            protocol.dataReceived(encode_classic_report(60))
        self.assertEqual(made, [])
