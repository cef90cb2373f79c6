"""A master's tables against a slave's own: what has to change, and what may go.

Pure.  Must not know where a table came from nor when.  Everything here takes whole tables (:mod:`metadata_pages` makes
them whole) and returns the table as it will be, in which every entry that stays the same is the same object: nothing
that the master did not change is touched (regression F1: Java deleted all and added all again, each time).

What may go.  An entry that the master lacks goes, except

- what every broker has of its own (system topics, predefined groups): a Java master has other ones than we;
- everything, while the master's table is *behind* the one that the slave has: a master that lost its files must not
  take the tables of its slaves with it.  Its entries are taken, and the slave keeps its version until the master's has
  passed it.

Behind goes by (state version, counter): a table that a former master changed alone is older than the table of the next
master, which began its term with a new state version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

import attrs

from rocketha.broker.data_version import DataVersion

Entry = TypeVar("Entry")


@attrs.frozen
class TableDiff(Generic[Entry]):
    """What a slave makes of its table.

    :ivar table: as it will be; what was there comes first and in its order.
    :ivar changed: names of entries that are new or other than they were, sorted.
    :ivar removed: names of entries that are not there any more, sorted.
    """

    table: dict[str, Entry]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Whether the table stays as it is."""
        return not self.changed and not self.removed


def is_behind(master: DataVersion, own: DataVersion) -> bool:
    """Whether the master's table does not come after ours.

    One that came after it has a larger number; with the same number and another time stamp it is a branch.
    """
    not_after = (master.state_version, master.counter) <= (own.state_version, own.counter)
    return not_after and master != own and own.counter > 0


def difference(
    own: Mapping[str, Entry], master: Mapping[str, Entry], keep: Collection[str], remove: bool
) -> TableDiff[Entry]:
    """From our table to the master's.

    :param keep: names that stay although the master lacks them.
    :param remove: whether anything may go.
    """
    table: dict[str, Entry] = {}
    changed, removed = [], []
    for name, entry in own.items():
        masters = master.get(name)
        if masters is None:
            if remove and name not in keep:
                removed.append(name)
                continue
            table[name] = entry
        elif masters == entry:
            table[name] = entry
        else:
            table[name] = masters
            changed.append(name)
    for name, masters in master.items():
        if name not in own:
            table[name] = masters
            changed.append(name)
    return TableDiff(table, tuple(sorted(changed)), tuple(sorted(removed)))
