"""The broker tells every nameserver what it is and which topics it has.

Theory of operation.  Each nameserver is told on its own: at start, every period, at once when a topic is made or
deleted, and as soon as its connection breaks, because a nameserver forgets a broker whose connection is gone.  A
nameserver that can not be reached is tried again every second, so that it has the routes back soon after its restart.
One registration to a nameserver is under way at a time; what changes meanwhile goes with the next.  A connection over
which none is answered is given up: after a long partition TCP would try again as late as that had lasted.

A slave hears in the answer where its master is.  One whose master is not there yet, as when both have just started,
asks again after 1, 2, 4 ... seconds instead of a whole period: until then nothing is copied, and senders to a
SYNC_MASTER hear that it has no slave.

All topics go into one request, each period and at each change, as long as they are sure to fit into a frame.  A table
that has outgrown that (or ``splitRegistrationSize``, where ``enableSplitRegistration`` is on) is told in parts, and not
again while the nameserver has it: a period is one question for the version that it has (322), which also counts as a
sign of life; a slave asks where its master is, too.  What changes is told topic by topic, what went with the next whole
round.  Such a round is due where the version is another, the connection or the identity is new, something failed, and
every :data:`ROUND_PERIODS` periods in any case, since a nameserver may have lost what its version says it has.

Java: ``BrokerOuterAPI.registerBrokerAll``, ``BrokerController.registerBrokerAll``, ``registerIncrementBrokerData``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.broker import register_parts
from rocketha.broker.permissions import READ_WRITE
from rocketha.broker.register_parts import RegistrationRules
from rocketha.broker.state import BrokerIdentity
from rocketha.broker.topics import TopicTable
from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.observe.logging import lasting, make_logger
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.limits import Limits
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.crc import crc32_31
from rocketha.wire.remoting import Answer, Command

RETRY_S = 1.0
ROUND_PERIODS = 10
"""Periods after which a large table is told anew though nothing says that it is needed."""

Steps = Generator[defer.Deferred[Any], Any, Any]


class _Nameserver:
    """What is under way with one nameserver.

    :ivar changed: topics that it has to be told; of a large table only.
    :ivar behind: something went from the table that it was not told.
    :ivar untold: periods since it was told the whole table.
    :ivar master: of a slave: where its master is, by the last registration.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.registered = False
        self.told: BrokerIdentity | None = None  # by the last registration
        self.running = False
        self.again = False
        self.complained = False
        self.retry: Any = None
        self.ask_s = 0.0  # between the last two questions for a master that is not there
        self.changed: dict[str, None] = {}
        self.behind = False
        self.untold = 0
        self.master = ""


class Registration:
    """Registers one broker with all its nameservers.

    :param addresses: ``host:port`` of each nameserver.
    :param identity: what the broker is now; None while it does not know: then nothing is said.
    :param permission: brokerPermission, as it is now.
    :param learned: of a slave: what a nameserver says of its master, the address of its main port and of its HA port.
    """

    def __init__(
        self,
        dialer: Dialer,
        addresses: tuple[str, ...],
        identity: Callable[[], BrokerIdentity | None],
        topics: TopicTable,
        rules: RegistrationRules,
        learned: Callable[[str, str], None] = lambda address, ha_address: None,
        permission: Callable[[], int] = lambda: READ_WRITE,
    ) -> None:
        self._reactor = dialer.reactor
        self._identity = identity
        self._topics = topics
        self._rules = rules
        self._permission = permission
        self._period_s = rules.period_s
        self._learned = learned
        self._nameservers = {address: _Nameserver(address) for address in addresses}
        # A nameserver answers only ours, and it may stay silent for a whole period.
        limits = Limits(idle_s=max(120, int(3 * rules.period_s)))
        self._client = RemotingClient(dialer, self, limits)
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

    def nameservers(self) -> list[tuple[str, bool]]:
        """Each one's address, and whether it took the last registration."""
        return [(address, each.registered) for address, each in self._nameservers.items()]

    def start(self) -> None:
        """Register now and every period."""
        self.register()
        self._timer = self._reactor.callLater(self._period_s, self._tick)

    def _tick(self) -> None:
        for nameserver in self._nameservers.values():
            nameserver.untold += 1
        self._turn()
        self._timer = self._reactor.callLater(self._period_s, self._tick)

    def register(self) -> None:
        """Tell every nameserver now."""
        if not self._stopped:
            for nameserver in self._nameservers.values():
                self._register(nameserver)

    def topics_changed(self, names: Sequence[str]) -> None:
        """These topics were made, changed or deleted; none named: any."""
        if self._large:
            for nameserver in self._nameservers.values():
                nameserver.changed.update(dict.fromkeys(names))
                nameserver.behind |= not names
            if not names:
                return  # there are as many rounds as periods, however many topics are deleted
        self.register()

    @property
    def _large(self) -> bool:
        return len(self._topics.table) > self._rules.whole_topics

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
        nameserver.running, nameserver.again = True, False
        attempt = self._tell(nameserver, identity)
        attempt.addCallbacks(self._answered, self._failed, callbackArgs=(nameserver,), errbackArgs=(nameserver,))
        attempt.addErrback(lambda failure: self._log.error("registration: {trace}", trace=failure.getTraceback()))

    @defer.inlineCallbacks
    def _tell(self, nameserver: _Nameserver, identity: BrokerIdentity) -> Steps:
        """What the nameserver has to hear now; its last answer, None where that says nothing of a master."""
        due = not nameserver.registered or nameserver.told != identity or nameserver.untold >= ROUND_PERIODS
        due |= len(nameserver.changed) > self._rules.part_topics  # more requests than a whole round has
        if not self._large:
            bodies: Iterable[bytes] = [register_parts.whole(self._topics, self._permission())]
        elif due or (not nameserver.changed and (yield from self._is_due(nameserver, identity))):
            bodies = register_parts.parts(self._topics, self._rules.part_topics, self._permission())
        else:
            changed, nameserver.changed = [*nameserver.changed], {}
            nameserver.behind |= any(name not in self._topics for name in changed)
            return (yield from self._say(nameserver, identity, self._updates(nameserver, changed)))
        nameserver.changed, nameserver.behind, nameserver.untold = {}, False, 0
        return (yield from self._say(nameserver, identity, bodies))

    def _updates(self, nameserver: _Nameserver, changed: Sequence[str]) -> Iterable[bytes]:
        names = [name for name in changed if name in self._topics]
        return register_parts.updates(self._topics, names, not nameserver.behind, self._permission())

    def _say(self, nameserver: _Nameserver, identity: BrokerIdentity, bodies: Iterable[bytes]) -> Steps:
        nameserver.told = identity
        answer = None
        for body in bodies:
            fields = {
                "bodyCrc32": str(crc32_31(body)),
                **_names(identity),
                "compressed": "false",
                "enableActingMaster": "false",
                "haServerAddr": identity.ha_address,
            }
            answer = yield self._ask(nameserver, RequestCode.REGISTER_BROKER, fields, body)
            if answer.code != ResponseCode.SUCCESS:
                raise RequestRefused(answer.code, answer.remark or "no remark")
        return answer

    def _is_due(self, nameserver: _Nameserver, identity: BrokerIdentity) -> Steps:
        """Whether the nameserver lacks something of the table, or a slave's master is not where it was."""
        version = json_dialect.dumps(self._topics.data_version.as_json())
        answer = yield self._ask(nameserver, RequestCode.QUERY_DATA_VERSION, _names(identity), version)
        if answer.code != ResponseCode.SUCCESS or answer.fields.get("changed") != "false":
            return True
        if not identity.broker_id:
            return False
        group = {"clusterName": identity.cluster_name, "brokerName": identity.broker_name}
        answer = yield self._ask(nameserver, RequestCode.GET_BROKER_MEMBER_GROUP, group)
        return answer.code != ResponseCode.SUCCESS or _master(answer.body) != nameserver.master

    def _ask(
        self, nameserver: _Nameserver, code: int, fields: dict[str, str], body: bytes = b""
    ) -> defer.Deferred[Command]:
        return self._client.request(nameserver.address, code, fields, body, timeout_s=self._rules.timeout_s)

    def _answered(self, answer: Command | None, nameserver: _Nameserver) -> None:
        nameserver.running = False
        if not nameserver.registered:
            self._log.info("registered with nameserver {address}", address=nameserver.address)
        nameserver.registered, nameserver.complained = True, False
        if nameserver.again:
            self._register(nameserver)
        elif nameserver.told is not None and nameserver.told.broker_id:
            if answer is not None:
                nameserver.master = answer.fields.get("masterAddr", "")
                self._learned(nameserver.master, answer.fields.get("haServerAddr", ""))
            self._ask_again(nameserver, bool(nameserver.master))

    def _ask_again(self, nameserver: _Nameserver, known: bool) -> None:
        nameserver.ask_s = 0.0 if known else min(2 * nameserver.ask_s or RETRY_S, self._period_s)
        if 0 < nameserver.ask_s < self._period_s:
            nameserver.retry = self._reactor.callLater(nameserver.ask_s, self._register, nameserver)

    def _failed(self, why: Failure, nameserver: _Nameserver) -> None:
        nameserver.running = False
        if self._stopped:
            return
        if not nameserver.complained:  # once, not every second
            nameserver.complained = True
            self._log.warn(
                "nameserver {address} did not take the registration: {why}",
                address=nameserver.address,
                why=why.getErrorMessage(),
            )
        nameserver.registered = False
        if why.check(error.TimeoutError):
            self._client.give_up(nameserver.address)
        nameserver.retry = self._reactor.callLater(RETRY_S, self._register, nameserver)

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
            if self._client.is_open(nameserver.address):
                continue
            nameserver.untold = ROUND_PERIODS
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


def _master(body: bytes) -> str:
    """The master's address in the members of a group (901); empty where there is none."""
    try:
        found = json_dialect.loads(body)["brokerMemberGroup"]["brokerAddrs"].get("0")
    except (RemoteProtocolError, KeyError, TypeError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""
