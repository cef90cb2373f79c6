"""Message properties: ``name 0x01 value 0x02`` repeated.

Pure.  Java: ``MessageDecoder.string2messageProperties`` / ``messageProperties2String``, whose leniency is copied:
pieces of fewer than three characters and pieces without a name or a value are skipped, the last separator is
optional.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketha.errors import RemoteProtocolError
from rocketha.wire.limits import PROPERTIES_BYTES_MAX

NAME_VALUE = "\x01"
PAIR = "\x02"
LENGTH_MAX = PROPERTIES_BYTES_MAX
"""Largest properties block of a stored message, in bytes (the length is a signed short)."""

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
RETRY_TOPIC = "RETRY_TOPIC"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_PREPARED = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
UNIQUE_KEY = "UNIQ_KEY"
CLUSTER = "CLUSTER"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
INNER_NUM = "INNER_NUM"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"


def parse_text(text: str) -> dict[str, str]:
    """The pairs of a properties string, in order; of a repeated name the last value counts."""
    result: dict[str, str] = {}
    for piece in text.split(PAIR):
        if len(piece) < 3:
            continue
        name, separator, value = piece.partition(NAME_VALUE)
        if separator and name and value:
            result[name] = value
    return result


def parse(data: bytes) -> dict[str, str]:
    """The pairs of a properties block.

    :raises RemoteProtocolError: when the bytes are not UTF-8 or longer than a stored message can hold.
    """
    if len(data) > LENGTH_MAX:
        raise RemoteProtocolError(f"properties of {len(data)} bytes, at most {LENGTH_MAX}")
    try:
        return parse_text(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"properties are not UTF-8: {error}") from None


def build_text(properties: Mapping[str, str]) -> str:
    """The string of some pairs, with the trailing separator as Java 5 writes it."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def build(properties: Mapping[str, str]) -> bytes:
    """The block of some pairs, UTF-8."""
    return build_text(properties).encode("utf-8", "surrogatepass")
