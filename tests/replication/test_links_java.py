"""Our machines against recorded links of Apache RocketMQ 5.5.0: each of ours takes the place of one of Java's."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rocketha.replication.autoswitch_master import AutoswitchMaster
from rocketha.replication.autoswitch_slave import AutoswitchSlave
from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import EpochCache, EpochEntry
from rocketha.replication.link import Introduced, Send
from rocketha.wire.ha_frames import (
    ClassicPieces,
    ClassicReports,
    LogPiece,
    MasterFrames,
    MasterHello,
    Report,
    SlaveFrames,
    SlaveHello,
)
from tests.replication.links import Log, MasterEnd, SlaveEnd, entries
from tests.wire.support import ha_link, one_way

JAVA_FILE = 1 << 30
SESSIONS = {
    "autoswitch": (entries((1, 0)), 0, ()),
    "autoswitch-epoch-2": (entries((1, 0), (2, 247)), 247, entries((1, 0))),
}
"""Name, the master's epochs, where the slave's log ended, the slave's epochs."""


def java_log(name: str) -> dict[int, bytes]:
    """What Java's master sent of its log: the bytes by their offset."""
    heard = one_way(name, "s2c")
    if name == "classic":
        return {piece.offset: bytes(piece.data) for piece in ClassicPieces().feed(heard) if piece.data}
    frames = MasterFrames().feed(heard)
    return {each.offset: bytes(each.data) for each in frames if not isinstance(each, MasterHello) and each.data}


def joined(pieces: dict[int, bytes], begin: int) -> bytes:
    """The log, which has no hole."""
    log = b""
    for offset in sorted(pieces):
        assert offset == begin + len(log)
        log += pieces[offset]
    return log


def reports(name: str, said: bytes) -> list[int]:
    """What a slave reported."""
    if name == "classic":
        return ClassicReports().feed(said)
    return [each.offset for each in SlaveFrames().feed(said) if isinstance(each, Report)]


class OurSlaveTests(SynchronousTestCase):
    """In the place of Java's slave: the same log, the same last report, each report at the end of what it was sent."""

    def replay(self, name: str, end: SlaveEnd, begin: int) -> None:
        """Java's master speaks."""
        end.run(end.machine.begin(0), 0)
        for way, data in ha_link(name):
            if way == "s2c":
                end.run(end.machine.received(data, 0), 0)
        self.assertEqual(end.closed, "")
        self.assertEqual(bytes(end.log.data[begin:]), joined(java_log(name), begin))
        said = b"".join(each.data for each in end.effects if isinstance(each, Send))
        ours = reports(name, said)
        java = reports(name, one_way(name, "c2s"))
        self.assertEqual((ours[0], ours[-1]), (java[0], java[-1]))
        self.assertLessEqual(set(java), set(ours))

    def test_classic(self) -> None:
        """From nothing."""
        end = SlaveEnd(ClassicSlave(0, JAVA_FILE, 0), Log(file_size=JAVA_FILE))
        self.replay("classic", end, 0)

    def test_autoswitch(self) -> None:
        """From nothing, and after an election."""
        for name, (masters, begin, own) in SESSIONS.items():
            log = Log(b"\0" * begin, file_size=JAVA_FILE)
            end = SlaveEnd(AutoswitchSlave(SlaveHello(2), log, own, masters[-1].epoch, 0, 0), log, own)
            self.replay(name, end, begin)
            self.assertEqual(end.epochs, masters)
            last = MasterFrames().feed(one_way(name, "s2c"))[-1]
            assert isinstance(last, LogPiece)
            self.assertEqual(end.confirm, last.confirm_offset)


class OurMasterTests(SynchronousTestCase):
    """In the place of Java's master: the same bytes of the log, and all that Java's slave says is understood."""

    def replay(self, name: str, end: MasterEnd) -> None:
        """The log grows as Java's did, Java's slave speaks."""
        pieces = java_log(name)
        bodies: list[bytes] = []
        splitter = ClassicPieces() if name == "classic" else MasterFrames()
        for way, data in ha_link(name):
            if way == "c2s":
                end.run(end.machine.received(data, 0), 0)
                continue
            for piece in splitter.feed(data):
                if not isinstance(piece, MasterHello) and piece.data:
                    news = bytes(piece.data)[max(0, end.log.end - piece.offset) :]
                    if news:
                        end.log.append(end.log.end, news)
            end.run(end.machine.log_grew(0), 0)
        self.assertEqual(end.closed, "")
        ours = ClassicPieces() if name == "classic" else MasterFrames()
        bodies = [bytes(each.data) for each in ours.feed(end.out) if not isinstance(each, MasterHello)]
        self.assertEqual(b"".join(bodies), joined(pieces, min(pieces)))
        self.assertEqual((end.acked(), end.machine.acked), (end.log.end, end.log.end))

    def test_classic(self) -> None:
        """Its slave came with nothing."""
        log = Log(file_size=JAVA_FILE)
        self.replay("classic", MasterEnd(ClassicMaster(log, 0), log))

    def test_autoswitch(self) -> None:
        """The answer to its greeting is Java's byte for byte; the greeting that Java repeats is no breach."""
        for name, (masters, begin, _own) in SESSIONS.items():
            heard = MasterFrames().feed(one_way(name, "s2c"))
            assert isinstance(heard[0], MasterHello)
            log = Log(b"\0" * begin, file_size=JAVA_FILE)
            if not begin:
                log.append(0, joined(java_log(name), 0)[: heard[0].max_offset])
            confirm = ConfirmOffset(log.end, log.end)
            end = MasterEnd(AutoswitchMaster(log, EpochCache(masters), confirm, 0), log)
            self.replay(name, end)
            answer = 20 + 12 * len(masters)
            self.assertEqual(end.out[:answer], one_way(name, "s2c")[:answer])
            self.assertEqual(end.of(Introduced), [Introduced(SlaveHello(1 if begin else 2), masters[-1].epoch)])

    def test_stamps_are_javas(self) -> None:
        """Where Java did not have to cut a block, ours carries the same epoch and start."""
        name = "autoswitch-epoch-2"
        masters, begin, _own = SESSIONS[name]
        log = Log(b"\0" * begin, file_size=JAVA_FILE)
        end = MasterEnd(AutoswitchMaster(log, EpochCache(masters), ConfirmOffset(), 0), log)
        self.replay(name, end)
        for frames in (MasterFrames().feed(end.out), MasterFrames().feed(one_way(name, "s2c"))):
            found = {
                (each.epoch, each.epoch_start) for each in frames if not isinstance(each, MasterHello) and each.data
            }
            self.assertEqual(found, {EpochEntry(2, 247)})
