"""Groups whose members speak Java's protocol, and what clients of DLedger ask of a member."""

from __future__ import annotations

import functools
from typing import Any

import attrs

from rocketha.services.raft.java_port import TOLD
from rocketha.simulation.host import Host
from rocketha.wire import dledger, dledger_json
from rocketha.wire import dledger_values as values
from rocketha.wire.codes import ResponseCode
from rocketha.wire.dledger_values import CODES, EXCHANGES
from rocketha.wire.dledger_values import DLedgerResponseCode as Code
from tests.services.dledger_case import RAFT_PORT, DLedgerCase
from tests.services.replication import test_dledger


class GroupTests(test_dledger.GroupTests):
    """All of a group of ours once more: each speaks as a Java member does."""

    keys = "dLegerWire=java\n"

    def test_whose_tables_they_are(self) -> None:
        """Java's masters do not say it: beside one of ours that stands still a nameserver would take none of them."""
        self.start_group().kill()
        self.until("another master", self.masters)
        stamp, term = self.stamps()
        self.assertEqual(stamp, 0)
        self.assertGreater(term, 1)


class MixedTests(test_dledger.GroupTests):
    """Likewise, but two of them find out that they know each other."""

    def setUp(self) -> None:
        super().setUp()
        self.brokers[0].settings += "dLegerWire=java\n"  # type: ignore[attr-defined]

    def test_who_speaks_what(self) -> None:
        """Each pair has found its protocol, and keeps it."""
        self.acknowledged(self.start_group(), 10)
        self.run_for(5)
        spoken = {
            host.name: {name: type(peer.connection).__name__ for name, peer in self.peers(host).items()}
            for host in self.brokers
        }
        java, ours = "DLedgerLine", "RaftProtocol"
        self.assertEqual(
            spoken, {"n0": {"n1": java, "n2": java}, "n1": {"n0": java, "n2": ours}, "n2": {"n0": java, "n1": ours}}
        )

    def test_a_java_member_is_the_last_to_lead(self) -> None:
        """Its queues may lack what its log has; one of ours succeeds where there is one."""
        java, *ours = self.brokers
        leader = self.start_group()
        if leader is java:
            self.await_(self.replication(java).raft.transfer("n1"), 10)
            self.until("one of ours", lambda: self.masters() == [ours[0]])
        for _ in range(4):
            leader = self.master()
            self.await_(self.replication(leader).raft.admin.hand_over("a test"), 10)
            other = [each for each in ours if each is not leader]
            self.until("the other one", functools.partial(lambda other: self.masters() == other, other))

    def peers(self, host: Host) -> dict[str, Any]:
        """A broker's ways to the others."""
        return self.replication(host).raft._peers._peers  # type: ignore[return-value]


class PortTests(DLedgerCase):
    """What a client of DLedger's own asks, or an operator, or nobody should."""

    def setUp(self) -> None:
        super().setUp()
        self.leader = self.start_group()
        self.follower = self.followers()[0]

    def call(self, host: Host, request: values.Message) -> values.Message:
        """Its answer."""
        code = CODES[type(request)]
        client = self.client_host.process.service  # type: ignore[union-attr]
        body = dledger_json.encode(request)
        answer = self.await_(client.request(f"{host.address}:{RAFT_PORT}", code, None, body, 10.0), 10)
        self.assertEqual(answer.code, 200)
        return dledger_json.decode(EXCHANGES[code].answer, answer.body)

    def to(self, host: Host, kind: type[values.Message], **more: object) -> values.Message:
        """The answer to a request for a member."""
        return self.call(host, kind(**({"group": "g", "remote_id": host.name} | more)))  # type: ignore[arg-type]

    def term(self) -> int:
        """Java's."""
        return self.replication(self.leader).raft.node.term - 1

    def refused(self, host: Host) -> list[str]:
        """Requests that a member's refusals count."""
        counted = self.service(host).refusals.requests
        return sorted({name for name, _ in counted if name.startswith("DLEDGER")})

    def test_metadata(self) -> None:
        """Of any member."""
        for host in self.brokers:
            answer = self.to(host, values.MetadataRequest)
            assert isinstance(answer, values.MetadataAnswer)
            self.assertEqual((answer.code, answer.group, answer.leader_id), (Code.SUCCESS, "g", self.leader.name))
            self.assertEqual(sorted(answer.peers), ["n0", "n1", "n2"])

    def test_another_group_or_member(self) -> None:
        """As in Java's server, whatever is asked; and whoever looks after the broker can see it."""
        for kind in CODES:
            self.assertEqual(self.to(self.leader, kind, group="h").code, Code.UNKNOWN_GROUP)
            self.assertEqual(self.to(self.leader, kind, remote_id="n9").code, Code.UNKNOWN_MEMBER)
        self.assertEqual(len(self.refused(self.leader)), len(CODES))

    def test_entries(self) -> None:
        """Of the leader."""
        self.acknowledged(self.leader, 3)
        answer = self.to(self.leader, values.GetRequest, begin_index=2)
        assert isinstance(answer, values.GetAnswer)
        (entry,) = answer.entries
        raw = self.log(self.leader).store.log.read(entry.position, entry.size)
        self.assertEqual(values.raw_entries([entry]), raw)
        self.assertEqual(dledger.parse_head(raw).entry_index, 2)
        for index, code in (
            (99, Code.INDEX_OUT_OF_RANGE),
            (-1, Code.INDEX_OUT_OF_RANGE),
            (None, Code.UNEXPECTED_ARGUMENT),
        ):
            self.assertEqual(self.to(self.leader, values.GetRequest, begin_index=index).code, code)
        self.assertEqual(self.to(self.follower, values.GetRequest, begin_index=2).code, Code.NOT_LEADER)

    def test_no_foreign_entries(self) -> None:
        """What is in this log are messages: a body of whatever bytes would end the queues."""
        end = self.log(self.leader).end
        self.assertEqual(self.to(self.leader, values.AppendRequest, body=b"x").code, Code.UNSUPPORTED)
        self.assertEqual(self.to(self.follower, values.AppendRequest, body=b"x").code, Code.NOT_LEADER)
        self.assertEqual(self.log(self.leader).end, end)

    def test_who_is_no_member(self) -> None:
        """Does not vote, beat or push; nor does who calls itself as we do, or as one who lives elsewhere."""
        term = self.term() + 7
        for kind in (values.HeartBeatRequest, values.PushRequest):
            for name, code in (
                ("n9", Code.UNKNOWN_MEMBER),
                (self.leader.name, Code.UNEXPECTED_MEMBER),
                (self.follower.name, Code.UNKNOWN_MEMBER),
            ):
                answer = self.to(self.leader, kind, leader_id=name, local_id=name, term=term)
                self.assertEqual(answer.code, code)
        for name, result in (
            ("n9", values.VoteResult.REJECT_UNKNOWN_LEADER),
            (self.leader.name, values.VoteResult.REJECT_UNEXPECTED_LEADER),
        ):
            vote = self.to(self.leader, values.VoteRequest, leader_id=name, local_id=name, term=term)
            assert isinstance(vote, values.VoteAnswer)
            self.assertEqual(vote.vote_result, result)
        self.assertEqual((self.term(), self.master()), (term - 7, self.leader))

    def test_numbers_that_no_log_reaches(self) -> None:
        """Of a member, by the address: the core could not count on."""
        self.cut_off(self.leader)
        highest = (1 << 63) - 1
        for host in self.brokers:
            name = next(other.name for other in self.brokers if other is not host)
            ids = {"leader_id": name, "local_id": name}
            for request in (
                values.HeartBeatRequest(term=highest, **ids),
                values.VoteRequest(term=1, ledger_end_index=highest, **ids),
                values.VoteRequest(term=1, ledger_end_term=highest, **ids),
                values.PushRequest(term=1, commit_index=highest, kind=values.PushType.COMMIT, **ids),
            ):
                made = attrs.evolve(request, group="g", remote_id=host.name)
                self.assertEqual(self.call(host, made).code, Code.UNEXPECTED_ARGUMENT)
        self.assertEqual(self.ended, [])

    # -- S4.24, S4.25: an operator moves the leadership

    def transfer(self, host: Host, to: str, term: int) -> values.Message:
        return self.to(host, values.TransferRequest, transfer_id=host.name, transferee_id=to, term=term)

    def test_transfer(self) -> None:
        """At once, and the answer comes when the other one leads."""
        self.acknowledged(self.leader, 20)
        began = self.world.now
        self.assertEqual(self.transfer(self.leader, self.follower.name, self.term()).code, Code.SUCCESS)
        self.assertLess(self.world.now - began, 0.2)
        self.until("the other one", lambda: self.masters() == [self.follower])
        self.assertEqual(self.acknowledged(self.follower, 20), 20)

    def test_a_transfer_that_is_refused(self) -> None:
        """Each reason has its code, and nothing changes."""
        term = self.term()
        for host, to, given, code in (
            (self.leader, "n9", term, Code.UNKNOWN_MEMBER),
            (self.leader, self.follower.name, term + 1, Code.INCONSISTENT_TERM),
            (self.follower, self.leader.name, term, Code.NOT_LEADER),
            (self.leader, self.leader.name, term, Code.UNEXPECTED_ARGUMENT),
        ):
            self.assertEqual(self.transfer(host, to, given).code, code)
        answer = self.to(self.leader, values.TransferRequest, transfer_id="n9", transferee_id="n8", term=term)
        self.assertEqual(answer.code, Code.UNEXPECTED_ARGUMENT)
        self.assertEqual((self.term(), self.master()), (term, self.leader))

    def test_a_successor_that_does_not_answer(self) -> None:
        """Falls behind too much, as Java has it."""
        self.follower.kill()
        self.run_for(2.5)
        self.assertEqual(self.transfer(self.leader, self.follower.name, self.term()).code, Code.FALL_BEHIND_TOO_MUCH)
        self.assertEqual(self.acknowledged(self.leader, 5), 5)

    # -- what is no request

    def test_no_json(self) -> None:
        """Is answered as Java's server answers what it fails on; the connection stays."""
        client = self.client_host.process.service  # type: ignore[union-attr]
        address = f"{self.leader.address}:{RAFT_PORT}"
        for code in EXCHANGES:
            for body in (b"", b"{", b"[]", b'{"term":"x"}'):
                answer = self.await_(client.request(address, code, None, body, 10.0), 10)
                self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR, (code, body))
        answer = self.await_(client.request(address, 51003, None, b"{}", 10.0), 10)
        self.assertEqual(answer.code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        self.assertTrue(client.is_open(address))

    def test_what_is_told(self) -> None:
        """How members find out where they stand is no refusal that a person should look at."""
        ordinary = {Code.SUCCESS, Code.EXPIRED_TERM, Code.INCONSISTENT_STATE, Code.TERM_NOT_READY, Code.NOT_LEADER}
        self.assertEqual(ordinary & TOLD, set())
