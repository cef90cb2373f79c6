"""The broker tells every nameserver what it is and which topics it has.

Theory of operation.  Each nameserver is told on its own: at start, every period, at once when a topic is made or
deleted, and as soon as its connection breaks, because a nameserver forgets a broker whose connection is gone.  A
nameserver that can not be reached is tried again every second, so that it has the routes back soon after its restart.
One registration to a nameserver is under way at a time; what changes meanwhile goes with the next.  A connection over
which none is answered is given up: after a long partition TCP would try again as late as that had lasted.

A slave hears in the answer where its master is.  One whose master is not there yet, as when both have just started,
asks again after 1, 2, 4 ... seconds instead of a whole period: until then nothing is copied, and senders to a
SYNC_MASTER hear that it has no slave.

Java: ``BrokerOuterAPI.registerBrokerAll``, ``BrokerController.registerBrokerAll``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.broker.state import BrokerIdentity
from rocketha.broker.topics import TopicTable
from rocketha.observe.logging import lasting, make_logger
from rocketha.protocols.limits import Limits
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.java_text import crc32_31
from rocketha.wire.remoting import Answer, Command

RETRY_S = 1.0


class _Nameserver:
    """What is under way with one nameserver."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.registered = False
        self.told: BrokerIdentity | None = None  # by the last registration
        self.running = False
        self.again = False
        self.complained = False
        self.retry: Any = None
        self.ask_s = 0.0  # between the last two questions for a master that is not there


class Registration:
    """Registers one broker with all its nameservers.

    :param addresses: ``host:port`` of each nameserver.
    :param identity: what the broker is now; None while it does not know: then nothing is said.
    :param learned: of a slave: what a nameserver says of its master, the address of its main port and of its HA port.
    """

    def __init__(
        self,
        reactor: Any,
        addresses: tuple[str, ...],
        identity: Callable[[], BrokerIdentity | None],
        topics: TopicTable,
        period_s: float,
        timeout_s: float,
        learned: Callable[[str, str], None] = lambda address, ha_address: None,
    ) -> None:
        self._reactor = reactor
        self._identity = identity
        self._topics = topics
        self._period_s = period_s
        self._timeout_s = timeout_s
        self._learned = learned
        self._nameservers = {address: _Nameserver(address) for address in addresses}
        # A nameserver answers only ours, and it may stay silent for a whole period.
        limits = Limits(idle_s=max(120, int(3 * period_s)))
        self._client = RemotingClient(reactor, self, limits)
        self._timer: Any = None
        self._turn = lasting(lambda: self.register(), "a registration")
        self._stopped = False
        self._log = make_logger()

    @property
    def registered(self) -> bool:
        """Whether every nameserver took the last registration (True when there is none)."""
        return all(nameserver.registered for nameserver in self._nameservers.values())

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nameservers."""
        return tuple(self._nameservers)

    def start(self) -> None:
        """Register now and every period."""
        self.register()
        self._timer = self._reactor.callLater(self._period_s, self._tick)

    def _tick(self) -> None:
        self._turn()
        self._timer = self._reactor.callLater(self._period_s, self._tick)

    def register(self) -> None:
        """Tell every nameserver now."""
        if not self._stopped:
            for nameserver in self._nameservers.values():
                self._register(nameserver)

    def _register(self, nameserver: _Nameserver) -> None:
        if self._stopped:
            return
        identity = self._identity()
        if identity is None:
            return
        if nameserver.running:
            nameserver.again = True
            return
        if nameserver.retry is not None and nameserver.retry.active():
            nameserver.retry.cancel()
        nameserver.retry = None
        nameserver.running, nameserver.again, nameserver.told = True, False, identity
        body = self._body()
        fields = {
            "bodyCrc32": str(crc32_31(body)),
            **_names(identity),
            "compressed": "false",
            "enableActingMaster": "false",
            "haServerAddr": identity.ha_address,
        }
        attempt = self._client.request(
            nameserver.address, RequestCode.REGISTER_BROKER, fields, body, timeout_s=self._timeout_s
        )
        attempt.addCallbacks(self._answered, self._failed, callbackArgs=(nameserver,), errbackArgs=(nameserver,))
        attempt.addErrback(lambda failure: self._log.error("registration: {trace}", trace=failure.getTraceback()))

    def _answered(self, answer: Command, nameserver: _Nameserver) -> None:
        nameserver.running = False
        if answer.code != ResponseCode.SUCCESS:
            self._failed(f"code {answer.code}: {answer.remark}", nameserver)
            return
        if not nameserver.registered:
            self._log.info("registered with nameserver {address}", address=nameserver.address)
        nameserver.registered, nameserver.complained = True, False
        if nameserver.again:
            self._register(nameserver)
        elif nameserver.told is not None and nameserver.told.broker_id:
            address = answer.fields.get("masterAddr", "")
            self._learned(address, answer.fields.get("haServerAddr", ""))
            self._ask_again(nameserver, bool(address))

    def _ask_again(self, nameserver: _Nameserver, known: bool) -> None:
        nameserver.ask_s = 0.0 if known else min(2 * nameserver.ask_s or RETRY_S, self._period_s)
        if 0 < nameserver.ask_s < self._period_s:
            nameserver.retry = self._reactor.callLater(nameserver.ask_s, self._register, nameserver)

    def _failed(self, why: Failure | str, nameserver: _Nameserver) -> None:
        nameserver.running = False
        if self._stopped:
            return
        text = why.getErrorMessage() if isinstance(why, Failure) else why
        if not nameserver.complained:  # once, not every second
            nameserver.complained = True
            self._log.warn(
                "nameserver {address} did not take the registration: {why}", address=nameserver.address, why=text
            )
        nameserver.registered = False
        if isinstance(why, Failure) and why.check(error.TimeoutError):
            self._client.give_up(nameserver.address)
        nameserver.retry = self._reactor.callLater(RETRY_S, self._register, nameserver)

    def _body(self) -> bytes:
        wrapper = self._topics.as_json()
        wrapper["mappingDataVersion"] = {"counter": 0, "stateVersion": 0, "timestamp": 0}
        wrapper["topicQueueMappingDetailMap"] = {}
        wrapper["topicQueueMappingInfoMap"] = {}
        return json_dialect.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})

    @defer.inlineCallbacks
    def stop(self) -> Any:
        """Unregister everywhere (an unreachable nameserver finds out by itself) and close the connections."""
        self._stopped = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        waiting = []
        for nameserver in self._nameservers.values():
            if nameserver.retry is not None and nameserver.retry.active():
                nameserver.retry.cancel()
            if nameserver.registered and nameserver.told is not None:
                request = self._client.request(
                    nameserver.address, RequestCode.UNREGISTER_BROKER, _names(nameserver.told), timeout_s=3.0
                )
                waiting.append(request.addErrback(lambda _: None))
        yield defer.DeferredList(waiting)
        self._client.close()

    # --- the nameservers' side of the connections

    def connected(self, connection: RemotingProtocol) -> None:
        """A connection is up."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """A nameserver forgets us with the connection: register again at once."""
        if self._stopped:
            return
        for nameserver in self._nameservers.values():
            if nameserver.registered and not nameserver.running:
                self._reactor.callLater(0, self._register, nameserver)

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """905 NOTIFY_MIN_BROKER_ID_CHANGE concerns acting masters only: taken and ignored, like in Java without that
        feature.
        """
        if command.code == RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE:
            return Answer()
        return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")

    def turn_ended(self) -> None:
        """Nothing is staged here."""


def _names(identity: BrokerIdentity) -> dict[str, str]:
    """Who it is, in the header fields of 103 and 104."""
    return {
        "brokerAddr": identity.address,
        "brokerId": str(identity.broker_id),
        "brokerName": identity.broker_name,
        "clusterName": identity.cluster_name,
    }
