"""``rocketha doctor``: what is wrong with a cluster, why, and what to do next, on one page.

Exit code 0: nothing was found; 1: something was, or nobody answered; 2: wrong usage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import click
from twisted.internet.task import deferLater

from rocketha.admin import cluster_status, doctor_page, output
from rocketha.admin.commands import DONE, FAILED, Given
from rocketha.admin.commands import command as declared
from rocketha.admin.finding_kinds import Finding
from rocketha.admin.findings import HEARD_S, Limits, judge
from rocketha.admin.main_loop import run_with
from rocketha.admin.picture import Picture

PAUSE_S = 6.0
"""Between two looks at a group that lags: Java's consumers commit every five seconds."""


def limits_of(args: Given) -> Limits:
    """From where on something is worth a finding."""
    return attrs.evolve(Limits(), lag_bytes=args.lag_bytes, lag_messages=args.lag_messages)


async def examine(
    look: Callable[[], Awaitable[Picture]], reactor: Any, limits: Limits
) -> tuple[Picture, Sequence[Finding]]:
    """A cluster and what is wrong with it; looked at again where that may be over in a moment."""
    picture = await look()
    findings = judge(picture, limits)
    if any(each.kind.passing for each in findings):
        await deferLater(reactor, HEARD_S, lambda: None)
        picture = await look()
        findings = judge(picture, limits)
    return picture, findings


@declared("doctor")
@click.option(
    "--lag-bytes",
    type=click.IntRange(min=0),
    default=Limits().lag_bytes,
    metavar="N",
    help=f"A replica that lacks more of its master's log is a finding (default {Limits().lag_bytes}).",
)
@click.option(
    "--lag-messages",
    type=click.IntRange(min=1),
    default=Limits().lag_messages,
    metavar="N",
    help=f"A consumer group with as many messages to consume is a finding (default {Limits().lag_messages}).",
)
@click.option(
    "--pause",
    type=click.FloatRange(min=0),
    default=PAUSE_S,
    metavar="S",
    help=f"Between two looks at a consumer group that lags; 0: look once (default {PAUSE_S:g}).",
)
@cluster_status.whole
@run_with(cluster_status.connected)
async def command(connected: cluster_status.Connected, args: Given) -> int:
    """Say what is wrong with a cluster, why, and what to do next.

    Each kind of finding is explained in docs/troubleshooting.rst. Exit code 0: nothing was found; 1: something was, or
    nobody answered.
    """
    picture, findings = await examine(lambda: connected.look(args, args.pause), connected.reactor, limits_of(args))
    if args.json:
        output.say_json(doctor_page.as_json(picture, findings))
    else:
        print("\n".join(doctor_page.lines(picture, findings)))
    return FAILED if findings else DONE
