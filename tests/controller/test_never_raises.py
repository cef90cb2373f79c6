"""Whatever the log holds, applying it raises nowhere: an entry that did would end every controller, at each start."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller import events
from rocketha.controller.events import (
    Alive,
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    ConfirmMaster,
    ElectMaster,
    Event,
    Evidence,
    RegisterBroker,
)
from rocketha.controller.state import ControllerState

INT = st.sampled_from([-(2**31), -1, 0, 1, 2, 100, 2**31 - 2**17, 2**31 - 200, 2**31 - 1])
LONG = st.one_of(st.sampled_from([-(2**63), -1, 0, 2**31, 2**63 - 1]), st.integers(1, 3))
ID = st.one_of(st.integers(1, 3), st.sampled_from([-(2**63), -1, 0, 1024, 2**63 - 1]))
NAME = st.sampled_from(["a", "b"])
ALIVE = st.lists(st.builds(Alive, ID, INT, LONG, INT, st.booleans()), max_size=3).map(tuple)
EVIDENCE = st.builds(Evidence, unclean=st.booleans(), adopt=st.just(True), never_told=LONG, alive=ALIVE)
IDS = st.lists(ID, max_size=3, unique=True).map(sorted).map(tuple)
EVENT = st.one_of(
    st.builds(ApplyBrokerId, st.just("C"), NAME, ID, st.just("h:1;1"), EVIDENCE),
    st.builds(RegisterBroker, st.just("C"), NAME, ID, st.just("h:1"), EVIDENCE),
    st.builds(ElectMaster, st.just("C"), NAME, ID, st.booleans(), LONG, INT, EVIDENCE, INT),
    st.builds(AlterSyncStateSet, st.just("C"), NAME, ID, INT, INT, IDS, EVIDENCE),
    st.builds(CleanBrokerData, st.just("C"), NAME, IDS, st.booleans(), EVIDENCE),
    st.builds(ConfirmMaster, st.just("C"), NAME, ID, INT, EVIDENCE),
)


class NeverRaisesTests(SynchronousTestCase):
    @settings(max_examples=60, deadline=None)
    @given(st.lists(EVENT, max_size=12))
    def test_any_entries(self, found: list[Event]) -> None:
        """Extremes of every field, in any order; and the state after it can be saved and restored."""
        state = ControllerState()
        for index, event in enumerate(found, 1):
            state.apply_entry(events.encode(event), index)
        again = ControllerState()
        again.restore(state.snapshot())
        self.assertEqual(again.snapshot(), state.snapshot())

    def test_epoch_of_an_adopted_set(self) -> None:
        """One hostile heartbeat made the first election overflow 32 bits, on all controllers."""
        state = ControllerState()
        evidence = Evidence(adopt=True, alive=(Alive(1, 2**31 - 48),))
        for index, event in enumerate(
            (RegisterBroker("C", "a", 1, "h:1", evidence), ElectMaster("C", "a", 1, True, evidence=evidence)), 1
        ):
            outcome = state.apply_entry(events.encode(event), index)
        self.assertEqual((outcome.answer.code, state.group("C", "a").master_id), (2012, None))

    def test_election_of_a_set_without_master_is_fenced(self) -> None:
        """A master elected a moment before is not unseated by it."""
        state = ControllerState()
        both = Evidence(alive=(Alive(1, 1, 9), Alive(2, 1, 9)))
        two = Evidence(alive=(Alive(2, 1, 9),))
        for index, event in enumerate(
            (
                ApplyBrokerId("C", "a", 1, "h:1;1"),
                ApplyBrokerId("C", "a", 2, "h:2;1"),
                ElectMaster("C", "a", 1, evidence=both),
                AlterSyncStateSet("C", "a", 1, 1, 1, (1, 2), both),
                ElectMaster("C", "a", expected_master=1, expected_epoch=1),
                ElectMaster("C", "a", 1, evidence=both),
                ElectMaster("C", "a", expected_master=0, expected_epoch=2, evidence=two),
            ),
            1,
        ):
            state.apply_entry(events.encode(event), index)
        group = state.group("C", "a")
        assert group is not None
        self.assertEqual((group.master_id, group.master_epoch), (1, 3))
