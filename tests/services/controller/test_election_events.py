"""What a controller says of elections that come to nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet import defer
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller.detector_effects import Elect
from rocketha.controller.events import Why
from rocketha.controller.state import ControllerState
from rocketha.services.controller.elections import Elections
from rocketha.wire.remoting import Answer
from tests.services.events_case import events_of


class VainElections(SynchronousTestCase):
    """The watch tries again each second, for as long as nobody who may lead is alive."""

    def setUp(self) -> None:
        self.said = events_of(self)
        self.ended = 0
        self.answer: Any = Answer(code=2012, remark="nobody of the set is alive")
        config: Any = SimpleNamespace(enable_elect_unclean_master=False, notify_broker_role_changed=False)
        self.elections = Elections(
            config, ControllerState(), lambda: 1.0, lambda: 1.0, lambda event: defer.succeed(self.answer)
        )
        watch: Any = SimpleNamespace(
            evidence=None, election_ended=self.election_ended, newest_epoch=lambda cluster, name: 0
        )
        self.elections.attach(watch, SimpleNamespace(), None)  # type: ignore[arg-type]
        self.elections.led()

    def election_ended(self, cluster: str, name: str) -> None:
        self.ended += 1

    def elect(self, times: int = 10) -> list[str]:
        """What is said of so many tries."""
        self.said.clear()
        for _ in range(times):
            self.elections.elect(Elect("C", "b", 1, 3, (), Why.MASTER_MISSING, "dead", ()))
        return [each["reason"] for each in self.said if each["event"] == "group.not_elected"]

    def test_said_once(self) -> None:
        """Else the timeline of three minutes is that, and what led to it is gone; another reason is news."""
        self.assertEqual(self.elect(), ["nobody of the set is alive"])
        self.assertEqual(self.ended, 10)
        self.assertEqual(self.elect(), [])
        self.answer = Answer(code=1, remark="this controller is held up")
        self.assertEqual(self.elect(), ["this controller is held up"])

    def test_said_anew_by_the_next_leader(self) -> None:
        self.elect()
        self.elections.deposed()
        self.elections.led()
        self.assertEqual(self.elect(), ["nobody of the set is alive"])
