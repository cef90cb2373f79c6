"""The table of header classes, fields and values that goes through Java's header classes and through our readers.

A row is a request that is good but for one field.  Java reads it with the real ``decodeCommandCustomHeader``, ours with
the handler of its code: what that asks of the header is written down while it asks.  So a field counts as it is used,
and one that ours has no use for is *unread*.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import random
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from rocketha.broker import pull, queries, send_back, send_header
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.state import BrokerState
from rocketha.controller import heartbeats
from rocketha.controller.requests import Caller
from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.namesrv import requests as namesrv_requests
from rocketha.store.messages import GetStatus
from rocketha.wire import fields, remoting
from rocketha.wire.remoting import Command
from tests.broker.support import Client
from tests.broker.test_hostile_requests import busy_broker
from tests.controller.support import Controller as ControllerSupport
from tests.namesrv.helpers import name_server

from .harness import jars

REFUSED, UNREAD, NULL = "refused", "unread", "null"
ABSENT = "absent"
JSON, BINARY = "json", "binary"

_NUMBERS = (
    "0",
    "1",
    "2",
    "-1",
    "+1",
    "-0",
    "+0",
    "00",
    "01",
    "007",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "0" * 24 + "1",
    "+" + "0" * 19 + "1",
)
_NO_NUMBERS = (
    "",
    " ",
    "   ",
    "\t",
    "+",
    "-",
    "--1",
    "+-1",
    " 1",
    "1 ",
    "1\n",
    "0x10",
    "0b1",
    "1.0",
    "1.5",
    ".5",
    "1e3",
    "1E3",
    "1_000",
    "1,000",
    "1L",
    "1d",
    "NaN",
    "Infinity",
    "abc",
    "null",
    "NULL",
    "é",
    "a,b",
    "[]",
    "{}",
)
_DIGITS = ("\u0661", "\uff11", "-\u0967", "1\u0660", "\u00b2", "\U0001d7cf")  # the last two are none to Java
_FLAGS = ("true", "TRUE", "True", "tRuE", "true ", "false", "FALSE", "yes", "no", "Y", "N", "T", "on")
_WORDS = ("upper", "UPPER", "Upper", "lower", "LOWER", "T", "TAG")
TEXTS = tuple(dict.fromkeys((*_NUMBERS, *_NO_NUMBERS, *_DIGITS, *_FLAGS, *_WORDS)))
RAW = (
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "1.0",
    "1.5",
    "-0",
    "1e3",
    "1E2",
    "1e10",
    "1e400",
    "0.001",
    "2147483648",
    "9223372036854775808",
    "[]",
    "{}",
    "[1]",
    '["a"]',
    '["1"]',
    "[null]",
    "[[1]]",
    '{"a":1}',
    '{"a":null}',
    "[1.5]",
    '[{"a":"b"}]',
)
"""JSON that stands where a text is usual."""


class Row(NamedTuple):
    """A request: of which class, with what in one field, and how it is written; ``value`` is JSON, or ABSENT."""

    header: str
    field: str
    value: str
    encoding: str


class Header(NamedTuple):
    """A header class: a request code that has it, good fields, and its other fields."""

    code: int
    good: dict[str, str]
    more: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        return (*self.good, *self.more)


_LETTERS = {
    "a": "PG",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1795595085529",
    "h": "0",
    "i": "",
    "j": "0",
    "k": "false",
    "l": "3",
    "m": "false",
}
_WORDS_OF = {letter: name for name, letter in send_header._LONG_NAMES.items()}
_QUEUE = {"topic": "T", "queueId": "0"}
_BROKER = {"clusterName": "C", "brokerName": "b", "brokerAddr": "127.0.0.1:4711", "brokerId": "0"}
HEADERS = {
    "Types": Header(
        0,
        {},
        (
            "text",
            "textNullable",
            "boxed",
            "boxedNullable",
            "integer",
            "boxedLong",
            "boxedLongNullable",
            "big",
            "boxedFlag",
            "boxedFlagNullable",
            "flag",
        ),
    ),
    "SendMessageRequestHeader": Header(10, {_WORDS_OF[letter]: value for letter, value in _LETTERS.items()}),
    "SendMessageRequestHeaderV2": Header(310, _LETTERS, ("n",)),
    "SendMessageRequestHeaderV2 with n": Header(310, {**_LETTERS, "n": "b"}),
    "SendMessageRequestHeaderV2 of a batch": Header(320, {**_LETTERS, "m": "true"}),
    "PullMessageRequestHeader": Header(
        11,
        {
            "consumerGroup": "G",
            **_QUEUE,
            "queueOffset": "0",
            "maxMsgNums": "32",
            "sysFlag": "7",
            "commitOffset": "0",
            "suspendTimeoutMillis": "100",
            "subscription": "*",
            "subVersion": "0",
        },
        ("expressionType", "maxMsgBytes", "bname", "lo"),
    ),
    "PullMessageRequestHeader of a known subscription": Header(
        11,
        {
            "consumerGroup": "G",
            **_QUEUE,
            "queueOffset": "0",
            "maxMsgNums": "32",
            "sysFlag": "0",
            "subVersion": "0",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
        },
    ),
    "UpdateConsumerOffsetRequestHeader": Header(15, {"consumerGroup": "G", **_QUEUE, "commitOffset": "1"}, ("bname",)),
    "QueryConsumerOffsetRequestHeader": Header(14, {"consumerGroup": "H", **_QUEUE}, ("setZeroIfNotFound",)),
    "UnregisterClientRequestHeader": Header(35, {"clientID": "c1"}, ("producerGroup", "consumerGroup")),
    "ConsumerSendMsgBackRequestHeader": Header(
        36,
        {"group": "G", "offset": "0", "delayLevel": "3"},
        ("unitMode", "originMsgId", "originTopic", "maxReconsumeTimes"),
    ),
    "QueryMessageRequestHeader": Header(
        12, {"topic": "T", "key": "K", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9"}, ("indexType",)
    ),
    "SearchOffsetRequestHeader": Header(29, {**_QUEUE, "timestamp": "7"}, ("boundaryType",)),
    "GetMaxOffsetRequestHeader": Header(30, _QUEUE, ("committed",)),
    "CreateTopicRequestHeader": Header(
        17,
        {
            "topic": "T",
            "defaultTopic": "TBW102",
            "readQueueNums": "4",
            "writeQueueNums": "4",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        },
        ("attributes",),
    ),
    "ResetOffsetRequestHeader": Header(
        222, {"topic": "T", "group": "G", "timestamp": "7", "isForce": "true"}, ("queueId", "offset")
    ),
    "GetConsumeStatsRequestHeader": Header(208, {"consumerGroup": "G"}, ("topic", "topicList")),
    "CloneGroupOffsetRequestHeader": Header(314, {"srcGroup": "G", "destGroup": "H", "offline": "true"}, ("topic",)),
    "RegisterBrokerRequestHeader": Header(
        103,
        {**_BROKER, "haServerAddr": "127.0.0.1:4712", "bodyCrc32": "0", "compressed": "false"},
        ("heartbeatTimeoutMillis", "enableActingMaster"),
    ),
    "QueryDataVersionRequestHeader": Header(322, _BROKER),
    "AlterSyncStateSetRequestHeader": Header(
        1001, {"brokerName": "b", "masterBrokerId": "1", "masterEpoch": "1"}, ("invokeTime",)
    ),
    "ElectMasterRequestHeader": Header(
        1002, {"clusterName": "C", "brokerName": "b", "brokerId": "1", "designateElect": "false"}, ("invokeTime",)
    ),
    "RegisterBrokerToControllerRequestHeader": Header(
        1003,
        {"clusterName": "C", "brokerName": "b", "brokerId": "1", "brokerAddress": "127.0.0.1:4711"},
        ("invokeTime",),
    ),
    "GetReplicaInfoRequestHeader": Header(1004, {"brokerName": "b"}),
    "CleanControllerBrokerDataRequestHeader": Header(
        1011,
        {"brokerName": "b", "isCleanLivingBroker": "false"},
        ("clusterName", "brokerControllerIdsToClean", "invokeTime"),
    ),
    "GetNextBrokerIdRequestHeader": Header(1012, {"clusterName": "C", "brokerName": "b"}),
    "ApplyBrokerIdRequestHeader": Header(
        1013, {"clusterName": "C", "brokerName": "b", "appliedBrokerId": "1", "registerCheckCode": "127.0.0.1:4711;1"}
    ),
    "BrokerHeartbeatRequestHeader": Header(
        904, _BROKER, ("epoch", "maxOffset", "confirmOffset", "heartbeatTimeoutMills", "electionPriority")
    ),
}


def rows() -> list[Row]:
    """Every field with every value, and without one; texts in both encodings."""
    found = []
    for name, field in ((name, field) for name, header in HEADERS.items() for field in header.fields):
        for encoding in (JSON, BINARY):
            values = (ABSENT, *(json.dumps(text) for text in TEXTS), *(RAW if encoding == JSON else ()))
            found += [Row(name, field, value, encoding) for value in values]
    return found


def frame(row: Row) -> bytes:
    """The request without its length word."""
    header = HEADERS[row.header]
    if row.encoding == BINARY:
        given = {**header.good} if row.value == ABSENT else {**header.good, row.field: json.loads(row.value)}
        if row.value == ABSENT:
            given.pop(row.field, None)
        return remoting.encode(Command(header.code, opaque=1, fields=given), binary=True)[4:]
    texts = {name: json.dumps(value) for name, value in header.good.items() if name != row.field}
    if row.value != ABSENT:
        texts[row.field] = row.value
    members = ",".join(f'"{name}":{value}' for name, value in texts.items())
    text = f'{{"code":{header.code},"language":"GO","version":513,"opaque":1,"flag":0,"extFields":{{{members}}}}}'
    return struct.pack(">I", len(text.encode())) + text.encode()


def theirs(table: Iterable[Row], folder: Path) -> list[str]:
    """What Java's header class has in the field of each row."""
    table = list(table)
    lines = "".join(f"{row.header.split()[0]}\t{base64.b64encode(frame(row)).decode()}\n" for row in table)
    command = jars.java_command("HeaderFields", heap_mb=256, home=folder, quick=True, sources=jars.SOURCES)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(table), (len(answers), len(table), done.stderr[-2000:])
    return [
        REFUSED if answer.startswith("!") else _shown(json.loads(answer)[_java_name(row)])
        for row, answer in zip(table, answers, strict=True)
    ]


def _java_name(row: Row) -> str:
    return _WORDS_OF[row.field] if row.header.startswith("SendMessageRequestHeaderV2") else row.field


def _shown(value: Any) -> str:
    """One text for the same value of either side."""
    return NULL if value is None else json.dumps(str(value).lower() if isinstance(value, bool) else str(value))


def told(row: Row, java: str, ours: str) -> str:
    """A difference in a line: class and field, value, and what each side makes of it."""
    sides = (side if side in (REFUSED, UNREAD, NULL) else "value" for side in (java, ours))
    return f"{row.header}.{row.field} {row.value} {' '.join(sides)}"


class _Fields(dict[str, str]):
    """A header's fields that note which of them are asked for as they are."""

    def __init__(self, found: dict[str, str], seen: dict[str, Any]) -> None:
        super().__init__(found)
        self._seen = seen

    def __getitem__(self, name: str) -> str:
        self._seen.setdefault(name, super().get(name))
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._seen.setdefault(name, super().get(name))
        return super().get(name, default)


class Readers:
    """Our handlers, and what they ask of a header."""

    def __init__(self) -> None:
        self._seen: dict[str, Any] = {}
        self._broker = busy_broker()
        self._rules = MessageRules()
        self._names = name_server()
        self._replicas = ControllerSupport()
        self._store = mock.Mock()
        self._store.get.return_value = SimpleNamespace(
            status=GetStatus.NO_MATCHED_LOGIC_QUEUE,
            next_offset=0,
            min_offset=0,
            max_offset=0,
            buffers=(),
            size=0,
            count=0,
            behind=0,
        )
        self._store.offset_by_time.side_effect = self._by_time
        self._store.query.return_value = []
        self._store.message_at.return_value = None

    def _by_time(self, topic: str, queue_id: int, timestamp: int, upper: bool) -> int:
        self._seen["boundaryType"] = "UPPER" if upper else "LOWER"
        return 0

    @contextlib.contextmanager
    def patched(self) -> Iterator[Readers]:
        """While each reader of a field notes what it made of it."""
        with contextlib.ExitStack() as stack:
            for name in _READERS:
                stack.enter_context(mock.patch.object(fields, name, self._noted(getattr(fields, name))))
            for name in ("_text", "_name", "_optional_name", "_address", "_integer"):
                reader = self._noted(getattr(namesrv_requests, name))
                stack.enter_context(mock.patch.object(namesrv_requests, name, reader))
            stack.enter_context(mock.patch.object(pull, "_Pull", self._pull))
            stack.enter_context(mock.patch.object(BrokerState, "need_saved", lambda *_: None))
            origin = SimpleNamespace(topic="T", reconsume_times=0, store_host=bytes(8), physical_offset=0)
            stack.enter_context(mock.patch.object(send_back.SendBacks, "_origin", lambda *_: (origin, {})))
            yield self

    def _noted(self, reader: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(reader)
        def noted(found: Any, name: str, *more: Any, **named: Any) -> Any:
            try:
                value = reader(found, name, *more, **named)
            except RequestRefused:
                self._seen[name] = REFUSED
                raise
            self._seen[name] = value
            return value

        return noted

    def ours(self, row: Row) -> str:
        """What ours makes of the field of a row."""
        self._seen.clear()
        try:
            command = remoting.decode(frame(row))
        except RemoteProtocolError:
            return REFUSED
        if row.header == "Types":
            self._declared(row.field, command)
        else:
            command.fields = _Fields(command.fields, self._seen)
            try:
                self._handle(command)
            except RequestRefused as refusal:
                if row.field == "topicFilterType" and row.field in refusal.remark:  # asked for as a text
                    self._seen[row.field] = REFUSED
        if row.field not in self._seen:
            return UNREAD
        found = self._seen[row.field]
        return REFUSED if found is REFUSED else _shown(found)

    def _pull(self, *values: Any) -> Any:
        names = ("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag")
        self._seen.update(zip(names, values, strict=True))
        return _PULL(*values)

    def _declared(self, field: str, command: Command) -> None:
        with contextlib.suppress(RequestRefused):
            reader = _DECLARED[field]
            self._noted(reader)(command.fields, field)

    def _handle(self, command: Command) -> None:
        code, client = command.code, Client()
        if code in (10, 310, 320):
            try:
                parsed = send_header.parse(command)
            except RequestRefused:
                return  # its readers have noted which
            values = zip(_SEND_FIELDS, parsed, strict=True)
            letters = (lambda name: name) if code == 10 else send_header._LONG_NAMES.__getitem__
            self._seen.update((letters(name), value) for name, value in values)
        elif code == 11:
            held = mock.Mock()
            pull.Pulls(self._broker.state, self._store, self._rules, held).pull(mock.Mock(peer=client.peer), command, 0)
        elif code == 36:
            nothing = mock.Mock()
            backs = send_back.SendBacks(
                self._broker.state, self._store, self._rules, nothing, nothing, nothing, random.Random(0)
            )
            backs.send_back(client, command, 0)
        elif code in (103, 322):
            self._names.answer(command, namesrv_requests.Caller(1, "127.0.0.1"), 0)
        elif code == 904:
            heartbeats.read(command.fields)
        elif code in _CONTROLLER:
            self._replicas.requests.decode(command, Caller("127.0.0.1:1", ""), True, 0)
        else:
            asked = queries.Queries(self._store, self._rules).requests
            self._broker.table.get(code, asked.get(code))(client, command, 0)


_PULL = pull._Pull
_READERS = ("text", "optional_text", "integer", "optional_integer", "long", "optional_long", "flag", "optional_flag")
_CONTROLLER = (1001, 1002, 1003, 1004, 1011, 1012, 1013)
_SEND_FIELDS = (
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "maxReconsumeTimes",
    "unitMode",
    "batch",
)
_DECLARED: dict[str, Callable[[Any, str], Any]] = {
    "text": fields.text,
    "textNullable": fields.optional_text,
    "boxed": fields.integer,
    "boxedNullable": fields.optional_integer,
    "integer": lambda found, name: fields.optional_integer(found, name) or 0,
    "boxedLong": fields.long,
    "boxedLongNullable": fields.optional_long,
    "big": lambda found, name: fields.optional_long(found, name) or 0,
    "boxedFlag": fields.flag,
    "boxedFlagNullable": fields.optional_flag,
    "flag": fields.flag,
}
"""Which reader is for which declared type."""
