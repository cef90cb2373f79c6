"""Headers of the fuzzer, cut anywhere, on a port behind proxies: whole, pending or refused, and never two of these."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from rocketha.errors import RemoteProtocolError
from rocketha.wire.fuzz.generator import Generator
from rocketha.wire.proxy_header import read
from rocketha.wire.registry import FORMATS
from tests.protocols.test_proxy_port import PROXY, ProxyCase
from tests.protocols.test_remoting import frame, frames_of
from tests.seeds import SeededCase

CASES = 1500


class HeadersTests(ProxyCase, SeededCase):
    """Of both versions."""

    def test_cut_anywhere(self) -> None:
        """A port makes of pieces what the reader makes of the whole; who is refused is heard no more."""
        outcomes = {"whole": 0, "pending": 0, "refused": 0}
        for name in ("proxy-line", "proxy-header"):
            generator = Generator(FORMATS[name], self.seed)
            for number in range(CASES):
                data = generator.case(number).data
                if data:
                    outcomes[self.judge(data, f"{name} case {number} of seed {self.seed}")] += 1
        self.assertTrue(all(outcomes.values()), outcomes)

    def judge(self, data: bytes, what: str) -> str:
        try:
            header = read(data)
        except RemoteProtocolError:
            header, outcome = None, "refused"
        else:
            outcome = "pending" if header is None else "whole"
        if header is not None:
            data = data[: header.size] + frame(1, body=b"hello")
        self.ended.clear()
        transport = self.connect()
        connection, at = self.newest, 0
        while at < len(data):
            step = self.chance.choice((1, 2, 15, 16, 17, 107, len(data)))
            self.say(transport, data[at : at + step])
            at += step
        if header is None:
            self.assertEqual(dict(self.ended), {} if outcome == "pending" else {"proxy_header": 1}, what)
            self.assertEqual((connection.peer_host, connection.proven_host), (PROXY, PROXY), what)
            self.assertEqual(transport.value(), b"", what)
        else:
            self.assertEqual(dict(self.ended), {}, what)
            self.assertEqual([each.body for each in frames_of(transport.value())], [b"hello"], what)
            source = (PROXY, 50000) if header.source is None else header.source
            self.assertEqual((connection.peer_host, connection.peer_port), source, what)
        transport.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.factory.connections, {}, what)
        return outcome
