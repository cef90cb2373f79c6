"""A new master of a group in DLedger mode takes the newest topics and consumer groups that a majority has.

Theory of operation.  A change of a table is no entry of the log.  It is acknowledged when all voters that answer have
it (:mod:`rocketha.services.replication.metadata_master`), and a majority of them does, or the master is none for long.
Whoever leads next has the log, but may be one that did not answer then.  So it asks the others what they have, and
begins when a majority has said so: one of these has all that was acknowledged.

A witness has no tables.  With one a majority may say nothing, so whoever answers within a second is heard.  What was
acknowledged while brokers were away is on the others only, and these may be silent.

What it must not know: when this broker is the master.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import attrs
from twisted.internet import defer, task
from twisted.python.failure import Failure

from rocketha.broker.data_version import DataVersion
from rocketha.broker.metadata_waits import Versions
from rocketha.errors import RemoteProtocolError
from rocketha.observe.logging import make_logger
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.raft.messages import Members
from rocketha.raft.quorum import present
from rocketha.services.replication.metadata_slave import EXPECTED, Following, SlaveTables, Steps
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, ResponseCode
from rocketha.wire.remoting import Command

ANSWER_S = 1.0
RETRY_S = 0.1


@attrs.frozen
class _Has:
    """What a member said.

    :ivar address: of its main port.
    """

    versions: Versions
    address: str


class _Member(Following):
    """Its tables are taken once, whomever it follows: it is of the group.  What they lack may be in the log."""

    complete = False

    def __init__(self, tables: SlaveTables, address: str) -> None:
        super().__init__(tables, address, 0)

    def topics(self) -> Steps:
        yield from self._topics()

    def groups(self) -> Steps:
        yield from self._groups()

    def _trust(self) -> Steps:
        connection: RemotingProtocol = yield self._tables.client.connect(self._address, ANSWER_S)
        return connection

    def _still_follows(self) -> None:
        """It is no master."""


class NewestTables:
    """See the module.

    :param tables: of this broker.
    """

    def __init__(self, tables: SlaveTables) -> None:
        self._tables = tables
        self._clock = tables.context.clock
        self._log = make_logger()

    @defer.inlineCallbacks
    def take(self, own: str, members: Callable[[], Members]) -> Steps:
        """Fires when this broker has the newest tables; to be cancelled when it does not lead any more.

        :param own: its id.
        :param members: of the group, with addresses of their Raft ports.
        """
        said = ""
        while True:
            now = members()
            found: dict[str, _Has] = yield self._ask(own, now)
            try:
                if not _is_majority(now, {own, *found, *now.witnesses}):
                    raise RemoteProtocolError("a majority does not say what tables it has")
                yield from self._take(found)
                return
            except EXPECTED as problem:
                if str(problem) != said:
                    said = str(problem)
                    self._log.warn("not the master yet: {problem}", problem=said)
            except Exception:
                self._tables.faults += 1
                self._log.failure("not the master yet")
            yield task.deferLater(self._clock, RETRY_S, int)

    def _take(self, found: dict[str, _Has]) -> Steps:
        state = self._tables.context.state
        own = Versions.of(state.topics.data_version, state.groups.data_version)
        has = max(found.values(), key=lambda each: each.versions.topics, default=None)
        if has is not None and has.versions.topics > own.topics:
            self._log.info("{address} has newer topics: they are taken", address=has.address)
            yield from _Member(self._tables, has.address).topics()
        has = max(found.values(), key=lambda each: each.versions.groups, default=None)
        if has is not None and has.versions.groups > own.groups:
            self._log.info("{address} has newer consumer groups: they are taken", address=has.address)
            yield from _Member(self._tables, has.address).groups()

    def _ask(self, own: str, members: Members) -> defer.Deferred[dict[str, _Has]]:
        """What the others have, as far as they answer, until they are enough."""
        found: dict[str, _Has] = {}
        brokers = (members.voters | members.outgoing) - members.witnesses - {own}
        waiting = set(brokers)
        done: defer.Deferred[dict[str, _Has]] = defer.Deferred()

        def settle(name: str) -> None:
            waiting.discard(name)
            enough = not members.witnesses and _is_majority(members, {own, *found})
            if not done.called and (enough or not waiting):
                done.callback(found)

        def answered(answer: Command, name: str) -> None:
            has = _has(answer)
            if has is not None:
                found[name] = has
            settle(name)

        def silent(_: Failure, name: str) -> None:
            settle(name)

        def late() -> None:
            waiting.clear()
            settle("")

        timer = self._clock.callLater(ANSWER_S, late)
        for name in sorted(brokers):
            address = members.addresses.get(name, "")
            asked = self._tables.client.request(address, PrivateCode.STATUS, None, b"", ANSWER_S)
            asked.addCallback(answered, name).addErrback(silent, name)
        if not brokers:
            settle("")

        def over(result: Any) -> Any:
            if timer.active():
                timer.cancel()
            return result

        return done.addBoth(over)


def _is_majority(members: Members, those: Collection[str]) -> bool:
    return present(members, those.__contains__)


def _has(answer: Command) -> _Has | None:
    """None of a member that did not say it.  Java's have no versions, and promise nothing of their tables."""
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return _Has(Versions.of(None, None), "")
    if answer.code != ResponseCode.SUCCESS:
        return None
    try:
        value = json_dialect.loads(answer.body)
        versions = (DataVersion.from_json(value.get(name)) for name in ("topicVersion", "groupVersion"))
        return _Has(Versions.of(*versions), str(value["address"]))
    except (RemoteProtocolError, AttributeError, KeyError):
        return None
