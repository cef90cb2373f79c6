"""Connections to peers."""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import Protocol
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.endpoints import client_endpoint, connect_protocol


class ConnectTests(SynchronousTestCase):
    """A protocol at an endpoint."""

    def test_without_a_word_in_the_log(self) -> None:
        """A server that looks for a peer connects again and again, and its log is for what happens."""
        logged: list[Any] = []
        globalLogPublisher.addObserver(logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, logged.append)
        reactor, protocol = MemoryReactorClock(), Protocol()
        connected = connect_protocol(client_endpoint(reactor, "127.0.0.1:9876", 1.0), protocol)
        factory = reactor.tcpClients[0][2]
        factory.doStart()
        made = factory.buildProtocol(None)
        assert made is not None
        made.makeConnection(reactor.connectors[0])
        self.assertIs(self.successResultOf(connected), protocol)
        factory.doStop()
        self.assertEqual(logged, [])
