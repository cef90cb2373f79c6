"""A registration that takes a live broker's name and id: the holder is asked first, on real sockets."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from typing import Any

from twisted.internet import defer, reactor
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.trial.unittest import TestCase

from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.rates import Rates
from rocketha.services.config.loading import NamesrvConfig
from rocketha.services.namesrv import holders
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.platform import Platform
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire.codes import RequestCode as Code
from rocketha.wire.remoting import Answer, Command
from tests.namesrv.helpers import json_body, register_command

STRANGER = "127.0.0.1:1"


class _Broker:
    """What answers at the holder's port."""

    def __init__(self) -> None:
        self.master = True
        self.asked = 0

    def connected(self, connection: RemotingProtocol) -> None:
        """A connection is up."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """It ended."""

    def turn_ended(self) -> None:
        """Nothing is staged."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        assert command.code == Code.GET_BROKER_HA_STATUS
        self.asked += 1
        return Answer(body=b'{"master":true}' if self.master else b'{"master":false}')


class HolderTests(TestCase):
    """A nameserver, a master that has registered, and somebody else who says that he is it."""

    def setUp(self) -> None:
        self.service = NameServerService(
            NamesrvConfig(kv_config_path="/kv"),
            Platform(disk=MemoryDisk(random.Random(0))),
            ["tcp:0:interface=127.0.0.1"],
        )
        self.service.startService()
        self.addCleanup(self.service.stopService)
        (port,) = self.service._ports
        self.namesrv = f"127.0.0.1:{port._waitingForPort.result.getHost().port}"
        self.broker = _Broker()
        self.port: Any = reactor.listenTCP(  # type: ignore[attr-defined]
            0, RemotingFactory(self.broker, reactor), interface="127.0.0.1"
        )
        self.addCleanup(lambda: self.port.stopListening())
        self.address = f"127.0.0.1:{self.port.getHost().port}"
        self.client, self.other = RemotingClient(Dialer(reactor)), RemotingClient(Dialer(reactor))
        self.addCleanup(self.client.close)
        self.addCleanup(self.other.close)

    def register(
        self, client: RemotingClient, address: str, epoch: int = 0, broker_id: int = 0
    ) -> defer.Deferred[Command]:
        wanted = register_command(address=address, broker_id=broker_id, content=json_body(state_version=epoch))
        return client.request(self.namesrv, wanted.code, wanted.fields, wanted.body)

    def route(self) -> dict[int, str]:
        (broker,) = self.service.server.table.brokers.values()
        return dict(broker.addresses)

    @defer.inlineCallbacks
    def test_a_living_master_keeps_its_name(self) -> Generator[Any, Any, None]:
        """A hundred claims: all refused and counted, one question."""
        self.patch(holders, "TIMEOUT_S", 30.0)  # a whole suite's process may stand still for half a second
        yield self.register(self.client, self.address)
        answers = yield defer.gatherResults([self.register(self.other, STRANGER) for _ in range(100)])
        self.assertEqual({answer.code for answer in answers}, {1})
        self.assertIn("answers as such", answers[0].remark)
        self.assertEqual((self.route(), self.broker.asked), ({0: self.address}, 1))
        self.assertEqual(self.service.refusals.requests["REGISTER_BROKER", "SYSTEM_ERROR"], 100)
        yield self.register(self.client, self.address)

    @defer.inlineCallbacks
    def test_a_pause_of_the_nameserver_is_no_silence_of_the_holder(self) -> Generator[Any, Any, None]:
        self.patch(holders, "TIMEOUT_S", 0.1)
        yield self.register(self.client, self.address)
        real, asked = holders.Holders._ask, []

        def ask(self: Any, question: Any, again: int = 0) -> None:
            real(self, question, again)
            asked.append(again)
            if again < 2:  # the answer waits in the socket, and the time-out is due
                reactor.callLater(0, time.sleep, 0.3)  # type: ignore[attr-defined]

        self.patch(holders.Holders, "_ask", ask)
        answer = yield self.register(self.other, STRANGER)
        self.assertEqual((answer.code, self.route(), asked), (1, {0: self.address}, [0, 1, 2]))

    @defer.inlineCallbacks
    def test_it_is_not_asked_for_ever(self) -> Generator[Any, Any, None]:
        """Who registers a port and claims it again and again has the nameserver connect there a few times."""
        yield self.register(self.client, self.address)
        self.patch(holders, "HOLDS_S", 0.0)
        for _ in range(30):
            answer = yield self.register(self.other, STRANGER)
            self.assertEqual(answer.code, 1)
        self.assertEqual(self.broker.asked, holders.QUESTIONS_OF_PORT)

    @defer.inlineCallbacks
    def test_one_host_brings_so_many_addresses(self) -> Generator[Any, Any, None]:
        """Then no new one for a while; those that are there register on, and other hosts have their own number."""
        self.service._newcomers = Rates(3)
        ports = range(1, 6)
        answers = yield defer.gatherResults(
            [self.register(self.other, f"127.0.0.1:{port}", broker_id=port) for port in ports]
        )
        self.assertEqual([answer.code for answer in answers], [0, 0, 0, 1, 1])
        self.assertIn("too many new addresses from 127.0.0.1", answers[-1].remark)
        again = yield self.register(self.other, "127.0.0.1:1", broker_id=1)
        self.assertEqual((again.code, len(self.service.server.table.live)), (0, 3))

    @defer.inlineCallbacks
    def test_its_address_from_another_host(self) -> None:
        """A stranger who registered it could unregister it by the same connection: neither counts while it lives."""
        yield self.register(self.client, self.address)
        host, port = self.namesrv.split(":")
        there = TCP4ClientEndpoint(reactor, host, int(port), bindAddress=("127.0.0.9", 0))
        stranger = yield there.connect(RemotingFactory(_Broker(), reactor, server=False))
        self.addCleanup(stranger.abort)
        wanted = register_command(address=self.address, content=json_body(state_version=7))
        answer = yield stranger.request(wanted.code, wanted.fields, wanted.body)
        self.assertIn("registered from 127.0.0.1", answer.remark)
        names = {"clusterName": "C", "brokerName": "broker-a", "brokerAddr": self.address, "brokerId": "0"}
        gone = yield stranger.request(Code.UNREGISTER_BROKER, names)
        self.assertEqual((answer.code, gone.code, self.route()), (1, 1, {0: self.address}))
        self.assertEqual(self.service.refusals.requests["UNREGISTER_BROKER", "SYSTEM_ERROR"], 1)

    @defer.inlineCallbacks
    def test_a_dead_one_is_replaced(self) -> Generator[Any, Any, None]:
        """Its port refuses: at once."""
        yield self.register(self.client, self.address)
        yield self.port.stopListening()
        answer = yield self.register(self.other, STRANGER)
        self.assertEqual((answer.code, self.route()), (0, {0: STRANGER}))

    @defer.inlineCallbacks
    def test_one_that_is_master_no_more(self) -> Generator[Any, Any, None]:
        """It says so: whoever comes is the master."""
        yield self.register(self.client, self.address)
        self.broker.master = False
        answer = yield self.register(self.other, STRANGER)
        self.assertEqual((answer.code, self.route()), (0, {0: STRANGER}))

    @defer.inlineCallbacks
    def test_a_newer_epoch_is_not_kept_waiting(self) -> Generator[Any, Any, None]:
        """A switch under controllers: the old master may be frozen, and is not asked."""
        yield self.register(self.client, self.address, 1)
        answer = yield self.register(self.other, STRANGER, 2)
        self.assertEqual((answer.code, self.route(), self.broker.asked), (0, {0: STRANGER}, 0))

    @defer.inlineCallbacks
    def test_the_id_of_a_slave(self) -> Generator[Any, Any, None]:
        """It lives under it, master or not."""
        yield self.register(self.client, self.address, broker_id=1)
        self.broker.master = False
        answer = yield self.register(self.other, STRANGER, broker_id=1)
        self.assertEqual((answer.code, self.route()), (1, {1: self.address}))
