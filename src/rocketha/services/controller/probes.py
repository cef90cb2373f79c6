"""What a suspicious controller asks others: brokers' own ports and the other controllers; and its links to brokers.

Decides nothing; turns what came back into the values of :mod:`rocketha.controller.detector_effects`.

Theory of operation.  A probe is a connection of its own and request 907, which every broker answers itself whatever its
role: the kernel of a frozen process takes the connection, but nobody answers.  Who answers is asked with it (1007):
addresses are given to others, and their word is not the broker's.  To the port of each master and in-sync
replica a connection is kept open while this controller leads (a *link*): it shows that the address can be reached, so
that a refusal means something; replicas are asked and told of an election without making a connection first; and a
demotion written to it is read before new client traffic when a frozen master thaws (regression A21).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.controller.detector_effects import Probe, Reading, Verdict
from rocketha.controller.liveness import ReplicaKey
from rocketha.errors import RemoteProtocolError
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.peer_connections import PeerConnections
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.wire import java_types, json_members
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Command

LINKS_MAX = 6000
LINK_ATTEMPTS_MAX = 32
LINK_TIMEOUT_S = 3.0
LINK_RETRY_MS, LINK_RETRY_MAX_MS = 5_000, 300_000
"""Between attempts; each that fails doubles it."""

KEEP_ALIVE_MS = 30_000
"""Brokers close connections on which nothing was said for 120 s."""


def reading_of(answer: Command) -> Reading:
    """What the body of 907 tells; nothing where it is not what Java writes."""
    if answer.code != 0 or not answer.body:
        return Reading()
    try:
        found = json_members.json_object(answer.body, "an HA status")
        client = java_types.bean(found.get("haClientRuntimeInfo")) or {}
        read_ms, max_offset = (json_members.long(client, name, -1) for name in ("lastReadTimestamp", "maxOffset"))
        return Reading(java_types.flag(found.get("master")), read_ms, max_offset)
    except RemoteProtocolError:
        return Reading()


def group_of(answer: Command) -> tuple[str, str] | None:
    """Cluster and broker name of who answered 1007, empty ones of who is no broker under controllers; None: unknown."""
    unknown = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    if unknown or (answer.code == ResponseCode.SYSTEM_ERROR and "controllerMode" in (answer.remark or "")):
        return "", ""
    if answer.code != 0 or not answer.body:
        return None
    try:
        found = json_members.json_object(answer.body, "an epoch cache")
        return json_members.text(found, "clusterName"), json_members.text(found, "brokerName")
    except RemoteProtocolError:
        return None


@attrs.define
class _Link:
    """The connection to one broker's port.

    ``failed``: attempts since it was there.  ``refused_ms``: when it first refused while it was thought alive.
    ``group``: what its process says it is of; None until it has said so.
    """

    address: str
    next_ms: int = 0
    attempting: bool = False
    failed: int = 0
    refused_ms: int | None = None
    group: tuple[str, str] | None = None


class Probes:
    """Carries out the questions of one controller.

    :param reachable: told what came of a link: address, and whether its port was reached.
    """

    def __init__(self, dialer: Dialer, reachable: Callable[[str, bool], None]) -> None:
        self._reactor = dialer.reactor
        self._reachable = reachable
        self.connections = PeerConnections(dialer, self._link_ended)
        self._links: dict[str, _Link] = {}
        self.asked = 0

    # -- a broker's own port --------------------------------------------------------------------------------------

    def probe(self, effect: Probe, report: Callable[[Probe, Verdict, Reading], None]) -> None:
        """Ask, and report once: as soon as it is known, or when the time is up."""
        self.asked += 1
        timeout_s = effect.timeout_ms / 1000
        link = None if effect.anew else self.connections.open(effect.address)
        if link is not None:
            self._probe_by_link(link, effect, timeout_s, report)
            return
        attempt = self.connections.dial(effect.address, timeout_s)
        due = self._reactor.callLater(timeout_s, attempt.cancel)

        def ask(connection: RemotingProtocol) -> defer.Deferred[Reading]:
            asking = connection.request(RequestCode.GET_BROKER_EPOCH_CACHE, timeout_s=timeout_s)
            who = asking.addCallbacks(group_of, lambda _: None)
            status = connection.request(RequestCode.GET_BROKER_HA_STATUS, timeout_s=timeout_s)

            def read(found: Command) -> defer.Deferred[Reading]:
                return who.addCallback(lambda group: attrs.evolve(reading_of(found), group=group))

            return status.addCallback(read).addBoth(_ending(connection))

        def settled(result: Any) -> None:
            if due.active():
                due.cancel()
            if isinstance(result, Failure):
                report(effect, _verdict(result), Reading())
            else:
                report(effect, Verdict.ANSWERED, result)

        attempt.addCallback(ask).addBoth(settled)

    def _probe_by_link(
        self, link: RemotingProtocol, effect: Probe, timeout_s: float, report: Callable[[Probe, Verdict, Reading], None]
    ) -> None:
        """Spares a busy broker the making of a connection; one that breaks says nothing yet."""

        def broken(failure: Failure) -> None:
            if failure.check(error.ConnectionClosed):
                self.probe(attrs.evolve(effect, anew=True), report)
            else:
                report(effect, Verdict.SILENT, Reading())

        def answered(found: Command) -> None:
            report(effect, Verdict.ANSWERED, attrs.evolve(reading_of(found), group=self.behind(effect.address)))

        link.request(RequestCode.GET_BROKER_HA_STATUS, timeout_s=timeout_s).addCallbacks(answered, broken)

    # -- the other controllers ------------------------------------------------------------------------------------

    def do_you_hear(
        self, address: str, key: ReplicaKey, timeout_s: float, report: Callable[[bool, int | None], None]
    ) -> None:
        """Ask another controller whether it hears a broker; reports nothing when it does not answer."""
        fields = {"clusterName": key.cluster, "brokerName": key.broker_name, "brokerId": str(key.broker_id)}

        def answered(answer: Command) -> None:
            if answer.code == 0:
                age = answer.fields.get("heardMillisAgo", "")
                report(answer.fields.get("connected") == "true", int(age) if age.isdecimal() else None)

        def ask(connection: RemotingProtocol) -> defer.Deferred[Command]:
            return connection.request(PrivateCode.DO_YOU_HEAR, fields, timeout_s=timeout_s)

        self.connections.connect(address, timeout_s).addCallback(ask).addCallback(answered).addErrback(_no_answer)

    # -- links ----------------------------------------------------------------------------------------------------

    def behind(self, address: str) -> tuple[str, str] | None:
        """What the process at the other end of an open link says it is of (see ``group_of``); None: it has not said."""
        link = self._links.get(address)
        return None if link is None or self.connections.open(address) is None else link.group

    def keep_links(self, addresses: Iterable[str], now_ms: int, age_ms: Callable[[str], int | None]) -> None:
        """Hold a link to each of these and to no other; to be called every second or so.

        :param age_ms: how long ago the broker at an address was heard.
        """
        wanted = dict.fromkeys(sorted(addresses)[:LINKS_MAX])
        for address in [address for address in self._links if address not in wanted]:
            del self._links[address]
            self.connections.drop(address)
        attempts = sum(link.attempting for link in self._links.values())
        for address in wanted:
            link = self._links.get(address)
            if link is None:
                link = self._links[address] = _Link(address)
            if link.attempting or now_ms < link.next_ms:
                continue
            opened = self.connections.open(address)
            if opened is not None:
                link.next_ms = now_ms + KEEP_ALIVE_MS
                self._ask_who(link, opened)
            elif attempts < LINK_ATTEMPTS_MAX:
                attempts += 1
                self._open_link(link, now_ms, age_ms)

    def _open_link(self, link: _Link, now_ms: int, age_ms: Callable[[str], int | None]) -> None:
        link.attempting, link.next_ms = True, now_ms + min(LINK_RETRY_MS << min(link.failed, 16), LINK_RETRY_MAX_MS)
        link.failed += 1

        def opened(connection: RemotingProtocol) -> None:
            if self._links.get(link.address) is not link:  # it is wanted no more, or this controller leads no more
                if link.address not in self._links:
                    self.connections.drop(link.address)
                return
            link.refused_ms, link.next_ms, link.group, link.failed = None, now_ms + KEEP_ALIVE_MS, None, 0
            self._reachable(link.address, True)
            self._ask_who(link, connection)

        def failed(failure: Failure) -> None:
            if failure.check(error.ConnectionRefusedError) is None:
                return
            if link.refused_ms is None:
                link.refused_ms = now_ms
            age = age_ms(link.address)
            if age is not None and now_ms - age > link.refused_ms:
                # It was heard after its port had refused: the address is wrong, not the broker dead.
                self._reachable(link.address, False)

        def over(_result: Any) -> None:
            link.attempting = False

        self.connections.connect(link.address, LINK_TIMEOUT_S).addCallbacks(opened, failed).addBoth(over)

    def _ask_who(self, link: _Link, connection: RemotingProtocol) -> None:
        """Keeps the link alive, too."""

        def answered(answer: Command) -> None:
            if self.connections.open(link.address) is connection:
                link.group = group_of(answer)

        asking = connection.request(RequestCode.GET_BROKER_EPOCH_CACHE, timeout_s=KEEP_ALIVE_MS / 1000)
        asking.addCallback(answered).addErrback(_no_answer)

    def _link_ended(self, address: str) -> None:
        link = self._links.get(address)
        if link is not None:
            link.next_ms, link.group = 0, None

    def drop_links(self) -> None:
        """This controller leads no more."""
        for address in self._links:
            self.connections.drop(address)
        self._links.clear()

    def close(self) -> None:
        """End every connection."""
        self._links.clear()
        self.connections.close()


def _ending(connection: RemotingProtocol) -> Callable[[Any], Any]:
    def end(result: Any) -> Any:
        connection.abort()
        return result

    return end


def _no_answer(failure: Failure) -> None:
    """Silence is an answer too; the round ends by its time."""


def _verdict(failure: Failure) -> Verdict:
    if failure.check(error.ConnectionRefusedError):
        return Verdict.REFUSED
    if failure.check(error.ConnectionClosed) or getattr(failure.value, "osError", None) == errno.ECONNRESET:
        return Verdict.CLOSED
    return Verdict.SILENT
