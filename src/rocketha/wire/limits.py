"""Limits on encoded forms, each derived from the largest legal content in its longest legal encoding.

Pure.  A limit that is smaller than that locks out somebody who keeps every rule: properties of 32,767 bytes are legal,
and as many control characters are 196,602 bytes of JSON.  So no limit is chosen by taste: what may be said is named
first, then how long an encoder may make it, and the limit is their product.  What is over a limit is refused with an
answer wherever the request's number can be read, and costs the connection only where it can not.
"""

from __future__ import annotations

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""A frame behind its length word: Java's own limit (``com.rocketmq.remoting.frameMaxLength``), which every peer has."""

JSON_BYTES_A_BYTE = 6
"""What a byte of UTF-8 may become in JSON: ``\\u0001`` for a control character; others grow less."""
JSON_BYTES_A_CHARACTER = 12
"""What a character may become: two escapes of six outside the basic plane."""

PROPERTIES_BYTES_MAX = 32_767
"""Properties of a stored message: their length is a signed short."""
TEXT_CHARACTERS_MAX = 65_536
"""The longest text that any request may have in one header field: a subscription's expression, a value of the
nameserver's KV table, a list of topics."""
NAMES_CHARACTERS_MAX = 16 * 1024
"""All other fields of a header: a dozen names of up to 1,024 characters, numbers and flags."""
HEADER_BYTES_MAX = JSON_BYTES_A_CHARACTER * (TEXT_CHARACTERS_MAX + NAMES_CHARACTERS_MAX)
"""A request's header: one long text and all the names; properties are the shorter case."""
SEND_HEADER_BYTES_MAX = JSON_BYTES_A_BYTE * PROPERTIES_BYTES_MAX + JSON_BYTES_A_CHARACTER * 4 * 1024
"""A send's header: what a frame has room for beside the longest body."""
HEADER_FIELDS_MAX = 1024
"""Custom fields of a header; the longest request has some twenty.  They take far more memory than bytes."""

ANSWER_HEADER_BYTES_MAX = FRAME_BYTES_MAX - 4
"""A server's answer: the ids of all messages of a batch stand in one field, so nothing but the frame bounds it."""
MESSAGE_ID_BYTES = 2 * (16 + 4 + 8)
"""An id in hexadecimal: address (IPv6), port, offset."""
ANSWER_REST_BYTES_MAX = 64 * 1024
"""The header of a send's answer without its message ids: region, numbers, and a transaction id that stands among the
properties (a batch has none)."""
BATCH_MESSAGES_MAX = (FRAME_BYTES_MAX - ANSWER_REST_BYTES_MAX) // (MESSAGE_ID_BYTES + 1)
"""Messages of one batch: the ids of more would not fit into the answer.  More than a body of 4 MiB holds of Java's
smallest messages (22 bytes and an empty body)."""

TABLE_FILE_BYTES_MAX = 256 * 1024 * 1024
"""A file of one of the broker's tables: 100,000 topics, or as many groups, at 2 KiB of indented JSON, and more offsets
than that.  Nothing longer is written, because nothing longer would be read."""

TOPIC_JSON_BYTES_MAX = 1024
"""A topic's configuration in JSON: its name twice (255 characters, none of which grows), eight keys, attributes."""
WHOLE_TOPICS_MAX = (FRAME_BYTES_MAX - HEADER_BYTES_MAX) // TOPIC_JSON_BYTES_MAX
"""Topics that are sure to fit into one registration, or one answer."""
