"""What a server refuses is seen: requests answered with an error, connections that it ends, rows that it ignores.

Knows no socket and no clock of its own.  One :class:`Refusals` belongs to one server; its ports give it what they
refuse (:meth:`~rocketha.protocols.remoting.RemotingProtocol.answer` where answers leave, ``end`` where connections
end, ``ignored`` for a handler that leaves something out), and it decides what of that is a refusal at all.  So do HA
links and Raft connections, those that a server dialed too; they have no requests, only ends.

Theory of operation.  Everything is counted, by names from fixed lists, so that no peer makes new series.  Refusals of
one *kind*, the same request refused for the same reason to the same host, are logged once, then not for
:data:`QUIET_S`, then once more with how many there were.  At most :data:`LINES_MAX` lines leave in a second; what had
to wait is told later, so the lines add up to the counts.  The kinds are remembered, least recently seen forgotten
first, and each connection has what was refused on it last: ``rocketha clients`` shows both.

A success costs nothing here: the callers look at the code first.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

import attrs

from rocketha.errors import Ignored
from rocketha.latencies import NAMELESS
from rocketha.observe import events
from rocketha.observe.logging import emit, make_logger
from rocketha.observe.metrics import Registry
from rocketha.observe.overview import Refused as RefusedRow
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command

QUIET_S = 60.0
"""After a line about a kind of refusal, so long no other one of it."""
LINES_MAX = 20
"""Lines a second, of all kinds."""
KINDS_MAX = 1000
REMARK_CHARACTERS_MAX = 300
CLIENT_ID_BYTES_LOOKED_AT = 64 * 1024
FIELDS_SHOWN, FIELD_CHARACTERS_SHOWN = 8, 80
FIELDS_NOT_SHOWN = frozenset(("i", "properties", "Signature", "SecurityToken"))
"""What an application writes into messages is its own; a signature could be sent again."""
UNKNOWN = "unknown"
"""Stands for every code that is not in our lists."""

ORDINARY: Mapping[int, str] = {
    ResponseCode.FLUSH_DISK_TIMEOUT: "the message is stored",
    ResponseCode.SLAVE_NOT_AVAILABLE: "the message is stored",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "the message is stored; rocketha_sends_late_total counts these",
    ResponseCode.PULL_NOT_FOUND: "nothing has come yet: how a long poll ends",
    ResponseCode.PULL_RETRY_IMMEDIATELY: "nothing passed the filter so far, the consumer goes on",
    ResponseCode.PULL_OFFSET_MOVED: "the consumer is told where to go on",
    ResponseCode.QUERY_NOT_FOUND: "a new group has no offset, a key no message",
    ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: "two changes of a set crossed, the master asks again",
    ResponseCode.CONTROLLER_NOT_LEADER: "brokers ask every controller until they find the leader",
    ResponseCode.CONTROLLER_MASTER_STILL_EXIST: "brokers take it for success",
}
"""Answers with a code other than 0 that are everyday business and no refusals, and why."""

ORDINARY_OF: Mapping[tuple[int, int], str] = {
    (
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        ResponseCode.TOPIC_NOT_EXIST,
    ): "clients ask for a topic's route before its first message makes the topic",
    (
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        ResponseCode.CONSUMER_NOT_ONLINE,
    ): "monitoring asks about every group, and some have no consumer",
    (
        RequestCode.VIEW_BROKER_STATS_DATA,
        ResponseCode.SYSTEM_ERROR,
    ): "monitoring asks for the counters of every topic and group, and some have never counted",
    (
        RequestCode.GET_TIMER_CHECK_POINT,
        ResponseCode.SYSTEM_ERROR,
    ): "every Java slave asks it every few seconds, and goes on without",
    (
        PrivateCode.WHY,
        ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
    ): "rocketha-cluster asks it until the first broker of its set has registered",
}
"""Likewise of one request: ``(its code, the answer's)``."""


class Ended(Enum):
    """Why a server ended a connection."""

    BAD_FRAME = "bad_frame"
    NO_REQUEST = "no_request"
    SLOW_FRAME = "slow_frame"
    IDLE = "idle"
    UNFINISHED_FRAMES = "unfinished_frames"
    UNREAD_ANSWERS = "unread_answers"
    NO_PLACE = "no_place"
    LOST_PLACE = "lost_place"
    EXPIRED = "expired"
    NOT_ALLOWED = "not_allowed"
    NOT_SERVED = "not_served"
    OLD_EPOCH = "old_epoch"
    LOGS_DIFFER = "logs_differ"
    VERSION = "version"
    OTHER_GROUP = "other_group"
    OTHER_MEMBER = "other_member"
    UNKNOWN_MEMBER = "unknown_member"
    OWN_ID = "own_id"
    SHARED_ID = "shared_id"
    WRONG_ADDRESS = "wrong_address"
    WRONG_SECRET = "wrong_secret"
    WRONG_IDENTITY = "wrong_identity"
    PROXY_HEADER = "proxy_header"
    NO_TLS = "no_tls"
    TLS_NEEDED = "tls_needed"
    TLS_FAILED = "tls_failed"


_REQUEST_NAMES: dict[int, str] = {int(code): code.name for code in (*PrivateCode, *RequestCode)}
_ANSWER_NAMES = {int(code): code.name for code in ResponseCode}

# Also in a body that is no JSON, or none that is accepted: it is the client that a person looks for then.
_CLIENT_ID = re.compile(rb'"client(?:ID|Id)"\s*:\s*"([^"\\\x00-\x1f]{1,255})"')
_NAMING_BODIES = frozenset(
    (
        RequestCode.HEART_BEAT,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.CHECK_CLIENT_CONFIG,
    )
)
_NAMING_FIELDS = ("clientID", "clientId", "brokerAddr", "brokerAddress")


NAMED = (_REQUEST_NAMES.keys(), _ANSWER_NAMES.keys())
"""Codes of requests, and of answers, that have names; :data:`NAMELESS` stands for all others."""


def request_name(code: int) -> str:
    """The name of a request code of RocketMQ or rocketha, ``unknown`` where it has none."""
    return _REQUEST_NAMES.get(code, UNKNOWN)


def answer_name(code: int) -> str:
    """Likewise of a response code."""
    return _ANSWER_NAMES.get(code, UNKNOWN)


def is_refusal(request_code: int, answer_code: int) -> bool:
    """Whether an answer says no to something that the peer would want explained."""
    return answer_code != 0 and answer_code not in ORDINARY and (request_code, answer_code) not in ORDINARY_OF


class Refusal(NamedTuple):
    """One that happened.

    :ivar at_s: when, by the clock of its :class:`Refusals`.
    :ivar what: the request's name, or number, or ``connection`` for one that was ended.
    :ivar reason: the answer's name, or a value of :class:`Ended` or :class:`~rocketha.errors.Ignored`.
    :ivar client_id: as a heartbeat or the refused request itself says, None where nothing does.
    """

    at_s: float
    what: str
    reason: str
    peer: str
    client_id: str | None
    language: str | None
    version: int | None
    remark: str


class Refused:
    """What was refused on one connection.

    :ivar client_id: that a refused request gave.
    """

    __slots__ = ("client_id", "count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last: Refusal | None = None
        self.client_id: str | None = None


class Peer(Protocol):
    """What is told of a connection.

    :ivar id: by which the server knows a client's connection; 0 of one that is no client's.
    """

    id: int
    peer: str
    peer_host: str
    language: str | None
    version: int | None
    refused: Refused | None


@attrs.define
class Other:
    """The :class:`Peer` of a connection that is no client's: an HA link, one of a Raft group."""

    peer: str
    peer_host: str
    id: int = 0
    language: str | None = None
    version: int | None = None
    refused: Refused | None = None


class Kind:
    """Refusals that are alike: see the module.

    :ivar count: of all.
    """

    __slots__ = ("count", "event", "last", "quiet_until_s", "untold")

    def __init__(self, event: type[events.Refusal], first: Refusal) -> None:
        self.event = event
        self.last = first
        self.count = self.untold = 0
        self.quiet_until_s = first.at_s


class Refusals:
    """Those of one server, and how many requests there were.

    :param role: ``broker``, ``namesrv`` ...; a label of the metrics and a word of every line.
    :param seconds: a clock that never goes back.
    :param client_of: the client id of a connection's heartbeats, by the connection's id; None where there was none.
    :ivar asked: all requests, by their codes; those that have no name by :data:`NAMELESS`.
    :ivar failed: requests that raised at once what they should not, by name; they are refused, too.
    :ivar requests: refused ones by (request, answer).
    :ivar ended: connections by the value of :class:`Ended`.
    :ivar rows: ignored ones by (request, value of :class:`~rocketha.errors.Ignored`).
    """

    def __init__(
        self, role: str, seconds: Callable[[], float], client_of: Callable[[int], str | None] = lambda _: None
    ) -> None:
        self.role = role
        self.log = make_logger()
        self.asked: dict[int, int] = dict.fromkeys((*_REQUEST_NAMES, NAMELESS), 0)
        self.failed: Counter[str] = Counter()
        self.requests: Counter[tuple[str, str]] = Counter()
        self.ended: Counter[str] = Counter()
        self.rows: Counter[tuple[str, str]] = Counter()
        self._own_names: dict[int, str] = {}
        self._seconds = seconds
        self._client_of = client_of
        self._kinds: OrderedDict[tuple[str, str, str], Kind] = OrderedDict()
        self._any_untold = False
        self._forgotten = 0  # untold ones of kinds that had to make room
        self._second, self._lines = 0, 0  # how many lines left in which second

    def name_request(self, code: int, name: str) -> None:
        """A request that only this server knows."""
        self._own_names[code] = name
        self.asked.setdefault(code, 0)

    def request_name(self, code: int) -> str:
        """The name of a request code on this server, ``unknown`` where it has none."""
        return self._own_names.get(code) or request_name(code)

    # -- what happened --------------------------------------------------------------------------------------------

    def answered(self, peer: Peer, command: Command, answer: Answer) -> None:
        """A request was answered with a code other than 0."""
        code = int(answer.code)
        if not is_refusal(command.code, code):
            return
        names = self.request_name(command.code), answer_name(code)
        self.requests[names] += 1
        self._note(events.RequestRefused, peer, *names, answer.remark or "", command)

    def ended_by_us(self, peer: Peer, cause: Ended, why: str) -> None:
        """A connection is ended because of what its peer did, or did not."""
        self.ended[cause.value] += 1
        self._note(events.ConnectionEnded, peer, "connection", cause.value, why, None)

    def ignored(self, peer: Peer, command: Command, reason: Ignored, what: str) -> None:
        """A part of a request was left out, and the rest of it served."""
        names = self.request_name(command.code), reason.value
        self.rows[names] += 1
        self._note(events.RowIgnored, peer, *names, what, command)

    def _note(
        self, event: type[events.Refusal], peer: Peer, what: str, reason: str, remark: str, command: Command | None
    ) -> None:
        here = peer.refused
        if here is None:
            here = peer.refused = Refused()
        client_id = self._client_of(peer.id) or here.client_id
        if client_id is None and command is not None:
            client_id = here.client_id = named_client(command)
        language, version = peer.language, peer.version
        if command is not None:
            language, version = command.language, command.version
        shown = remark if len(remark) <= REMARK_CHARACTERS_MAX else f"{remark[:REMARK_CHARACTERS_MAX]}..."
        now_s = self._seconds()
        here.count += 1
        title = what if command is None or what != UNKNOWN else f"unknown request {command.code}"
        here.last = refusal = Refusal(now_s, title, reason, peer.peer, client_id, language, version, shown)
        kind = self._kind((what, reason, peer.peer_host), event, refusal)
        kind.count += 1
        kind.untold += 1
        kind.last = refusal
        if now_s < kind.quiet_until_s or not self._tell(kind, now_s, {} if command is None else command.fields):
            self._any_untold = True

    def _kind(self, key: tuple[str, str, str], event: type[events.Refusal], refusal: Refusal) -> Kind:
        kind = self._kinds.get(key)
        if kind is not None:
            self._kinds.move_to_end(key)
            return kind
        if len(self._kinds) >= KINDS_MAX:
            _, forgotten = self._kinds.popitem(last=False)
            self._forgotten += forgotten.untold
        kind = self._kinds[key] = Kind(event, refusal)
        return kind

    # -- the log --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Once a second: tell what had to wait and may be told now."""
        if self._any_untold:
            self._tell_waiting(False)

    def close(self) -> None:
        """The server stops: tell what waits, whether its time has come or not."""
        if self._any_untold:
            self._tell_waiting(True)

    def _tell_waiting(self, now: bool) -> None:
        now_s = self._seconds()
        self._any_untold = False
        for kind in self._kinds.values():
            if kind.untold and not ((now or now_s >= kind.quiet_until_s) and self._tell(kind, now_s, {})):
                self._any_untold = True
        if self._forgotten:
            emit(self.log, events.RefusalsForgotten(self.role, self._forgotten))
            self._forgotten = 0

    def _tell(self, kind: Kind, now_s: float, asked: Mapping[str, str]) -> bool:
        """A line about a kind; False when there were enough lines in this second."""
        if int(now_s) != self._second:
            self._second, self._lines = int(now_s), 0
        if self._lines >= LINES_MAX:
            return False
        self._lines += 1
        more = kind.untold - 1
        kind.untold, kind.quiet_until_s = 0, now_s + QUIET_S
        _, what, reason, peer, client_id, language, version, remark = kind.last
        fields = {name[:FIELD_CHARACTERS_SHOWN]: asked[name][:FIELD_CHARACTERS_SHOWN] for name in _first(asked)}
        emit(
            self.log,
            kind.event(
                self.role,
                what,
                reason,
                peer,
                client_id or UNKNOWN,
                language or UNKNOWN,
                -1 if version is None else version,
                remark,
                fields,
                more,
                f", and {more} more like it" if more else "",
            ),
        )
        return True

    # -- for people -----------------------------------------------------------------------------------------------

    def kinds(self) -> list[dict[str, Any]]:
        """Each kind that is remembered: how often, how long ago last, and what the last one was; newest first."""
        return [{"count": kind.count, **self.shown(kind.last)} for kind in reversed(self._kinds.values())]

    def shown(self, refusal: Refusal) -> dict[str, Any]:
        """A refusal in JSON."""
        return {
            "secondsAgo": round(self._seconds() - refusal.at_s, 3),
            "what": refusal.what,
            "reason": refusal.reason,
            "address": refusal.peer,
            "clientId": refusal.client_id,
            "language": refusal.language,
            "version": refusal.version,
            "remark": refusal.remark,
        }


def _first(asked: Mapping[str, str]) -> Iterator[str]:
    return itertools.islice((name for name in asked if name not in FIELDS_NOT_SHOWN), FIELDS_SHOWN)


def named_client(command: Command) -> str | None:
    """Who a request says it comes from: a client's id, or a broker's address; None where it does not say."""
    if command.code in _NAMING_BODIES:
        found = _CLIENT_ID.search(command.body, 0, CLIENT_ID_BYTES_LOOKED_AT)
        if found is not None:
            return found[1].decode("utf-8", "backslashreplace")
    return next((command.fields[name][:255] for name in _NAMING_FIELDS if command.fields.get(name)), None)


def refused_by(*servers: Refusals) -> list[RefusedRow]:
    """What they refused, the most frequent first: of whom is in their logs, and not here."""
    rows = [
        RefusedRow(each.role, what, reason, count)
        for each in servers
        for (what, reason), count in [
            *each.requests.items(),
            *((("connection", cause), count) for cause, count in each.ended.items()),
            *each.rows.items(),
        ]
    ]
    return sorted(rows, key=lambda row: (-row.count, row.role, row.what, row.reason))


def install(metrics: Registry, *servers: Refusals) -> None:
    """Register the counts of the servers that share one page of metrics."""

    def of_all(
        counts: Callable[[Refusals], Iterable[tuple[tuple[str, ...], int]]],
    ) -> Callable[[], Iterable[tuple[tuple[str, ...], int]]]:
        return lambda: [((each.role, *names), count) for each in servers for names, count in counts(each)]

    for name, text, labels, counts in (
        (
            "requests",
            "Requests that came, answered whichever way.",
            ("role", "request"),
            lambda each: [((each.request_name(code),), count) for code, count in sorted(each.asked.items()) if count],
        ),
        (
            "requests_failed",
            "Requests that raised an exception nobody reckoned with, before they had to wait for anything.",
            ("role", "request"),
            lambda each: [((request,), count) for request, count in sorted(each.failed.items())],
        ),
        (
            "requests_refused",
            "Requests answered with an error that is no everyday business.",
            ("role", "request", "reason"),
            lambda each: sorted(each.requests.items()),
        ),
        (
            "connections_ended",
            "Connections that the server ended, or did not let in.",
            ("role", "reason"),
            lambda each: [((cause,), count) for cause, count in sorted(each.ended.items())],
        ),
        (
            "rows_ignored",
            "Parts of requests that were left out while the rest was served.",
            ("role", "request", "reason"),
            lambda each: sorted(each.rows.items()),
        ),
    ):
        metrics.ask_series(f"rocketha_{name}_total", text, labels, of_all(counts), "counter")
