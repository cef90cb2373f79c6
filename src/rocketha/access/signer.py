"""Signs what a process of ours asks, as a user.

Pure.  Java: ``AclClientRPCHook``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from rocketha.access.signature import ACCESS_KEY, SIGNATURE, sign, signed
from rocketha.access.stamp import FIELD, Stamp, layout


@attrs.frozen
class Credentials:
    """Of a user.

    :ivar user: his name (accessKey).
    :ivar password: his secret (secretKey).
    """

    user: str
    password: str = attrs.field(repr=False)


@attrs.frozen
class Signer:
    """See the module.

    :ivar now_ms: ms since 1970.
    :ivar nonce: gives other 16 bytes each time, that nobody can guess.
    """

    credentials: Credentials
    now_ms: Callable[[], int]
    nonce: Callable[[], bytes]

    def sign(self, code: int, fields: Mapping[str, str] | None, body: bytes) -> dict[str, str]:
        """The fields of a request, with those that say and prove who asks it."""
        given = {**(fields or {}), ACCESS_KEY: self.credentials.user}
        given[FIELD] = str(Stamp(code, self.now_ms(), self.nonce(), layout(given)))
        given[SIGNATURE] = sign(self.credentials.password, signed(given, body))
        return given
