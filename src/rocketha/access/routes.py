"""A request code that a server answers is one row of its table: what the rows of all servers have in common.

The tables are ``broker/routes.py``, ``controller/routes.py`` and ``namesrv/routes.py``.  Whatever differs from code to
code stands in its row; no server has another list of codes, and a code without a row is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

import attrs

from rocketha.access.claims import OPERATOR, Claim
from rocketha.errors import InvariantBroken, RequestRefused
from rocketha.wire.codes import ResponseCode


class Asker(Enum):
    """Who asks it.

    RocketMQ has one port for all, and no word in which a peer says what it is: the code has to do.
    """

    CLIENT = "producers and consumers, in any language"
    PEER = "replicas, other brokers, nameservers and controllers"
    OPERATOR = "people and their tools"


@attrs.frozen
class Route:
    """One row.

    :ivar code: a :class:`RequestCode` or :class:`PrivateCode`; a number of a plug-in's.
    :ivar claims: what it says about its sender, where identities are demanded; None: any client may ask.
    """

    code: int
    asker: Asker
    claims: Claim | None = attrs.field(
        default=attrs.Factory(lambda self: OPERATOR if self.asker is Asker.OPERATOR else None, takes_self=True),
        kw_only=True,
    )

    @property
    def name(self) -> str:
        """The code's, where it has one here."""
        return getattr(self.code, "name", str(self.code))


R = TypeVar("R", bound=Route)


def table(routes: Iterable[R]) -> dict[int, R]:
    """The rows by code.

    :raises InvariantBroken: a code has two.
    """
    found: dict[int, R] = {}
    for route in routes:
        if route.code in found:
            raise InvariantBroken(f"{route.code!r} has two rows")
        found[route.code] = route
    return found


def unsupported(code: int, why: str = "") -> RequestRefused:
    """The answer to a code without a row, in Java's words.

    :param why: what Java serves and we do not has a reason.
    """
    remark = f" request type {code} not supported{why and ': '}{why}"
    return RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
