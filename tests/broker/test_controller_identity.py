"""A broker's id: the steps of S3, a crash in each of them, files of Java, files that are damaged or somebody else's."""

from __future__ import annotations

import random
import unittest

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketha.broker.controller_identity import Application, Identity, IdentityFiles, Step, check_code
from rocketha.controller.events import ApplyBrokerId, Evidence
from rocketha.controller.registration import next_id
from rocketha.controller.state import ControllerState
from rocketha.errors import ConfigError, CorruptStore, DiskFailure
from rocketha.store import atomic_file
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire.codes import ResponseCode

CLUSTER, NAME = "C", "broker-a"
PATH = "/root/store/brokerIdentity"
EVIDENCE = Evidence()


class Controllers:
    """The state machine of ours, told directly."""

    def __init__(self) -> None:
        self.state = ControllerState()
        self._index = 0

    def next_id(self) -> int:
        """1012."""
        return next_id(self.state.group(CLUSTER, NAME))

    def apply(self, number: int, code: str) -> int:
        """1013: the answer's code."""
        self._index += 1
        return self.state.apply(ApplyBrokerId(CLUSTER, NAME, number, code, EVIDENCE), self._index).answer.code


class Broker:
    """One disk, and a process on it that gets itself an id."""

    def __init__(self, seed: int, controllers: Controllers) -> None:
        self.random = random.Random(seed)
        self.disk = MemoryDisk(random.Random(seed + 1), tear_bytes=1)
        self.controllers = controllers
        self.lost: int | None = None  # which answer to 1013 gets lost

    def run(self) -> int:
        """Start, and go on until there is an id."""
        files = IdentityFiles(self.disk, PATH, CLUSTER, NAME)
        identity = files.load()
        while identity.number is None:
            if identity.application is None:
                code = check_code("10.0.0.1:10911", 7, self.random)
                identity = files.want(self.controllers.next_id(), code)
            else:
                wanted = identity.application
                answered = self.controllers.apply(wanted.number, wanted.check_code)
                if self.lost is not None:
                    self.lost = None
                    continue
                if answered == ResponseCode.SUCCESS:
                    identity = files.keep(wanted.number)
                else:
                    identity = files.give_up()
        return identity.number


class StepTests(unittest.TestCase):
    """What is on the disk, and what is next."""

    def setUp(self) -> None:
        self.disk = MemoryDisk(random.Random(1))
        atomic_file.make_dirs(self.disk, "/root/store")
        self.files = IdentityFiles(self.disk, PATH, CLUSTER, NAME)

    def contents(self, path: str) -> bytes | None:
        return self.disk.read_all(path, 1000) if self.disk.exists(path) else None

    def test_first_start(self) -> None:
        """Temp file, then the final one alone, both as Java writes them."""
        self.assertEqual(self.files.load(), Identity())
        self.assertIs(Identity().step, Step.NEXT_ID)
        wanted = self.files.want(3, "h:1;99")
        self.assertEqual((wanted.application, wanted.step), (Application(3, "h:1;99"), Step.APPLY))
        self.assertEqual(self.contents(f"{PATH}-temp"), b"C#broker-a#3#h:1;99")
        self.assertIsNone(self.contents(PATH))
        kept = self.files.keep(3)
        self.assertEqual((kept, kept.step), (Identity(3), Step.REGISTER))
        self.assertEqual(self.contents(PATH), b"C#broker-a#3")
        self.assertIsNone(self.contents(f"{PATH}-temp"))
        self.assertEqual(self.files.load(), Identity(3))

    def test_refused(self) -> None:
        """Back to the beginning."""
        self.files.want(3, "h:1;99")
        self.assertEqual(self.files.give_up(), Identity())
        self.assertEqual(self.files.load(), Identity())
        self.assertEqual(self.files.give_up(), Identity())

    def test_a_start_goes_on_where_it_stood(self) -> None:
        """An application survives with its code; a temp file beside the final one is swept away."""
        self.files.want(3, "h:1;99")
        self.assertEqual(self.files.load().application, Application(3, "h:1;99"))
        atomic_file.save(self.disk, PATH, b"C#broker-a#2\n", backup=False)
        self.assertEqual(self.files.load(), Identity(2))
        self.assertIsNone(self.contents(f"{PATH}-temp"))

    def test_what_a_torn_write_of_java_leaves(self) -> None:
        """Temp: as if it were not there.  Final: made good from temp; alone it stops the start."""
        large = b"C#broker-a#" + b"9" * 20
        for torn in (b"", b"C#broker-a", b"C#broker-a#", b"C#broker-a#0#c", b"C#broker-a#x#c", large):
            atomic_file.save(self.disk, f"{PATH}-temp", torn, backup=False)
            self.assertEqual(self.files.load(), Identity(), torn)
            atomic_file.save(self.disk, PATH, torn.removesuffix(b"#c"), backup=False)
            with self.assertRaises(CorruptStore) as caught:
                self.files.load()
            self.assertIn("wanted is C#broker-a#<id>", str(caught.exception))
            self.files.want(3, "h:1;99")
            self.assertEqual(self.files.load().application, Application(3, "h:1;99"))
            self.files.keep(3)
            self.assertEqual(self.files.load(), Identity(3))
            self.disk.remove(PATH)

    def test_somebody_elses(self) -> None:
        """A file of another cluster or broker stops the start, and is not touched."""
        for path, data in (
            (PATH, b"D#broker-a#1"),
            (PATH, b"C#broker-b#1"),
            (f"{PATH}-temp", b"D#broker-a#1#x"),
            (f"{PATH}-temp", b"C#broker-b#1#x"),
        ):
            atomic_file.save(self.disk, path, data, backup=False)
            with self.assertRaises(ConfigError) as caught:
                self.files.load()
            self.assertIn("brokerName=broker-a", str(caught.exception))
            self.assertEqual(self.contents(path), data)
            self.disk.remove(path)

    def test_check_codes_differ(self) -> None:
        """Two brokers with one address that start in one millisecond; Java reads the address up to the semicolon."""
        codes = {check_code("[::1]:10911", 5, random.Random(seed)) for seed in range(50)}
        self.assertEqual(len(codes), 50)
        self.assertTrue(all(code.startswith("[::1]:10911;5.") for code in codes))


class CrashTests(unittest.TestCase):
    """The process dies, or the power fails, at each operation of the disk."""

    @settings(max_examples=100)
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.sampled_from(["crash", "kill"])), max_size=12))
    @example([(1, 6, "kill"), (1, 20, "crash")])  # directories made by a process that died before it synced them
    def test_one_id_for_ever(self, faults: list[tuple[int, int, str]]) -> None:
        """Four brokers; whatever fails, each gets one id, no two the same, and keeps it.  No id is wasted but by a
        power cut."""
        controllers = Controllers()
        brokers = [Broker(seed, controllers) for seed in range(4)]
        ids: dict[int, int] = {}
        for who, operation, how in faults:
            broker = brokers[who]
            broker.disk.fail_at(operation, times=10**9)
            broker.lost = operation
            try:
                ids[who] = self.same(ids.get(who), broker.run())
            except DiskFailure:
                pass
            broker.disk.heal()
            getattr(broker.disk, how)()
        for who, broker in enumerate(brokers):
            ids[who] = self.same(ids.get(who), broker.run())
        self.assertEqual(len(set(ids.values())), 4)
        group = controllers.state.group(CLUSTER, NAME)
        assert group is not None
        self.assertLessEqual(set(ids.values()), set(group.members))
        if all(how == "kill" for _, _, how in faults):
            self.assertEqual(sorted(group.members), sorted(ids.values()), "an id was applied for and forgotten")

    def same(self, before: int | None, now: int) -> int:
        self.assertIn(before, (None, now))
        return now

    def test_every_operation(self) -> None:
        """In turn, so that none is left out; and that a run has as many as the sweep covers.  A kill wastes no id."""
        died = 0
        for operation in range(1, 40):
            for how in ("crash", "kill"):
                controllers = Controllers()
                broker = Broker(operation, controllers)
                broker.disk.fail_at(operation, times=10**9)
                try:
                    broker.run()
                except DiskFailure:
                    died += 1
                broker.disk.heal()
                getattr(broker.disk, how)()
                number = broker.run()
                self.assertEqual(broker.run(), number)
                other = Broker(1000, controllers).run()
                self.assertNotEqual(other, number)
                group = controllers.state.group(CLUSTER, NAME)
                if how == "kill" and group is not None:
                    self.assertEqual(sorted(group.members), sorted((number, other)), f"operation {operation}")
        self.assertGreater(died, 20)


if __name__ == "__main__":
    unittest.main()
