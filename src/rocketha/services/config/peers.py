"""The members of a Raft group as configuration files name them: ``n0-host:port;n1-host:port``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocketha.errors import ConfigError
from rocketha.protocols.endpoints import parse_peers
from rocketha.services.config.checks import check_endpoints

MEMBERS_MAX = 9
"""More would only make every decision slower."""

_ID = re.compile("[a-zA-Z0-9_]{1,32}")
_MEMBER = re.compile("[a-zA-Z](0|[1-9][0-9]{0,3})")
_PEERS_ALLOWED = "id-host:port, several separated by ;, such as n0-10.0.0.1:9878;n1-10.0.0.2:9878"


def peers_of(value: str) -> dict[str, str]:
    """``n0-host:port;n1-host:port`` as id to ``host:port``, in order.

    :raises ValueError: what is wrong.
    """
    try:
        peers = dict(parse_peers(value))
    except ConfigError as problem:
        raise ValueError(f"{_PEERS_ALLOWED}: {problem}") from None
    for node, address in peers.items():
        if not _ID.fullmatch(node) or check_endpoints(address) is not None:
            raise ValueError(f"{_PEERS_ALLOWED}: {node}-{address} is none")
    if len(peers) > MEMBERS_MAX:
        raise ValueError(f"up to {MEMBERS_MAX} of {_PEERS_ALLOWED}")
    return peers


def check_peers(value: str) -> str | None:
    """``controllerDLegerPeers``, ``dLegerPeers``."""
    try:
        peers_of(value)
    except ValueError as problem:
        return str(problem)
    return None


def check_node(value: str) -> str | None:
    """``controllerDLegerSelfId``."""
    return None if _ID.fullmatch(value) else "1 to 32 of the characters a-z A-Z 0-9 _"


def check_member(value: str) -> str | None:
    """``dLegerSelfId``: Java takes the broker's id from it."""
    return None if _MEMBER.fullmatch(value) or not value else "a letter and a number up to 9999, such as n0"


def check_members(members: Iterable[str]) -> str | None:
    """Why a message group can not have members of these ids, from which the brokers' follow; None where it can."""
    ids = list(members)
    for each in ids:
        if not each or check_member(each) is not None:
            return f"{each} is refused, allowed is {check_member(each) or 'no empty id'}"
    if len(ids) > MEMBERS_MAX:
        return f"{len(ids)} members are refused, allowed are up to {MEMBERS_MAX}"
    if len({member_number(each) for each in ids}) < len(ids):
        return f"{', '.join(ids)} are refused, allowed is a number of its own for each"
    return None


def member_number(member: str) -> int:
    """The number in the id of a member of a message group."""
    return int(member[1:])
