"""Broker ids (seed S3, regression rows D5, E1, E2, invariant 16): who gets which, crashes, cleaning, adoption."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller import audit, registration
from rocketha.controller import group as group_module
from rocketha.controller.events import (
    Alive,
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    ElectMaster,
    Evidence,
    RegisterBroker,
)
from rocketha.controller.group import ADOPTED_EPOCH_MARGIN, ADOPTED_SET_EPOCH, BrokerGroup, Did
from rocketha.controller.registration import ID_GAP_MAX, MEMBERS_MAX
from rocketha.controller.state import ControllerState
from rocketha.wire.codes import ResponseCode as Code
from rocketha.wire.remoting import Answer, request
from tests.controller.support import CLUSTER, NAME, Controller, code_of, contents, gone, knows, make_group

NAMED = {"clusterName": CLUSTER, "brokerName": NAME}


def apply_id(broker_id: int, check_code: str = "") -> ApplyBrokerId:
    return ApplyBrokerId(CLUSTER, NAME, broker_id, check_code or code_of(broker_id))


def group_of(controller: Controller, name: str = NAME) -> BrokerGroup:
    group = controller.state.group(CLUSTER, name)
    assert group is not None
    return group


class Broker:
    """A broker's side of S3: its two files survive a crash, the rest does not.

    ``step`` does one of the five steps; a crash is simply not to go on.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.temp: tuple[int, str] | None = None  # file brokerIdentity-temp
        self.final: int | None = None  # file brokerIdentity
        self._seen = 0
        self._clock = 0

    def steps(self, controller: Controller) -> list[str]:
        """The names of the steps left."""
        if self.final is not None:
            return []
        return ["apply", "final"] if self.temp is not None else ["ask", "temp", "apply", "final"]

    def step(self, controller: Controller, name: str, answered: bool = True) -> bool:
        """Do one; whether to go on.

        :param answered: false if the answer to it is lost: the broker dies waiting.
        """
        if name == "ask":
            self._seen = int((controller.ask(request(1012, NAMED)).fields or {})["nextBrokerId"])
        elif name == "temp":
            self._clock += 1
            self.temp = (self._seen, f"{self.address};{self._clock}")
        elif name == "apply":
            assert self.temp is not None
            fields = {**NAMED, "appliedBrokerId": str(self.temp[0]), "registerCheckCode": self.temp[1]}
            if controller.ask(request(1013, fields)).code != 0 and answered:
                self.temp = None
                return False
        else:
            assert self.temp is not None
            self.final, self.temp = self.temp[0], None
        return answered

    def run(self, controller: Controller, dies_after: int | None = None, answered: bool = True) -> None:
        """Until it has its id, or it died after so many steps."""
        done = 0
        while self.final is None:
            for name in self.steps(controller):
                dies = dies_after is not None and done + 1 >= dies_after
                go_on = self.step(controller, name, answered or not dies)
                done += 1
                if dies:
                    return
                if not go_on:
                    break


class CrashTests(SynchronousTestCase):
    """S3.17 to S3.19: the broker dies at each step, its answer lost or not, and comes back."""

    def test_one_id_each(self) -> None:
        """Never two ids for one broker, never one id for two, and none is wasted."""
        for dies_after in range(1, 5):
            for answered in (True, False):
                controller, broker, other = Controller(), Broker("h1:1"), Broker("h2:1")
                broker.run(controller, dies_after, answered)
                other.run(controller)
                broker.run(controller)
                self.assertEqual(sorted([broker.final, other.final]), [1, 2], (dies_after, answered))
                self.assertEqual(sorted(group_of(controller).members), [1, 2])
                broker.run(controller)
                self.assertEqual(sorted(group_of(controller).members), [1, 2])

    def test_other_broker_in_between(self) -> None:
        """S3.13, S3.18: both wrote down the same id; one gets it, the other starts again."""
        controller, broker, other = Controller(), Broker("h1:1"), Broker("h2:1")
        broker.run(controller, 2)
        other.run(controller, 2)
        self.assertEqual((broker.temp or (0,))[0], (other.temp or (0,))[0])
        other.run(controller)
        broker.run(controller)
        self.assertEqual((other.final, broker.final), (1, 2))

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.booleans()), max_size=25))
    def test_any_interleaving(self, deaths: list[tuple[int, int, bool]]) -> None:
        """Four brokers die and return in any order: the ids are a permutation without gaps (linearizable register)."""
        controller = Controller()
        brokers = [Broker(f"h{number}:1") for number in range(4)]
        owners: dict[int, str] = {}
        for number, dies_after, answered in deaths:
            brokers[number].run(controller, dies_after, answered)
            group = controller.state.group(CLUSTER, NAME)
            for broker_id, member in (group.members if group is not None else {}).items():
                self.assertEqual(owners.setdefault(broker_id, member.check_code), member.check_code)
        for broker in brokers:
            broker.run(controller)
        self.assertEqual(sorted([broker.final for broker in brokers if broker.final]), [1, 2, 3, 4])
        for broker in brokers:
            assert broker.final is not None
            self.assertEqual(group_of(controller).members[broker.final].address, broker.address)


class ApplyTests(SynchronousTestCase):
    """1013."""

    def setUp(self) -> None:
        self.controller = Controller()

    def test_first(self) -> None:
        """The address stands in the check code, up to the first semicolon."""
        outcome = self.controller.apply(apply_id(1))
        self.assertEqual((outcome.answer, outcome.did), (Answer(fields=NAMED), Did.ID_APPLIED))
        self.assertEqual(group_of(self.controller).addresses, {1: "10.0.0.1:10911"})

    def test_first_must_be_1(self) -> None:
        """In a group that nobody knows."""
        answer = self.controller.apply(apply_id(2)).answer
        remark = "Broker-set: b hasn't been registered in controller, but broker try to apply brokerId: 2"
        self.assertEqual(answer, Answer(Code.CONTROLLER_BROKER_ID_INVALID, remark, NAMED))
        self.assertIsNone(self.controller.state.group(CLUSTER, NAME))

    def test_idempotent(self) -> None:
        """The same check code again and again: success, and nothing moves."""
        self.controller.apply(apply_id(1))
        for _ in range(3):
            outcome = self.controller.apply(apply_id(1))
            self.assertEqual((outcome.answer.code, outcome.did), (0, Did.NOTHING))
        self.assertEqual(group_of(self.controller).next_id, 2)

    def test_taken(self) -> None:
        """Another check code: no."""
        self.controller.apply(apply_id(1))
        answer = self.controller.apply(apply_id(1, "h9:1;5")).answer
        self.assertEqual((answer.code, answer.remark), (2014, "Fail to apply brokerId: 1 in broker-set: b"))
        self.assertEqual(group_of(self.controller).addresses[1], "10.0.0.1:10911")

    def test_bounds(self) -> None:
        """Ids far away, below 1, and more brokers than a group may have."""
        self.controller.apply(apply_id(1))
        for broker_id in (0, -1, 2 + ID_GAP_MAX, 2**63 - 1, -(2**63)):
            self.assertEqual(self.controller.apply(apply_id(broker_id)).answer.code, 2014, broker_id)
        self.assertEqual(self.controller.apply(apply_id(1 + ID_GAP_MAX)).answer.code, 0)
        for broker_id in range(2 + ID_GAP_MAX, ID_GAP_MAX + MEMBERS_MAX):
            self.assertEqual(self.controller.apply(apply_id(broker_id)).answer.code, 0)
        self.assertEqual(self.controller.apply(apply_id(ID_GAP_MAX + MEMBERS_MAX)).answer.code, 1)

    @settings(max_examples=80, deadline=None)
    @given(st.lists(st.tuples(st.integers(-1, 9), st.integers(1, 4), st.sampled_from("aaaac")), max_size=40))
    def test_one_check_code_an_id(self, steps: list[tuple[int, int, str]]) -> None:
        """Whatever is applied for and cleaned: an id has one owner for ever, and next_id was never given."""
        owners: dict[int, str] = {}
        for broker_id, host, what in steps:
            if what == "c":
                self.controller.apply(CleanBrokerData(CLUSTER, NAME, (broker_id,) if host > 1 else (), host == 3))
                continue
            check_code = f"h{host}:1;{host}"
            if self.controller.apply(apply_id(broker_id, check_code)).answer.code == 0:
                self.assertEqual(owners.setdefault(broker_id, check_code), check_code)
            answer = self.controller.ask(request(1012, NAMED))
            self.assertNotIn(int((answer.fields or {})["nextBrokerId"]), owners)


class RegisterTests(SynchronousTestCase):
    """1003."""

    def setUp(self) -> None:
        self.controller = Controller()
        make_group(self.controller, 2, (1, 2))

    def _register(self, broker_id: int, address: str = "", evidence: Evidence | None = None) -> Answer:
        address = address or f"10.0.0.{broker_id}:10911"
        return self.controller.apply(RegisterBroker(CLUSTER, NAME, broker_id, address, evidence or knows(1, 2))).answer

    def test_unknown(self) -> None:
        """A group, an id."""
        answer = self.controller.apply(RegisterBroker(CLUSTER, "x", 1, "h:1")).answer
        remark = "Broker-set: x hasn't been registered in controller"
        self.assertEqual((answer.code, answer.remark), (Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark))
        answer = self._register(7)
        remark = "BrokerId: 7 hasn't been registered in broker-set: b"
        self.assertEqual((answer.code, answer.remark), (Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark))

    def test_master_is_named_while_alive(self) -> None:
        """A dead master is not, and registering elects nobody."""
        epochs = {"syncStateSetEpoch": "2", "masterEpoch": "1"}
        wanted = {"masterBrokerId": "1", "masterAddress": "10.0.0.1:10911", **NAMED, **epochs}
        self.assertEqual(list((self._register(2).fields or {}).items()), list(wanted.items()))
        answer = self._register(2, evidence=knows(2))
        self.assertEqual(answer, Answer(fields=NAMED, body=b'{"syncStateSet":[1,2],"syncStateSetEpoch":2}'))

    def test_another_address_is_the_same_broker(self) -> None:
        """E1, S3.2: new IP, same id, same membership; notices and answers carry the new address."""
        answer = self._register(1, "10.9.9.9:1")
        self.assertEqual((answer.fields or {})["masterAddress"], "10.0.0.1:10911")  # as Java: the address before
        group = group_of(self.controller)
        self.assertEqual((group.addresses[1], group.in_sync, group.master), ("10.9.9.9:1", (1, 2), 1))
        self.assertEqual((self._register(2).fields or {})["masterAddress"], "10.9.9.9:1")
        self.assertEqual(group.members[1].check_code, code_of(1))


class CleanTests(SynchronousTestCase):
    """1011."""

    def setUp(self) -> None:
        self.controller = Controller()
        make_group(self.controller)

    def _clean(self, *broker_ids: int, living: bool = False, alive: tuple[int, ...] = (), name: str = NAME) -> Answer:
        return self.controller.apply(CleanBrokerData(CLUSTER, name, broker_ids, living, knows(*alive))).answer

    def test_refusals(self) -> None:
        """In this order: a master, a living id, an unknown group."""
        code = Code.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
        self.assertEqual(self._clean(), Answer(code, "Broker b is still alive, clean up failure"))
        answer = self._clean(2, 3, alive=(3,))
        self.assertEqual(answer, Answer(code, "Broker [b,  3] is still alive, clean up failure"))
        self.assertEqual(self._clean(1, name="x"), Answer(code, "Broker x is not existed,clean broker data failure."))

    def test_ids(self) -> None:
        """A member of the set leaves it, and the set's epoch says so; unknown ids are skipped."""
        self.assertEqual(self._clean(3, 7), Answer())
        group = group_of(self.controller)
        self.assertEqual(
            (sorted(group.members), group.in_sync, group.set_epoch, group.retired), ([1, 2], (1, 2), 3, (3,))
        )
        self.assertEqual((group.master, group.master_epoch), (1, 1))
        before = contents(self.controller.state)
        self._clean(7)
        self.assertEqual(contents(self.controller.state), before)

    def test_the_master(self) -> None:
        """The group has no master then, and a new epoch tells the brokers."""
        self._clean(1)
        group = group_of(self.controller)
        self.assertEqual((group.master, group.master_epoch, group.in_sync, group.set_epoch), (0, 2, (2, 3), 3))
        answer = self.controller.apply(ElectMaster(CLUSTER, NAME, 3, evidence=knows(2, 3))).answer
        self.assertEqual((answer.fields or {})["masterBrokerId"], "2")

    def test_all_of_the_set(self) -> None:
        """The others stay, and none of them may become master unless unclean elections are allowed."""
        self.controller.apply(ElectMaster(CLUSTER, NAME, -1, evidence=knows(2, 3)))
        self._clean(2)
        self.assertEqual(group_of(self.controller).in_sync, ())
        self.assertEqual(self.controller.apply(ElectMaster(CLUSTER, NAME, 3, evidence=knows(1, 3))).answer.code, 2012)
        unclean = self.controller.apply(ElectMaster(CLUSTER, NAME, 3, evidence=knows(3, unclean=True))).answer
        self.assertEqual((unclean.fields or {})["masterBrokerId"], "3")

    def test_a_living_group(self) -> None:
        """Is not forgotten, whatever is asked; nothing changes."""
        before = contents(self.controller.state)
        for alive in ((1, 2, 3), (3,)):
            for ids in ((), (3,), (1, 2, 3)):
                answer = self._clean(*ids, living=True, alive=alive)
                self.assertEqual(answer.code, Code.CONTROLLER_INVALID_CLEAN_BROKER_METADATA)
                self.assertIn("stop it first", answer.remark or "")
        self.assertEqual(contents(self.controller.state), before)

    def test_forgotten(self) -> None:
        """With living=true the ids are ignored; ids and epochs go on from where they were."""
        self.assertEqual(self._clean(3, living=True), Answer())
        self.assertIsNone(self.controller.state.group(CLUSTER, NAME))
        self.assertEqual(self.controller.ask(request(1004, {"brokerName": NAME})).code, 2008)
        self.assertEqual(self.controller.apply(apply_id(1)).answer.code, 2014)
        self.assertEqual(self.controller.apply(apply_id(4)).answer.code, 0)
        says_so = Evidence(operator=True)
        elected = self.controller.apply(ElectMaster(CLUSTER, NAME, 4, True, evidence=says_so)).answer
        self.assertEqual(elected.code, 0)
        group = group_of(self.controller)
        self.assertEqual((group.master_epoch, group.set_epoch, group.in_sync), (3, 4, (4,)))
        self.assertEqual(self.controller.state.clusters_of(NAME), (CLUSTER,))

    def _register(self, broker_id: int, port: int = 10911, host: str = "") -> int:
        evidence = Evidence(asker=f"{host or f'10.0.0.{broker_id}'}:7")
        event = RegisterBroker(CLUSTER, NAME, broker_id, f"10.0.0.{broker_id}:{port}", evidence)
        return self.controller.apply(event).answer.code

    def _elect(self, asker: int, *alive: Alive, designate: bool = False, **others: bool) -> Answer:
        evidence = Evidence(alive=alive, **others)
        return self.controller.apply(ElectMaster(CLUSTER, NAME, asker, designate, evidence=evidence)).answer

    def test_a_cleaned_member_comes_back(self) -> None:
        """At its address and from there; not into the set; and its id is nobody else's meanwhile."""
        self._clean(3)
        self.assertEqual([self._register(3, 9), self._register(3, host="10.0.0.9")], [2010, 2010])
        self.assertEqual((self._register(3), self._register(3)), (0, 0))
        group = group_of(self.controller)
        self.assertEqual(
            (sorted(group.members), group.in_sync, group.retired, group.cleaned), ([1, 2, 3], (1, 2), (), {})
        )
        again = ControllerState()
        again.restore(self.controller.state.snapshot())
        self.assertEqual(contents(again), contents(self.controller.state))

    def test_who_leads_what_was_forgotten(self) -> None:
        """Whoever of the last SyncStateSet comes back; no newcomer, whatever he says he holds."""
        self.controller.apply(AlterSyncStateSet(CLUSTER, NAME, 1, 1, 2, (1, 2), knows(1, 2)))
        self._clean(living=True)
        self.controller.apply(apply_id(4))
        self.assertEqual(self._register(3), 0)  # it was a member, and not in the set
        newcomer, outsider = Alive(4, 9, 9_999), Alive(3, 9, 9_998)
        for asker, designate in ((4, False), (4, True), (3, False), (3, True)):
            answer = self._elect(asker, newcomer, outsider, designate=designate)
            self.assertEqual(answer.code, 2012)
            self.assertIn("broker 1 of 10.0.0.1:10911, broker 2 of 10.0.0.2:10911", answer.remark or "")
            self.assertIn("mqadmin electMaster", answer.remark or "")
        self.assertEqual(self.controller.apply(gone(Evidence(alive=(newcomer, outsider)))).answer.code, 2004)
        self.assertEqual(self._register(2), 0)
        whole = self.controller.state.snapshot()
        for asker, alive, winner in (
            (2, (newcomer,), "2"),  # it need not have been heard yet
            (-1, (newcomer, outsider, Alive(2)), "2"),
            (4, (newcomer, Alive(2, 1, 1)), "2"),
        ):
            self.controller.state.restore(whole)
            self.assertEqual((self._elect(asker, *alive).fields or {})["masterBrokerId"], winner)
        self.assertEqual((group_of(self.controller).holders, self._register(1)), ((), 0))

    def test_who_is_ahead_of_those_that_came_back(self) -> None:
        """By its heartbeat, whoever asks."""
        self._clean(living=True)
        for broker_id in (1, 2, 3):
            self._register(broker_id)
        answer = self._elect(1, Alive(1, 2, 5), Alive(2, 2, 7), Alive(3, 1, 9))
        self.assertEqual((answer.fields or {})["masterBrokerId"], "2")

    def test_all_of_the_set_comes_back(self) -> None:
        """Cleaned one by one while an outsider stays; and once it is registered elsewhere it holds nothing."""
        self.controller.apply(AlterSyncStateSet(CLUSTER, NAME, 1, 1, 2, (1,), knows(1)))
        self._clean(1)
        self.assertEqual(self._elect(2, Alive(2), Alive(3), designate=True).code, 2012)
        self.assertEqual(self._register(1), 0)
        group = group_of(self.controller)
        self.assertEqual((group.returned, group.former, group.in_sync), ((1,), (1,), ()))
        self._register(1, host="10.0.0.9")
        self.assertEqual((group.returned, group.holders), ((), (1,)))
        self._register(1, 9)
        self.assertEqual((group.returned, group.holders), ((), ()))
        self.assertEqual(self._elect(2, Alive(2), designate=True).code, 2012)
        self.assertEqual(self._elect(2, Alive(2), designate=True, operator=True).code, 0)

    def test_the_cleaned_are_bounded(self) -> None:
        """The oldest is forgotten, but for those that hold what was acknowledged."""
        self.patch(group_module, "CLEANED_MAX", 3)
        self._clean(living=True)
        for broker_id in (4, 5, 6):
            self.controller.apply(apply_id(broker_id))
            self._clean(broker_id)
        found = self.controller.state.record(CLUSTER, NAME)
        assert found is not None
        self.assertEqual((list(found.cleaned), found.holders), ([1, 2, 3], (1, 2, 3)))

    def test_bounded(self) -> None:
        """What must be remembered of cleaned ids has an end; the whole group can still be cleaned."""
        self.patch(registration, "RETIRED_MAX", 1)
        self.assertEqual(self._clean(2).code, 0)
        self.assertEqual(self._clean(3).code, Code.CONTROLLER_INVALID_CLEAN_BROKER_METADATA)
        self.assertEqual(self._clean(living=True).code, 0)

    def test_every_id_one_by_one(self) -> None:
        """A group without brokers is forgotten."""
        self._clean(1, 2, 3)
        self.assertIsNone(self.controller.state.group(CLUSTER, NAME))
        self.assertEqual(self.controller.state.clusters_of(NAME), ())


class RehomeTests(SynchronousTestCase):
    """E4: a broker moves to another group.  Cleaning its old id is enough, fences it there, and is on record."""

    def test_move(self) -> None:
        """Stopped, cleaned out of the old group, its identity file removed, started under the new name."""
        controller = Controller()
        make_group(controller)
        make_group(controller, 2, (1, 2), name="b2")
        fields = {**NAMED, "brokerControllerIdsToClean": "3", "isCleanLivingBroker": "false"}
        controller.ask(request(904, {**NAMED, "brokerId": "3", "heartbeatTimeoutMills": "1000"}))
        self.assertEqual(controller.ask(request(1011, fields)).code, 2009)  # still running
        controller.ask(request(904, {**NAMED, "brokerId": "3", "heartbeatTimeoutMills": "-1"}))
        self.assertEqual(controller.ask(request(1011, fields)).code, 0)
        again = controller.ask(request(1003, {**NAMED, "brokerId": "3", "brokerAddress": "10.0.0.3:10912"}))
        self.assertEqual(again.code, Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)  # with its old identity file
        taken = controller.ask(request(1013, {**NAMED, "appliedBrokerId": "3", "registerCheckCode": code_of(3)}))
        self.assertEqual(taken.code, Code.CONTROLLER_BROKER_ID_INVALID)  # with its old temporary file
        moved = {"clusterName": CLUSTER, "brokerName": "b2"}
        self.assertEqual((controller.ask(request(1012, moved)).fields or {})["nextBrokerId"], "3")
        applied = controller.ask(request(1013, {**moved, "appliedBrokerId": "3", "registerCheckCode": code_of(3)}))
        self.assertEqual(applied.code, 0)
        last = audit.trail(group_of(controller))[-1]
        self.assertEqual((last["did"], last["asker"], last["request"]["brokerIds"]), ("CLEANED", "10.0.0.9:1", [3]))


class AdoptTests(SynchronousTestCase):
    """D5: all controllers lost their disks; the brokers kept theirs."""

    def _register(self, controller: Controller, broker_id: int, adopt: bool = True) -> Answer:
        evidence = knows(broker_id, adopt=adopt)
        return controller.apply(RegisterBroker(CLUSTER, NAME, broker_id, f"h{broker_id}:1", evidence)).answer

    def test_off_by_default(self) -> None:
        """As Java: 2010."""
        self.assertEqual(self._register(Controller(), 2, adopt=False).code, 2010)

    def test_brokers_keep_their_ids(self) -> None:
        """In any order; nobody can apply for them; newcomers come after."""
        controller = Controller()
        for broker_id in (3, 1, 2):
            self.assertEqual(self._register(controller, broker_id).code, 0)
        self.assertEqual(sorted(group_of(controller).members), [1, 2, 3])
        for broker_id in (1, 2, 3):
            self.assertEqual(controller.apply(apply_id(broker_id, "x:1;")).answer.code, 2014)
        self.assertEqual((controller.ask(request(1012, NAMED)).fields or {})["nextBrokerId"], "4")

    def test_nobody_is_elected_by_asking(self) -> None:
        """Nobody knows who holds what was acknowledged: an operator chooses, and the epochs begin above the logs'."""
        controller = Controller()
        for broker_id in (1, 2):
            self._register(controller, broker_id)
        evidence = knows(1, 2)
        for designate in (False, True):
            refused = controller.apply(ElectMaster(CLUSTER, NAME, 1, designate, evidence=evidence)).answer
            self.assertEqual(refused.code, 2012)
        answer = controller.apply(ElectMaster(CLUSTER, NAME, 2, True, evidence=knows(1, 2, operator=True))).answer
        wanted = {"masterEpoch": str(2 + ADOPTED_EPOCH_MARGIN), "syncStateSetEpoch": str(ADOPTED_SET_EPOCH + 1)}
        self.assertEqual({key: (answer.fields or {})[key] for key in wanted}, wanted)
        group = group_of(controller)
        self.assertEqual((str(group.master_epoch), str(group.set_epoch)), tuple(wanted.values()))

    def test_a_second_adoption(self) -> None:
        """The controllers lost their disks again: both epochs begin above those of the adoption before."""
        epoch, set_epoch = 2, 0
        for _ in range(5):
            controller = Controller()
            for broker_id in (1, 2):
                self._register(controller, broker_id)
            alive = tuple(replica._replace(epoch=epoch) for replica in knows(1, 2).alive)
            controller.apply(ElectMaster(CLUSTER, NAME, 2, True, evidence=Evidence(alive=alive, operator=True)))
            group = group_of(controller)
            self.assertGreater(group.master_epoch, epoch)
            self.assertGreater(group.set_epoch, set_epoch + 1000)
            self.assertLess(group.set_epoch, 2**31)
            epoch, set_epoch = group.master_epoch, group.set_epoch

    def test_bounded(self) -> None:
        """A group has so many brokers, also of this kind."""
        self.patch(registration, "MEMBERS_MAX", 2)
        controller = Controller()
        codes = [self._register(controller, broker_id).code for broker_id in (1, 2, 3, 0, -1)]
        self.assertEqual(codes, [0, 0, 2010, 2010, 2010])
        self.assertEqual(self._register(Controller(), 1 + ID_GAP_MAX).code, 2010)

    def test_cleaned_ids_stay_away(self) -> None:
        """Neither in a group of adopted brokers nor in one that was always known."""
        controller = Controller()
        for broker_id in (1, 2, 3):
            self._register(controller, broker_id)
        controller.apply(CleanBrokerData(CLUSTER, NAME, (2,)))
        registers = RegisterBroker(CLUSTER, NAME, 2, "h2:2", knows(2, adopt=True))  # elsewhere than it was
        self.assertEqual(controller.apply(registers).answer.code, 2010)
        controller = Controller()
        make_group(controller)
        controller.apply(CleanBrokerData(CLUSTER, NAME, (), True))
        self.assertEqual(self._register(controller, 2).code, 2010)
        self.assertEqual(self._register(controller, 4).code, 0)
        self.assertFalse(group_of(controller).adopted)
