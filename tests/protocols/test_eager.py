"""What waits to be sent, as the limits of slow readers count it; large blocks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from twisted.internet.protocol import Factory, Protocol
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.eager import PIECE_BYTES, eager_write_block, queued_bytes


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


class BlockTests(SynchronousTestCase):
    """A block for a transport that encrypts it."""

    def test_pieces(self) -> None:
        """All of it, head first, and no piece is large."""
        body = bytes(range(256)) * 1024
        for size in (0, 1, PIECE_BYTES - 4, PIECE_BYTES - 3, 3 * PIECE_BYTES, len(body)):
            transport = mock.Mock(spec=["write"])
            eager_write_block(transport, b"head", memoryview(body)[:size])
            pieces = [call.args[0] for call in transport.write.call_args_list]
            self.assertEqual(b"".join(pieces), b"head" + body[:size])
            self.assertLessEqual(max(map(len, pieces)), PIECE_BYTES)
            self.assertTrue(all(type(piece) is bytes for piece in pieces), "the body is the caller's again")
            self.assertEqual(len(pieces), max(1, -(-(size + 4) // PIECE_BYTES)))
