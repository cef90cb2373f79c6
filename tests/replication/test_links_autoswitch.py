"""The link of controller mode, both ends (S0.26 to S0.50; facts: AutoSwitchHAConnection, AutoSwitchHAClient)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.replication.autoswitch_master import AutoswitchMaster, MasterState
from rocketha.replication.autoswitch_slave import AutoswitchSlave, SlaveState
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import EpochCache, EpochEntry
from rocketha.replication.link import (
    Ack,
    Align,
    Append,
    Cause,
    Close,
    Confirm,
    Effect,
    Introduced,
    SaveEpochs,
    Send,
    SendLog,
)
from rocketha.wire.ha_frames import (
    Dialect,
    LogPiece,
    MasterFrames,
    MasterHello,
    SlaveHello,
    encode_log_head,
    encode_master_hello,
    encode_report,
    encode_slave_hello,
)
from tests.replication.links import Cut, Log, Pair, autoswitch, bytewise, entries, text, whole


def stamps(effects: list[Effect]) -> list[tuple[int, int, int, int]]:
    """(offset, size, epoch, its start) of the blocks among a master's effects."""
    found = []
    for effect in effects:
        if isinstance(effect, SendLog):
            (piece,) = MasterFrames().feed(effect.head + b"\0" * effect.size)
            assert isinstance(piece, LogPiece)
            found.append((piece.offset, effect.size, piece.epoch, piece.epoch_start))
    return found


def greeted(end: int = 0, own: tuple[EpochEntry, ...] = (), min_epoch: int = -1) -> AutoswitchSlave:
    """A slave that greeted; its log ends at ``end``."""
    slave = AutoswitchSlave(SlaveHello(2), Log(text(end)), own, min_epoch, 0, 0)
    slave.begin(0)
    return slave


def following(
    masters: tuple[EpochEntry, ...], master_end: int, end: int, own: tuple[EpochEntry, ...]
) -> AutoswitchSlave:
    """A slave in TRANSFER."""
    slave = greeted(end, own)
    slave.received(encode_master_hello(MasterHello(master_end, masters[-1].epoch, masters)), 0)
    slave.aligned(slave.end, own, 0)
    return slave


class HandshakeTests(SynchronousTestCase):
    """From the greeting to the first byte."""

    def test_bytes_of_a_handshake(self) -> None:
        """S0.40, S0.44, S0.46, S0.50: what goes over the wire, in order."""
        pair = autoswitch(Log(text(10)), entries((1, 0), (4, 7)), Log(text(7)), entries((1, 0)))
        self.assertEqual(pair.slave.machine.begin(0), [Send(bytes.fromhex("00000001000000000000000000000002"))])
        pair.start()
        hello = "0000000100000018000000000000000a00000004000000010000000000000000000000040000000000000007"
        log = "000000020000000300000000000000070000000400000000000000070000000000000000"
        self.assertEqual(
            [each for each in pair.master.effects if not isinstance(each, Ack)],
            [Send(bytes.fromhex(hello)), Introduced(SlaveHello(2), 4), SendLog(7, 3, bytes.fromhex(log))],
        )
        reports = [each.data.hex() for each in pair.slave.effects if isinstance(each, Send)]
        self.assertEqual(reports[1:], ["000000020000000000000007", "00000002000000000000000a"])

    def test_empty_slave(self) -> None:
        """S0.29 to S0.33: everything from the first file on, the epochs too; nothing waits for a timer."""
        master = Log(text(300))
        master.drop_files(128)
        pair = autoswitch(master, entries((2, 64), (3, 200)), Log(), batch=50).start()
        self.assertEqual((pair.slave.log.begin, bytes(pair.slave.log.data)), (128, text(172, 128)))
        self.assertEqual(pair.slave.epochs, entries((2, 64), (3, 200)))
        self.assertEqual((pair.master.acked(), pair.now_ms), (300, 0))

    def test_s0_41_sync_from_last_file(self) -> None:
        """Only for a slave that has nothing."""
        hello = SlaveHello(2, sync_from_last_file=True)
        pair = autoswitch(Log(text(300)), entries((1, 0), (3, 200)), Log(), hello=hello).start()
        self.assertEqual((pair.slave.log.begin, bytes(pair.slave.log.data)), (256, text(44, 256)))
        self.assertEqual(pair.slave.epochs, entries((1, 0), (3, 200)))
        pair = autoswitch(Log(text(300)), entries((1, 0)), Log(text(10)), entries((1, 0)), hello=hello).start()
        self.assertEqual(bytes(pair.slave.log.data), text(300))

    def test_s0_28_diverged_tail_is_cut(self) -> None:
        """What the slave has of an epoch that its master never saw goes, before it reports."""
        mine = text(100) + text(50, 100, by=2)
        theirs = text(120) + text(80, 120, by=3)
        pair = autoswitch(Log(theirs), entries((1, 0), (3, 120)), Log(mine), entries((1, 0), (2, 100))).start()
        self.assertEqual(pair.slave.effects[1:3], [Align(100, entries((1, 0))), Send(encode_report(100))])
        self.assertEqual(bytes(pair.slave.log.data), theirs)
        self.assertEqual(pair.slave.epochs, entries((1, 0), (3, 120)))

    def test_nothing_is_reported_before_the_cut_is_durable(self) -> None:
        """C1: the master may only count what no crash brings back, or takes."""
        slave = greeted(150, entries((1, 0), (2, 100)))
        hello = MasterHello(200, 3, entries((1, 0), (3, 120)))
        self.assertEqual(slave.received(encode_master_hello(hello), 0), [Align(100, entries((1, 0)))])
        self.assertEqual((slave.next_due_ms(), slave.tick(60_000)), (None, []))
        self.assertEqual(slave.aligned(100, entries((1, 0)), 60_000), [Send(encode_report(100))])
        self.assertEqual(slave.next_due_ms(), 65_000)

    def test_cut_where_a_record_begins(self) -> None:
        """The store cuts before the point, if that is within a record; the report says so, and the bytes come again."""
        mine = text(103) + text(50, 103, by=2)
        theirs = text(103) + text(80, 103, by=3)
        pair = autoswitch(Log(theirs), entries((1, 0), (3, 103)), Log(mine), entries((1, 0), (2, 103)))
        pair.slave.log.record = 10
        pair.start()
        self.assertEqual(pair.slave.effects[2], Send(encode_report(100)))
        self.assertEqual(bytes(pair.slave.log.data), theirs)
        self.assertEqual(pair.slave.epochs, entries((1, 0), (3, 103)))

    def test_log_before_it_was_asked_for(self) -> None:
        """A master that sends while the slave aligns, or before it answered, breaks the protocol."""
        head = encode_log_head(0, 4, 1, 0, 0)
        slave = greeted()
        self.assertEqual(
            slave.received(head + b"1234", 0), [Close("the log from the master, where the master's answer is due")]
        )
        slave = greeted()
        slave.received(encode_master_hello(MasterHello(9, 1, entries((1, 0)))), 0)
        self.assertEqual(
            slave.received(head + b"1234", 0), [Close("the log from the master, where the own log is being cut")]
        )

    def test_nothing_in_common(self) -> None:
        """C11: a person has to know; Java tries for ever."""
        for own in (entries((2, 20)), ()):
            log = Log(text(150))
            log.drop_files(64)
            slave = AutoswitchSlave(SlaveHello(2), log, own, -1, 0, 0)
            effects = slave.received(encode_master_hello(MasterHello(200, 3, entries((1, 0), (3, 120)))), 0)
            self.assertIn("nothing says where this log, of epochs", slave.closed)
            self.assertEqual(effects, [Close(slave.closed, Cause.NOTHING_IN_COMMON)])

    def test_confirmed_bytes_are_not_cut(self) -> None:
        """Not for a master with an empty disk, nor for one that lacks the tail; a byte above may be cut."""
        own = entries((1, 0), (2, 50))
        for theirs, end, confirmed, cause in (
            (entries((7, 0)), 0, 1, Cause.NOTHING_IN_COMMON),
            (entries((1, 0), (3, 100)), 200, 51, Cause.BELOW_CONFIRM),
            (own, 80, 81, Cause.BELOW_CONFIRM),
        ):
            log = text(150)
            pair = autoswitch(Log(text(end, by=7)), theirs, Log(log), own, confirmed=confirmed).start()
            self.assertEqual(pair.slave.effects[1:], [Close(pair.slave.closed, cause)])
            self.assertEqual((bytes(pair.slave.log.data), pair.slave.epochs), (log, own))
            for allowed in (
                autoswitch(Log(text(end, by=7)), theirs, Log(log), own, confirmed=confirmed, unclean_cut=True),
                autoswitch(Log(text(end, by=7)), theirs, Log(log), own, confirmed=confirmed - 1),
            ):
                allowed.slave.truth = None
                self.assertEqual(allowed.start().slave.closed, "")
                self.assertEqual(len(allowed.slave.of(Align)), 1)

    def test_a_part_of_a_record_may_be_cut_though_it_was_confirmed(self) -> None:
        """All had so much of it when its master was replaced, and nobody was told of it; the new master cut it off."""
        theirs = entries((1, 0), (3, 100))
        for confirmed, cause in ((101, None), (109, None), (110, Cause.BELOW_CONFIRM), (120, Cause.BELOW_CONFIRM)):
            log = Log(text(130))
            log.record = 10
            pair = autoswitch(Log(text(100)), theirs, log, entries((1, 0)), confirmed=confirmed).start()
            self.assertEqual(pair.slave.of(Close), [Close(pair.slave.closed, cause)] if cause else [])
            self.assertEqual(pair.slave.log.end, 130 if cause else 100)
            self.assertEqual(pair.slave.epochs, entries((1, 0)) if cause else theirs)

    def test_a_part_of_the_first_record_may_be_cut(self) -> None:
        """Likewise where it is all that there ever was, and nothing is equal."""
        for confirmed in (9, 10):
            log = Log(text(30))
            log.record = 10
            pair = autoswitch(Log(text(20, by=2)), entries((2, 0)), log, entries((1, 0)), confirmed=confirmed).start()
            self.assertEqual(bool(pair.slave.closed), confirmed == 10)
            self.assertEqual(bytes(pair.slave.log.data), text(20, by=2) if confirmed < 10 else text(30))

    def test_a22_master_of_an_old_epoch(self) -> None:
        """A replica never follows a handshake whose newest epoch is below the one it was told."""
        hello = encode_master_hello(MasterHello(200, 3, entries((1, 0), (3, 120))))
        slave = greeted(50, entries((1, 0)), min_epoch=4)
        self.assertEqual(slave.received(hello, 0), [Close(slave.closed, Cause.OLD_EPOCH)])
        self.assertIn("newest epoch is 3, and the controller named epoch 4", slave.closed)
        slave = greeted(50, entries((1, 0)), min_epoch=3)
        self.assertEqual(slave.received(hello, 0), [Align(50, entries((1, 0)))])
        slave = greeted()
        slave.received(encode_master_hello(MasterHello(0, -1, ())), 0)
        self.assertEqual(slave.closed, "the master has no epoch")

    def test_c7_thousands_of_epochs(self) -> None:
        """Java's greeting breaks with the 1,001st."""
        many = entries(*[(each, each * 2) for each in range(5_000)])
        pair = autoswitch(Log(text(10_010)), many, Log(text(9_950)), many[:4_960]).start()
        self.assertEqual((pair.slave.epochs, pair.slave.log.end), (many, 10_010))
        self.assertEqual(bytes(pair.slave.log.data[9_900:]), text(110, 9_900))

    def test_every_dialect(self) -> None:
        """Greetings of all releases, and of the design document, are served."""
        for dialect in Dialect:
            by_id = dialect is Dialect.V5_1_1
            hello = SlaveHello(2, dialect=dialect) if by_id else SlaveHello(-1, False, True, dialect, "10.0.0.1:10912")
            for cut in (whole, bytewise):
                log = Log(text(150))
                machine = AutoswitchMaster(
                    log, EpochCache(entries((1, 0))), ConfirmOffset(), 0, address_dialect=dialect
                )
                pair = autoswitch(log, entries((1, 0)), Log(), hello=hello, cut=cut)
                pair.master.machine = machine
                pair.start()
                self.assertEqual((bytes(pair.slave.log.data), pair.master.acked()), (text(150), 150), dialect)
                self.assertEqual(machine.hello, hello if dialect is not Dialect.SEED or cut is whole else machine.hello)

    def test_greeting_again(self) -> None:
        """Java's slave repeats its greeting and takes a second answer for a breach; another's name is one."""
        pair = autoswitch(Log(text(9)), entries((1, 0)), Log())
        hello = encode_slave_hello(SlaveHello(2))
        pair.master.run(pair.master.machine.received(hello * 3, 0), 0)
        self.assertEqual([type(each) for each in pair.master.effects], [Send])
        pair.master.run(pair.master.machine.received(encode_slave_hello(SlaveHello(3)), 0), 0)
        self.assertIn("a greeting as SlaveHello(broker_id=3", pair.master.closed)

    def test_out_of_order(self) -> None:
        """A report before the greeting, a greeting after a report, two answers."""
        pair = autoswitch(Log(text(9)), entries((1, 0)), Log())
        pair.master.run(pair.master.machine.received(encode_report(9), 0), 0)
        self.assertEqual(pair.master.effects, [Close("a report from the slave, where nothing was said")])
        pair = autoswitch(Log(text(9)), entries((1, 0)), Log()).start()
        pair.master.run(pair.master.machine.received(encode_slave_hello(SlaveHello(2)), 0), 0)
        self.assertEqual(pair.master.closed, "a greeting from the slave, where the slave is sent the log")
        answer = encode_master_hello(MasterHello(9, 1, entries((1, 0))))
        pair.slave.run(pair.slave.machine.received(answer, 0), 0)
        self.assertEqual(pair.slave.closed, "an answer to a greeting from the master, where the log is due")

    def test_never_was_master(self) -> None:
        """Without an epoch there is nothing to tell a slave."""
        pair = autoswitch(Log(), (), Log()).start()
        self.assertEqual(pair.master.closed, "a slave greets, but this broker was never master")

    def test_a11_a12_acknowledgements(self) -> None:
        """As in the classic link: beyond the log, or not sent."""
        for reports in ([301], [100, 301], [100, 99], [63]):
            master = Log(text(300))
            master.drop_files(64)
            pair = autoswitch(master, entries((1, 0)), Log())
            data = encode_slave_hello(SlaveHello(2)) + b"".join(map(encode_report, reports))
            pair.master.run(pair.master.machine.received(data, 0), 0)
            self.assertNotEqual(pair.master.closed, "", reports)
            self.assertEqual(pair.master.acked(), 100 if reports[1:] else -1)


class EpochTests(SynchronousTestCase):
    """Stamps, and what the slave makes of them."""

    def test_s0_35_a_block_lies_in_one_epoch(self) -> None:
        """S0.35 to S0.38, S0.47: cut at the epoch's end, stamped with its own epoch, file ends besides."""
        pair = autoswitch(Log(text(200)), entries((1, 0), (3, 50), (4, 70), (9, 200)), Log(), batch=100).start()
        expected = [(0, 50, 1, 0), (50, 14, 3, 50), (64, 6, 3, 50), (70, 58, 4, 70), (128, 64, 4, 70), (192, 8, 4, 70)]
        self.assertEqual(stamps(pair.master.effects), expected)
        self.assertEqual(pair.slave.epochs, entries((1, 0), (3, 50), (4, 70)))
        self.assertEqual(pair.wait(5_000).slave.epochs, entries((1, 0), (3, 50), (4, 70), (9, 200)))

    def test_s0_39_epoch_is_recorded_before_its_first_byte(self) -> None:
        """In the file; a byte under the wrong epoch would be trusted at the next handshake."""
        slave = following(entries((1, 0)), 10, 10, entries((1, 0)))
        frame = encode_log_head(10, 5, 2, 10, 0) + text(5, 10)
        self.assertEqual(slave.received(frame, 0), [SaveEpochs(entries((1, 0), (2, 10))), Append(10, text(5, 10))])
        self.assertEqual(slave.received(encode_log_head(15, 1, 2, 10, 0) + b"x", 0), [Append(15, b"x")])

    def test_known_epochs_are_recorded_as_the_log_reaches_them(self) -> None:
        """The greeting told of all; the file has those that the log has."""
        slave = following(entries((1, 0), (3, 20), (5, 30)), 40, 10, entries((1, 0)))
        frames = encode_log_head(10, 10, 1, 0, 0) + text(10, 10) + encode_log_head(20, 10, 3, 20, 0) + text(10, 20)
        self.assertEqual(
            slave.received(frames, 0),
            [
                Append(10, text(10, 10)),
                SaveEpochs(entries((1, 0), (3, 20))),
                Append(20, text(10, 20)),
            ],
        )
        known = SaveEpochs(entries((1, 0), (3, 20), (5, 30)))
        self.assertEqual(slave.received(encode_log_head(30, 0, 3, 20, 0), 0), [known])

    def test_frame_over_an_epochs_end(self) -> None:
        """Java 5.3 stamps what an elected master writes with its old epoch; its greeting told of the new one."""
        slave = following(entries((1, 0), (3, 14)), 40, 10, entries((1, 0)))
        self.assertEqual(
            slave.received(encode_log_head(10, 10, 1, 0, 0) + text(10, 10), 0),
            [Append(10, text(4, 10)), SaveEpochs(entries((1, 0), (3, 14))), Append(14, text(6, 14))],
        )

    def test_javas_stamp_of_a_cut_block(self) -> None:
        """It names the next epoch, which begins at the block's end: at every cut the bytes count to the one before."""
        before, after = encode_log_head(10, 5, 2, 15, 0) + text(5, 10), encode_log_head(15, 5, 2, 15, 0) + text(5, 15)
        for cut in range(len(before + after)):
            slave = following(entries((1, 0)), 10, 10, entries((1, 0)))
            log, epochs = bytearray(text(10)), EpochCache(entries((1, 0)))
            for data in ((before + after)[:cut], (before + after)[cut:]):
                for effect in slave.received(data, 0):
                    if isinstance(effect, SaveEpochs):
                        epochs = EpochCache(effect.epochs)
                    elif isinstance(effect, Append):
                        log += effect.data
                        last = epochs.at(len(log) - 1)
                        assert last is not None
                        self.assertEqual(last.epoch, 2 if len(log) > 15 else 1)
            self.assertEqual((slave.closed, bytes(log), epochs.entries), ("", text(20), entries((1, 0), (2, 15))))

    def test_stamps_that_contradict(self) -> None:
        """An epoch with another start, an older one, one that begins beyond its frame."""
        for epoch, start in ((2, 8), (1, 1), (0, 0), (7, 26), (3, 5)):
            slave = following(entries((1, 0), (2, 10)), 20, 20, entries((1, 0), (2, 10)))
            effects = slave.received(encode_log_head(20, 5, epoch, start, 0) + text(5, 20), 0)
            self.assertEqual([type(each) for each in effects], [Close], (epoch, start))
            self.assertIn(f"(epoch {epoch}, start {start})", slave.closed)

    def test_c3_master_is_elected_again(self) -> None:
        """Under load, on the live connection: the transfer goes on, in the new epoch."""
        cache = EpochCache(entries((1, 0)))
        pair = autoswitch(Log(text(100)), cache, Log(), batch=30).start()
        pair.slave.truth = cache
        for epoch in range(2, 30):
            cache.begin(epoch, 0, pair.master.log.end)
            pair.grow(text(11, pair.master.log.end))
        self.assertEqual((pair.master.acked(), pair.slave.closed), (100 + 28 * 11, ""))
        self.assertEqual((pair.slave.epochs, len(pair.slave.epochs)), (cache.entries, 29))

    def test_c2_elections_without_a_message(self) -> None:
        """Three of them, each taking the place of the one before: the lists are equal once a message comes."""
        cache = EpochCache(entries((1, 0)))
        pair = autoswitch(Log(text(100)), cache, Log()).start()
        for epoch in (2, 3, 4):
            cache.begin(epoch, 0, 100)
            pair.wait(6_000)
            self.assertEqual(pair.slave.epochs, entries((1, 0)))
        pair.grow(text(5, 100))
        self.assertEqual(pair.slave.epochs, entries((1, 0), (4, 100)))

    def test_heartbeat_carries_the_epoch_of_the_last_byte(self) -> None:
        """A Java slave would keep an epoch without a byte, and refuse the one that takes its place (C2)."""
        cache = EpochCache(entries((1, 0)))
        pair = autoswitch(Log(text(100)), cache, Log()).start()
        cache.begin(2, 0, 100)
        beat = Send(encode_log_head(100, 0, 1, 0, 0))
        self.assertEqual(pair.master.machine.tick(5_000), [beat])
        pair.grow(text(1, 100))
        self.assertEqual(pair.master.machine.tick(10_000), [Send(encode_log_head(101, 0, 2, 100, 0))])

    def test_empty_master_names_no_epoch(self) -> None:
        """A Java slave would record an epoch of no byte at its log's beginning, and refuse the next one there (C2)."""
        for begin in (0, 128):
            cache = EpochCache(entries((1, begin)))
            pair = autoswitch(Log(begin=begin), cache, Log()).start()
            self.assertEqual(pair.master.machine.tick(5_000), [Send(encode_log_head(begin, 0, -1, -1, 0))])
            pair.wait(6_000)
            cache.begin(2, begin, begin)
            pair.grow(text(5, begin)).wait(6_000)
            self.assertEqual((pair.slave.closed, pair.slave.epochs), ("", entries((2, begin))))
            self.assertEqual(pair.master.of(Send)[-1], Send(encode_log_head(begin + 5, 0, 2, begin, 0)))

    def test_javas_announcement_without_bytes(self) -> None:
        """A frame of size 0 tells of an epoch that begins here."""
        slave = following(entries((1, 0)), 10, 10, entries((1, 0)))
        effects = slave.received(encode_log_head(10, 0, 2, 10, 0), 0)
        self.assertEqual(effects, [SaveEpochs(entries((1, 0), (2, 10)))])


class ConfirmTests(SynchronousTestCase):
    """S0.48: the slave learns up to where the log is safe."""

    def test_confirm_offset_goes_with_the_log(self) -> None:
        """And is taken over as far as the own log goes."""
        slave = following(entries((1, 0)), 10, 10, entries((1, 0)))
        self.assertEqual(slave.received(encode_log_head(10, 0, 1, 0, 7), 0), [Confirm(7)])
        frame = encode_log_head(10, 5, 1, 0, 90) + text(5, 10)
        self.assertEqual(slave.received(frame, 0), [Append(10, text(5, 10)), Confirm(15)])
        self.assertEqual(slave.received(encode_log_head(15, 0, 1, 0, 3), 0), [])
        self.assertEqual(slave.received(encode_log_head(15, 0, 1, 0, -1), 0), [])

    def test_news_of_it_is_not_left_to_the_heartbeat(self) -> None:
        """Within 20 ms, if no other frame carries it before."""
        confirm = ConfirmOffset()
        pair = autoswitch(Log(text(100)), entries((1, 0)), Log(), confirm=confirm).start()
        machine = pair.master.machine
        assert isinstance(machine, AutoswitchMaster)
        confirm.advance(100, 100)
        pair.master.run(machine.confirm_moved(0), 0)
        self.assertEqual(machine.next_due_ms(), 20)
        self.assertEqual(pair.wait(20).slave.confirm, 100)
        self.assertEqual(machine.confirm_moved(21), [])
        self.assertEqual(machine.next_due_ms(), 5_020)
        pair.grow(text(10, 100))
        confirm.advance(110, 110)
        machine.confirm_moved(22)
        pair.grow(text(10, 110))
        self.assertEqual((pair.slave.confirm, machine.next_due_ms()), (110, 5_020))

    def test_never_promises_it_twice(self) -> None:
        """While a block is under way nothing is due; what is said later is what holds then."""
        confirm = ConfirmOffset()
        pair = autoswitch(Log(text(50)), entries((1, 0)), Log(), confirm=confirm)
        pair.master.stuck = True
        pair.start()
        confirm.advance(40, 50)
        machine = pair.master.machine
        assert isinstance(machine, AutoswitchMaster)
        machine.confirm_moved(1)
        self.assertEqual((machine.next_due_ms(), machine.tick(19_000)), (20_000, []))
        machine.drained(19_001)
        self.assertEqual(machine.tick(19_002), [Send(encode_log_head(50, 0, 1, 0, 40))])


class UnservedTests(SynchronousTestCase):
    """C11: a slave converges, or someone hears why not."""

    def test_master_without_the_bytes(self) -> None:
        """Java: heartbeats at the slave's end though its log goes on, for ever; here for two of them."""
        slave = following(entries((1, 0)), 100, 50, entries((1, 0)))
        beat = encode_log_head(50, 0, 1, 0, 0)
        self.assertEqual(slave.received(beat, 5_000), [])
        slave.received(encode_log_head(50, 1, 1, 0, 0) + b"x", 5_001)
        beat = encode_log_head(51, 0, 1, 0, 0)
        slave.received(beat, 10_000)
        self.assertEqual(slave.closed, "")
        slave.received(beat, 15_000)
        self.assertIn("went up to 100, but it sends nothing from 51 on", slave.closed)

    def test_news_of_the_confirm_offset_is_no_heartbeat(self) -> None:
        """Many in a row, 20 ms apart, as a master sends them whose next block waits for something."""
        slave = following(entries((1, 0)), 100, 50, entries((1, 0)))
        for now_ms in range(0, 5_000, 20):
            slave.received(encode_log_head(50, 0, 1, 0, now_ms // 500), now_ms)
        self.assertEqual(slave.closed, "")
        (close,) = slave.received(encode_log_head(50, 0, 1, 0, 0), 5_000)
        assert isinstance(close, Close)
        self.assertEqual(close.cause, Cause.PART_IS_GONE)

    def test_idle_at_the_end(self) -> None:
        """Heartbeats where the log ends are nothing to worry about; nor are those of a master without a file."""
        slave = following(entries((1, 0)), 50, 50, entries((1, 0)))
        slave.received(encode_log_head(50, 0, 1, 0, 0) * 9, 0)
        empty = following(entries((1, 0)), 0, 0, ())
        empty.received(encode_log_head(-1, 0, 1, 0, -1) * 9, 0)
        last_file = following(entries((1, 0)), 128, 0, ())
        last_file.received(encode_log_head(128, 0, 1, 0, 128) * 9, 0)
        self.assertEqual((slave.closed, empty.closed, last_file.closed), ("", "", ""))

    def test_empty_log_behind_the_masters_end(self) -> None:
        """All its files expired, and the master has only what was before: it would report a place nobody has."""
        for master_end, cause in ((99, Cause.MASTER_ENDS_BEFORE), (0, Cause.MASTER_ENDS_BEFORE), (100, None)):
            slave = AutoswitchSlave(SlaveHello(2), Log(begin=100), entries((1, 0)), -1, 0, 0)
            answer = encode_master_hello(MasterHello(master_end, 1, entries((1, 0))))
            (effect,) = slave.received(answer, 0)
            self.assertEqual(effect.cause if isinstance(effect, Close) else None, cause, master_end)

    def test_wrong_place(self) -> None:
        """The log continues or the link ends."""
        slave = following(entries((1, 0)), 50, 50, entries((1, 0)))
        slave.received(encode_log_head(49, 1, 1, 0, 0) + b"x", 0)
        self.assertIn("sends the log from 49, and this log ends at 50", slave.closed)


class CutTests(SynchronousTestCase):
    """C8, C9: the streams in every cut, and words that are no state."""

    MINE = text(100) + text(50, 100, by=2)
    THEIRS = text(120) + text(80, 120, by=3)

    def run_with(self, cut: Cut) -> Pair:
        """A slave with a diverged tail, and a message more."""
        slave = Log(self.MINE)
        pair = autoswitch(
            Log(self.THEIRS), entries((1, 0), (3, 120)), slave, entries((1, 0), (2, 100)), cut=cut, batch=48
        )
        return pair.start().grow(text(30, 200, by=3))

    def test_c8_each_byte_alone(self) -> None:
        """Both directions."""
        pair = self.run_with(bytewise)
        self.assertEqual(bytes(pair.slave.log.data), self.THEIRS + text(30, 200, by=3))
        self.assertEqual((pair.slave.epochs, pair.master.acked()), (entries((1, 0), (3, 120)), 230))

    def test_c9_every_cut_point(self) -> None:
        """Each direction of the whole session, cut in two at each byte: the same bytes, epochs and answers."""
        pair = self.run_with(whole)
        said = b"".join(each.data for each in pair.slave.effects if isinstance(each, Send))
        (answer,) = [each.data for each in pair.master.effects if isinstance(each, Send)]
        blocks = [each for each in pair.master.effects if isinstance(each, SendLog)]
        log = b"".join(each.head + pair.master.log.read(each.offset, each.size) for each in blocks)
        for cut in range(1, len(answer) + len(log)):
            again = autoswitch(Log(), pair.slave.epochs, Log(self.MINE), entries((1, 0), (2, 100))).slave
            into = max(0, cut - len(answer))
            for data in (answer[:cut], answer[cut:], log[:into], log[into:]):
                again.run(again.machine.received(data, 0), 0)
            self.assertEqual((again.closed, bytes(again.log.data)), ("", self.THEIRS + text(30, 200, by=3)))
            self.assertEqual((again.epochs, again.machine.reported), (pair.slave.epochs, 230))
        first, acks = said[:28], said[28:]
        for cut in range(1, len(said)):
            master = autoswitch(Log(self.THEIRS + text(30, 200, by=3)), entries((1, 0), (3, 120)), Log()).master
            into = max(0, cut - len(first))
            for data in (first[:cut], first[cut:], acks[:into], acks[into:]):
                master.run(master.machine.received(data, 0), 0)
            self.assertEqual((master.closed, master.acked()), ("", 230))

    def test_c9_no_state_at_any_point(self) -> None:
        """Where a frame is due, a word that names no state of the wire ends the link, in each of its states."""
        for word in (0, 3, 4, 5, -1, -(2**31), 2**31 - 1):
            bad = word.to_bytes(4, "big", signed=True) + bytes(40)
            aligning = greeted(10, entries((1, 0)))
            aligning.received(encode_master_hello(MasterHello(10, 1, entries((1, 0)))), 0)
            for slave in (greeted(), aligning, following(entries((1, 0)), 10, 10, entries((1, 0)))):
                self.assertEqual([type(each) for each in slave.received(bad, 0)], [Close], (word, slave.state))
            for said in (b"", encode_slave_hello(SlaveHello(2)), encode_slave_hello(SlaveHello(2)) + encode_report(0)):
                master = AutoswitchMaster(Log(text(9)), EpochCache(entries((1, 0))), ConfirmOffset(), 0)
                master.received(said, 0)
                self.assertEqual([type(each) for each in master.received(bad, 0)], [Close], (word, master.state))

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_any_logs_any_cut(self, data: st.DataObject) -> None:
        """A slave that left its master's history anywhere has that master's log and epochs afterwards."""
        lengths = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=6))
        starts = [sum(lengths[:place]) for place in range(len(lengths))]
        epochs = entries(*[(2 * place + 2, start) for place, start in enumerate(starts)])
        theirs = b"".join(text(size, start, by) for by, (size, start) in enumerate(zip(lengths, starts, strict=True)))
        kept = data.draw(st.integers(0, len(theirs)))
        own = tuple(entry for entry in epochs if entry.start_offset < kept)
        mine = theirs[:kept]
        if kept and data.draw(st.booleans()):
            mine += text(data.draw(st.integers(1, 80)), kept, 99)
            own += entries((own[-1].epoch + 1, kept))
        random = data.draw(st.randoms())
        pair = autoswitch(
            Log(theirs),
            epochs,
            Log(mine),
            own,
            cut=lambda waiting: random.randint(1, len(waiting)),
            batch=data.draw(st.integers(1, 100)),
        )
        pair.start().grow(text(20, len(theirs), by=50))
        self.assertEqual((pair.slave.closed, pair.master.closed), ("", ""))
        self.assertEqual(bytes(pair.slave.log.data), theirs + text(20, len(theirs), by=50))
        self.assertEqual((pair.slave.epochs, pair.master.acked()), (epochs, len(theirs) + 20))


class TransitionTests(SynchronousTestCase):
    """docs/ha_links.rst shows them all."""

    def test_states_on_the_way(self) -> None:
        """Those of the drawing, in its order."""
        slave = greeted()
        self.assertEqual(slave.state, SlaveState.HANDSHAKE)
        slave.received(encode_master_hello(MasterHello(9, 1, entries((1, 0)))), 0)
        self.assertEqual(slave.state, SlaveState.ALIGNING)
        slave.aligned(0, (), 0)
        self.assertEqual(slave.state, SlaveState.TRANSFER)
        master = AutoswitchMaster(Log(text(9)), EpochCache(entries((1, 0))), ConfirmOffset(), 0)
        self.assertEqual(master.state, MasterState.GREETING)
        master.received(encode_slave_hello(SlaveHello(2)), 0)
        self.assertEqual(master.state, MasterState.ANSWERED)
        master.received(encode_report(0), 0)
        self.assertEqual(master.state, MasterState.TRANSFER)
