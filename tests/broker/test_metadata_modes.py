"""POP modes are kept for the next Java master."""

from __future__ import annotations

import unittest

from rocketha.broker.metadata_modes import RequestModes, read_modes
from rocketha.errors import CorruptStore, RemoteProtocolError
from tests.broker.support import Broker

MODE = {"consumerGroup": "G", "mode": "POP", "popShareQueueNum": 0, "topic": "T"}


class RequestModesTests(unittest.TestCase):
    def test_file_and_back(self) -> None:
        """As Java writes it."""
        modes = RequestModes()
        self.assertTrue(modes.replace({"T": {"G": MODE}}))
        self.assertTrue(modes.dirty)
        again = RequestModes()
        again.load(modes.dump())
        self.assertEqual(again.modes, modes.modes)
        self.assertFalse(again.replace({"T": {"G": dict(MODE)}}))
        self.assertFalse(again.dirty)

    def test_a_slave_is_told(self) -> None:
        """GET_ALL_MESSAGE_REQUEST_MODE: a Java slave deletes what its master lacks."""
        broker = Broker()
        self.assertEqual(broker.value(402), {"messageRequestModeMap": {}})
        broker.state.modes.replace({"T": {"G": MODE}})
        self.assertEqual(broker.value(402), {"messageRequestModeMap": {"T": {"G": MODE}}})

    def test_damage(self) -> None:
        """Is no table."""
        for value in (
            [],
            {"messageRequestModeMap": 7},
            {"messageRequestModeMap": {"T": []}},
            {"messageRequestModeMap": {"T": {"G": 1}}},
        ):
            self.assertRaises(RemoteProtocolError, read_modes, value)
        self.assertRaises(CorruptStore, RequestModes().load, b"{")
