"""The watch carries out what the suspicion machine wants: in which order."""

from __future__ import annotations

from typing import Any

from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller.events import Alive, ApplyBrokerId, ElectMaster, Evidence, RegisterBroker
from rocketha.controller.group import LOST_MAX
from rocketha.controller.liveness import Heartbeat, ReplicaKey
from rocketha.controller.state import ControllerState
from rocketha.protocols.endpoints import Dialer
from rocketha.services.config.loading import load_controller
from rocketha.services.controller.watch import Watch
from rocketha.services.process.stalls import Stalls

MASTER = ReplicaKey("C", "broker-a", 1)


class WatchTests(SynchronousTestCase):
    """One controller that leads, and a master that is heard."""

    def setUp(self) -> None:
        config = load_controller(b"controllerDLegerPeers=n0-127.0.0.1:9878\n", "test.conf", {}, {"HOME": "/"}).config
        self.state = state = ControllerState()
        for index, event in enumerate(
            (
                ApplyBrokerId("C", "broker-a", 1, "10.0.0.1:10911;1"),
                RegisterBroker("C", "broker-a", 1, "10.0.0.1:10911"),
                ElectMaster("C", "broker-a", 1),
            ),
            1,
        ):
            state.apply(event, index)
        self.reactor = MemoryReactorClock()
        self.elections: list[Any] = []
        self.watch = Watch(Dialer(self.reactor), config, state, dict, self.elections.append, Stalls(self.reactor))
        self.addCleanup(self.watch.stop)
        self.watch.led()
        self.watch.heard(MASTER, Heartbeat("10.0.0.1:10911", 1, 0), 7, "10.0.0.1")

    def test_no_broker_dies_of_our_pause(self) -> None:
        """The whole lease passes while we are stopped; it is alive afterwards, and not silent."""
        self.watch.tick()
        self.reactor.advance(60)
        now_ms = self.watch.now_ms()
        self.assertEqual(
            (self.watch.liveness.alive(MASTER, now_ms), self.watch.liveness.silent(1200, now_ms)), (True, [])
        )

    def test_the_newest_epoch_that_the_state_does_not_have(self) -> None:
        """Named by a member, until an election is above it, or too far above to be true; else 0: an entry that has one
        is refused by older controllers."""
        for named, newest in ((1, 0), (2, 2), (1 + LOST_MAX, 1 + LOST_MAX), (2 + LOST_MAX, 0), (5, 5)):
            self.watch.heard(MASTER, Heartbeat("10.0.0.1:10911", named, 0), 7, "10.0.0.1")
            self.assertEqual(self.watch.newest_epoch("C", "broker-a"), newest)
            self.assertEqual(self.watch.sets_behind(), int(newest > 0))
        operator = Evidence(alive=(Alive(1, 5),), operator=True)
        self.state.apply(ElectMaster("C", "broker-a", -1, newest_epoch=5), 4)
        self.state.apply(ElectMaster("C", "broker-a", 1, True, evidence=operator), 5)
        self.assertEqual((self.watch.newest_epoch("C", "broker-a"), self.watch.sets_behind()), (0, 0))

    def test_acts_before_it_speaks(self) -> None:
        """A line of log may take as long as the probe's way: that is on its way already."""
        said: list[tuple[str, int]] = []

        class Log:
            def warn(log, text: str, **values: Any) -> None:  # noqa: N805
                said.append((text, len(self.reactor.tcpClients)))

        self.watch._log = Log()  # type: ignore[assignment]
        self.watch.connection_lost(7)
        self.assertEqual(said, [("broker {broker} is suspected: {reason}", 1)])
        self.assertEqual(self.reactor.tcpClients[0][:2], ("10.0.0.1", 10911))
