"""A group of two brokers and a witness, on simulated hosts."""

from __future__ import annotations

import json
from functools import partial
from unittest import mock

from twisted.internet.defer import Deferred

from rocketha.admin import log_level
from rocketha.admin.client import RequestFailed
from rocketha.observe.logging import current_level, set_level
from rocketha.raft import replication
from rocketha.raft.config import Role as RaftRole
from rocketha.services.config.loading import load_witness
from rocketha.services.witness.service import Witness
from rocketha.simulation.host import Host, Process
from rocketha.wire.codes import PrivateCode, RequestCode
from rocketha.wire.dledger_values import DLedgerResponseCode as Code
from tests.broker.support import topic_fields
from tests.services.dledger_case import RAFT_PORT
from tests.services.replication.test_dledger_members import MembersCase


class WitnessCase(MembersCase):
    """n0 and n1 are brokers, w2 is the witness."""

    brokers_count = 2
    keys = "remoteAdminEnable=true\n"

    def start_group(self) -> Host:
        self.witness = self.witness_host("w2")
        peers = ";".join(f"{host.name}-{self.at(host)}" for host in (*self.brokers, self.witness))
        for host in self.brokers:
            host.settings = (  # type: ignore[attr-defined]
                f"enableDLegerCommitLog=true\ndLegerGroup=g\ndLegerPeers={peers}\ndLegerSelfId={host.name}\n"
                f"dLegerWitness=w2\n{self.keys}"
            )
        self.witness.settings = self.brokers[0].settings  # type: ignore[attr-defined]
        self.witness.start()
        return super().start_group()

    def witness_host(self, name: str) -> Host:
        def program(process: Process) -> Witness:
            text = f"bindAddress={process.host.address}\nstorePathRootDir=/store\n{process.host.settings}"  # type: ignore[attr-defined]
            loaded = load_witness(text.encode(), "broker.conf", {}, {"HOME": "/home"})
            service = Witness(loaded.config, process.platform(on_fatal=partial(self._ended, name)), (), loaded.warnings)
            service.privilegedStartService()
            service.startService()
            return service

        return self.world.add_host(name, program, start=False)

    def witnessed(self, host: Host | None = None) -> int:
        """The last entry that a witness acknowledged."""
        process = (host or self.witness).process
        view = process.service.view() if process is not None and process.service is not None else None
        return view.node.persisted if view is not None else -1

    def last_index(self, broker: Host) -> int:
        return self.replication(broker).raft.node.status().last_index

    def caught_up(self) -> None:
        """Wait until the witness has all that the master has."""
        master = self.master()
        self.until("the witness has all", lambda: self.witnessed() == self.last_index(master))


class WitnessTests(WitnessCase):
    def test_half_of_the_brokers(self) -> None:
        """Whichever is left has a majority with it; what was acknowledged meanwhile is on the other one later."""
        for number in range(4):
            master = self.master()
            other = next(host for host in self.brokers if host is not master)
            (master if number % 2 else other).kill()
            left = self.master()
            self.assertEqual(self.acknowledged(left, 100), 100)
            self.restart(master if number % 2 else other)
            self.whole()
        self.assertEqual(self.stored(self.master()), 400)
        self.same_logs(*self.brokers)

    def test_it_keeps_no_messages(self) -> None:
        self.assertEqual(self.acknowledged(self.group, 300, 5000), 300)
        self.caught_up()
        disk, folder = self.witness.disk, "/store/dledger-w2"
        names = set(disk.list(folder))
        self.assertEqual(names - {"lock"}, {"state", "witness"})
        kept = b"".join(disk.read_all(f"{folder}/{name}", 1 << 22) for name in names)
        self.assertLess(len(kept) - kept.count(0), 2000)

    def test_what_operators_ask(self) -> None:
        """Its log's level, which only its own machine changes, and who is connected, as of every server."""
        self.addCleanup(set_level, current_level())
        process = self.client_host.process
        assert process is not None
        address = self.at(self.witness)

        def level(wanted: str | None = None) -> str:
            return str(self.await_(Deferred.fromCoroutine(log_level.level(process.service, address, wanted))))

        set_level("info")
        self.assertEqual(level(), "info")
        with self.assertRaisesRegex(RequestFailed, "own machine only"):
            level("debug")
        answer = self.await_(process.service.request(address, PrivateCode.CLIENTS))
        found = json.loads(answer.body)
        self.assertEqual((answer.code, found["role"], found["process"]["logLevel"]), (0, "witness", "info"))
        self.assertEqual([each["address"].split(":")[0] for each in found["connections"]], [self.client_host.address])
        self.assertEqual([each["what"] for each in found["refusals"]], ["LOG_LEVEL"])

    def test_the_only_copy(self) -> None:
        """What a master alone has beside the witness is not lost when it ends: nobody leads before it is back."""
        first = self.group
        other = self.followers()[0]
        other.kill()
        self.assertEqual(self.acknowledged(first, 50), 50)
        self.caught_up()
        first.kill()
        self.restart(other)
        self.run_for(10)
        self.assertEqual(self.masters(), [])
        self.assertIsNot(self.replication(other).raft.node.role, RaftRole.LEADER)
        self.restart(first)
        self.whole()
        self.assertEqual(self.stored(self.master()), 50)

    def test_javas_members_are_refused(self) -> None:
        """By all: they do not know what it is."""
        for host in (*self.brokers, self.witness):
            process = host.process
            assert process is not None
            raft = process.service._raft if host is self.witness else self.replication(host).raft
            self.assertFalse(raft.others.admitted, host.name)

    def test_the_other_one_leads_at_once(self) -> None:
        """When the master's port refuses connections: the witness does not hold its vote back."""
        self.caught_up()
        self.group.kill()
        took_s = self.until("another master", lambda: len(self.masters()) == 1)
        self.assertLess(took_s, 0.3)

    def test_its_restart(self) -> None:
        """It knows what it acknowledged, and for whom it voted, also after a power cut."""
        self.assertEqual(self.acknowledged(self.group, 100), 100)
        self.caught_up()
        had = self.witnessed()
        self.witness.power_off()
        for host in self.brokers:
            host.freeze(True)
        self.witness.start()
        self.until("it is back", lambda: self.witnessed() >= 0)
        self.assertEqual(self.witnessed(), had)
        for host in self.brokers:
            host.thaw()
        self.assertEqual(self.witness.process.service.healthy(), None)  # type: ignore[union-attr]
        self.until("it is ready", lambda: self.witness.process.service.ready() is None)  # type: ignore[union-attr]

    def test_an_empty_one(self) -> None:
        """It is told of what is committed, and sent no messages from before."""
        self.witness.kill()
        self.assertEqual(self.acknowledged(self.group, 100), 100)
        self.witness.disk.__init__(self.witness.random)  # type: ignore[misc]
        with mock.patch.object(replication, "WITNESS_LAG", 10):
            self.witness.start()
            self.caught_up()
        view = self.witness.process.service.view()  # type: ignore[union-attr]
        self.assertEqual(view.snapshots_received, 1)
        self.followers()[0].kill()
        self.assertEqual(self.acknowledged(self.master(), 10), 10)

    def test_it_never_leads(self) -> None:
        self.caught_up()
        with self.assertRaises(RequestFailed) as caught:
            self.do(self.ledger.transfer("w2"))
        self.assertEqual(caught.exception.code, Code.UNKNOWN_MEMBER)
        for host in self.brokers:
            host.kill()
        self.run_for(30)
        service = self.witness.process.service  # type: ignore[union-attr]
        self.assertEqual((service.view().node.role, service.ready()), (RaftRole.FOLLOWER, "nobody leads"))
        for host in self.brokers:
            self.restart(host)
        self.whole()
        self.assertIsNone(service.ready())
        page = service.overview()
        kinds = {each.name: (each.kind, each.state) for each in page.processes}
        self.assertEqual(kinds.pop("w2"), ("witness", "witness"))
        self.assertEqual(sorted(kinds.values()), [("broker", "leads"), ("broker", "member")])
        self.assertEqual((page.groups, page.topics), ((), ()))

    def test_topics(self) -> None:
        """A change waits for brokers only."""
        began = self.world.now
        self.ask(self.group, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("Made", 5))
        self.assertLess(self.world.now - began, 0.5)
        self.followers()[0].kill()
        self.run_for(3)
        self.assertEqual(self.ask(self.group, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("Other", 5)).code, 0)

    def test_the_command(self) -> None:
        """Says who it is; it can leave, and another one come."""
        found = self.command("members")
        self.assertIn(f"w2-{self.at(self.witness)}  votes, keeps no messages", found)
        self.assertEqual(self.acknowledged(self.group, 100), 100)
        self.command("remove", "w2", "--yes")
        other = self.witness_host("w5")
        peers = ";".join(f"{host.name}-{self.at(host)}" for host in (*self.brokers, other))
        other.settings = (  # type: ignore[attr-defined]
            f"dLegerGroup=g\ndLegerPeers={peers}\ndLegerWitness=w5\nraftJoinExisting=true\n"
        )
        other.start()
        self.command("add", f"w5-{other.address}:{RAFT_PORT}", "--witness")
        self.assertIn("votes, keeps no messages", self.command("members"))
        self.until("it has all", lambda: self.witnessed(other) == self.last_index(self.master()))
        self.witness.kill()
        self.followers()[0].kill()
        self.assertEqual(self.acknowledged(self.master(), 10), 10)

    def test_one_is_enough(self) -> None:
        with self.assertRaises(RequestFailed) as caught:
            self.do(self.ledger.change(learn="w7-10.0.0.77:1", witness="w7"))
        self.assertIn("a group has one witness", str(caught.exception))
        with self.assertRaises(RequestFailed) as caught:
            self.do(self.ledger.change(learn=f"n1-{self.at(self.brokers[1])}", witness="n1"))
        self.assertIn("n1 can not become a witness", str(caught.exception))
