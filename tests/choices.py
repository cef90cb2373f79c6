"""Names given on a command line of a test or a benchmark: one that there is not is an error that lists those there are,
because what measures or attacks nothing looks as if all were well.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable


def check(wanted: Iterable[str], known: Collection[str], what: str = "names") -> None:
    """See that all are known.

    :raises argparse.ArgumentTypeError: one is not.
    """
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise argparse.ArgumentTypeError(f"no such {what}: {', '.join(unknown)}; there are {', '.join(known)}")


def several(known: Collection[str], separator: str = ",") -> Callable[[str], list[str]]:
    """For ``type`` of an argument: some of these names, with separators between, in the order in which they stand."""

    def names(text: str) -> list[str]:
        found = [each.strip() for each in text.split(separator)]
        check(found, known)
        return found

    return names
