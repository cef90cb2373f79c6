"""The answer to a send that was stored: laid out by hand, now or when the disk has it.

Pure.  The answer of a message that waits for the disk or for replicas is handed to :class:`Acknowledgements`, as a
function of the code that their fate decides.

Java: ``SendMessageResponseHeader``, ``SendMessageProcessor.handlePutMessageResult``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import orjson

from rocketha.broker.acknowledgements import Acknowledgements, Replicas, Writer
from rocketha.compiled import compiled
from rocketha.wire.remoting import VERSION

MAYBE_STORED = "it may have stored the message, or not"
"""How a remark ends, under code 1, where nobody knows.  Java's broker says as much with a bare UNKNOWN_ERROR; its
producer sends the message again, to another broker if there is one, as after a refusal."""

_PREFIX = struct.Struct(">iI")


class SendAnswers:
    """Answers stored sends.

    :param store_host: the broker's address as in records: the first part of message ids.
    :param region_fields: MSG_REGION and TRACE_ON; Java clients read them without a check.
    """

    def __init__(
        self,
        acknowledgements: Acknowledgements,
        store_host: bytes,
        region_fields: Mapping[str, str],
    ) -> None:
        self._acknowledgements = acknowledgements
        self._id_prefix = store_host.hex().upper().encode()
        region = orjson.dumps(region_fields)[1:-1]
        self._head = b'"extFields":{' + region + b',"msgId":"'
        self._tail = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION

    def stored(
        self,
        connection: Writer,
        opaque: int,
        queue_id: int,
        unique_key: str,
        wait: bool,
        queue_offset: int,
        physical_offsets: Sequence[int],
        end: int,
        now_ms: int,
    ) -> None:
        """Answer a send whose messages lie at ``physical_offsets`` in the log, the last up to ``end``.

        :param queue_id: the queue that was asked for; a delayed message lies elsewhere.
        :param unique_key: the transactionId; empty for a batch.
        :param queue_offset: of the first message.
        :param wait: whether the producer wants to wait for disk and replicas.
        """
        prefix = self._id_prefix
        if len(physical_offsets) == 1:
            ids = b"%b%016X" % (prefix, physical_offsets[0])
        else:
            ids = message_ids(prefix, physical_offsets)
        safe = unique_key.encode() if unique_key.isalnum() and unique_key.isascii() else _escaped(unique_key)
        rest = b'%b%b","queueId":"%d","queueOffset":"%d"%b},"flag":1,"language":"PYTHON","opaque":%d%b' % (
            self._head,
            ids,
            queue_id,
            queue_offset,
            b',"transactionId":"%b"' % safe if safe else b"",
            opaque,
            self._tail,
        )
        waiting = self._acknowledgements
        if wait and (waiting.sync_flush or waiting.replicas is not Replicas.NOT_ASKED):
            waiting.stored(end, now_ms, connection, lambda code: _frame(code, rest))
        else:
            connection.write(_frame(0, rest))


@compiled
def message_ids(prefix: bytes, offsets: Sequence[int]) -> bytes:
    """The ids of messages at some offsets in the log, with commas between."""
    return ((prefix + b"%016X,") * len(offsets) % tuple(offsets))[:-1]


def _escaped(text: str) -> bytes:
    return orjson.dumps(text)[1:-1]


def _frame(code: int, rest: bytes) -> bytes:
    header = b'{"code":%d,%b' % (code, rest)
    return _PREFIX.pack(4 + len(header), len(header)) + header
