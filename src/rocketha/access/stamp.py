"""What our own clients sign beside their requests: which request it is, when it was made, once, and how it is divided.

Pure.  RocketMQ's signature covers the values of a request and nothing else (:mod:`rocketha.access.signature`): not its
code, not the names, not where one value ends, not the time.  A stamp is a value that says all of that; other brokers
sign it with the rest and look no further.  Its name sorts before all others, so what is signed *begins* with the stamp.
That is where it is looked for, and not in the field: whoever renames the field, or cuts the values anew, changes the
names and not what was signed.

A stamp is ``rocketha/1 CODE TIME NONCE LAYOUT;``: decimal, ms since 1970 in 13 digits, 32 hex digits, 32 hex digits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import attrs

from rocketha.access.policies import Refused
from rocketha.access.signature import SIGNATURE

FIELD = "0Stamp"
MARK = b"rocketha/1 "
"""What was signed with a stamp begins so."""
NONCE_BYTES = 16
_PATTERN = re.compile(rb"rocketha/1 (0|[1-9][0-9]{0,9}) ([0-9]{13}) ([0-9a-f]{32}) ([0-9a-f]{32});")


def layout(fields: Mapping[str, str]) -> str:
    """Stands for the names, and the length of each value; what is left of the signed bytes is then the body."""
    parts = []
    for name in sorted(fields):
        if name not in (FIELD, SIGNATURE):
            text = name.encode("utf-8", "replace")
            parts.append(b"%d:%b%d;" % (len(text), text, len(fields[name].encode("utf-8", "replace"))))
    return hashlib.sha256(b"".join(parts)).hexdigest()[:32]


@attrs.frozen
class Stamp:
    """Of one request.

    :ivar code: of the request.
    :ivar time_ms: when it was signed, ms since 1970 by its sender's clock.
    :ivar nonce: no other request of this user has it.
    :ivar layout: see :func:`layout`.
    """

    code: int
    time_ms: int
    nonce: bytes
    layout: str

    def __str__(self) -> str:
        return f"rocketha/1 {self.code} {self.time_ms:013d} {self.nonce.hex()} {self.layout};"

    @classmethod
    def read(cls, text: bytes) -> Stamp:
        """That at the beginning of what was signed.

        :param text: begins with :data:`MARK`.
        :raises Refused: it is none.
        """
        found = _PATTERN.match(text)
        if found is None:
            raise Refused("the stamp cannot be read.")
        code, time_ms, nonce, layout_ = found.groups()
        return cls(int(code), int(time_ms), bytes.fromhex(nonce.decode()), layout_.decode())

    def check(self, code: int, fields: Mapping[str, str]) -> None:
        """See that it is this request's.

        :raises Refused: it was signed as another one.
        """
        if self.code != code:
            raise Refused(f"signed as a request {self.code}, sent as {code}.")
        if self.layout != layout(fields):
            raise Refused("signed with other fields.")
