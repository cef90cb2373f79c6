"""The replicated log of a simulated broker, reduced to what the controller's promises are about.

Pure.  A record is a name; the log is durable, as under SYNC_FLUSH, and outlives the process.  A master appends and
counts a record acknowledged when every member of the SyncStateSet has it: of the set the controller confirmed, and of
every set that a change under way may have made of it (A2: the union of old and new).  A slave takes over the log of the
master of its epoch whole, tail and all.
"""

from __future__ import annotations

import attrs


@attrs.define
class MasterEpoch:
    """What a master knows in one epoch.

    :ivar began: length of its log at the beginning.
    :ivar in_sync: the set the controller confirmed, with its epoch.
    :ivar doubtful: sets asked for by set epoch they replace, while it is unknown whether that came to be.
    :ivar acks: slave id -> how long its log is known to be, in this epoch.
    :ivar heard_s: slave id -> when it last fetched.
    :ivar confirmed: records acknowledged, as a length of the log.
    """

    epoch: int
    own_id: int
    began: int
    in_sync: frozenset[int]
    set_epoch: int
    doubtful: dict[int, frozenset[int]] = attrs.Factory(dict)
    acks: dict[int, int] = attrs.Factory(dict)
    heard_s: dict[int, float] = attrs.Factory(dict)
    confirmed: int = 0

    def take_set(self, in_sync: frozenset[int], set_epoch: int) -> None:
        """The controller's word."""
        if set_epoch > self.set_epoch:
            self.in_sync, self.set_epoch = in_sync, set_epoch
            self.doubtful = {epoch: asked for epoch, asked in self.doubtful.items() if epoch >= set_epoch}

    def needed(self) -> frozenset[int]:
        """Who must have a record before it is acknowledged."""
        return self.in_sync.union(*self.doubtful.values()) - {self.own_id}

    def confirm(self, log: list[str]) -> list[str]:
        """The records that may be acknowledged now and were not before."""
        reached = min([self.acks.get(number, 0) for number in self.needed()] + [len(log)])
        fresh = log[self.confirmed : reached]
        self.confirmed = max(self.confirmed, reached)
        return fresh

    def wanted_set(self, now_s: float, silent_s: float) -> frozenset[int]:
        """The set as it should be: who keeps up, and nobody who fell silent."""
        wanted = {self.own_id}
        for number in sorted(self.heard_s):
            if now_s - self.heard_s[number] > silent_s:
                continue
            if number in self.in_sync or self.acks.get(number, 0) >= max(self.confirmed, self.began):
                wanted.add(number)
        return frozenset(wanted)
