"""A process that appends to a log as brokers do, for who reads it: ``python -m tests.export.appending ROOT SEED``.

A record is written in ascending order, in one to four parts: as a slave gets it from its link, or a reader finds it
that looks in the middle of a write.  It goes on until its standard input ends.
"""

from __future__ import annotations

import random
import select
import sys
import time
from pathlib import Path

from rocketha.wire import properties
from rocketha.wire.record import Record
from tests.export.stores import Store, made

FILE_BYTES = 1 << 18


class Appended(Store):
    """What of a record is written when it is written."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        super().__init__(root, FILE_BYTES)
        self.chance = chance

    def _write(self, offset: int, data: bytes) -> None:
        edges = sorted(self.chance.randrange(len(data)) for _ in range(self.chance.choice((0, 1, 1, 3))))
        for begin, end in zip([0, *edges], [*edges, len(data)], strict=True):
            super()._write(offset + begin, data[begin:end])
            if self.chance.random() < 0.5:
                time.sleep(self.chance.random() / 500)  # a broker that is interrupted


def keyed(chance: random.Random, number: int) -> Record:
    """A record whose properties say which it is, at their end."""
    named = properties.build({"KEYS": f"k{number}", "filler": "x" * chance.randrange(200), "LAST": f"{number}"})
    return made(chance, "A", 0)._replace(properties=named)


def main() -> None:
    """Until standard input ends."""
    chance = random.Random(int(sys.argv[2]))
    store = Appended(Path(sys.argv[1]), chance)
    number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        store.append([keyed(chance, number)])
        store.records.clear()
        number += 1


if __name__ == "__main__":
    main()
