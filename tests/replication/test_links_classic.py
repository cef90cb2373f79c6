"""The classic link, both ends (facts: DefaultHAConnection, DefaultHAClient)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.link import (
    Ack,
    Append,
    Cause,
    Close,
    Compare,
    Compared,
    Introduced,
    LinkTiming,
    Send,
    SendLog,
)
from rocketha.wire.ha_frames import encode_classic_head, encode_classic_report
from tests.replication.links import FILE, Log, autoswitch, bytewise, classic, entries, text, whole


class TransferTests(SynchronousTestCase):
    """Bytes get over, and are acknowledged."""

    def test_slave_that_has_nothing_is_sent_the_last_file(self) -> None:
        """S1.39: as Java; the slave's log begins where that file does."""
        master = Log(text(3 * FILE + 10))
        pair = classic(master, Log()).start()
        self.assertEqual((pair.slave.log.begin, bytes(pair.slave.log.data)), (3 * FILE, text(10, 3 * FILE)))
        self.assertEqual(pair.master.acked(), 3 * FILE + 10)

    def test_slave_goes_on_where_its_log_ends(self) -> None:
        """S1.37: also within a record; what the first report says is acknowledged."""
        pair = classic(Log(text(200)), Log(text(77))).start()
        self.assertEqual(bytes(pair.slave.log.data), text(200))
        self.assertEqual(pair.master.effects[0], Ack(77))

    def test_speaks_first_and_at_once(self) -> None:
        """Java's slave waits up to 5 s before its first report."""
        slave = ClassicSlave(77, FILE, 0)
        self.assertEqual(slave.begin(0), [Send(encode_classic_report(77))])

    def test_blocks_end_where_files_end(self) -> None:
        """A body never crosses a file, nor is larger than the batch."""
        pair = classic(Log(text(200)), Log(text(10)), batch=40).start()
        sent = [(each.offset, each.size) for each in pair.master.effects if isinstance(each, SendLog)]
        self.assertEqual(sent, [(10, 40), (50, 14), (64, 40), (104, 24), (128, 40), (168, 24), (192, 8)])

    def test_each_byte_alone(self) -> None:
        """C8: nothing depends on how the stream is cut."""
        pair = classic(Log(text(200)), Log(text(10)), cut=bytewise).start().grow(text(100, 200))
        self.assertEqual(bytes(pair.slave.log.data), text(300))
        self.assertEqual((pair.master.acked(), pair.master.closed, pair.slave.closed), (300, "", ""))

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 300), st.lists(st.integers(1, 90), max_size=8), st.integers(1, 200), st.randoms())
    def test_any_cut(self, there: int, growth: list[int], batch: int, random: st.DataObject) -> None:
        """However the streams are cut, whatever the blocks: the slave's log is the master's."""
        cut = lambda waiting: random.randint(1, len(waiting))  # type: ignore[attr-defined]  # noqa: E731
        pair = classic(Log(text(300)), Log(text(there)), batch, cut).start()
        for size in growth:
            pair.grow(text(size, pair.master.log.end))
        end = 300 + sum(growth)
        begin = pair.slave.log.begin
        self.assertEqual(bytes(pair.slave.log.data), text(end - begin, begin))
        self.assertEqual(begin, 256 if not there else 0)
        self.assertEqual(pair.master.acked(), end)

    def test_h1_news_of_the_log_leaves_at_once(self) -> None:
        """A message is acknowledged without any time passing: no pause of either side is in the way."""
        pair = classic(Log(text(10)), Log(text(10))).start().grow(text(30, 10))
        self.assertEqual((pair.now_ms, pair.master.acked()), (0, 40))

    def test_one_report_a_turn(self) -> None:
        """Three frames of one read are appended as one piece and reported once."""
        slave = ClassicSlave(0, FILE, 0)
        slave.begin(0)
        frames = b"".join(encode_classic_head(at, 10) + text(10, at) for at in (0, 10, 20))
        self.assertEqual(slave.received(frames, 1), [Append(0, text(30))])
        self.assertEqual(slave.appended(30, 2), [Send(encode_classic_report(30))])

    def test_reports_what_is_durable_not_what_came(self) -> None:
        """S1.5: before the store says so nothing is reported, not even by a heartbeat."""
        slave = ClassicSlave(0, FILE, 0)
        slave.begin(0)
        slave.received(encode_classic_head(0, 30) + text(30), 1)
        self.assertEqual(slave.tick(5_000), [Send(encode_classic_report(0))])
        self.assertEqual(slave.appended(20, 5_001), [Send(encode_classic_report(20))])
        self.assertEqual(slave.appended(20, 5_002), [])


class CompareTests(SynchronousTestCase):
    """The end of the slave's log comes again, to see whose log the master's is."""

    def test_the_same_log(self) -> None:
        """What comes again is compared, what follows is appended and acknowledged; in whatever cut."""
        for cut in (whole, bytewise):
            pair = classic(Log(text(200)), Log(text(100)), 40, cut, compare_from=70).start()
            self.assertEqual((bytes(pair.slave.log.data), pair.slave.closed), (text(200), ""))
            compared = [each for each in pair.slave.effects if isinstance(each, Compare)]
            self.assertEqual(b"".join(bytes(each.data) for each in compared), text(30, 70))
            kinds = [type(each) for each in pair.slave.effects if not isinstance(each, Send)]
            self.assertEqual(kinds.index(Compared), len(compared))
            self.assertEqual(kinds.index(Append), len(compared) + 1)
            self.assertEqual(pair.master.acked(), 200)

    def test_nothing_is_acknowledged_before(self) -> None:
        """What the slave has counts when it is known to be the master's: until then its first report stands."""
        slave = ClassicSlave(100, FILE, 0, compare_from=70)
        self.assertEqual(slave.begin(0), [Send(encode_classic_report(70))])
        frame = encode_classic_head(70, 50) + text(50, 70)
        self.assertEqual(slave.received(frame[: 12 + 29], 1), [Compare(70, text(29, 70))])
        self.assertFalse(slave.transfers)
        self.assertEqual(slave.tick(5_000), [Send(encode_classic_report(70))])
        effects = slave.received(frame[12 + 29 :], 5_001)
        self.assertEqual(effects, [Compare(99, text(1, 99)), Compared(), Append(100, text(20, 100))])
        self.assertTrue(slave.transfers)
        self.assertEqual(slave.appended(120, 5_002), [Send(encode_classic_report(120))])

    def test_nothing_new(self) -> None:
        """A slave that has all acknowledges all, though nothing is appended."""
        pair = classic(Log(text(100)), Log(text(100)), compare_from=70).start()
        self.assertEqual((pair.master.acked(), pair.slave.of(Append)), (100, []))

    def test_0_is_never_asked_for(self) -> None:
        """It would be answered with the last file."""
        pair = classic(Log(text(200)), Log(text(30)), compare_from=0)
        pair.start()
        self.assertEqual(pair.slave.effects[0], Send(encode_classic_report(1)))
        self.assertEqual(bytes(pair.slave.log.data), text(200))

    def test_empty(self) -> None:
        """There is nothing to compare: as ever."""
        pair = classic(Log(text(200)), Log(), compare_from=0).start()
        self.assertEqual((pair.slave.log.begin, pair.master.acked(), pair.slave.of(Compared)), (192, 200, []))

    def test_another_place(self) -> None:
        """Bytes of a place that was not asked for are compared with nothing."""
        for offset in (69, 71, 100):
            slave = ClassicSlave(100, FILE, 0, compare_from=70)
            slave.begin(0)
            effects = slave.received(encode_classic_head(offset, 5) + text(5, offset), 1)
            self.assertEqual([type(each) for each in effects], [Close])
            self.assertIn(f"sends the log from {offset}, and was asked for it from 70", slave.closed)

    def test_a12_heartbeats_of_a_master_that_is_behind(self) -> None:
        """Java's master says no more to a slave that is ahead: two in a row tell, one may come before the bytes."""
        slave = ClassicSlave(100, FILE, 0, compare_from=70)
        slave.begin(0)
        heartbeat = encode_classic_head(70, 0)
        self.assertEqual(slave.received(heartbeat, 5_000), [])
        self.assertEqual(slave.received(heartbeat, 5_100), [])
        effects = slave.received(heartbeat, 10_000)
        self.assertEqual(effects, [Close(slave.closed, Cause.MASTER_ENDS_BEFORE)])
        self.assertIn("nothing from 70 on, and this log ends at 100", slave.closed)

    def test_heartbeats_between_the_bytes(self) -> None:
        """A master that sends slowly has them; one that stops at a place has not."""
        slave = ClassicSlave(100, FILE, 0, compare_from=70)
        slave.begin(0)
        for number in range(4):
            slave.received(encode_classic_head(70 + number, 0), 10_000 * number + 5_000)
            slave.received(encode_classic_head(70 + number, 1) + text(1, 70 + number), 10_000 * number + 10_000)
        self.assertEqual(slave.closed, "")
        slave.received(encode_classic_head(74, 26) + text(26, 74), 41_000)
        for number in range(4):
            slave.received(encode_classic_head(100, 0), 50_000 + 5_000 * number)
        self.assertEqual((slave.closed, slave.transfers), ("", True))

    def test_a_master_elsewhere(self) -> None:
        """Ours tells where its log is nearest: the slave says where its own ends, not where it was to be compared."""
        pair = classic(Log(text(50)), Log(text(100)), compare_from=70).start()
        said = pair.master.out
        pair.slave.run(pair.slave.machine.received(said, 0), 0)
        self.assertEqual(pair.slave.effects[-1], Close(pair.slave.closed, Cause.MASTER_ENDS_BEFORE))
        self.assertIn("the master is at 50, and this log ends at 100", pair.slave.closed)


class BackPressureTests(SynchronousTestCase):
    """A slave that does not read costs one block."""

    def test_one_block_under_way(self) -> None:
        """Whatever happens, the next block waits until the transport took the last."""
        pair = classic(Log(text(20)), Log(text(10)), batch=5)
        pair.master.stuck = True
        pair.start().grow(text(100, 20))
        pair.master.run(pair.master.machine.tick(4_999), 4_999)
        self.assertEqual(len(pair.master.of(SendLog)), 1)
        for _ in range(3):
            pair.master.run(pair.master.machine.drained(0), 0)
        self.assertEqual([each.offset for each in pair.master.of(SendLog)], [10, 15, 20, 25])  # type: ignore[union-attr]

    def test_no_heartbeats_behind_a_block(self) -> None:
        """A transport that is stuck is not filled with heartbeats; the silence of a peer that is gone ends it."""
        pair = classic(Log(text(20)), Log(text(10)))
        pair.master.stuck = True
        pair.start()
        self.assertEqual(pair.master.machine.next_due_ms(), 20_000)
        pair.master.run(pair.master.machine.tick(20_000), 20_000)
        self.assertIn("nothing was heard", pair.master.closed)
        self.assertEqual(pair.master.of(Send), [])

    def test_no_heartbeats_behind_a_block_after_a_freeze(self) -> None:
        """Nor when the process stood still for a minute with a block under way."""
        pair = classic(Log(text(20)), Log(text(10)))
        pair.master.stuck = True
        pair.start()
        self.assertEqual((pair.master.machine.tick(60_000), pair.master.machine.next_due_ms()), ([], 65_000))


class RefusalTests(SynchronousTestCase):
    """What cannot be true closes the link, and says why."""

    def master_after(self, *reports: int) -> str:
        """Why a master with the log [64, 200) closes after these reports."""
        master = Log(text(200))
        master.drop_files(64)
        pair = classic(master, Log(text(100)))
        for offset in reports:
            pair.master.run(pair.master.machine.received(encode_classic_report(offset), 0), 0)
        if pair.master.closed:
            self.assertNotIn(Ack(reports[-1]), pair.master.effects)
            self.assertIsInstance(pair.master.effects[-1], Close)
            self.assertEqual(pair.master.machine.received(b"x", 0), [])
        return pair.master.closed

    def test_a11_acknowledgement_beyond_the_log(self) -> None:
        """Bytes sent to the HA port are no credit, not even a first report of 10^9."""
        self.assertIn("outside of this log, which goes from 64 to 200", self.master_after(10**9))
        self.assertIn("was sent the log from 100 to 200", self.master_after(100, 10**9))
        self.assertIn("was sent the log from 100 to 200", self.master_after(100, 201))
        self.assertEqual(self.master_after(100, 200, 200), "")

    def test_a11_acknowledgement_of_what_was_not_sent(self) -> None:
        """Nor is one of bytes that the master has but did not send on this link yet."""
        pair = classic(Log(text(200)), Log(text(10)), batch=5)
        pair.master.stuck = True
        for offset in (10, 16):
            pair.master.run(pair.master.machine.received(encode_classic_report(offset), 0), 0)
        self.assertIn("acknowledges 16, but was sent the log from 10 to 15", pair.master.closed)

    def test_a12_slave_ahead_of_its_master(self) -> None:
        """Java sends it heartbeats for ever and counts it."""
        self.assertIn("the slave's log ends at 201, outside", self.master_after(201))

    def test_c11_slave_behind_the_first_file(self) -> None:
        """Java sends it heartbeats for ever."""
        self.assertIn("the slave's log ends at 63, outside", self.master_after(63))
        self.assertEqual(self.master_after(64), "")

    def test_c11_slave_that_falls_behind_the_first_file(self) -> None:
        """While it is sent the log, the files it needs expire."""
        pair = classic(Log(text(200)), Log(text(10)), batch=5)
        pair.master.stuck = True
        pair.start()
        pair.master.log.drop_files(128)
        pair.master.run(pair.master.machine.drained(0), 0)
        self.assertIn("the log begins at 128 now, and the slave is at 15", pair.master.closed)

    def test_slave_outside_of_the_log_is_told(self) -> None:
        """Where the master's log begins, or ends, before the link closes: both sides have a cause to act on."""
        for end, place, cause in (
            (63, 64, Cause.MASTER_BEGINS_LATER),
            (201, 200, Cause.MASTER_ENDS_BEFORE),
        ):
            master = Log(text(200))
            master.drop_files(64)
            epochs = entries((1, 0))
            pairs = [classic(master, Log(text(end)))]
            if end < 64:
                pairs.append(autoswitch(master, epochs, Log(text(end)), epochs))
            for pair in pairs:
                pair.start()
                self.assertEqual(pair.master.effects[-1], Close(pair.master.closed, Cause.SLAVE_IS_ELSEWHERE))
                self.assertEqual(pair.master.of(Introduced) + pair.master.of(Ack), [])
                said = pair.master.out
                pair.master.out = b""
                pair.slave.run(pair.slave.machine.received(said, 0), 0)
                self.assertIn(f"the master is at {place}, and this log ends at {end}", pair.slave.closed)
                self.assertEqual(pair.slave.effects[-1], Close(pair.slave.closed, cause))

    def test_slave_that_falls_behind_is_told(self) -> None:
        """As one that was behind from the beginning."""
        pair = classic(Log(text(200)), Log(text(10)), batch=5).start()
        pair.master.log.drop_files(192)
        pair.master.log.append(200, text(9, 200))
        pair.master.machine.position = 15
        pair.master.run(pair.master.machine.log_grew(0), 0)
        self.assertEqual(pair.master.of(Send)[-1], Send(encode_classic_head(192, 0)))
        self.assertEqual(pair.master.effects[-1], Close(pair.master.closed, Cause.SLAVE_IS_ELSEWHERE))

    def test_acknowledgement_goes_back(self) -> None:
        """What a slave once had it has, or it is another."""
        self.assertIn("acknowledges 120, after 150", self.master_after(100, 150, 120))
        self.assertIn("acknowledges 0, after 100", self.master_after(100, 0))

    def test_empty_slave_acknowledges_what_it_never_had(self) -> None:
        """One that began with the last file has nothing of the files before."""
        self.assertIn("was sent the log from 192 to 200", self.master_after(0, 100))
        self.assertEqual(self.master_after(0, 0, 200), "")

    def test_negative(self) -> None:
        """Numbers are Java's signed ones."""
        machine = ClassicMaster(Log(), 0)
        effects = machine.received(b"\xff" * 8, 0)
        self.assertEqual(effects, [Close("a report of log offset -1")])

    def slave_after(self, end: int, *frames: tuple[int, int]) -> str:
        """Why a slave whose log ends there closes after frames of (offset, size)."""
        pair = classic(Log(text(500)), Log(text(end)))
        for offset, size in frames:
            head = encode_classic_head(offset, size)
            pair.slave.run(pair.slave.machine.received(head + text(size, offset), 0), 0)
        return pair.slave.closed

    def test_slave_is_sent_another_place(self) -> None:
        """Bytes continue the log or the link ends; heartbeats too tell of another place."""
        self.assertIn("the master sends the log from 11, and this log ends at 10", self.slave_after(10, (11, 3)))
        self.assertIn("the master sends the log from 9,", self.slave_after(10, (9, 3)))
        self.assertIn("the master is at 11, and this log ends at 10", self.slave_after(10, (11, 0)))
        self.assertEqual(self.slave_after(10, (10, 0), (10, 3), (13, 0), (13, 1)), "")

    def test_empty_log_begins_with_a_file(self) -> None:
        """Wherever the master's does."""
        self.assertEqual(self.slave_after(0, (128, 0), (128, 9), (137, 0)), "")
        self.assertIn("begins at 129, within a file", self.slave_after(0, (129, 9)))

    def test_files_of_another_size(self) -> None:
        """Java appends a part, ignores that it did, and reconnects for ever; also when the read ends at the file's."""
        self.assertIn("mappedFileSizeCommitLog is another", self.slave_after(10, (10, 55)))
        slave = ClassicSlave(10, FILE, 0)
        effects = slave.received(encode_classic_head(10, 55) + text(54), 0)
        self.assertIn("beyond the end of a file of 64 bytes", slave.closed)
        self.assertEqual([type(each) for each in effects], [Close])

    def test_after_the_end_nothing(self) -> None:
        """A closed link has no effects and no deadlines, whatever it is told."""
        pair = classic(Log(text(20)), Log(text(10))).start()
        for end in (pair.master, pair.slave):
            end.run(end.machine.received(b"\xff" * 16, 0), 0)
            self.assertNotEqual(end.closed, "")
            self.assertEqual(end.machine.next_due_ms(), None)
            frame = encode_classic_report(20) if end is pair.master else encode_classic_head(20, 1) + b"1"
            self.assertEqual(end.machine.tick(10**9) + end.machine.received(frame, 10**9), [])
        assert isinstance(pair.slave.machine, ClassicSlave)
        self.assertEqual(pair.slave.machine.appended(20, 0), [])
        pair.master.log.append(20, b"1")
        self.assertEqual(pair.master.machine.log_grew(0) + pair.master.machine.drained(0), [])

    def test_master_waits_for_the_first_report(self) -> None:
        """No bytes and no heartbeats before the slave said where to begin."""
        machine = ClassicMaster(Log(text(100)), 0, LinkTiming())
        self.assertEqual(machine.log_grew(0) + machine.drained(0) + machine.tick(5_000) + machine.tick(19_999), [])
        self.assertEqual(whole(b""), 0)
