"""HmacSHA1 signatures of requests, as every RocketMQ client makes them.

Pure.  What is signed are the values of the header fields, ordered by their names as Java compares texts (by UTF-16 code
units), joined with nothing between them, and the body.  Not signed are the request code, the names, where one value
ends and the next begins, and the time: whoever captures a request can send it again, so use TLS.  Our own clients sign
these too (:mod:`rocketha.access.stamp`).

Java: ``AclUtils``, ``AclSigner``, ``DefaultAuthenticationContextBuilder``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping

SIGNATURE, ACCESS_KEY = "Signature", "AccessKey"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
VERSION_SIGNS_QUERY = 400
"""``MQVersion``: older clients add that field after they have signed."""


def signed(fields: Mapping[str, str], body: bytes, empty: str = "") -> bytes:
    """What a signature is made of.

    :param empty: stands for a value without a character.
    """
    text = "".join([fields[name] or empty for name in _ordered(fields)])
    return text.encode("utf-8", "replace") + body


def _ordered(names: Iterable[str]) -> list[str]:
    """Those whose values are signed."""
    ordered = sorted(names) if all(map(str.isascii, names)) else sorted(names, key=_utf16)
    return [name for name in ordered if name != SIGNATURE]


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def sign(secret: str, message: bytes) -> str:
    """The signature as it stands in the header."""
    return _sign(secret, message).decode("ascii")


def _sign(secret: str, message: bytes) -> bytes:
    made = hmac.new(secret.encode("utf-8", "replace"), message, hashlib.sha1).digest()
    return base64.b64encode(made)


def signs(secret: str, message: bytes, signature: bytes) -> bool:
    """Whether who knows this secret made this signature; takes the same time for all that are none."""
    return hmac.compare_digest(_sign(secret, message), signature)


def proven(secret: str, fields: Mapping[str, str], body: bytes, version: int) -> bytes | None:
    """What a request was signed over, by who knows this secret; takes the same time for all who do not.

    :param version: of the client.
    :return: None: it is not signed so.
    """
    signature = fields.get(SIGNATURE, "").encode("utf-8", "replace")
    if version < VERSION_SIGNS_QUERY and UNIQUE_KEY_QUERY in fields:
        fields = {name: value for name, value in fields.items() if name != UNIQUE_KEY_QUERY}
    message = signed(fields, body)
    found = signs(secret, message, signature)
    if not found and "" in fields.values():
        # In the binary header Java reads an empty value as null, and signs the word.
        message = signed(fields, body, "null")
        found = signs(secret, message, signature)
    return message if found else None


class Alike:
    """What is signed of requests whose headers differ in a few values.

    :param fields: of one of them.
    :param differing: the names of these values, as Java orders them.
    """

    def __init__(self, fields: Mapping[str, str], differing: Iterable[str]) -> None:
        fixed = {name: value.encode("utf-8", "replace").replace(b"%", b"%%") for name, value in fields.items()}
        fixed |= dict.fromkeys(differing, b"%b")
        self._form = b"".join([fixed[name] for name in _ordered(fixed)]) + b"%b"

    def signed(self, *values: bytes) -> bytes:
        """As :func:`signed` says for one with these values, in UTF-8, the body behind them."""
        return self._form % values
