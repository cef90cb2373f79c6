"""Who is believed to be master of a broker's group, and what the broker's replication was ordered to be.

Must not know who said it, or when.

Theory of operation.  ``told`` is what the leading controller last said.  Nothing older is believed: an epoch below the
newest one known, which is at least that of the own log, is a problem to be shown and changes nothing.  :meth:`steer` is
the one place that compares ``told`` with ``ordered``, what the replication is or was ordered to be, and orders what is
missing.
"""

from __future__ import annotations

import attrs

from rocketha.broker.role import Role
from rocketha.broker.role_effects import Effect, Fence, Follow, Lead, Retire, SetKnown
from rocketha.wire.controller_calls import MasterInfo, SyncSet

NO_SET = SyncSet((), 0)


@attrs.frozen
class OrderedRole:
    """What the replication is, or is ordered to be.

    :ivar master_id: whom a slave follows, at ``address``.
    """

    role: Role = Role.FENCED
    epoch: int = 0
    master_id: int = 0
    address: str = ""


class RoleAssignment:
    """See the module.

    :param last_epoch: the newest in the own log.
    :ivar number: our id, 0 before there is one.
    :ivar told: None while nobody is known to be master.
    :ivar epoch: nothing older is believed.
    :ivar in_sync: the SyncStateSet of our own epoch.
    :ivar order: number of the order that is under way, None when the last one is carried out.
    :ivar unfit_epoch: this one and older ones cannot be led.
    """

    def __init__(self, last_epoch: int) -> None:
        self.number = 0
        self.told: MasterInfo | None = None
        self.epoch = max(0, last_epoch)
        self.ordered = OrderedRole()
        self.in_sync = NO_SET
        self.order: int | None = None
        self.unfit_epoch = 0
        self._retired = False
        self._orders = 0

    @property
    def leads(self) -> bool:
        """Whether the replication is a master, or is about to be."""
        return self.ordered.role is Role.MASTER

    @property
    def _being_promoted(self) -> bool:
        """Whether the order to be master is under way; the order to retire goes to one who is."""
        return self.leads and self.order is not None and not self._retired

    def leads_in(self, epoch: int) -> bool:
        """Whether it is that of this epoch."""
        return self.leads and self.ordered.epoch == epoch

    # -- what is believed ---------------------------------------------------------------------------------------------

    def take(self, info: MasterInfo) -> str:
        """The leading controller says who is master; why that is not believed, or nothing."""
        told, epoch = self.told, info.master_epoch
        if epoch < self.epoch:
            return (
                f"the controllers say that epoch {epoch} is the newest, and epoch {self.epoch} is known: they lost what"
                " they knew, see docs/controller.rst"
            )
        if told is not None and epoch == told.master_epoch:
            if info.master_id != told.master_id:
                return f"the controllers name two masters in epoch {epoch}: {told.master_id} and {info.master_id}"
            if info.in_sync.epoch < told.in_sync.epoch:
                return ""
        if info.master_id == self.number and self.number not in info.in_sync.members:
            return f"the controllers say that this broker is master in epoch {epoch}, and not in sync with itself"
        self.told, self.epoch = info, epoch
        return ""

    def headless(self, epoch: int) -> str:
        """The leading controller knows no master, since ``epoch``; why that is not believed, or nothing."""
        if epoch < self.epoch or (self.told is not None and self.told.master_epoch == epoch):
            return f"the controllers know no master in epoch {epoch}, and named one before"
        self.epoch, self.told = epoch, None
        return ""

    def know_set(self, in_sync: SyncSet) -> list[Effect]:
        """The controllers' set of the epoch that we lead.

        Not while the order to lead it is under way: nobody could take it, or the epoch before would.  Afterwards
        :meth:`steer` finds the newest one in ``told``.
        """
        if not self.leads or self._being_promoted:
            return []
        if in_sync.epoch <= self.in_sync.epoch or self.number not in in_sync.members:
            return []
        self.in_sync = in_sync
        return [SetKnown(in_sync.members, in_sync.epoch)]

    # -- what is ordered ----------------------------------------------------------------------------------------------

    def steer(self) -> list[Effect]:
        """Order what ``told`` asks for, if it was not ordered yet."""
        told = self.told
        if told is None:
            return []
        if told.master_id != self.number:
            ordered = OrderedRole(Role.SLAVE, told.master_epoch, told.master_id, told.master_address)
            if ordered == self.ordered:
                return []
            self._be(ordered)
            return [Follow(self._next_order(), ordered.master_id, ordered.address, ordered.epoch)]
        if self.leads_in(told.master_epoch):
            return self.know_set(told.in_sync)
        # Between epochs that do not follow each other another broker may have led: whoever followed it has cut its log,
        # and what it acknowledged before, on connections whose end has not come here, holds no more.
        follows = told.master_epoch == self.ordered.epoch + 1 and told.in_sync.epoch > self.in_sync.epoch
        again = self.leads and self.order is None and not self._retired and follows
        self._be(OrderedRole(Role.MASTER, told.master_epoch, self.number))
        self.in_sync = told.in_sync
        return [Lead(self._next_order(), told.master_epoch, told.in_sync.members, told.in_sync.epoch, again)]

    def fence(self, why: str) -> list[Effect]:
        """Whatever it was: no more."""
        self._be(OrderedRole())
        self.order = None
        return [Fence(why)]

    def retire(self, why: str, replaced: bool = False) -> list[Effect]:
        """A master takes no more sends.

        :param replaced: there is another one.
        """
        self._retired = True
        return [Retire(self._next_order(), why, replaced)]

    def _be(self, ordered: OrderedRole) -> None:
        self.ordered, self.in_sync, self._retired = ordered, NO_SET, False

    def _next_order(self) -> int:
        self._orders += 1
        self.order = self._orders
        return self._orders
