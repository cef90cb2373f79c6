"""Members that join, move and leave while a group of ours runs."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import Any

from twisted.internet import defer

from rocketha.admin import dledger
from rocketha.admin.client import RequestFailed
from rocketha.admin.dledger import Ledger
from rocketha.broker.role import Role
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.raft.config import Role as RaftRole
from rocketha.raft.membership import MembersChange
from rocketha.simulation.host import Host
from rocketha.wire import dledger_json
from rocketha.wire import dledger_values as values
from rocketha.wire.codes import ResponseCode
from rocketha.wire.dledger_values import CODES, EXCHANGES, VoteResult
from rocketha.wire.dledger_values import DLedgerResponseCode as Code
from tests.admin.parsing import parsed
from tests.services.dledger_case import RAFT_PORT, DLedgerCase


class MembersCase(DLedgerCase):
    """A group, and hosts beside it."""

    keys = "remoteAdminEnable=true\n"

    def setUp(self) -> None:
        super().setUp()
        self.group = self.start_group()
        process = self.client_host.process
        assert process is not None
        client = RemotingClient(Dialer(process.reactor))
        self.addCleanup(client.close)
        self.clock = process.reactor
        self.ledger = Ledger(client, "g", {host.name: self.at(host) for host in self.brokers})

    @staticmethod
    def at(host: Host) -> str:
        return f"{host.address}:{RAFT_PORT}"

    def newcomer(self, name: str, moved: Host | None = None) -> Host:
        """A broker that waits to be added.

        :param moved: it is this one, and has its disk.
        """
        host = self.broker(name, "", start=False, platform={"on_fatal": partial(self._ended, name)})
        addresses = {each.name: self.at(each) for each in self.brokers} | {moved.name if moved else name: self.at(host)}
        peers = ";".join(f"{member}-{address}" for member, address in addresses.items())
        joins = "false" if moved else "true"
        host.settings = (  # type: ignore[attr-defined]
            f"enableDLegerCommitLog=true\ndLegerGroup=g\ndLegerPeers={peers}\n"
            f"dLegerSelfId={moved.name if moved else name}\nraftJoinExisting={joins}\n{self.keys}"
        )
        if moved is not None:
            host.disk = moved.disk
        host.start()
        self.started(host)
        return host

    def command(self, *words: str) -> str:
        """What ``rocketha dledger`` prints."""
        action, given = parsed(dledger.command, "-g", "g", "-p", "n0-a:1", *words)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(self.do(action(dledger.Group(self.ledger, self.clock), given)), 0)
        return out.getvalue()

    def do(self, coroutine: object) -> object:
        """Its result."""
        return self.await_(defer.ensureDeferred(coroutine), 60)  # type: ignore[arg-type]

    def add(self, host: Host, learns: bool = False) -> None:
        self.command("add", f"{host.name}-{self.at(host)}", *(["--learner"] if learns else []))
        if host not in self.brokers:
            self.brokers.append(host)

    def remove(self, host: Host) -> None:
        self.assertNotIn(f"{host.name}-", self.command("remove", host.name, "--yes"))
        self.brokers.remove(host)

    def topics(self, host: Host) -> object:
        """Their version, as a broker has them."""
        return self.service(host).broker.state.topics.data_version

    def members(self, host: Host) -> tuple[set[str], set[str]]:
        """Voters and learners, as a broker has them."""
        found = self.replication(host).raft.node.members
        self.assertFalse(found.outgoing)
        return set(found.voters), set(found.learners)


class MembersTests(MembersCase):
    """Three members, and more."""

    def test_one_joins(self) -> None:
        """It gets the log, then votes, and may lead; of the four, three are a majority then."""
        self.assertEqual(self.acknowledged(self.group, 300), 300)
        new = self.newcomer("n3")
        self.run_for(3)
        self.assertEqual((self.role(new), self.log(new).end), (Role.SLAVE, 0))
        self.add(new)
        self.whole()
        self.same_logs(*self.brokers)
        for host in self.brokers:
            self.assertEqual(self.members(host), ({"n0", "n1", "n2", "n3"}, set()), host.name)
        self.do(self.ledger.transfer("n3"))
        self.until("the new one leads", lambda: self.masters() == [new])
        self.assertEqual(self.acknowledged(new, 50), 50)
        self.assertEqual(self.stored(new), 350)
        for host in self.brokers[:2]:  # two of four: no majority
            host.kill()
        self.until("nobody leads", lambda: not self.masters())
        self.restart(self.brokers[0])
        self.assertEqual(self.acknowledged(self.master(), 10), 10)

    def test_what_is_left_of_a_command(self) -> None:
        """It may be given again, whatever had come about; a voter becomes a learner, too."""
        new = self.newcomer("n3")
        peer = f"n3-{self.at(new)}"
        self.add(new, learns=True)
        self.assertEqual(self.command("add", peer, "--learner"), "n3 learns already\n")
        self.add(new)
        self.assertEqual(self.command("add", peer), "n3 votes already\n")
        self.add(new, learns=True)
        self.assertEqual(self.members(self.master()), ({"n0", "n1", "n2"}, {"n3"}))
        status = io.StringIO()
        with contextlib.redirect_stdout(status):
            action, given = parsed(dledger.command, "-g", "g", "-p", "n0-a:1", "status")
            self.assertEqual(self.do(action(dledger.Group(self.ledger, self.clock), given)), 0)
        self.assertIn(f"n3  {self.at(new)}", status.getvalue())

    def test_a_learner(self) -> None:
        """It has everything, and counts for nothing."""
        new = self.newcomer("n3")
        self.add(new, learns=True)
        self.assertEqual(self.acknowledged(self.group, 50), 50)
        self.whole()
        self.same_logs(*self.brokers)
        self.assertEqual(self.members(new), ({"n0", "n1", "n2"}, {"n3"}))
        self.until("it has the topics", lambda: self.topics(new) == self.topics(self.group))
        rows = [f"{host.name}-{self.at(host)}  {'learns' if host is new else 'votes'}" for host in self.brokers]
        self.assertEqual(self.command("members").splitlines(), rows)
        with self.assertRaises(RequestFailed):
            self.do(self.ledger.transfer("n3"))
        for host in self.followers():
            if host is not new:
                host.kill()
        self.until("nobody leads", lambda: not self.masters())
        self.run_for(5)
        self.assertEqual(self.masters(), [])

    def test_one_leaves(self) -> None:
        """A follower, then the master, which hands over first; who left stands for no election."""
        self.assertEqual(self.acknowledged(self.group, 50), 50)
        follower = self.followers()[0]
        self.remove(follower)
        self.assertEqual(self.members(self.group)[0], {host.name for host in self.brokers})
        self.assertEqual(self.acknowledged(self.group, 20), 20)
        former = self.group
        self.remove(former)
        (last,) = self.brokers
        self.until("the last one leads", lambda: self.masters() == [last])
        self.assertEqual(self.acknowledged(last, 20), 20)
        self.assertEqual(self.stored(last), 90)
        nodes = [self.replication(host).raft.node for host in (follower, former)]
        terms = [node.term for node in nodes]
        self.run_for(10)
        self.assertEqual([self.role(host) for host in (follower, former)], [Role.SLAVE] * 2)
        self.assertEqual([node.role for node in nodes], [RaftRole.LEARNER] * 2)
        self.assertEqual([node.term for node in nodes], terms)

    def test_the_log_says_who_they_are(self) -> None:
        """Not the configuration, once they were changed: after a start of all, and after the loss of a disk."""
        self.add(self.newcomer("n3"))
        left = next(host for host in self.followers() if host.name != "n3")
        self.remove(left)
        self.assertEqual(self.acknowledged(self.master(), 50), 50)
        self.whole()
        for host in self.brokers:
            host.kill()
        left.kill()
        self.restart_all()
        names = {host.name for host in self.brokers}
        for host in self.brokers:
            self.assertEqual(self.members(host), (names, set()), host.name)
        wiped = self.followers()[0]
        wiped.kill()
        wiped.disk.__init__(wiped.random)  # type: ignore[misc]
        self.restart(wiped)
        self.whole()
        self.same_logs(*self.brokers)
        self.assertEqual(self.members(wiped), (names, set()))

    def test_one_moves(self) -> None:
        """With its disk to another address, which the others are told; it is under its name what it was."""
        self.assertEqual(self.acknowledged(self.group, 50), 50)
        self.whole()
        moved = self.followers()[0]
        moved.kill()
        self.do(self.ledger.change(add=f"{moved.name}-10.0.0.77:{RAFT_PORT}"))  # a slip, put right below
        self.brokers.remove(moved)
        other = self.newcomer("moved", moved)
        self.do(self.ledger.change(add=f"{moved.name}-{self.at(other)}"))
        self.brokers.append(other)
        self.assertEqual(self.acknowledged(self.master(), 50), 50)
        self.whole()
        self.same_logs(*self.brokers)
        for host in self.brokers:
            self.assertEqual(self.members(host), ({"n0", "n1", "n2"}, set()))
        self.do(self.ledger.transfer(moved.name))
        self.until("it leads", lambda: self.masters() == [other])

    def test_a_change_while_a_leader_becomes_the_master(self) -> None:
        """Sends that wait for that get places behind the change's."""
        self.assertEqual(self.acknowledged(self.group, 50), 50)
        self.whole()
        for _ in range(8):  # in half of them the promotion is all but done then
            former = self.master()
            asked: list[tuple[Host, Any, list[Any]]] = []

            def promote(host: Host, then: Any, former: str = former.name, asked: list[Any] = asked) -> Any:
                if not asked:
                    self.assertTrue(self.service(host).broker.core.busy())
                    change = MembersChange(remove=frozenset({former}))
                    changing = self.replication(host).raft.change_members(change)
                    asked.append((host, changing, [self.sending(host, b"x") for _ in range(20)]))
                    host.disk.spent_s += 0.05  # so that all of it arrives before the promotion is done
                return then()

            for host in self.followers():
                replication = self.replication(host)
                self.patch(replication, "_promote", partial(promote, host, replication._promote))
            former.kill()
            self.until("a change is asked for", lambda asked=asked: asked)  # type: ignore[misc]
            ((leader, changing, sent),) = asked
            self.await_(changing, 20)
            self.until("answers", lambda sent=sent: all(map(self.answered, sent)))  # type: ignore[misc]
            self.assertEqual({answer.result.code for answer in sent}, {ResponseCode.SUCCESS})
            self.assertEqual(self.masters(), [leader])
            self.restart(former)
            self.add(former)
            self.whole()
            self.same_logs(*self.brokers)
        self.assertEqual(self.ended, [])

    def test_what_is_refused(self) -> None:
        """A voter that has not the log, one that is not there, a name that is none, and who is not the operator."""
        self.assertEqual(self.acknowledged(self.group, 1100), 1100)
        self.run_for(1)  # until all have the topic
        asked: list[tuple[dict[str, str], str]] = [
            ({"add": "n7-10.0.0.7:1"}, "n7 is no learner yet"),
            ({"remove": "n9"}, "not members: n9"),
            ({"learn": "backup-10.0.0.7:1"}, "backup is refused, allowed is a letter and a number"),
            ({"learn": "m1-10.0.0.7:1"}, "a number of its own for each"),
            ({"learn": ";".join(f"n{number}-10.0.0.7:{number}" for number in range(3, 10))}, "allowed are up to 9"),
            ({"add": "n7"}, "is no peer"),
            ({}, "nothing would change"),
        ]
        for fields, why in asked:
            with self.assertRaisesRegex(RequestFailed, why):
                self.do(self.ledger.change(**fields))
        self.do(self.ledger.change(learn="n7-10.0.0.7:1"))
        with self.assertRaisesRegex(RequestFailed, "n7 has not taken the topics and groups yet"):
            self.do(self.ledger.change(add="n7-10.0.0.7:1"))
        self.patch(dledger, "PATIENCE_S", 5.0)
        with self.assertRaisesRegex(dledger.NoProgress, "n7 is a learner, and does not come nearer"):
            self.command("add", "n7-10.0.0.7:1")
        self.service(self.group).config.replication.remote_admin_enable = False
        with self.assertRaisesRegex(RequestFailed, "own machine only"):
            self.do(self.ledger.change(remove="n7"))


class OwnMachineTests(MembersCase):
    """Without remoteAdminEnable."""

    keys = ""

    def test_on_the_leaders_machine(self) -> None:
        """Its own address is not loopback, and will do."""
        follower = self.followers()[0]
        with self.assertRaisesRegex(RequestFailed, "own machine only"):
            self.do(self.ledger.change(remove=follower.name))
        process = self.group.process
        assert process is not None
        client = RemotingClient(Dialer(process.reactor))
        self.addCleanup(client.close)
        self.ledger = Ledger(client, "g", self.ledger.peers)
        self.remove(follower)
        self.assertEqual(self.acknowledged(self.group, 10), 10)


class JavaTests(MembersCase):
    """Members that speak DLedger's protocol, as Java's do, know nothing of changes."""

    def speaks_java(self, host: Host) -> None:
        """From its next start on."""
        host.kill()
        host.settings += "dLegerWire=java\n"  # type: ignore[attr-defined]
        self.restart(host)

    def test_none_is_told_of_a_change(self) -> None:
        """While one is there, a change is refused; once it is one of ours again, it is not."""
        follower = self.followers()[0]
        self.speaks_java(follower)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.whole()
        other = next(host for host in self.followers() if host is not follower)
        with self.assertRaisesRegex(RequestFailed, f"{follower.name} can not be told of a change"):
            self.do(self.ledger.change(remove=other.name))
        follower.kill()
        follower.settings = follower.settings.replace("dLegerWire=java\n", "")  # type: ignore[attr-defined]
        self.restart(follower)
        self.whole()
        self.remove(other)
        self.assertEqual(len(self.members(self.master())[0]), 2)

    def test_the_last_one_is_removed(self) -> None:
        """Alive or not: the others are ours, and the group can change from then on."""
        follower = self.followers()[0]
        self.speaks_java(follower)
        self.whole()
        follower.kill()
        self.remove(follower)
        self.add(self.newcomer("n3"))
        self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.whole()
        self.same_logs(*self.brokers)

    def test_none_is_taken_after_a_change(self) -> None:
        """It could not be told who the others are; whoever looks after the broker sees why it is alone."""
        self.add(self.newcomer("n3"))
        self.whole()
        java, leader = next(host for host in self.followers() if host.name != "n3"), self.master()
        java.kill()
        self.brokers.remove(java)
        java.program = lambda process: RemotingClient(Dialer(process.reactor))
        java.start()
        self.run_for(0.1)
        term = self.replication(leader).raft.node.term + 7
        for kind in (values.VoteRequest, values.HeartBeatRequest, values.PushRequest):
            who = {"group": "g", "remote_id": leader.name, "local_id": java.name, "leader_id": java.name, "term": term}
            asked = dledger_json.encode(kind(**who))  # type: ignore[arg-type]
            client = java.process.service  # type: ignore[union-attr]
            answer = self.await_(client.request(self.at(leader), CODES[kind], None, asked, 10.0), 10)
            found = dledger_json.decode(EXCHANGES[CODES[kind]].answer, answer.body)
            if isinstance(found, values.VoteAnswer):
                self.assertEqual(found.vote_result, VoteResult.REJECT_UNKNOWN_LEADER)
            else:
                self.assertEqual(found.code, Code.UNKNOWN_MEMBER)
        counted = {name for name, _ in self.service(leader).refusals.requests if name.startswith("DLEDGER")}
        self.assertEqual(counted, {"DLEDGER_VOTE", "DLEDGER_HEART_BEAT", "DLEDGER_PUSH"})
        self.assertEqual(self.masters(), [leader])
