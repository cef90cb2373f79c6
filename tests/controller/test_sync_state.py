"""1001, ALTER_SYNC_STATE_SET: each check of facts/controller.md 3 in its order, with Java's codes and texts."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller.events import AlterSyncStateSet, ConfirmMaster, ElectMaster
from rocketha.controller.group import Did
from rocketha.wire.codes import ResponseCode as Code
from tests.controller.support import CLUSTER, NAME, Controller, contents, knows, make_group

REJECTED = "Rejecting alter syncStateSet request because"


def alter(**others: object) -> AlterSyncStateSet:
    """A good report of master 1 that shrinks the set of three to two; then whatever is to be wrong with it."""
    return attrs.evolve(AlterSyncStateSet("", NAME, 1, 1, 2, (1, 2), knows(1, 2, 3)), **others)


class CheckTests(SynchronousTestCase):
    """Group b: brokers 1 to 3, master 1 in epoch 1, set {1, 2, 3} in epoch 2; broker 4 is not registered."""

    def setUp(self) -> None:
        self.controller = Controller()
        make_group(self.controller)
        self.before = contents(self.controller.state)

    def _refused(self, event: AlterSyncStateSet, code: int, remark: str) -> None:
        outcome = self.controller.apply(event)
        self.assertEqual((outcome.answer.code, outcome.answer.remark), (code, remark))
        self.assertEqual(outcome.answer.fields, {"newSyncStateSetEpoch": "0"})
        self.assertEqual((outcome.answer.body, outcome.did, outcome.notices), (b"", Did.NOTHING, ()))
        self.assertEqual(contents(self.controller.state), self.before, "a refusal changed the state")

    def test_granted(self) -> None:
        """The new epoch stands in header and body; the cluster need not be named."""
        outcome = self.controller.apply(alter())
        self.assertEqual(outcome.answer.fields, {"newSyncStateSetEpoch": "3"})
        self.assertEqual(outcome.answer.body, b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}')
        group = self.controller.state.group(CLUSTER, NAME)
        assert group is not None
        self.assertEqual((group.in_sync, group.set_epoch, group.master_epoch), ((1, 2), 3, 1))

    def test_1_unknown_group(self) -> None:
        """Before everything else."""
        self._refused(
            alter(broker_name="x", new_set=(1, 2, 3)),
            Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            "Broker metadata is not existed",
        )

    def test_2_equal_set(self) -> None:
        """Before the master is looked at."""
        self._refused(
            alter(new_set=(1, 2, 3), master_id=2, master_epoch=9),
            Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet",
        )

    def test_3_not_the_master(self) -> None:
        """Before its epoch."""
        self._refused(
            alter(master_id=2, master_epoch=9),
            Code.CONTROLLER_INVALID_MASTER,
            f"{REJECTED} the current leader is:{{1}}, not {{2}}",
        )

    def test_3_no_master(self) -> None:
        """Java prints null."""
        self.controller.apply(ElectMaster(CLUSTER, NAME, -1, evidence=knows()))
        self.before = contents(self.controller.state)
        self._refused(alter(), Code.CONTROLLER_INVALID_MASTER, f"{REJECTED} the current leader is:{{null}}, not {{1}}")

    def test_4_master_epoch(self) -> None:
        """Older and newer; before the set's epoch."""
        for epoch in (0, 2):
            self._refused(
                alter(master_epoch=epoch, set_epoch=9),
                Code.CONTROLLER_FENCED_MASTER_EPOCH,
                f"{REJECTED} the current master epoch is:{{1}}, not {{{epoch}}}",
            )

    def test_5_set_epoch(self) -> None:
        """Older and newer; before the ids.  This makes it a compare-and-set (invariant 14)."""
        for epoch in (1, 3):
            self._refused(
                alter(set_epoch=epoch, new_set=(1, 4)),
                Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
                f"{REJECTED} the current syncStateSet epoch is:{{2}}, not {{{epoch}}}",
            )

    def test_6_unregistered_id(self) -> None:
        """Before the master's absence from the set."""
        self._refused(
            alter(new_set=(2, 4)), Code.CONTROLLER_INVALID_REPLICAS, f"{REJECTED} the replicas {{4}} don't exist"
        )

    def test_7_dead_member(self) -> None:
        """Ids are looked at one after the other: a dead one before an unregistered one is named first."""
        remark = f"{REJECTED} the replicas {{2}} don't alive"
        self._refused(alter(new_set=(1, 2, 4), evidence=knows(1, 3)), Code.CONTROLLER_BROKER_NOT_ALIVE, remark)

    def test_7_dead_master(self) -> None:
        """The master is no exception."""
        remark = f"{REJECTED} the replicas {{1}} don't alive"
        self._refused(alter(evidence=knows(2, 3)), Code.CONTROLLER_BROKER_NOT_ALIVE, remark)

    def test_8_without_the_master(self) -> None:
        """Last."""
        remark = f"{REJECTED} the newSyncStateSet don't contains origin leader {{1}}"
        for new_set in ((2, 3), ()):
            self._refused(alter(new_set=new_set), Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark)

    def test_second_of_two_in_flight(self) -> None:
        """Two reports made of the same set: the second was made of a state that is gone."""
        self.assertEqual(self.controller.apply(alter()).answer.code, 0)
        second = self.controller.apply(alter(new_set=(1, 3)))
        self.assertEqual(second.answer.code, Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH)


class ConfirmTests(SynchronousTestCase):
    """11006: may this broker act as master of this epoch?"""

    def setUp(self) -> None:
        self.controller = Controller()
        make_group(self.controller)
        self.controller.apply(ElectMaster(CLUSTER, NAME, -1, evidence=knows(2, 3)))

    def test_the_master_may(self) -> None:
        """And its election can not be taken back any more."""
        outcome = self.controller.apply(ConfirmMaster(CLUSTER, NAME, 2, 2))
        self.assertEqual((outcome.answer.code, outcome.did), (0, Did.CONFIRMED))
        self.assertEqual(outcome.answer.body, b'{"syncStateSet":[2],"syncStateSetEpoch":3}')
        again = self.controller.apply(ConfirmMaster(CLUSTER, NAME, 2, 2))
        self.assertEqual((again.answer, again.did), (outcome.answer, Did.NOTHING))

    def test_others_may_not(self) -> None:
        """Another broker, another epoch, another group; nothing changes."""
        for broker_id, epoch, name, code in (
            (3, 2, NAME, Code.CONTROLLER_INVALID_MASTER),
            (2, 1, NAME, Code.CONTROLLER_FENCED_MASTER_EPOCH),
            (2, 3, NAME, Code.CONTROLLER_FENCED_MASTER_EPOCH),
            (9, 2, NAME, Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED),
            (2, 2, "x", Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED),
        ):
            outcome = self.controller.apply(ConfirmMaster(CLUSTER, name, broker_id, epoch))
            self.assertEqual((outcome.answer.code, outcome.did), (code, Did.NOTHING))
