"""Clients of other languages, of Java's 4.x line and with the binary header, on one group of our broker and Java's.

Our controller and nameserver; the master is ours, then Java's by an election, then ours again since Java's was killed.
In each of these the same processes send in every way their client has, and the same consumers, who run through both
switches, are given all of it; at the end new groups read everything from the first message on.
``make test`` runs five clients, ROCKETHA_INTEROP_FULL=1 (``make interop-full``) all of them, under three controllers,
and on what ``make run`` starts.
docs/clients.rst names the versions and what each cannot do.
"""

from __future__ import annotations

import json
import os
import threading
import unittest
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from .harness import FULL, InteropCase, OurCluster, remoting, wait_until
from .harness.clients import Event
from .harness.controllers import CLUSTER, GROUP, GroupState, Replica, ReplicaGroup, parse_state
from .harness.foreign import EVERY, SAMPLE, Cpp, ForeignClient, Node, Rust
from .harness.processes import NotReady
from .harness.roles import READY_S

UPDATE_AND_CREATE_TOPIC, GET_BROKER_CLUSTER_INFO, ELECT_MASTER, GET_METADATA, GET_SYNC_STATE_DATA = (
    17,
    106,
    1002,
    1005,
    1006,
)
ONLY = os.environ.get("ROCKETHA_INTEROP_CLIENTS", "").lower().split()  # some of them, for a closer look: "go cpp"
CLIENTS = [kind for kind in (EVERY if FULL or ONLY else SAMPLE) if not ONLY or kind.__name__.lower() in ONLY]
COUNT = 200 if FULL else 30
# Clients ask the nameserver for routes every 30 s, and look for new queues every 20 s.
FOUND_S = 100.0
# Of a broker that is told to: who cannot choose its delay is given the third level on the first failure.
DELAYS = "1s 2s 3s 4s 5s 6s 7s 8s 9s 10s"
DELAY_LEVEL = 2
LATE_MS = 8000
# "Aa" and "BB" have the same hash code, which is all a broker compares: the client has to drop one.
TAGS = ["TagA", "TagB", "Aa", "BB"]
WANTED = ("TagA", "Aa")
CONSUMERS = ("push", "tags", "orderly", "pull")

# What a client has no function for, or none that works with Java's broker either.
LACKS: dict[type[ForeignClient], tuple[str, ...]] = {
    Cpp: ("batch",),  # its header says "batch":"1", which is false to Java: one message that nobody can read
    Node: ("oneway", "batch", "pull"),
    Rust: ("tags",),  # its hash of a tag is not Java's, so the broker finds no message
}
# Who cannot say after which delay a message is to come again, which makes it level 3.
NO_DELAY_OF_ITS_OWN = (Cpp, Node, Rust)


class ForeignClients(InteropCase):
    """The tests run in the order of their names, on one group; each part is one run of all clients side by side."""

    parts: dict[str, Callable[[Any, type[ForeignClient]], None]] = {}
    namesrv: str
    clients: dict[type[ForeignClient], ForeignClient]
    absent: dict[type[ForeignClient], str]
    sent: dict[type[ForeignClient], list[Event]]
    outcomes: dict[tuple[str, type[ForeignClient]], BaseException | None]

    @classmethod
    def prepare(cls) -> None:
        cls.absent, cls.clients, cls.outcomes, cls.sent = {}, {}, {}, defaultdict(list)
        for kind in CLIENTS:
            try:
                kind.install()
            except unittest.SkipTest as why:
                cls.absent[kind] = str(why)
        cls.namesrv = cls.make_group()
        for kind in CLIENTS:
            if kind not in cls.absent:
                cls.clients[kind] = kind(cls.namesrv, cls.folder / kind.__name__)
        names = [cls.topic(client) for client in cls.clients.values()]
        # Those of the retries too, so that nobody waits for a client's next look.
        names += [f"%RETRY%{c.group(name)}" for c in cls.clients.values() for name in (*CONSUMERS, "late")]
        cls.start_group(names)
        for client in cls.clients.values():
            cls.share(client)

    @classmethod
    def make_group(cls) -> str:
        """The group, not yet started; the address of its nameserver."""
        raise NotImplementedError

    @classmethod
    def start_group(cls, topics: list[str]) -> None:
        """Start it with these topics."""
        raise NotImplementedError

    @staticmethod
    def topic(client: ForeignClient) -> str:
        return f"Of-{client.name}"

    @classmethod
    def master(cls) -> str:
        """The address that the nameserver gives clients; empty while it knows none."""
        reply = remoting.call(cls.namesrv, GET_BROKER_CLUSTER_INFO)
        addresses = remoting.loads(reply.body)["brokerAddrTable"].get(GROUP, {}).get("brokerAddrs", {})
        return str(addresses.get("0", ""))

    @classmethod
    def await_master(cls, wanted: Callable[[str], bool]) -> None:
        wait_until("the nameserver to know the master", lambda: wanted(cls.master()), READY_S)

    # ---- one part for all clients

    def part(self, name: str, kind: type[ForeignClient], before: Callable[[], None], run: Callable[..., None]) -> None:
        """The outcome of `run` for a client of `kind`; the first to ask runs it for all, after `before`."""
        if kind in self.absent:
            self.skipTest(self.absent[kind])
        if (name, kind) not in self.outcomes:
            self.outcomes.update(
                dict.fromkeys(((name, each) for each in self.clients), AssertionError("no such master"))
            )
            before()

            def one(client: ForeignClient) -> None:
                outcome: BaseException | None = None
                try:
                    run(client)
                except BaseException as error:
                    outcome = error
                self.outcomes[name, type(client)] = outcome

            threads = [threading.Thread(target=one, args=(client,), daemon=True) for client in self.clients.values()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        error = self.outcomes[name, kind]
        if error is not None:
            raise error

    def read_late(self, kind: type[ForeignClient]) -> None:
        """A new group, whose consumer never saw another master, is given what all masters stored."""

        def run(client: ForeignClient) -> None:
            sent = self.sent[type(client)]
            keys = {e["key"] for e in sent}
            client.consume("late", "push", self.topic(client))
            self.check(sent, [e for e in client.await_keys("late", keys, FOUND_S) if e["key"] in keys])

        self.part("late", kind, lambda: None, run)

    # ---- one part for one client

    def begin(self, client: ForeignClient) -> None:
        """The first part: its consumers too, for all parts."""
        self.consume(client)
        self.exchange(client, "a")

    def consume(self, client: ForeignClient) -> None:
        topic = self.topic(client)
        client.consume("push", "push", topic, fail_prefix="retry", fail_times=1, retry_level=1)
        client.consume("orderly", "orderly", topic)
        lacks = LACKS.get(type(client), ())
        if "tags" not in lacks:
            client.consume("tags", "push", topic, " || ".join(WANTED))
        if "pull" not in lacks:
            client.consume("pull", "pull", topic, broker=GROUP, queues=4)

    def exchange(self, client: ForeignClient, part: str) -> None:
        """Send in every way, and wait until all consumers have all of it."""
        topic, lacks = self.topic(client), LACKS.get(type(client), ())
        client.await_sends(topic, f"first.{part}", FOUND_S)
        sent: list[Event] = []
        for mode in ("sync", "async", "oneway", "batch"):
            if mode not in lacks:
                sent += client.send(topic, mode, COUNT, prefix=f"{mode}.{part}", tags=TAGS)
        sent += client.send(topic, "sync", 4, prefix=f"compressed.{part}", size=20_000, tags=TAGS)
        sent += client.send(topic, "orderly", COUNT, prefix=f"orderly.{part}", tags=TAGS)
        sent += client.send(topic, "sync", 3, prefix=f"retry.{part}", tags=TAGS)
        sent += client.send(topic, "sync", 3, prefix=f"delay.{part}", delay_level=DELAY_LEVEL, tags=TAGS)
        self.sent[type(client)] += sent
        keys = {e["key"] for e in sent}
        tagged = {e["key"] for e in sent if e.get("tags") in WANTED}
        self.check_retries(client, {key for key in keys if key.startswith("retry")})
        for name in CONSUMERS:
            if name not in lacks:
                mine = tagged if name == "tags" else keys
                got = [e for e in client.await_keys(name, mine, FOUND_S) if e["key"] in keys]
                once = part == "a" and not (name == "push" and client.hasty)
                self.check([e for e in sent if e["key"] in mine], got, once=once, again=name == "push")
        self.check_delays([e for e in client.received("push") if e["key"].startswith(f"delay.{part}")])
        self.check_order(client, f"orderly.{part}")

    # ---- what must hold

    def check(self, sent: list[Event], got: list[Event], *, once: bool = False, again: bool = False) -> None:
        """Every message with its content and nothing else; `once`: no copy but those of a retry."""
        wanted = {e["key"]: (e["sha"], e["size"], e.get("tags") or "") for e in sent}
        self.assertEqual({e["key"]: (e["sha"], e["size"], e.get("tags") or "") for e in got}, wanted)
        for event in got:
            if event["key"].startswith("compressed"):
                self.assertLess(event["record"], event["size"] // 4, "not compressed by the client")
        if once:
            retried = {key: 2 for key in wanted if again and key.startswith("retry")}
            self.assertEqual(Counter(e["key"] for e in got), Counter(dict.fromkeys(wanted, 1) | retried))

    def check_retries(self, client: ForeignClient, keys: set[str]) -> None:
        """Handed back once: given again with the count, not before the delay."""
        level_s = 3 if isinstance(client, NO_DELAY_OF_ITS_OWN) else 1

        def tries() -> dict[str, dict[int, int]]:
            found: dict[str, dict[int, int]] = {key: {} for key in keys}
            for event in client.received("push"):
                if event["key"] in keys:
                    found[event["key"]].setdefault(event["again"], event["at"])
            return found

        try:
            client.until("what failed to come again", lambda _: min(map(len, tries().values())) > 1, FOUND_S)
        except NotReady as why:
            raise AssertionError(f"given, by key and count of tries: {tries()}; {why}") from None
        for key, at in tries().items():
            first, again = list(at)[:2]
            self.assertGreaterEqual(at[again] - at[first], level_s * 1000 - 100, (key, at))
            if not client.hasty:
                self.assertEqual(list(at), [0, 1], key)

    def check_delays(self, got: list[Event]) -> None:
        for event in got:
            took = event["at"] - event["born"]
            self.assertTrue(DELAY_LEVEL * 1000 - 50 <= took <= DELAY_LEVEL * 1000 + LATE_MS, (took, event))

    def check_order(self, client: ForeignClient, prefix: str) -> None:
        """Each third message went to the same queue, and is given in the order in which it was sent."""
        first: dict[str, Event] = {}
        for event in client.received("orderly"):
            if event["key"].startswith(prefix):
                first.setdefault(event["key"], event)
        lanes: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for event in first.values():
            number = int(event["key"].rpartition("-")[2])
            lanes[number % 3].append((number, event["q"]))
        for lane in lanes.values():
            self.assertEqual(len({queue for _, queue in lane}), 1, lane)
            self.assertEqual([number for number, _ in lane], sorted(number for number, _ in lane))


class MixedGroup(ForeignClients):
    """Our broker and Java's under our controllers: the master is ours, then Java's by an election, then that dies."""

    group: ReplicaGroup

    @classmethod
    def make_group(cls) -> str:
        cls.group = ReplicaGroup(
            "ours",
            cls.folder,
            embedded=True,
            count=2,
            kinds=("ours", "java"),
            controllers=3 if FULL else 1,
            extra={"totalReplicas": 2, "inSyncReplicas": 2, "messageDelayLevel": DELAYS},
        )
        cls._shared.extend(cls.group.processes)
        return cls.group.namesrv_addresses.split(";")[0]

    @classmethod
    def start_group(cls, topics: list[str]) -> None:
        for broker in cls.group.brokers:
            path = broker.root / "config" / "topics.json"
            tables = json.loads(path.read_text())
            (like,) = tables["topicConfigTable"].values()
            tables["topicConfigTable"] = {topic: {**like, "topicName": topic} for topic in topics}
            path.write_text(json.dumps(tables))
        cls.group.start(first=True)

    @classmethod
    def replica(cls, kind: str) -> Replica:
        return next(broker for broker in cls.group.brokers if broker.implementation == kind)

    @classmethod
    def await_master_of(cls, kind: str) -> None:
        cls.await_master(lambda address: address == cls.replica(kind).address)

    @classmethod
    def elect_java(cls) -> None:
        """As mqadmin's electMaster does."""
        cls.group.await_whole()
        heir = cls.replica("java").broker_id()
        fields = {"clusterName": CLUSTER, "brokerName": GROUP, "brokerId": str(heir), "designateElect": "true"}
        reply = cls.group.controllers.call(ELECT_MASTER, fields)
        assert reply.code == 0, reply.remark
        cls.await_master_of("java")
        cls.group.await_whole()

    @classmethod
    def kill_java(cls) -> None:
        cls.replica("java").kill()
        cls.await_master_of("ours")

    def with_ours(self, kind: type[ForeignClient]) -> None:
        self.part("ours", kind, lambda: self.await_master_of("ours"), self.begin)

    def with_javas(self, kind: type[ForeignClient]) -> None:
        self.part("java", kind, self.elect_java, lambda client: self.exchange(client, "b"))

    def with_ours_again(self, kind: type[ForeignClient]) -> None:
        self.part("again", kind, self.kill_java, lambda client: self.exchange(client, "c"))

    parts = {
        "test_1_our_master": with_ours,
        "test_2_javas_after_an_election": with_javas,
        "test_3_ours_after_a_kill": with_ours_again,
        "test_4_new_groups": ForeignClients.read_late,
    }


class MakeRun(ForeignClients):
    """What ``make run`` starts: three brokers and three controllers of ours, the master elected anew."""

    cluster: OurCluster

    @classmethod
    def make_group(cls) -> str:
        cls.cluster = OurCluster(cls.folder / "cluster", brokers=3, controllers=3)
        return cls.cluster.namesrv_address

    @classmethod
    def start_group(cls, topics: list[str]) -> None:
        cls.share(cls.cluster)
        cls.await_master(bool)
        for topic in topics:
            queues = {"readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "topicFilterType": "SINGLE_TAG"}
            fields = {"topic": topic, "defaultTopic": "TBW102", "topicSysFlag": "0", "order": "false", **queues}
            reply = remoting.call(cls.master(), UPDATE_AND_CREATE_TOPIC, fields)
            assert reply.code == 0, reply.remark

    @classmethod
    def elect_another(cls) -> None:
        old = cls.master()
        lead = remoting.call(f"127.0.0.1:{cls.cluster.controller_port}", GET_METADATA).fields["controllerLeaderAddress"]

        def whole() -> GroupState | None:
            state = parse_state(remoting.call(lead, GET_SYNC_STATE_DATA, body=f'["{GROUP}"]'.encode()).body, GROUP)
            return state if state is not None and len(state.in_sync) == 3 else None

        state = wait_until("three replicas in the set", whole, READY_S)
        assert isinstance(state, GroupState)
        heir = next(number for number in state.in_sync if number != state.master_id)
        fields = {"clusterName": CLUSTER, "brokerName": GROUP, "brokerId": str(heir), "designateElect": "true"}
        reply = remoting.call(lead, ELECT_MASTER, fields)
        assert reply.code == 0, reply.remark
        cls.await_master(lambda address: address not in ("", old))

    def before(self, kind: type[ForeignClient]) -> None:
        self.part("before", kind, lambda: None, self.begin)

    def after(self, kind: type[ForeignClient]) -> None:
        self.part("after", kind, self.elect_another, lambda client: self.exchange(client, "b"))

    parts = {
        "test_1_before": before,
        "test_2_after_an_election": after,
        "test_3_new_groups": ForeignClients.read_late,
    }


def _tests(case: type[ForeignClients]) -> None:
    """A test for each part and client."""
    for part, run in case.parts.items():
        for kind in CLIENTS:

            def test(self: ForeignClients, run: Any = run, kind: type[ForeignClient] = kind) -> None:
                run(self, kind)

            test.__doc__ = f"{kind.title}: {run.__doc__ or 'sends in every way and is given all of it.'}"
            setattr(case, f"{part}_{kind.__name__.lower()}", test)


_tests(MixedGroup)
if FULL:
    _tests(MakeRun)
else:
    del MakeRun
