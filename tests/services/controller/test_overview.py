"""What a controller's page costs where there are a great many groups."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller import events
from rocketha.controller.events import Alive, ApplyBrokerId, ElectMaster, Event, Evidence
from rocketha.controller.liveness import Liveness
from rocketha.controller.state import ControllerState
from rocketha.observe.overview import Overview
from rocketha.observe.refusals import Refusals
from rocketha.observe.timeline import MOMENTS_MAX
from rocketha.services.controller import trail
from rocketha.services.controller.overview import ControllerOverview

GROUPS = MOMENTS_MAX + 50


class ManyGroupsTests(SynchronousTestCase):
    """Each has one broker, elected in the order of its number."""

    def setUp(self) -> None:
        self.state, self.index = ControllerState(), 0
        for number in range(GROUPS):
            self.decide(ApplyBrokerId("C", f"b{number}", 1, f"10.0.0.{number}:10911;x"))
        for number in range(GROUPS):
            self.elect(number)
        config: Any = SimpleNamespace(controller_dleger_self_id="n1", peers={})
        refusals = Refusals("controller", time.monotonic)
        self.page = ControllerOverview(config, self.state, lambda group, now_ms: (), refusals)

    def decide(self, event: Event) -> None:
        self.index += 1
        self.state.apply_entry(events.encode(event), self.index)

    def elect(self, number: int) -> None:
        evidence = Evidence(now_ms=self.index, alive=(Alive(1, 1, 5),), operator=True)
        self.decide(ElectMaster("C", f"b{number}", 1, True, evidence=evidence))

    def look(self) -> tuple[Overview, int]:
        """The page, and of how many groups decisions were decoded for it."""
        detector: Any = SimpleNamespace(states=dict)
        with mock.patch.object(trail, "moments", mock.Mock(wraps=trail.moments)) as moments:
            return self.page.of(Liveness(5000), detector, 0, None), moments.call_count

    def test_no_more_is_decoded_than_is_shown(self) -> None:
        """And only once; the newest are there."""
        page, decoded = self.look()
        self.assertEqual(decoded, MOMENTS_MAX)
        groups = {each.text.split()[0] for each in page.moments}
        self.assertEqual(groups, {f"C/b{number}" for number in range(GROUPS - MOMENTS_MAX, GROUPS)})
        self.assertEqual(self.look()[1], 0)
        self.decide(ApplyBrokerId("C", "b0", 2, "10.1.0.0:10911;y"))
        page, decoded = self.look()
        self.assertEqual((decoded, page.moments[0].text.split()[0]), (1, "C/b0"))
        self.assertEqual((len(page.groups), len(page.processes)), (GROUPS, GROUPS + 1))

    def test_brokers_at_one_address(self) -> None:
        """Each has its row: one that came back without its files has a new id."""
        self.decide(ApplyBrokerId("C", "b7", 2, "10.0.0.7:10911;y"))
        page, _ = self.look()
        self.assertEqual(
            [each.name for each in page.processes if each.address == "10.0.0.7:10911"][:2], ["C/b7:1", "C/b7:2"]
        )
