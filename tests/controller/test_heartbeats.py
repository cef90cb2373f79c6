"""904: what a broker says of itself, in bounds that a log entry can hold."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller import events, heartbeats
from rocketha.controller.events import Alive, ElectMaster, Evidence
from rocketha.controller.group import EPOCH_MAX
from rocketha.errors import RequestRefused
from rocketha.wire.codes import ResponseCode

NAMED = {"clusterName": "c", "brokerName": "b", "brokerAddr": "h:1", "brokerId": "2"}


class HeartbeatTests(SynchronousTestCase):
    """heartbeats.read."""

    def test_every_field_fits_an_entry(self) -> None:
        """Whatever is accepted can stand in the evidence of an election; a hostile heartbeat blocks none."""
        largest = {"epoch": EPOCH_MAX, "electionPriority": 2**31 - 1, "maxOffset": 2**63 - 1}
        for name, bits in (("epoch", 32), ("electionPriority", 32), ("maxOffset", 64)):
            for value in (-(2 ** (bits - 1)), largest[name]):
                _, beat = heartbeats.read({**NAMED, name: str(value)})
                alive = Alive(2, beat.epoch, beat.max_offset, beat.priority)
                event = ElectMaster("c", "b", evidence=Evidence(alive=(alive,)))
                self.assertEqual(events.decode(events.encode(event)), event)
            for value in (-(2 ** (bits - 1)) - 1, 2 ** (bits - 1), 10**30):
                self.assertEqual(heartbeats.read({**NAMED, name: str(value)}), heartbeats.read(NAMED))
        refusal = self.assertRaises(RequestRefused, heartbeats.read, {**NAMED, "epoch": str(EPOCH_MAX + 1)})
        self.assertEqual(refusal.code, ResponseCode.INVALID_PARAMETER)

    def test_names_are_those_of_other_requests(self) -> None:
        """What no other request may be about cannot be alive either."""
        for field in ("clusterName", "brokerName", "brokerAddr"):
            for bad in ("", "x" * 256, "a\nb", "\x7f"):
                refusal = self.assertRaises(RequestRefused, heartbeats.read, {**NAMED, field: bad})
                self.assertEqual(refusal.code, ResponseCode.INVALID_PARAMETER)
            heartbeats.read({**NAMED, field: "x" * 255})

    def test_without_an_id(self) -> None:
        """As Java: 2005."""
        named = {name: value for name, value in NAMED.items() if name != "brokerId"}
        refusal = self.assertRaises(RequestRefused, heartbeats.read, named)
        self.assertEqual((refusal.code, refusal.remark), (2005, "Heart beat with empty brokerId"))

    def test_defaults(self) -> None:
        """What a broker leaves out."""
        key, beat = heartbeats.read(NAMED)
        self.assertEqual(tuple(key), ("c", "b", 2))
        self.assertEqual((beat.epoch, beat.max_offset, beat.priority, beat.timeout_ms), (-1, -1, 2**31 - 1, 10_000))
