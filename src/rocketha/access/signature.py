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
from collections.abc import Mapping

SIGNATURE, ACCESS_KEY = "Signature", "AccessKey"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
VERSION_SIGNS_QUERY = 400
"""``MQVersion``: older clients add that field after they have signed."""


def signed(fields: Mapping[str, str], body: bytes, empty: str = "") -> bytes:
    """What a signature is made of.

    :param empty: stands for a value without a character.
    """
    names = sorted(fields) if all(map(str.isascii, fields)) else sorted(fields, key=_utf16)
    text = "".join([fields[name] or empty for name in names if name != SIGNATURE])
    return text.encode("utf-8", "replace") + body


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def sign(secret: str, message: bytes) -> str:
    """The signature as it stands in the header."""
    made = hmac.new(secret.encode("utf-8", "replace"), message, hashlib.sha1).digest()
    return base64.b64encode(made).decode("ascii")


def proven(secret: str, fields: Mapping[str, str], body: bytes, version: int) -> bytes | None:
    """What a request was signed over, by who knows this secret; takes the same time for all who do not.

    :param version: of the client.
    :return: None: it is not signed so.
    """
    given = fields.get(SIGNATURE, "").encode("utf-8", "replace")
    if version < VERSION_SIGNS_QUERY and UNIQUE_KEY_QUERY in fields:
        fields = {name: value for name, value in fields.items() if name != UNIQUE_KEY_QUERY}
    message = signed(fields, body)
    found = hmac.compare_digest(sign(secret, message).encode(), given)
    if not found and "" in fields.values():
        # In the binary header Java reads an empty value as null, and signs the word.
        message = signed(fields, body, "null")
        found = hmac.compare_digest(sign(secret, message).encode(), given)
    return message if found else None
