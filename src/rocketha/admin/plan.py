"""``rocketha plan``: what a group in DLedger mode may take in, by its network.

The rule.  The master's card sends each message to every other member and to its consumers.  A member that comes back
is filled at ``peerPushQuota`` beside that.  Let the quota be what the group takes in at most; then

    quota = bandwidth x cards / (followers + times that a message is consumed + 1)

Two cards of 1 Gbit/s, three members, each message consumed twice: 50 MB/s.  What comes in needs less than what goes
out, on cards that do both at once.
"""

from __future__ import annotations

import json
import math

import click

from rocketha.admin import options
from rocketha.admin.commands import DONE, Given
from rocketha.admin.commands import command as declared
from rocketha.errors import ConfigError

GIGABIT = 125_000_000
"""Bytes a second."""
MEMBERS_MAX = 99


def quota(members: int, bandwidth: float, cards: int, consumed: float) -> int:
    """Bytes a second.

    :param bandwidth: of a card, in bytes a second.
    :param consumed: how many times each message is consumed, by groups of other hosts.
    """
    return int(bandwidth * cards / (members - 1 + consumed + 1))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= MEMBERS_MAX:
        raise click.BadParameter(f"{text!r} is not a number from 1 to {MEMBERS_MAX}")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise click.BadParameter(f"{text!r} is not a number of 0 or more")
    return number


def _gigabits(text: str) -> float:
    return _number(text) * GIGABIT


_times = _number


@declared("plan")
@click.option("--members", type=_count, default="3", metavar="N", help="Of the group (default 3).")
@click.option("--bandwidth", type=_gigabits, required=True, metavar="GBIT", help="Of a network card.")
@click.option("--cards", type=_count, default="1", metavar="N", help="Of each member's host (default 1).")
@click.option("--consumed", type=_times, default="1", metavar="TIMES", help="That a message is consumed (default 1).")
@options.JSON
def command(args: Given) -> int:
    """Reckon what a group in DLedger mode may take in, by its network."""
    found = quota(args.members, args.bandwidth, args.cards, args.consumed)
    if not found:
        raise ConfigError("no bandwidth")
    if args.json:
        print(json.dumps({"peerPushQuota": found}))
        return DONE
    print(f"The group may take in {found / 1e6:.1f} MB of messages a second, and fill a member at the same rate:")
    print(f"peerPushQuota={found}")
    return DONE
