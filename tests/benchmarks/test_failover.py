"""The book-keeping of the failover benchmarks: who is measured when, what counts as needless, what the report says."""

from __future__ import annotations

import contextlib
import io
import signal
import time
import unittest
from collections.abc import Iterator, Mapping
from unittest import mock

from benchmarks import failover
from tests.interop.harness.processes import NotReady


class FakeSide(failover.Side):
    """A group that switches when it is told to; each round of a row takes the next of its values, or fails with it."""

    switching = {"kill": 1}

    def __init__(self, kind: str, values: Mapping[str, list[float | Exception]], heard: list[str]) -> None:
        super().__init__(kind, mock.Mock(processes=[]))
        self.values = {row: iter(found) for row, found in values.items()}
        self.heard = heard
        self.epoch = 1
        self.comes_back = True

    def begin(self) -> None:
        """As far as it gets."""
        self.whole()

    def whole(self) -> mock.Mock:
        """What the controllers say now."""
        self.heard.append(f"{self.kind} whole")
        if not self.comes_back:
            raise NotReady("not within 240 s: all replicas\nits log")
        return mock.Mock(master_epoch=self.epoch)

    def measure(self, row: str) -> Mapping[str, float]:
        """The next value; a switch where the row makes one."""
        self.heard.append(f"{self.kind} {row}")
        value = next(self.values[row])
        if isinstance(value, Exception):
            raise value
        self.epoch += self.switching.get(row, 0)
        return {row: value}


@contextlib.contextmanager
def on_a_quiet_machine(heard: list[str]) -> Iterator[io.StringIO]:
    """What is printed meanwhile."""
    with (
        mock.patch.object(failover, "await_quiet", lambda: heard.append("quiet")),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        yield out


class SwitchesTests(unittest.TestCase):
    """Epochs, and the elections that no round made."""

    def test_only_what_rounds_make(self) -> None:
        """None is needless; nor is what was before the first round."""
        switches = failover.Switches()
        for row, made, epoch in (("kill", 1, 7), ("back", 0, 8), ("kill", 1, 8), ("", 0, 9)):
            switches.seen(epoch)
            switches.made(row, made)
        self.assertEqual(switches.needless.total(), 0)

    def test_needless_ones(self) -> None:
        """They are the row's after which they were seen, and counted once."""
        switches = failover.Switches()
        switches.seen(3)
        switches.made("kill", 1)
        switches.seen(6)
        switches.made("back", 0)
        switches.seen(7)
        switches.seen(7)
        self.assertEqual(switches.needless, {"kill": 2, "back": 1})


class TurnsTests(unittest.TestCase):
    """Rounds of a row."""

    def test_in_turn(self) -> None:
        """All groups are whole and the machine is quiet before each; samples are kept by side."""
        heard: list[str] = []
        sides = [FakeSide("java", {"kill": [2.0, 3.0]}, heard), FakeSide("ours", {"kill": [0.5, 0.25]}, heard)]
        with on_a_quiet_machine(heard) as out:
            failover.take_turns(sides, "kill", 2)
        turns = [["java whole", "ours whole", "quiet", f"{kind} whole", f"{kind} kill"] for kind in ("java", "ours")]
        self.assertEqual(heard, 2 * [*turns[0], *turns[1]])
        self.assertEqual([side.samples for side in sides], [{"kill": [2.0, 3.0]}, {"kill": [0.5, 0.25]}])
        self.assertRegex(
            out.getvalue().splitlines()[3],
            r"^kill 2 ours: 0\.250 s \(machine busy -?\d+\.\d\d cores; took \d+ s after \d+ s of waiting\)$",
        )

    def test_needless_switches_of_a_side(self) -> None:
        """One between two rounds is seen before the next."""
        side = FakeSide("ours", {"kill": [1.0, 1.0, 1.0]}, [])
        with on_a_quiet_machine([]):
            failover.take_turns([side], "kill", 2)
            side.epoch += 1
            failover.take_turns([side], "kill", 1)
        self.assertEqual(side.switches.needless, {"kill": 1})

    def test_a_row_that_is_not_about_the_group(self) -> None:
        """Nobody is asked whether it is whole, nothing is said of its epochs."""
        heard: list[str] = []
        side = FakeSide("ours", {"start": [1.5]}, heard)
        with on_a_quiet_machine(heard):
            failover.take_turns([side], "start", 1, whole=False)
        self.assertEqual((heard, side.samples), (["ours start"], {"start": [1.5]}))


class FailureTests(unittest.TestCase):
    """What a round leaves that cannot go on; the run does."""

    def test_a_round(self) -> None:
        """It gives no sample and no needless switch, the others do; who was killed or frozen runs again."""
        side = FakeSide("java", {"kill": [1.0, NotReady("nothing\nits log"), 3.0]}, [])
        dead, frozen = (mock.Mock(running=mock.Mock(return_value=running)) for running in (False, True))
        side.group.processes = [dead, frozen]  # type: ignore[misc]
        with on_a_quiet_machine([]) as out:
            failover.take_turns([side], "kill", 1)
            side.epoch += 1
            failover.take_turns([side], "kill", 2)
        self.assertEqual((side.samples, side.failures), ({"kill": [1.0, 3.0]}, ["kill 1: NotReady: nothing"]))
        self.assertEqual((side.given_up, side.switches.needless), (False, {"kill": 1}))
        self.assertIn("java failed kill 1: NotReady: nothing\nits log\n", out.getvalue())
        self.assertEqual([call[0] for call in dead.method_calls], ["running", "kill", "spawn"])
        self.assertEqual(frozen.method_calls, [mock.call.running(), mock.call.signal(signal.SIGCONT)])

    def test_a_group_that_does_not_come_back(self) -> None:
        """It is ended; the other side has all its rounds."""
        java, ours = FakeSide("java", {"kill": [OSError(5, "no")]}, []), FakeSide("ours", {"kill": [0.5, 0.25]}, [])
        java.recover = mock.Mock(side_effect=NotReady("gone"))  # type: ignore[method-assign]
        with on_a_quiet_machine([]):
            failover.take_turns([java, ours], "kill", 2)
        self.assertEqual((java.given_up, ours.given_up), (True, False))
        self.assertEqual(java.failures, ["kill 1: OSError: [Errno 5] no", "to come back after kill 1: NotReady: gone"])
        self.assertEqual((java.group.mock_calls, java.samples), ([mock.call.kill()], {}))
        self.assertEqual(ours.samples, {"kill": [0.5, 0.25]})
        self.assertIn("java failed kill 1: OSError: [Errno 5] no", failover.table([java, ours], []).splitlines())
        self.assertEqual(failover.document([java, ours])["failures"], {"java": java.failures, "ours": []})

    def test_a_group_that_falls_apart(self) -> None:
        """While the other side is measured."""
        heard: list[str] = []
        java, ours = FakeSide("java", {"kill": [2.0]}, heard), FakeSide("ours", {"kill": [0.5]}, heard)
        java.comes_back = False
        with on_a_quiet_machine(heard):
            failover.take_turns([ours, java], "kill", 1)
        self.assertEqual(heard, ["ours whole", "java whole", "quiet", "ours whole", "ours kill", "ours whole"])
        self.assertEqual(java.failures, ["to be whole before kill 1: NotReady: not within 240 s: all replicas"])

    def test_a_group_that_does_not_come_up(self) -> None:
        """The other one does."""
        java, ours = FakeSide("java", {}, []), FakeSide("ours", {}, [])
        java.comes_back = False
        with on_a_quiet_machine([]) as out:
            failover.begin([java, ours])
        self.assertEqual((java.given_up, ours.given_up), (True, False))
        self.assertEqual(out.getvalue().splitlines()[-1], "ours: group whole")


class RaceTests(unittest.TestCase):
    """The first check that becomes true."""

    def test_who_wins(self) -> None:
        """Its prize, and seconds since the beginning."""
        answers = iter([False, False, True])
        race = failover.Race(time.monotonic() - 100)
        race.enter(lambda: False, "never")
        race.enter(lambda: next(answers), "third time")
        seconds, prize = race.run()
        self.assertEqual(prize, "third time")
        self.assertGreaterEqual(seconds, 100 + 2 * failover.POLL_S)

    def test_nobody(self) -> None:
        """Said, and not for ever."""
        race = failover.Race(time.monotonic() - 5, limit_s=5)
        race.enter(lambda: True, "too late")
        with self.assertRaisesRegex(AssertionError, "nothing within 5 s"):
            race.run()


class SwitchedTests(unittest.TestCase):
    """A new master, as senders find it."""

    def test_two_times(self) -> None:
        """It accepts a message, and only later the nameserver names it; the old one is not asked."""
        old, other, heir = (mock.Mock(address=f"{name}:1") for name in ("old", "other", "heir"))
        side = FakeSide("ours", {}, [])
        side.group.brokers = [old, other, heir]
        asked: list[str] = []
        named = iter(["", "old:1", "heir:1"])

        def send(address: str) -> bool:
            asked.append(address)
            return address == "heir:1"

        with (
            mock.patch.object(side, "send", send),
            mock.patch.object(failover, "master_in_route", lambda _: next(named)),
        ):
            found = side.switched(time.monotonic() - 100, old)
        self.assertIs(found.master, heir)
        self.assertEqual((asked.count("heir:1"), asked.count("old:1")), (1, 0))
        self.assertGreaterEqual(found.accepted_s, 100)
        self.assertGreaterEqual(found.routed_s, found.accepted_s + 2 * failover.POLL_S)


class ReportTests(unittest.TestCase):
    """The table and the command line."""

    def test_table(self) -> None:
        """Medians, least, worst, the ratio; a target is missed by the worst of ours, Java has none."""
        java, ours = FakeSide("java", {}, []), FakeSide("ours", {}, [])
        java.samples = {"kill": [4.0, 2.0, 9.0], "rss": []}
        ours.samples = {"kill": [1.0, 3.0, 2.0], "rss": [40.0]}
        ours.switches.needless["kill"] = 2
        java.stuck = 1
        figures = [failover.Figure(*each) for each in (("kill", "s", 2.5), ("rss", "MiB", 80.0), ("not measured",))]
        self.assertEqual(
            [line.split() for line in failover.table([java, ours], figures).splitlines()],
            [
                ["row", "unit", "side", "median", "least", "worst", "rounds", "ours/java"],
                ["kill", "s", "java", "4.000", "2.000", "9.000", "3"],
                ["kill", "s", "ours", "2.000", "1.000", "3.000", "3", "0.50", "wanted", "<=", "2.5", "MISSED"],
                ["rss", "MiB", "ours", "40.000", "40.000", "40.000", "1", "wanted", "<=", "80"],
                "java: 0 needless switches; 1 times a replica had to be started anew".split(),
                "ours: 2 needless switches; 0 times a replica had to be started anew".split(),
            ],
        )

    def test_rows_in_their_order(self) -> None:
        """Whatever order they are asked for in; one that there is not is an error that names those there are."""
        with mock.patch.object(failover.signal, "signal"):
            given = failover.arguments(
                ["--rows", "c,a", "--sides", "y"], "m", None, ("a", "b", "c"), rounds=4, sides="x,y", prefix="p"
            )
        self.assertEqual((given.rows, given.sides, given.rounds, given.out), (["a", "c"], ["y"], 4, None))
        for words in (["--rows", "a,d"], ["--sides", "ours"], ["--rows", ""]):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
                failover.arguments(words, "m", None, ("a", "b", "c"), rounds=4, sides="x,y", prefix="p")
            self.assertRegex(said.getvalue(), "there are (a, b, c|x, y)")
