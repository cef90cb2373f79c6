"""Our clients' connections: each request is signed where the dialer has a signer, and as it was where it has none."""

from __future__ import annotations

from typing import Any

from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.trial.unittest import SynchronousTestCase

from rocketha.access.signature import ACCESS_KEY, SIGNATURE, proven
from rocketha.access.signer import Credentials, Signer
from rocketha.access.stamp import FIELD, NONCE_BYTES, Stamp
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.peer_connections import PeerConnections
from rocketha.protocols.remoting import RemotingFactory
from rocketha.protocols.remoting_client import NoService, RemotingClient
from rocketha.wire.framing import FRAME_LIMIT, FrameBuffer
from rocketha.wire.remoting import HEADER_LIMIT, VERSION, Command, decode

ADDRESS = "127.0.0.1:10911"
FIELDS = {"topic": "T"}
SIGNER = Signer(Credentials("ann", "annsecret"), lambda: 1_700_000_000_000, lambda: bytes(NONCE_BYTES))


class SigningTests(SynchronousTestCase):
    """On fake transports."""

    def setUp(self) -> None:
        self.clock = MemoryReactorClock()

    def said(self, client: Any, ask: Any) -> Command:
        """The one request that is written."""
        connected = client.connect(ADDRESS, 3.0)
        factory, transport = self.clock.tcpClients.pop()[2], StringTransport()
        factory.buildProtocol(None).makeConnection(transport)
        ask(self.successResultOf(connected))
        (frame,) = FrameBuffer(FRAME_LIMIT).feed(transport.value())
        client.close()
        return decode(frame, HEADER_LIMIT)

    def asks(self) -> list[Any]:
        return [
            lambda connection: connection.request(310, FIELDS, b"body").addErrback(lambda _: None),
            lambda connection: connection.notify(310, FIELDS, b"body"),
        ]

    def test_signed(self) -> None:
        for kind in (RemotingClient, PeerConnections):
            for ask in self.asks():
                command = self.said(kind(Dialer(self.clock, signer=SIGNER)), ask)
                self.assertEqual(command.fields.keys(), {"topic", ACCESS_KEY, FIELD, SIGNATURE})
                message = proven("annsecret", command.fields, command.body, VERSION)
                assert message is not None
                Stamp.read(message).check(310, command.fields)

    def test_unsigned(self) -> None:
        for kind in (RemotingClient, PeerConnections):
            for dialer in (Dialer(self.clock), Dialer(self.clock, signer=SIGNER).unsigned):
                for ask in self.asks():
                    self.assertEqual(self.said(kind(dialer), ask).fields, FIELDS)

    def test_a_server_signs_nothing(self) -> None:
        """Of what it tells its clients."""
        self.assertIsNone(RemotingFactory(NoService(), self.clock).signer)
