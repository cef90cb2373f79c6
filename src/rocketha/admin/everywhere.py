"""One change at several brokers, of which some may refuse it or not answer: where it is made is told exactly.

What it must not know: which change.  It is made at one broker after the other, and at the others also where one fails:
nothing can be taken back, and a second run makes what the first one did not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from rocketha.admin import output
from rocketha.admin.client import NETWORK_ERRORS, plain, unsent
from rocketha.admin.commands import Given
from rocketha.errors import RockethaError
from rocketha.wire.cluster_info import BrokerSet


async def at_each(
    args: Given,
    at: Sequence[BrokerSet],
    change: Callable[[BrokerSet], Awaitable[None]],
    what: str,
    word: str,
    before: Sequence[BrokerSet] = (),
) -> None:
    """Make a change that may be made twice.

    :param what: is changed: ``topic orders``.
    :param word: for what was done to it: ``made``.
    :param before: where it was made before.
    :raises RockethaError: it is not everywhere; with ``--json`` standard output has where it is and where it is not.
    """
    done = [each.name for each in before]
    refused: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for each in at:
        try:
            await change(each)
        except NETWORK_ERRORS as problem:
            why = f"{each.master}: {plain(problem).removeprefix(f'{each.master}: ')}"
            (refused if unsent(problem) else unknown)[each.name] = why
        except RockethaError as problem:
            refused[each.name] = plain(problem)
        else:
            done.append(each.name)
    if not refused and not unknown:
        return
    if args.json:
        output.say_json({"brokers": done, "refused": refused, "unknown": unknown})
    told = [f"{word} at {', '.join(done) or 'no broker'}"]
    told += [f"not at {name} ({why})" for name, why in refused.items()]
    told += [f"not known whether at {name} ({why})" for name, why in unknown.items()]
    raise RockethaError(f"{what}: {'; '.join(told)}. The same command again completes it")
