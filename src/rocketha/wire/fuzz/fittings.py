"""What makes a value of a particular format realistic, where its spec alone cannot say.

Pure. A spec says that a header is some bytes; that they are JSON when the type byte is 0 only its reader knows. A
fitting takes a value the walker invented and makes it one that production accepts, most of the time. A format
without one is still covered: its values are then only as good as its spec.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import orjson

from rocketha.wire import record
from rocketha.wire.crc import crc32_31
from rocketha.wire.fuzz import (
    controller_fittings,
    dledger_fittings,
    ha_body_fittings,
    ha_fittings,
    proxy_fittings,
    raft_fittings,
    raft_log_fittings,
    requests,
    values,
)
from rocketha.wire.spec import commitlog, dledger, remoting

Fitting = Callable[[Random, Any], Any]

_LANGUAGES = ("JAVA", "CPP", "PYTHON", "GO", "OTHER", "NODE_JS", "KLINGON")


def packed_header(head: dict[str, Any]) -> bytes:
    """The ROCKETMQ form of a JSON header object; the code is cut to 16 bits as that form wants."""
    fields = [
        {"name": str(name).encode()[:65535], "value": str(item).encode()}
        for name, item in (head.get("extFields") or {}).items()
    ]
    value = {
        "code": (head["code"] + 0x8000) % 0x10000 - 0x8000,
        "language": 0,
        "version": (head["version"] + 0x8000) % 0x10000 - 0x8000,
        "opaque": head["opaque"],
        "flag": head["flag"],
        "remark": b"",
        "fields": fields,
    }
    return bytes(remoting.BINARY_HEADER.build(value))


def _frame(chance: Random, value: Any) -> Any:
    if chance.random() < 0.05:
        return value
    head, body = requests.make(chance, values.integer(chance, 32, True))
    kind = remoting.ROCKETMQ if chance.random() < 0.3 else remoting.JSON
    header = packed_header(head) if kind else orjson.dumps(head)
    return {"serialize_type": kind, "header": header, "body": body if chance.random() < 0.8 else value["body"]}


def _json_header(chance: Random, value: Any) -> Any:
    if chance.random() < 0.3:
        return value
    value["language"] = chance.choice(_LANGUAGES)
    if chance.random() < 0.3:
        value.update(requests.make(chance, 7)[0])
    return value


def _binary_header(chance: Random, value: Any) -> Any:
    if chance.random() < 0.2:
        return value
    value["language"] %= 16
    value["remark"] = _utf8(value["remark"])
    value["fields"] = [{"name": _utf8(row["name"]), "value": _utf8(row["value"])} for row in value["fields"]]
    return value


def _utf8(data: bytes) -> bytes:
    return data.decode(errors="ignore").encode()


def _properties(chance: Random, value: Any) -> Any:
    if chance.random() < 0.2:
        return value
    separators = str.maketrans("", "", "\x01\x02")
    pairs = [
        {key: item.decode(errors="ignore").translate(separators) for key, item in pair.items()}
        for pair in value["pairs"]
    ]
    return {
        "pairs": [
            {key: (item or values.text(chance).translate(separators)).encode() for key, item in pair.items()}
            for pair in pairs
        ]
    }


def _record(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    topic = values.text(chance).encode()[: chance.choice((127, 127, 300))].decode(errors="ignore").encode()
    value["magic"] = commitlog.MAGIC_V2 if len(topic) > 127 or chance.random() < 0.2 else commitlog.MAGIC_V1
    value["topic"] = topic
    value["properties"] = value["properties"][:32767]
    head = record.HEAD_LAYOUTS[value["sys_flag"] & record.HOST_BITS].size
    width = 2 if value["magic"] == commitlog.MAGIC_V2 else 1
    value["total"] = head + len(value["body"]) + width + len(topic) + 2 + len(value["properties"])
    value["body_crc"] = crc32_31(value["body"])
    return value


def _blank(chance: Random, value: Any) -> Any:
    value["magic"] = commitlog.MAGIC_BLANK
    value["total"] = abs(value["total"]) % 0x7FFFFFFF if chance.random() < 0.8 else value["total"]
    return value


def _entry_head(chance: Random, value: Any) -> Any:
    value["magic"] = dledger.MAGIC
    value["body_length"] = chance.choice((0, 91, chance.randrange(1 << 20), chance.randrange(1 << 26)))
    value["size"] = value["body_length"] + dledger.ENTRY_HEAD.sizeof()
    for name in ("index", "term", "position"):
        value[name] &= (1 << 63) - 1
    return value


def _term_start(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    value["version"] = chance.choice((1, dledger.WITH_ORIGIN))
    value["origin"] = chance.getrandbits(64) if value["version"] == dledger.WITH_ORIGIN else None
    return value


FITTINGS: dict[str, Fitting] = {
    "remoting": _frame,
    "remoting-json-header": _json_header,
    "remoting-binary-header": _binary_header,
    "properties": _properties,
    "commitlog-record": _record,
    "commitlog-blank": _blank,
    "dledger-entry-head": _entry_head,
    "dledger-term-start": _term_start,
    **controller_fittings.FITTINGS,
    **dledger_fittings.FITTINGS,
    **ha_fittings.FITTINGS,
    **ha_body_fittings.FITTINGS,
    **proxy_fittings.FITTINGS,
    **raft_fittings.FITTINGS,
    **raft_log_fittings.FITTINGS,
}
