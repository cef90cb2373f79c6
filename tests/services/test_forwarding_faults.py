"""What goes wrong while requests are passed on: nobody's request is lost, stored twice, late, or in another's way."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from twisted.internet import defer, error

from rocketha.broker import forward_rules
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.forwarding import RETRY_S
from tests.services.test_forwarding import ForwardingCase

HOLD_S = forward_rules.HOLD_MS / 1000


class ConnectionTests(ForwardingCase):
    def test_an_attempt_to_connect_that_fails_at_once(self) -> None:
        """Is repeated like any other."""
        self.master_is(self.b, self.a)
        connect, failed = RemotingClient.connect, []

        def connecting(client: RemotingClient, address: str, *timeout_s: float) -> defer.Deferred[Any]:
            if address == self.b.address and len(failed) < 2:
                failed.append(address)
                return defer.fail(error.ConnectError())
            return connect(client, address, *timeout_s)

        self.patched(mock.patch.object(RemotingClient, "connect", connecting))
        self.producer.send(self.a, b"one")
        self.producer.send(self.a, b"two")
        self.world.run(2 * RETRY_S + 0.05)
        self.assertEqual((len(failed), self.b.stored, self.codes()), (2, [b"one", b"two"], {b"one": 0, b"two": 0}))
        self.nothing_left()

    def patched(self, patch: Any) -> None:
        patch.start()
        self.addCleanup(patch.stop)


if __name__ == "__main__":
    unittest.main()
