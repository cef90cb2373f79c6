"""A new master in DLedger mode has the topics and groups that were acknowledged, whoever it is."""

from __future__ import annotations

from typing import Any

from twisted.internet import defer

from rocketha.broker.role import Role
from rocketha.raft.errors import Busy
from rocketha.raft.membership import MembersChange
from rocketha.services.replication import metadata_newest, metadata_sync
from rocketha.simulation.host import Host
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.broker.support import topic_fields
from tests.services.dledger_case import DLedgerCase


class NewestTests(DLedgerCase):
    """Three brokers, of which one is cut off while topics are made, and leads before it has taken the tables."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.start_group()
        self.late, self.other = self.followers()
        self.make("Before")
        self.whole()

    def make(self, name: str) -> None:
        answer = self.ask(self.master(), RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(name, 5))
        self.assertEqual(answer.code, ResponseCode.SUCCESS, answer.remark)

    def has(self, host: Host, name: str) -> bool:
        return name in self.service(host).broker.state.topics.table

    def lags(self) -> None:
        """One broker follows with its log again, and takes no tables."""
        self.cut_off(self.late)
        self.run_for(3)
        self.make("Made")
        self.patch(metadata_sync.Following, "begin", lambda _: None)
        self.heal()
        first, name = self.replication(self.first).raft.node, self.late.name
        self.until("it follows", lambda: first.status().peers[name].active)
        self.until("it has the log", lambda: self.log(self.late).end == self.log(self.first).end)
        self.assertFalse(self.has(self.late, "Made"))

    def heal(self) -> None:
        for one in self.brokers:
            for other in self.brokers:
                if one is not other:
                    for link in self.ways(one, other):
                        link.blocks.discard("cut off")

    def lead(self) -> None:
        """Hand the leadership to it."""
        self.await_(self.replication(self.first).raft.transfer(self.late.name))

    def test_it_takes_them(self) -> None:
        self.lags()
        self.assertEqual(self.acknowledged(self.first, 3), 3)
        self.until("it has the log", lambda: self.log(self.late).end == self.log(self.first).end)
        complete = self.service(self.late).broker.store.deleted_topics.complete
        self.lead()
        self.until("it is the master", lambda: self.masters() == [self.late])
        self.assertTrue(self.has(self.late, "Made"))
        # What no master has said may lack topics that the log has.
        self.assertEqual(self.service(self.late).broker.store.deleted_topics.complete, complete)
        self.assertEqual(self.acknowledged(self.late, 20), 20)

    def test_after_the_master_has_died(self) -> None:
        """The other follower has them."""
        self.lags()
        self.first.kill()
        master = self.master()
        self.assertTrue(self.has(master, "Made"))

    def test_not_before_a_majority_has_said_what_it_has(self) -> None:
        """It says why it is not the master, and is it when another member answers."""
        self.lags()
        found = metadata_newest._has
        self.patch(metadata_newest, "_has", lambda answer: None)
        self.lead()
        self.run_for(3)
        self.assertEqual(self.masters(), [])
        self.assertIs(self.role(self.late), Role.SLAVE)
        self.assertIn("is not the master yet", self.service(self.late).broker.unready() or "")
        with self.assertRaisesRegex(Busy, "is not the master yet"):
            self.replication(self.late)._check_change(MembersChange(remove={self.other.name}), ["n0"])
        self.patch(metadata_newest, "_has", found)
        self.until("it is the master", lambda: self.masters() == [self.late], 2)
        self.assertTrue(self.has(self.late, "Made"))

    def test_it_leads_no_more_meanwhile(self) -> None:
        """It asks no further, and follows."""
        self.lags()
        asked: list[int] = []
        original = metadata_newest._has

        def silent(answer: Any) -> None:
            asked.append(answer.code)

        self.patch(metadata_newest, "_has", silent)
        self.lead()
        self.run_for(1)
        self.assertTrue(asked)
        self.await_(self.replication(self.late).raft.transfer(self.other.name))
        self.patch(metadata_newest, "_has", original)
        self.until("the other is the master", lambda: self.masters() == [self.other])
        self.patch(metadata_newest, "_has", silent)
        asked.clear()
        self.run_for(2)
        self.assertEqual((asked, self.masters(), self.ended), ([], [self.other], []))

    def test_what_follows_is_not_cancelled(self) -> None:
        """A promotion that is under way when another leads: its thread works on the log."""
        role = self.service(self.late).broker.role_source
        promoting: defer.Deferred[None] = defer.Deferred()
        self.patch(self.replication(self.late), "lead", lambda: promoting)
        self.lead()
        self.until("it promotes", lambda: role._ordered == (True, self.late.name, role._raft.node.term))
        self.run_for(0.5)
        self.await_(self.replication(self.late).raft.transfer(self.other.name))
        self.run_for(0.5)
        self.assertFalse(promoting.called)

    def test_members_are_not_changed_before_a_majority_has_them(self) -> None:
        """Else those that are left may forget what was acknowledged."""
        self.lags()
        first, ids = self.replication(self.first), [self.first.name, self.late.name]
        with self.assertRaisesRegex(Busy, "a majority of the voters that it leaves has not taken the topics"):
            first._check_change(MembersChange(remove={self.other.name}), ids)
        first._check_change(MembersChange(remove={self.late.name}), ids)

    def test_what_a_member_says(self) -> None:
        """Also one of another version, and none that is not started."""
        for body in (b"", b"[]", b"{}", b'{"address": 1, "topicVersion": 7}'):
            found = metadata_newest._has(Command(ResponseCode.SUCCESS, body=body))
            self.assertTrue(found is None or found.versions.topics <= (0, 0), body)
