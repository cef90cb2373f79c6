"""Who is the master of this broker's group, as far as this broker knows: one value, and who wants to hear of it.

Pure.  Must not know how that is found out (a controller's answer, a nameserver's, a configuration key) nor what follows
from it.

Theory of operation: whoever learns who is master says it here; whoever must act on it is told within that call, in the
order in which they asked to be told.  That order matters where this broker becomes master: first the tables are made
fit for it, then requests that waited for a master are served.  A call that says what is known already tells nobody.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rocketha.errors import ensure


@attrs.frozen
class Mastership:
    """What is known at one time.

    :ivar leads: this broker is the master and serves as one.
    :ivar address: ``host:port`` of the master's main port; None while nobody is known, and for this broker itself.
    :ivar epoch: the master's epoch, 0 without a controller.
    :ivar broker_id: the other master's id in the group, None where it is not known.
    """

    leads: bool = False
    address: str | None = None
    epoch: int = 0
    broker_id: int | None = None


class MasterWatch:
    """The present :class:`Mastership` of one broker.

    :ivar now: what is known.
    :ivar members: while this broker leads, the ids of the SyncStateSet, its own among them; empty without a controller.
    """

    def __init__(self) -> None:
        self.now = Mastership()
        self.members: frozenset[int] = frozenset()
        self._watchers: list[Callable[[], None]] = []

    @property
    def leads(self) -> bool:
        """Whether this broker is the master and serves as one."""
        return self.now.leads

    @property
    def address(self) -> str | None:
        """Where the master is; None while nobody is known, and while this broker leads."""
        return self.now.address

    @property
    def epoch(self) -> int:
        """The epoch of the master that is known, else of the last that was."""
        return self.now.epoch

    def watch(self, changed: Callable[[], None]) -> None:
        """Have ``changed`` called after every change, behind those that asked before."""
        self._watchers.append(changed)

    def unknown(self) -> None:
        """There is no master, or nobody knows which: this broker was told to stop, an election is on."""
        self._becomes(Mastership(epoch=self.now.epoch), frozenset())

    def other(self, address: str, epoch: int = 0, broker_id: int | None = None) -> None:
        """Another broker is master.

        :param address: ``host:port`` of its main port, where clients send.
        """
        ensure(bool(address), "a master has an address")
        self._becomes(Mastership(False, address, epoch, broker_id), frozenset())

    def own(self, epoch: int = 0, members: frozenset[int] = frozenset()) -> None:
        """This broker is master, from this moment on: requests that waited for that are served within this call."""
        self._becomes(Mastership(True, None, epoch), members)

    def members_are(self, members: frozenset[int]) -> None:
        """The SyncStateSet of a master that stays master."""
        ensure(self.now.leads, "only a master has a SyncStateSet")
        self._becomes(self.now, members)

    def _becomes(self, now: Mastership, members: frozenset[int]) -> None:
        if (now, members) == (self.now, self.members):
            return
        self.now, self.members = now, members
        for changed in tuple(self._watchers):
            changed()
