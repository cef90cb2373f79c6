"""What is concluded from a picture of a cluster: every kind of finding, and what must not be one."""

from __future__ import annotations

import itertools
import pathlib
import re
import shlex
import unittest
from typing import Any

import attrs
import click

from rocketha.admin import cli, doctor_page, status_page
from rocketha.admin.finding_kinds import KINDS, Finding
from rocketha.admin.findings import Limits, judge
from rocketha.admin.picture import (
    FENCED,
    MASTER,
    SLAVE,
    Broker,
    Connection,
    ControlledSet,
    Controller,
    Group,
    Ledger,
    Nameserver,
    Picture,
    Process,
    Queue,
    Refusal,
)
from rocketha.services.access.guard import DEMANDED
from rocketha.wire.cluster_info import BrokerSet

NAMES, CONTROLLERS = ("10.0.0.1:9876", "10.0.0.2:9876"), ("10.0.0.3:9878", "10.0.0.4:9878", "10.0.0.5:9878")
BROKERS = {1: "10.0.1.1:10911", 2: "10.0.1.2:10911", 3: "10.0.1.3:10911"}
DOCS = pathlib.Path(__file__).parents[2] / "docs" / "troubleshooting.rst"


def process(kind: str, address: str, **more: Any) -> Process:
    """One of ours that answers, and whose clock is right."""
    told: dict[str, Any] = {"reached": True, "ours": True, "version": "1.0", "clock_ahead_ms": 3, "clock_doubt_ms": 5}
    return Process(kind=kind, address=address, **{**told, **more})


def down(kind: str, address: str, problem: str = "Connection refused", **more: Any) -> Process:
    """One that does not answer."""
    return Process(kind=kind, address=address, problem=problem, **more)


def nameserver(address: str, **more: Any) -> Nameserver:
    """One that has all brokers."""
    rows = (BrokerSet(cluster="C", name="g", addresses={0: BROKERS[1], 2: BROKERS[2], 3: BROKERS[3]}),)
    return Nameserver(**{"process": process("nameserver", address), "sets": rows, **more})


def broker(number: int, **more: Any) -> Broker:
    """One of the set; 1 is the master."""
    told: dict[str, Any] = {
        "process": process("broker", BROKERS[number]),
        "cluster": "C",
        "name": "g",
        "id": number,
        "role": MASTER if number == 1 else SLAVE,
        "epoch": 4,
        "log_end": 1 << 30,
        "disk_used": 0.5,
        "namesrv": NAMES,
        "controllers": tuple(CONTROLLERS),
    }
    return Broker(**{**told, **more})


SET = ControlledSet(
    cluster="C",
    name="g",
    addresses=BROKERS,
    master=1,
    epoch=4,
    in_sync=(1, 2, 3),
    set_epoch=9,
    alive=(1, 2, 3),
    said_by=CONTROLLERS[0],
)


def controller(place: int, leads: bool = False, **more: Any) -> Controller:
    """One of three, of which n0 leads."""
    told: dict[str, Any] = {
        "process": process("controller", CONTROLLERS[place]),
        "id": f"n{place}",
        "leads": leads,
        "leader": "n0",
        "applied": 7,
        "sets": (SET,),
        "sets_told": True,
    }
    return Controller(**{**told, **more})


HEALTHY = Picture(
    at_ms=1_700_000_000_000,
    version="1.0",
    nameservers=tuple(map(nameserver, NAMES)),
    controllers=(controller(0, True), controller(1), controller(2)),
    brokers=tuple(map(broker, BROKERS)),
)


def with_broker(number: int, **more: Any) -> Picture:
    """With one broker as given."""
    brokers = tuple(broker(each, **more) if each == number else broker(each) for each in BROKERS)
    return attrs.evolve(HEALTHY, brokers=brokers)


def with_set(**more: Any) -> Picture:
    """With the broker set as given."""
    found = attrs.evolve(SET, **more)
    return attrs.evolve(HEALTHY, controllers=(controller(0, True, sets=(found,)), controller(1), controller(2)))


def refusing(**more: Any) -> Picture:
    """The first broker refused something."""
    told: dict[str, Any] = {"what": "SEND_MESSAGE_V2", "reason": "NO_PERMISSION", "peer": "10.9.9.9:1"}
    refusal = Refusal(**{**told, **more})
    return with_broker(1, process=process("broker", BROKERS[1], refusals=(refusal,)))


def consuming(group: Group, *connections: Connection) -> Picture:
    """The master has a group with these clients."""
    return with_broker(1, process=process("broker", BROKERS[1], connections=connections), groups=(group,))


def queues(*rows: tuple[int, int, int, int | None]) -> tuple[Queue, ...]:
    """Of (end, committed, pulled, committed before)."""
    return tuple(
        Queue(topic="T", id=number, end=end, committed=committed, pulled=pulled, before=before)
        for number, (end, committed, pulled, before) in enumerate(rows)
    )


CLIENT = Connection(address="10.9.9.9:1", open_s=300.0, clients=("c@1",), groups=("G",), pulled_s=2.0)
OTHER = attrs.evolve(CLIENT, address="10.9.9.8:1", clients=("c@2",))
LEDGERS = tuple(
    Ledger(group="g", id=f"n{each}", address=f"10.0.1.{each}:40911", ours=True, leader="n1") for each in (1, 2, 3)
)

FAULTS: dict[str, Picture] = {
    "controller.no_leader": attrs.evolve(HEALTHY, controllers=tuple(controller(each, leader="") for each in range(3))),
    "ledger.no_leader": attrs.evolve(
        HEALTHY, ledgers=(LEDGERS[0], *(attrs.evolve(each, leader="", problem="refused") for each in LEDGERS[1:]))
    ),
    "set.no_master": with_set(master=None, in_sync=(1,)),
    "set.unknown": attrs.evolve(HEALTHY, controllers=(controller(0, True, sets=()), controller(1), controller(2))),
    "broker.wrong_address": with_broker(3, process=down("broker", BROKERS[3], "no route to host")),
    "broker.unreachable": attrs.evolve(
        with_broker(3, process=down("broker", BROKERS[3])),
        controllers=(controller(0, True, sets=(attrs.evolve(SET, alive=(1, 2), in_sync=(1, 2)),)),),
    ),
    "controller.unreachable": attrs.evolve(
        HEALTHY,
        controllers=(controller(0, True), controller(1), controller(2, process=down("controller", CONTROLLERS[2]))),
    ),
    "controller.not_member": attrs.evolve(
        HEALTHY,
        controllers=(
            controller(0, True, peers={"n0": CONTROLLERS[0], "n1": CONTROLLERS[1]}),
            controller(1),
            controller(2, leader=""),
        ),
    ),
    "nameserver.unreachable": attrs.evolve(
        HEALTHY, nameservers=(nameserver(NAMES[0]), Nameserver(process=down("nameserver", NAMES[1])))
    ),
    "ledger.member_unreachable": attrs.evolve(
        HEALTHY, ledgers=(*LEDGERS[:2], attrs.evolve(LEDGERS[2], leader="", problem="refused"))
    ),
    "disk.failed": with_broker(1, store_refusal="sync of the log: Input/output error"),
    "disk.full": with_broker(1, store_refusal="the disk is 91% full", disk_used=0.91),
    "disk.filling": with_broker(1, disk_used=0.8),
    "disk.slow": with_broker(1, slow_sync=("900 ms, 4 s ago", 4.0)),
    "sends.slow": with_broker(1, slow_put=("900 ms, 4 s ago, replicas: 10.0.1.2:5 lacks 9 bytes", 4.0)),
    "clock.off": with_broker(2, process=process("broker", BROKERS[2], clock_ahead_ms=-60_000)),
    "broker.shared_id": attrs.evolve(
        HEALTHY, brokers=(*HEALTHY.brokers, broker(3, process=process("broker", "10.0.1.9:10911"), namesrv=()))
    ),
    "epoch.old": with_broker(2, role=MASTER, epoch=3),
    "broker.fenced": with_broker(2, role=FENCED, unready="no controller answers"),
    "sync_set.stale": with_broker(3, log_end=(1 << 30) - (65 << 20)),
    "broker.wrong_nameserver": attrs.evolve(
        with_broker(3, namesrv=("10.7.7.7:9876",)),
        nameservers=tuple(
            nameserver(each, sets=(BrokerSet(cluster="C", name="g", addresses={0: BROKERS[1], 2: BROKERS[2]}),))
            for each in NAMES
        ),
    ),
    "broker.not_registered": attrs.evolve(
        HEALTHY,
        nameservers=(
            nameserver(NAMES[0]),
            nameserver(NAMES[1], sets=(BrokerSet(cluster="C", name="g", addresses={0: BROKERS[1], 2: BROKERS[2]}),)),
        ),
    ),
    "secret.wrong": refusing(what="connection", reason="wrong_secret"),
    "identity.refused": refusing(remark=f"SEND_MESSAGE_V2 is not for who shows no certificate: {DEMANDED}"),
    "permission.refused": refusing(remark="check signature failed."),
    "tls.mismatch": refusing(what="connection", reason="tls_needed"),
    "client.deaf": consuming(
        Group(name="G", queues=queues((9, 1, 1, None), (9, 9, 9, None))), attrs.evolve(OTHER, pulled_s=None), CLIENT
    ),
    "group.stuck": consuming(Group(name="G", queues=queues((9, 1, 9, 1)), looked_s=6.0), CLIENT),
    "group.lag": consuming(Group(name="G", queues=queues((90_000, 1, 1, 0)), looked_s=6.0), CLIENT),
    "replica.lag": attrs.evolve(
        with_broker(3, log_end=5),
        controllers=(controller(0, True, sets=(attrs.evolve(SET, in_sync=(1, 2)),)), controller(1), controller(2)),
    ),
    "broker.unready": with_broker(3, unready="it has no link to its master"),
    "versions.differ": with_broker(3, process=process("broker", BROKERS[3], version="0.9")),
    "set.unused_id": attrs.evolve(
        with_set(addresses={**BROKERS, 4: BROKERS[2]}, in_sync=(1, 3, 4), alive=(1, 3, 4)),
        brokers=(broker(1), broker(2, id=4), broker(3)),
    ),
    "doctor.not_allowed": with_broker(3, process=process("broker", BROKERS[3], refused="16 NO_PERMISSION: not you")),
    "cluster.empty": Picture(at_ms=0),
}
"""One picture for each kind, which shows it."""
ALONE = frozenset(FAULTS) - {"ledger.no_leader", "broker.shared_id"}
"""Those whose picture has nothing else: a fault that is the cause of another is told once."""


class JudgeTests(unittest.TestCase):
    """Pictures in, findings out."""

    maxDiff = None

    def kinds(self, picture: Picture, limits: Limits | None = None) -> set[str]:
        return {each.kind.name for each in judge(picture, limits)}

    def one(self, kind: str) -> Finding:
        (found,) = (each for each in judge(FAULTS[kind]) if each.kind.name == kind)
        return found

    def test_a_healthy_cluster(self) -> None:
        """Nothing."""
        self.assertEqual(judge(HEALTHY), ())

    def test_every_kind(self) -> None:
        """Each can be made, with its evidence, and shows on the page with what to do."""
        self.assertEqual(set(FAULTS), set(KINDS))
        for kind, picture in FAULTS.items():
            with self.subTest(kind):
                found = judge(picture)
                if kind in ALONE:
                    self.assertEqual({each.kind.name for each in found}, {kind})
                finding = next(each for each in found if each.kind.name == kind)
                page = "\n".join(doctor_page.lines(picture, found))
                for text in (finding.subject, finding.cause, *finding.evidence, *finding.to_do):
                    self.assertIn(text[:200], page)
                self.assertFalse(doctor_page.as_json(picture, found)["healthy"])
                list(status_page.lines(picture))

    def test_every_kind_is_explained(self) -> None:
        """docs/troubleshooting.rst has a section for each, and for no other."""
        lines = DOCS.read_text().splitlines()
        heads = [line for line, below in itertools.pairwise(lines) if below and set(below) == {"~"}]
        self.assertEqual(sorted(heads), sorted(KINDS))

    def test_the_commands_to_try_next(self) -> None:
        """Each is a command of ours, with an action that it has."""
        told = [
            words for kind in KINDS.values() for text in kind.to_do for words in re.findall(r"rocketha ([^;,]+)", text)
        ]
        self.assertTrue(told)
        for words in told:
            with self.subTest(words):
                name, *rest = words.split()
                command = cli.root().get_command(click.Context(cli.root()), name)
                assert command is not None, words
                if isinstance(command, click.Group):
                    self.assertTrue(set(rest) & set(command.list_commands(click.Context(command))), words)

    def test_commands_bear_names(self) -> None:
        """What is to be done can be copied, where the finding has the names."""
        for kind, command in (
            ("set.unused_id", "rocketha controller clean g 2"),
            ("set.no_master", "rocketha controller why g"),
            ("sync_set.stale", "rocketha controller why g"),
            ("epoch.old", "rocketha controller why g"),
            (
                "broker.unreachable",
                "rocketha controller clean g 3, if controllers know it and it is gone for good",
            ),
            (
                "controller.unreachable",
                "rocketha controller remove n2, if it is gone for good and another one leads (docs/disasters.rst)",
            ),
            ("controller.not_member", f"rocketha controller -a {CONTROLLERS[0]} add n2-{CONTROLLERS[2]}"),
            ("group.lag", "rocketha group lag G"),
            ("permission.refused", f"rocketha clients -b {BROKERS[1]} --refused"),
            ("broker.not_registered", f"rocketha clients -b {NAMES[1]} --refused"),
            (
                "ledger.member_unreachable",
                "rocketha dledger -g g -p 'n1-10.0.1.1:40911;n2-10.0.1.2:40911;n3-10.0.1.3:40911' status",
            ),
        ):
            with self.subTest(kind):
                self.assertIn(command, self.one(kind).to_do)

    def test_names_that_peers_chose(self) -> None:
        """A shell takes each for one word; and the id of a registered master is not taken for the controllers'."""
        name = "g; rm -rf ~ 'x"
        (found,) = (each for each in judge(with_set(name=name, master=None)) if each.kind.name == "set.no_master")
        command = next(each for each in found.to_do if "why" in each)
        self.assertEqual(shlex.split(command), ["rocketha", "controller", "why", name])
        gone = broker(3, id=0, process=down("broker", BROKERS[3]))
        (found,) = judge(Picture(at_ms=0, brokers=(gone,)))
        self.assertIn("rocketha controller clean g ID, if controllers know it and it is gone for good", found.to_do)

    def test_a_set_of_java_controllers(self) -> None:
        """They do not tell its cluster."""
        picture = with_set(cluster="", master=None, in_sync=(1,))
        self.assertEqual([each.subject for each in judge(picture)], ["g"])
        page = [*doctor_page.lines(picture, judge(picture)), *status_page.lines(picture)]
        self.assertEqual([line for line in page if line.startswith("/")], [])
        self.assertEqual(len([line for line in page if line.startswith("g: no master")]), 2)

    def test_a_replaced_broker(self) -> None:
        """Its new id is shown at its address, and the old one beside it; nobody else is said to be gone."""
        page = "\n".join(status_page.lines(FAULTS["set.unused_id"]))
        self.assertRegex(page, rf"(?m)^  4 +{BROKERS[2]} ")
        self.assertIn(f"  id 2 is nobody's any more: 4 is at {BROKERS[2]}", page)
        self.assertEqual(self.one("set.unused_id").subject, "C/g id 2")
        # Before the new one is heard nobody can tell which of the two is there.
        unheard = with_set(addresses={**BROKERS, 4: BROKERS[2]}, alive=(1, 3), in_sync=(1, 3))
        self.assertNotIn("set.unused_id", self.kinds(unheard))

    def test_a_broker_that_moved(self) -> None:
        """Heartbeats show that the address is wrong; without controllers, the connection to a nameserver does."""
        found = self.one("broker.wrong_address")
        self.assertIn(f"its heartbeats reach controller {CONTROLLERS[0]}, the last 0.0 s ago", found.evidence)
        held = Connection(address="10.0.1.33:5000", brokers=(f"C/g {BROKERS[3]}",))
        names = nameserver(NAMES[0], process=process("nameserver", NAMES[0], connections=(held,)))
        classic = attrs.evolve(FAULTS["broker.wrong_address"], controllers=(), nameservers=(names,))
        (found,) = judge(classic)
        self.assertEqual(found.kind.name, "broker.wrong_address")
        self.assertIn(f"it holds a connection to nameserver {NAMES[0]}, from 10.0.1.33:5000", found.evidence)

    def test_a_frozen_broker(self) -> None:
        """Its port takes connections: the address is right."""
        frozen = down("broker", BROKERS[3], "no answer within 3 s", reached=True)
        self.assertIn("broker.unreachable", self.kinds(with_broker(3, process=frozen)))
        self.assertNotIn("broker.wrong_address", self.kinds(with_broker(3, process=frozen)))

    def test_a_machine_that_has_just_died(self) -> None:
        """For a while controllers think that it lives; but nothing was heard of it since it was asked."""
        dead = attrs.evolve(with_set(heard_s={3: 3.2}), brokers=FAULTS["broker.wrong_address"].brokers)
        self.assertEqual(self.kinds(dead), {"broker.unreachable", "sync_set.stale"})

    def test_a_wrong_clock(self) -> None:
        """By how much, and of whom; what lies within the doubt of the measurement is right."""
        self.assertEqual(self.one("clock.off").cause, "its clock is 60.0 s behind the one here")
        slow = process("broker", BROKERS[2], clock_ahead_ms=6_000, clock_doubt_ms=1_500)
        self.assertEqual(self.kinds(with_broker(2, process=slow)), set())

    def test_the_clock_here(self) -> None:
        """Where all others agree with each other."""

        def off(found: Any) -> Any:
            return attrs.evolve(found, process=attrs.evolve(found.process, clock_ahead_ms=61_000))

        picture = attrs.evolve(
            HEALTHY,
            nameservers=tuple(map(off, HEALTHY.nameservers)),
            controllers=tuple(map(off, HEALTHY.controllers)),
            brokers=tuple(map(off, HEALTHY.brokers)),
        )
        (found,) = judge(picture)
        self.assertEqual((found.kind.name, found.subject), ("clock.off", "this machine"))

    def test_nothing_is_concluded_from_stale_sets(self) -> None:
        """Where no controller leads, what is said about sets may be long over."""
        picture = attrs.evolve(with_set(master=None), controllers=())
        alone = controller(1, leader="", sets=(attrs.evolve(SET, master=None, in_sync=(2,)),))
        self.assertEqual(self.kinds(attrs.evolve(picture, controllers=(alone,))), {"controller.no_leader"})
        older = controller(1, leader="", sets=(attrs.evolve(SET, master=2, epoch=9, alive=()),))
        self.assertEqual(self.kinds(attrs.evolve(picture, controllers=(older,))), {"controller.no_leader"})

    def test_what_was_refused_long_ago(self) -> None:
        """It explains nothing that happens now; the page shows it all the same."""
        picture = refusing(reason="wrong_secret", what="connection", seconds_ago=601.0)
        self.assertEqual(self.kinds(picture), set())
        self.assertIn("wrong_secret", "\n".join(doctor_page.lines(picture, ())))

    def test_the_start_of_a_set(self) -> None:
        """A slave asks a master that has not heard of it yet: that is nobody's right."""
        self.assertEqual(self.kinds(refusing(what="AWAIT_METADATA")), set())

    def test_shared_ids_by_what_was_refused(self) -> None:
        """As nameservers, controllers and members of Raft groups say it."""
        for remark, reason in (
            ("register broker failed: id 0 of g is that of 10.0.1.1:10911, which answers as such", "SYSTEM_ERROR"),
            ("broker C/g 2 is registered at 10.0.1.2:10911, not at 10.0.1.9:10911", "CONTROLLER_INVALID_REQUEST"),
            ("broker C/g 2 is heard by another connection", "CONTROLLER_INVALID_REQUEST"),
            ("", "shared_id"),
        ):
            with self.subTest(remark):
                self.assertEqual(self.kinds(refusing(remark=remark, reason=reason)), {"broker.shared_id"})

    def test_a_dead_member_of_the_set(self) -> None:
        """It does not answer, or is not heard; a dead one outside of the set does not make the set stale."""
        unheard = with_set(alive=(1, 2))
        (found,) = judge(unheard)
        self.assertEqual(found.kind.name, "sync_set.stale")
        self.assertIn(f"controller {CONTROLLERS[0]} hears no heartbeats of it", found.evidence)
        outside = attrs.evolve(with_set(alive=(1, 2), in_sync=(1, 2)))
        self.assertEqual(self.kinds(outside), set())

    def test_a_fenced_former_master(self) -> None:
        """It knows an older epoch: that is why; of one that knows the present epoch nobody can say so."""
        self.assertEqual(self.kinds(with_broker(2, role=FENCED, epoch=3)), {"epoch.old"})
        self.assertEqual(self.kinds(with_broker(2, role=FENCED, epoch=4)), {"broker.fenced"})

    def test_clients_without_a_queue(self) -> None:
        """With more clients than queues some have none, and ask for nothing."""
        group = Group(name="G", queues=queues((9, 1, 1, 0)))
        idle = attrs.evolve(OTHER, pulled_s=None)
        self.assertEqual(self.kinds(consuming(group, idle, CLIENT)), set())
        self.assertEqual(self.kinds(consuming(group, idle)), {"client.deaf"})
        fresh = attrs.evolve(CLIENT, pulled_s=None, open_s=5.0)
        self.assertEqual(self.kinds(consuming(group, fresh)), set())
        caught_up = Group(name="G", queues=queues((9, 9, 9, None)))
        self.assertEqual(self.kinds(consuming(caught_up, idle)), set())

    def test_clients_whose_queues_are_at_another_broker(self) -> None:
        """With two sets and as many clients as one of them has queues, half of them ask each set for nothing."""
        group = Group(name="G", queues=queues((9, 1, 1, 0), (9, 9, 9, None)))
        other = Group(name="G", queues=queues((9, 9, 9, None), (9, 9, 9, None)))
        idle = attrs.evolve(OTHER, pulled_s=None)

        def both(*at_the_other: Connection) -> Picture:
            here = process("broker", BROKERS[1], connections=(CLIENT, idle))
            there = process("broker", BROKERS[2], connections=at_the_other)
            brokers = (
                broker(1, process=here, groups=(group,)),
                broker(2, process=there, groups=(other,), name="h", role=MASTER),
            )
            return attrs.evolve(HEALTHY, brokers=brokers)

        kinds = {each.kind.name for each in judge(both(OTHER, attrs.evolve(CLIENT, pulled_s=None)))}
        self.assertNotIn("client.deaf", kinds)
        deaf = [each.subject for each in judge(both(idle, CLIENT)) if each.kind.name == "client.deaf"]
        self.assertEqual(deaf, ["client c@2 at 10.9.9.8:1"])

    def test_clients_that_read_from_a_slave(self) -> None:
        """A master may send them there."""
        group, idle = Group(name="G", queues=queues((9, 1, 1, 0))), attrs.evolve(CLIENT, pulled_s=90.0)
        slave = broker(2, process=process("broker", BROKERS[2], connections=(CLIENT,)))
        master = broker(1, process=process("broker", BROKERS[1], connections=(idle,)), groups=(group,))
        self.assertEqual(self.kinds(attrs.evolve(HEALTHY, brokers=(master, slave, broker(3)))), set())

    def test_retry_topics_give_nobody_a_queue(self) -> None:
        """The one queue of a retry topic goes to who has one of the topic already."""
        retried = Queue(topic="%RETRY%G", id=0, end=1, committed=1, pulled=1)
        group = Group(name="G", queues=(*queues((9, 1, 1, 0)), retried))
        idle = attrs.evolve(OTHER, pulled_s=None)
        self.assertEqual(self.kinds(consuming(group, idle, CLIENT)), set())

    def test_a_classic_set_without_a_master(self) -> None:
        """Nameservers forget a master that died; the slaves are all well."""
        rows = (BrokerSet(cluster="C", name="g", addresses={2: BROKERS[2]}),)
        names = tuple(nameserver(each, sets=rows) for each in NAMES)
        picture = attrs.evolve(HEALTHY, nameservers=names, controllers=(), brokers=(broker(2, epoch=None),))
        (found,) = judge(picture)
        self.assertEqual((found.kind.name, found.subject), ("set.no_master", "C/g"))
        self.assertIn(f"registered: 2 {BROKERS[2]}", found.evidence)
        ledger = attrs.evolve(picture, brokers=(broker(2, epoch=None, ledger=LEDGERS[1]),), ledgers=LEDGERS)
        self.assertEqual(self.kinds(ledger), set())

    def test_a_change_of_masters_some_minutes_ago(self) -> None:
        """Who was refused for its old epoch then, and no more, has heard of the new one."""
        for reason in ("old_epoch", "CONTROLLER_FENCED_MASTER_EPOCH"):
            self.assertEqual(self.kinds(refusing(reason=reason, seconds_ago=120.0)), set())
            self.assertEqual(self.kinds(refusing(reason=reason, seconds_ago=3.0)), {"epoch.old"})

    def test_clients_of_a_java_broker(self) -> None:
        """It does not know when they asked: nobody is called deaf."""
        silent = attrs.evolve(CLIENT, pulled_s=None, pulls_told=False)
        group = Group(name="G", queues=queues((9, 1, 1, 0)))
        self.assertEqual(self.kinds(consuming(group, silent)), set())
        stuck = Group(name="G", queues=queues((9, 1, 1, 1)), looked_s=6.0)
        self.assertEqual(self.kinds(consuming(stuck, silent)), {"group.stuck"})

    def test_a_group_that_gets_on(self) -> None:
        """In one of its queues: it is slow, not stuck."""
        slow = Group(name="G", queues=queues((9, 2, 9, 1), (9, 1, 9, 1)), looked_s=6.0)
        self.assertEqual(self.kinds(consuming(slow, CLIENT)), set())

    def test_what_could_not_be_looked_at(self) -> None:
        """The page says so: that nothing was found does not mean that nothing is there."""
        picture = with_broker(1, groups_untold="too many queues")
        self.assertIn("consumer groups at g were not looked at: too many queues", list(doctor_page.lines(picture, ())))

    def test_many_groups_that_lag(self) -> None:
        """Those that lag most are shown, and how many others there are."""
        groups = tuple(
            Group(name=f"G{number:02d}", queues=(Queue(topic="T", id=0, end=number, committed=0, pulled=0),))
            for number in range(1, 24)
        )
        picture = attrs.evolve(HEALTHY, brokers=(broker(1, groups=groups),))
        lines = [line for line in doctor_page.lines(picture, ()) if "group" in line]
        self.assertEqual(lines[0], "group G23 at g: 23 messages not consumed")
        self.assertEqual(lines[-1], "and 13 other groups that lag less")

    def test_limits(self) -> None:
        """Each can be set."""
        group = Group(name="G", queues=queues((9, 1, 1, 0)))
        self.assertEqual(self.kinds(consuming(group, CLIENT), Limits(lag_messages=8)), {"group.lag"})
        self.assertEqual(self.kinds(HEALTHY, Limits(disk_filling=0.4)), {"disk.filling"})

    def test_java_and_ours_side_by_side(self) -> None:
        """Different releases of different programs are no finding; those of one program are."""
        javas = process("broker", BROKERS[3], ours=False, version="5.5.0")
        self.assertEqual(self.kinds(with_broker(3, process=javas)), set())

    def test_the_most_urgent_first(self) -> None:
        """As the table of kinds has them."""
        picture = attrs.evolve(
            HEALTHY,
            brokers=(broker(1, disk_used=0.8, store_refusal=""), broker(2), broker(3, unready="no link")),
            controllers=(controller(0, True, sets=(attrs.evolve(SET, master=None),)),),
        )
        self.assertEqual(
            [each.kind.name for each in judge(picture)], ["set.no_master", "disk.filling", "broker.unready"]
        )

    def test_texts_of_peers(self) -> None:
        """What somebody else wrote does nothing to a terminal."""
        picture = refusing(remark="evil \x1b[2J\nline")
        self.assertFalse([line for line in doctor_page.lines(picture, judge(picture)) if not line.isprintable()])
