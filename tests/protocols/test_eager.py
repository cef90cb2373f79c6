"""What waits to be sent, as the limits of slow readers count it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from twisted.internet.protocol import Factory, Protocol
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.eager import queued_bytes


class QueuedBytesTests(SynchronousTestCase):
    """Of transports that are TCP, or lie on it."""

    def test_beneath_a_wrapper(self) -> None:
        """TLS is one: 0 would mean that a client that does not read has no bound there."""
        beneath = cast(Any, SimpleNamespace(dataBuffer=b"x" * 5, offset=2, _tempDataLen=7))
        self.assertEqual(queued_bytes(beneath), 10)
        wrapper = ProtocolWrapper(WrappingFactory(Factory()), Protocol())
        wrapper.transport = beneath
        self.assertEqual(queued_bytes(wrapper), 10)

    def test_of_others_nothing_is_known(self) -> None:
        """A test's own transport, say."""
        self.assertEqual(queued_bytes(SimpleNamespace()), 0)
