"""Who becomes master (facts/controller.md 3 and 4, S0.51 to S0.55), against a model of Java's DefaultElectPolicy, and
where an election may be taken back (regression row A23)."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller import elections
from rocketha.controller.events import (
    CONTROLLER,
    Alive,
    AlterSyncStateSet,
    CleanBrokerData,
    ConfirmMaster,
    ElectMaster,
    Evidence,
    RegisterBroker,
    Why,
)
from rocketha.controller.group import EPOCH_MAX, LOST_MAX, BrokerGroup, Did, GroupKey, Member, Unconfirmed
from rocketha.controller.notices import RoleChanged, brought_up_to_date
from rocketha.controller.state import ControllerState, Outcome
from rocketha.wire.codes import ResponseCode as Code
from rocketha.wire.remoting import Answer
from tests.controller.support import CLUSTER, NAME, Controller, alive, contents, gone, knows, make_group

IDS = range(1, 5)


def java_elect(
    in_sync: set[int], everybody: set[int] | None, infos: dict[int, Alive], old: int, preferred: int | None
) -> int | None:
    """DefaultElectPolicy.elect, written from its Java source: two passes, a TreeSet over a comparator."""

    def attempt(brokers: set[int]) -> int | None:
        living = {broker for broker in brokers if broker in infos}
        if not living:
            return None
        if old in living and (preferred is None or preferred == old):
            return old
        if preferred is not None:
            return preferred if preferred in living else None
        winner: Alive | None = None
        for broker in sorted(living):  # a TreeSet keeps the first of equals; small HashSets iterate ascending
            info = infos[broker]
            if winner is None or compare(info, winner) < 0:
                winner = info
        assert winner is not None
        return winner.broker_id

    def compare(one: Alive, two: Alive) -> int:
        if one.epoch == two.epoch:
            if one.max_offset == two.max_offset:
                return one.priority - two.priority
            return two.max_offset - one.max_offset
        return two.epoch - one.epoch

    found = attempt(in_sync)
    if found is None and everybody is not None:
        found = attempt(everybody)
    return found


infos = st.dictionaries(
    st.sampled_from(IDS),
    st.tuples(st.integers(-1, 2), st.integers(-1, 3), st.sampled_from((1, 7, 2**31 - 1))),
    max_size=4,
).map(lambda found: {broker_id: Alive(broker_id, *numbers) for broker_id, numbers in found.items()})


class PolicyTests(SynchronousTestCase):
    """The order: assigned broker, epoch, max offset, priority, id."""

    @settings(max_examples=300, deadline=None)
    @given(
        st.sets(st.sampled_from(IDS)), infos, st.sampled_from((0, *IDS)), st.sampled_from((None, *IDS)), st.booleans()
    )
    def test_as_java(
        self, in_sync: set[int], living: dict[int, Alive], old: int, preferred: int | None, unclean: bool
    ) -> None:
        """The whole of 1002 for every group, evidence and asker that small numbers make."""
        group = BrokerGroup(GroupKey(CLUSTER, NAME))
        group.members = {broker_id: Member(f"h{broker_id}:1", "") for broker_id in IDS}
        group.next_id, group.never_elected, group.master_epoch = 5, False, 1
        group.in_sync, group.master = tuple(sorted(in_sync)), old
        evidence = Evidence(alive=tuple(living.values()), unclean=unclean)
        event = ElectMaster(CLUSTER, NAME, preferred or CONTROLLER, preferred is not None, evidence=evidence)
        verdict = elections.elect(group, event)
        wanted = java_elect(in_sync, set(IDS) if unclean else None, living, old, preferred)
        fields = verdict.answer.fields or {}
        if wanted is None:
            code = Code.CONTROLLER_MASTER_NOT_AVAILABLE if preferred is None else Code.CONTROLLER_ELECT_MASTER_FAILED
            self.assertEqual((verdict.answer.code, fields), (code, {}))
        elif wanted == old:
            self.assertEqual(verdict.answer.code, Code.CONTROLLER_MASTER_STILL_EXIST)
            self.assertEqual((fields["masterBrokerId"], verdict.change), (str(old), None))
        else:
            self.assertEqual((verdict.answer.code, fields["masterBrokerId"]), (0, str(wanted)))

    def test_each_key_in_its_turn(self) -> None:
        """Each row wins over the one after it, in one thing only."""
        rows = [
            Alive(9, 2, 1, 7),
            Alive(8, 1, 5 << 30, 7),
            Alive(7, 1, 1 << 30, 6),
            Alive(2, 1, 1 << 30, 7),
            Alive(3, 1, 1 << 30, 7),
            Alive(1, 1, 0, -(2**31)),
            Alive(4, -1, -1, -(2**31)),
        ]
        for start in range(len(rows)):
            self.assertEqual(elections.best(reversed(rows[start:])), rows[start].broker_id)
        self.assertEqual(elections.best([]), elections.NOBODY)


class ElectionTests(SynchronousTestCase):
    """1002 and the controller's own elections on a group of three."""

    def setUp(self) -> None:
        self.controller = Controller()
        make_group(self.controller)

    def group(self) -> BrokerGroup:
        group = self.controller.state.group(CLUSTER, NAME)
        assert group is not None
        return group

    def elect(self, *alive: int, asker: int = CONTROLLER, designate: bool = False, **evidence: object) -> Outcome:
        event = ElectMaster(CLUSTER, NAME, asker, designate, evidence=knows(*alive, **evidence))
        return self.controller.apply(event)

    def test_a_set_older_than_an_election_that_was_lost(self) -> None:
        """A member knows epoch 5, the group none after 1: nobody but whom an operator designates, above them all."""

        def elect(
            *alive: int, asker: int = CONTROLLER, designate: bool = False, newest: int = 5, **more: Any
        ) -> Outcome:
            evidence = knows(*alive, **more)
            return self.controller.apply(
                ElectMaster(CLUSTER, NAME, asker, designate, evidence=evidence, newest_epoch=newest)
            )

        for refused in (
            elect(2, 3, unclean=True, asker=3),
            elect(2, 3, asker=2),
            elect(2, 3, asker=2, designate=True),
            elect(2, asker=3, designate=True, operator=True),
            elect(1, 2, 3, asker=2, designate=True, operator=True),
        ):
            self.assertEqual((refused.answer.code, refused.did), (Code.CONTROLLER_ELECT_MASTER_FAILED, Did.NOTHING))
            self.assertIn("rocketha controller elect b,", refused.answer.remark or "")
        self.assertEqual((self.group().master, self.group().master_epoch), (1, 1))
        self.assertEqual(elect(1, 2).answer.code, Code.CONTROLLER_MASTER_STILL_EXIST)
        self.assertEqual(elect(2, 3, asker=2, designate=True, operator=True).did, Did.ELECTED)
        self.assertEqual((self.group().master, self.group().master_epoch), (2, 106))
        self.assertEqual(elect(1, 3, newest=106).did, Did.UNSEATED, "and all is as ever")

    def test_outdated_once_its_master_is_gone(self) -> None:
        """Also when all that know the newer epoch are dead: the leader heard it; and the next leader knows."""
        event = ElectMaster(CLUSTER, NAME, evidence=knows(2, 3), newest_epoch=2)
        outcome = self.controller.apply(event)
        self.assertEqual((outcome.answer.code, outcome.did), (Code.CONTROLLER_MASTER_NOT_AVAILABLE, Did.OUTDATED))
        group = self.group()
        self.assertEqual((group.master, group.master_epoch, group.in_sync), (0, 2, ()))
        for newest in (0, 2):
            again = ElectMaster(CLUSTER, NAME, evidence=knows(2, 3), newest_epoch=newest)
            self.assertEqual(self.controller.apply(again).did, Did.NOTHING)
        restored = ControllerState()
        restored.restore(self.controller.state.snapshot())
        self.assertEqual(contents(restored), contents(self.controller.state))
        newest_log = ElectMaster(CLUSTER, NAME, 3, True, evidence=Evidence(alive=alive(3, epoch=7), operator=True))
        self.assertEqual(self.controller.apply(newest_log).did, Did.ELECTED)
        self.assertEqual((self.group().master, self.group().master_epoch), (3, 108))

    def test_an_epoch_that_only_the_dead_have_is_not_given_again(self) -> None:
        """However far it is above those of who lives, and whoever leads the controllers by then."""
        self.controller.apply(ElectMaster(CLUSTER, NAME, evidence=knows(2, 3), newest_epoch=1000))
        those = alive(3, epoch=1)
        for event in (
            ElectMaster(CLUSTER, NAME, 3, True, evidence=Evidence(alive=those, operator=True)),
            gone(Evidence(alive=those, unclean=True)),
        ):
            restored = ControllerState()
            restored.restore(self.controller.state.snapshot())
            self.assertEqual(restored.apply(event, 10**6).did, Did.ELECTED)
            group = restored.group(CLUSTER, NAME)
            assert group is not None
            self.assertEqual((group.master, group.master_epoch), (3, 1101))

    def test_more_elections_than_can_be_lost(self) -> None:
        """A member that claims them stops no election, and no epoch begins above its."""
        for newest in (2 + LOST_MAX, EPOCH_MAX):
            for operator in (False, True):
                controller = Controller()
                make_group(controller)
                asker = 2 if operator else CONTROLLER
                evidence = knows(2, 3, operator=operator)
                event = ElectMaster(CLUSTER, NAME, asker, operator, evidence=evidence, newest_epoch=newest)
                self.assertEqual(controller.apply(event).did, Did.ELECTED)
                group = controller.state.group(CLUSTER, NAME)
                assert group is not None
                self.assertEqual((group.master, group.master_epoch), (2, 2))

    def test_unknown_group(self) -> None:
        answer = self.controller.apply(ElectMaster(CLUSTER, "x", 1)).answer
        self.assertEqual(
            answer, Answer(Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "Broker hasn't been registered", {})
        )

    def test_first_election_takes_the_asker(self) -> None:
        """Without a heartbeat of it, and whoever else is alive; a stranger is refused."""
        controller = Controller()
        make_group(controller, 3, (1,))
        other = Controller()
        for event in controller.log[:3]:
            other.apply(event)
        refused = other.apply(ElectMaster(CLUSTER, NAME, 9, evidence=knows(1, 2, 3))).answer
        self.assertEqual(refused.code, Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
        answer = other.apply(ElectMaster(CLUSTER, NAME, 3, evidence=knows(1, 2))).answer
        self.assertEqual(
            list((answer.fields or {}).items()),
            [
                ("masterBrokerId", "3"),
                ("masterAddress", "10.0.0.3:10911"),
                ("syncStateSetEpoch", "1"),
                ("masterEpoch", "1"),
            ],
        )

    def test_new_master(self) -> None:
        """Both epochs rise by one, the set is the new master alone, mqadmin's form of the body is there too."""
        outcome = self.elect(2, 3)
        self.assertEqual(
            outcome.answer.body,
            b'{"brokerMemberGroup":{"brokerAddrs":{"1":"10.0.0.1:10911","2":"10.0.0.2:10911","3":"10.0.0.3:10911"},'
            b'"brokerName":"b","cluster":"c"},"syncStateSet":[2],"brokerAddrs":{"1":"10.0.0.1:10911",'
            b'"2":"10.0.0.2:10911","3":"10.0.0.3:10911"},"brokerName":"b","cluster":"c"}',
        )
        group = self.group()
        self.assertEqual((group.master, group.master_epoch, group.in_sync, group.set_epoch), (2, 2, (2,), 3))

    def test_everybody_is_told_the_old_master_first(self) -> None:
        """Also who is thought dead (A24), then the new master, then by id."""
        notices = self.elect(2, 3).notices
        self.assertEqual([notice.receiver_id for notice in notices], [1, 2, 3])
        notices = self.elect(1, 2, 3, asker=3, designate=True).notices  # 3 is not in the set {2}
        self.assertEqual(notices, ())
        self.controller.apply(AlterSyncStateSet("", NAME, 2, 2, 3, (2, 3), knows(1, 2, 3)))
        notices = self.elect(1, 2, 3, asker=3, designate=True).notices
        self.assertEqual([notice.receiver_id for notice in notices], [2, 3, 1])
        told = notices[-1].command()
        fields = {
            "masterAddress": "10.0.0.3:10911",
            "masterBrokerId": "3",
            "syncStateSetEpoch": "5",
            "masterEpoch": "3",
        }
        self.assertEqual((told.code, list(told.fields.items()), told.is_oneway), (1008, list(fields.items()), True))
        self.assertEqual(told.body, b'{"syncStateSet":[3],"syncStateSetEpoch":5}')

    def test_a_notice_as_it_is_now(self) -> None:
        """Set and address of the master as they are; to nobody where its receiver does not live any more."""
        old, new, other = self.elect(2, 3).notices

        def now(notice: RoleChanged) -> RoleChanged | None:
            return brought_up_to_date(notice, self.group())

        self.assertEqual([now(each) for each in (old, new, other)], [old, new, other])
        self.controller.apply(RegisterBroker(CLUSTER, NAME, 2, "10.0.9.2:1", knows(2, 3)))
        self.controller.apply(AlterSyncStateSet("", NAME, 2, 2, 3, (2, 3), knows(2, 3)))
        moved = attrs.evolve(old, master_address="10.0.9.2:1", in_sync=(2, 3), set_epoch=4)
        self.assertEqual((now(old), now(new)), (moved, None))
        self.controller.apply(CleanBrokerData(CLUSTER, NAME, (1,)))
        self.assertIsNone(now(old))
        self.assertIsNotNone(now(other))
        self.elect(3)
        self.assertIsNone(now(other))

    def test_healthy_master_stays(self) -> None:
        """B4: a broker that asks, or a dead slave, elects nobody."""
        before = contents(self.controller.state)
        for asker in (2, 3, 9, CONTROLLER):
            outcome = self.elect(1, 2, asker=asker)
            self.assertEqual((outcome.answer.code, outcome.notices), (Code.CONTROLLER_MASTER_STILL_EXIST, ()))
            self.assertEqual(outcome.answer.body, b'{"syncStateSet":[1,2,3]}')
        self.assertEqual(contents(self.controller.state), before)

    def test_designated(self) -> None:
        """It wins over a healthy master if it is in the set and alive; else nobody does."""
        self.assertEqual(self.elect(1, 3, asker=2, designate=True).answer.code, Code.CONTROLLER_ELECT_MASTER_FAILED)
        self.assertEqual(self.elect(1, 3, asker=CONTROLLER, designate=True).answer.code, 2012)
        self.assertEqual((self.elect(1, 2, 3, asker=3, designate=True).answer.fields or {})["masterBrokerId"], "3")
        self.assertEqual(self.elect(1, 2, 3, asker=3, designate=True).answer.code, Code.CONTROLLER_MASTER_STILL_EXIST)

    def test_nobody(self) -> None:
        """Invariant 15.  The controller unseats the master once; D1: the next try is as good as the first."""
        self.controller.apply(AlterSyncStateSet("", NAME, 1, 1, 2, (1,), knows(1, 2, 3)))
        for asker in (2, 3):
            outcome = self.elect(2, 3, asker=asker)
            self.assertEqual((outcome.answer.code, outcome.did), (Code.CONTROLLER_ELECT_MASTER_FAILED, Did.NOTHING))
        outcome = self.elect(2, 3)
        self.assertEqual((outcome.answer.code, outcome.did), (Code.CONTROLLER_MASTER_NOT_AVAILABLE, Did.UNSEATED))
        for _ in range(3):
            outcome = self.elect(2, 3)
            self.assertEqual((outcome.answer.code, outcome.did), (Code.CONTROLLER_MASTER_NOT_AVAILABLE, Did.NOTHING))
        group = self.group()
        self.assertEqual((group.master, group.master_epoch, group.in_sync, group.set_epoch), (0, 2, (1,), 3))
        self.assertEqual((self.elect(1, 2, asker=1).answer.fields or {})["masterEpoch"], "3")

    def test_unclean(self) -> None:
        """Only where the evidence says that it is allowed, and only when the set has nobody."""
        self.controller.apply(AlterSyncStateSet("", NAME, 1, 1, 2, (1, 2), knows(1, 2, 3)))
        self.assertEqual((self.elect(2, 3, unclean=True).answer.fields or {})["masterBrokerId"], "2")
        self.assertEqual(self.elect(3).answer.code, Code.CONTROLLER_MASTER_NOT_AVAILABLE)
        self.assertEqual((self.elect(3, unclean=True).answer.fields or {})["masterBrokerId"], "3")

    def test_strangers_in_the_evidence(self) -> None:
        """A heartbeat of an id that is not registered counts for nothing."""
        self.assertEqual(self.elect(8, 9, unclean=True).answer.code, Code.CONTROLLER_MASTER_NOT_AVAILABLE)

    def test_stale_suspicion(self) -> None:
        """An election about a master that was replaced meanwhile does not replace its successor."""
        about = {"expected_master": 1, "expected_epoch": 1}
        first = self.controller.apply(gone(knows(2, 3), **about))
        self.assertEqual(first.answer.code, 0)
        before = contents(self.controller.state)
        second = self.controller.apply(gone(knows(3), **about))
        self.assertEqual((second.answer.code, second.did), (Code.CONTROLLER_FENCED_MASTER_EPOCH, Did.NOTHING))
        self.assertEqual(contents(self.controller.state), before)
        again = self.controller.apply(gone(knows(3), expected_master=2, expected_epoch=1))
        self.assertEqual(again.answer.code, Code.CONTROLLER_FENCED_MASTER_EPOCH)


class TakeBackTests(SynchronousTestCase):
    """A23: master and one slave die together; the dying slave is elected; the third holds everything."""

    def setUp(self) -> None:
        self.controller = Controller()
        make_group(self.controller)

    def first(self, confirms: bool = False) -> Outcome:
        """The master is dead; 2 is ahead and wins."""
        alive = (Alive(2, 1, 200, confirms=confirms), Alive(3, 1, 100, confirms=confirms))
        return self.controller.apply(gone(Evidence(why=Why.PORT_REFUSED, alive=alive)))

    def second(self, never_told: int, *alive: int, **others: object) -> Outcome:
        """The winner is dead too."""
        return self.controller.apply(gone(knows(*(alive or (3,)), never_told=never_told), **others))

    def test_winner_that_never_heard(self) -> None:
        """The leader vouches for it: the set before that election elects again; that set is kept for a third time."""
        self.assertEqual((self.first().answer.fields or {})["masterBrokerId"], "2")
        index = len(self.controller.log)
        outcome = self.second(index)
        self.assertEqual((outcome.did, (outcome.answer.fields or {})["masterBrokerId"]), (Did.TAKEN_BACK, "3"))
        group = self.controller.state.group(CLUSTER, NAME)
        assert group is not None
        self.assertEqual((group.in_sync, group.master_epoch, group.set_epoch), ((3,), 3, 4))
        self.assertEqual(group.unconfirmed, Unconfirmed(3, index + 1, (1, 2, 3), False))
        self.assertEqual([notice.receiver_id for notice in outcome.notices], [2, 3, 1])
        outcome = self.second(index + 1, 1)
        self.assertEqual((outcome.did, (outcome.answer.fields or {})["masterBrokerId"]), (Did.TAKEN_BACK, "1"))

    def former(self) -> tuple[int, ...]:
        """Who may be elected although the set is the winner alone."""
        group = self.controller.state.group(CLUSTER, NAME)
        assert group is not None
        return group.former

    def test_who_may_be_elected_if_the_winner_dies(self) -> None:
        """The set before, also once the group has no master, until the winner is confirmed."""
        self.assertEqual(self.former(), ())
        self.first(confirms=True)
        self.assertEqual(self.former(), (1, 2, 3))
        self.assertEqual(self.second(0, 9).did, Did.UNSEATED)
        self.assertEqual(self.former(), (1, 2, 3))

    def test_nobody_else_may_be_if_it_may_have_acknowledged(self) -> None:
        """Java's winner as soon as it hears, ours once it is confirmed."""
        self.first(confirms=False)
        self.assertEqual(self.former(), ())

    def test_nobody_vouches(self) -> None:
        """A Java winner acknowledges as soon as it hears: it may have, so its election stands."""
        self.first()
        for never_told in (0, len(self.controller.log) - 1, len(self.controller.log) + 1):
            outcome = self.second(never_told)
            self.assertEqual(outcome.answer.code, Code.CONTROLLER_MASTER_NOT_AVAILABLE, never_told)

    def test_after_it_was_unseated(self) -> None:
        """The third broker may come a little later."""
        self.first()
        index = len(self.controller.log)
        self.assertEqual(self.second(index, 9).did, Did.UNSEATED)
        self.assertEqual(self.second(index).did, Did.TAKEN_BACK)

    def test_winner_that_lives(self) -> None:
        """Nothing to take back."""
        self.first()
        outcome = self.second(len(self.controller.log), 2, 3)
        self.assertEqual(outcome.answer.code, Code.CONTROLLER_MASTER_STILL_EXIST)

    def test_broker_that_confirms(self) -> None:
        """It acknowledges nothing before it is confirmed: no vouching is needed until it is."""
        self.first(confirms=True)
        self.assertEqual(self.second(0).did, Did.TAKEN_BACK)
        self.setUp()
        self.first(confirms=True)
        self.controller.apply(ConfirmMaster(CLUSTER, NAME, 2, 2))
        self.assertEqual(self.second(0).answer.code, Code.CONTROLLER_MASTER_NOT_AVAILABLE)

    def test_what_confirms(self) -> None:
        """Any entry that shows that the winner knows: its report, granted or not, its registration, its own request."""
        everybody = knows(1, 2, 3)
        for event in (
            AlterSyncStateSet("", NAME, 2, 2, 3, (2, 3), knows(2, 3)),
            AlterSyncStateSet("", NAME, 2, 2, 3, (2,), knows(2, 3)),
            AlterSyncStateSet("", NAME, 2, 2, 9, (2, 3), knows(2, 3)),
            AlterSyncStateSet("", NAME, 2, 2, 3, (2, 1), knows(2, 3)),
            RegisterBroker(CLUSTER, NAME, 2, "10.0.0.2:10911", everybody),
            RegisterBroker(CLUSTER, NAME, 2, "10.9.9.9:1", everybody),
            ElectMaster(CLUSTER, NAME, 2, evidence=everybody),
        ):
            self.setUp()
            self.first()
            index = len(self.controller.log)
            self.controller.apply(event)
            self.assertNotEqual(self.second(index).did, Did.TAKEN_BACK, event)

    def test_what_does_not_confirm(self) -> None:
        """Other brokers' requests, and the winner's with the epoch it had before."""
        for event in (
            AlterSyncStateSet("", NAME, 2, 1, 2, (2, 3), knows(2, 3)),
            AlterSyncStateSet("", NAME, 1, 1, 2, (1, 3), knows(1, 3)),
            RegisterBroker(CLUSTER, NAME, 3, "10.0.0.3:10911", knows(1, 2, 3)),
            ElectMaster(CLUSTER, NAME, 3, evidence=knows(2, 3)),
        ):
            self.setUp()
            self.first()
            index = len(self.controller.log)
            self.controller.apply(event)
            self.assertEqual(self.second(index).did, Did.TAKEN_BACK, event)

    def test_asker_knows_at_once(self) -> None:
        """Who is elected because it asked reads it in the answer."""
        self.controller.apply(gone(knows()))
        self.controller.apply(ElectMaster(CLUSTER, NAME, 2, evidence=knows(2, 3)))
        self.assertEqual(self.second(len(self.controller.log)).answer.code, Code.CONTROLLER_MASTER_NOT_AVAILABLE)
