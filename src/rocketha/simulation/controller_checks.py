"""What a controller's log may do to its groups: every applied entry is compared with the one before it.

Knows the state's views and the entry's event; numbers as in faults-and-invariants: 14 the SyncStateSet holds the
master, only registered ids, and changes by compare-and-set; 15 a master comes from the set, but for the first one of a
group, also of one that an operator cleaned as a whole; 16 ids are never given twice and leave by an operator only; 17
the table is the fold of the log.  The first node to apply an entry is compared with the rules, all others with it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from rocketha.controller.events import AlterSyncStateSet, CleanBrokerData, ElectMaster, RegisterBroker, decode
from rocketha.controller.state import ControllerState
from rocketha.simulation.broker_oracle import BrokerOracle, Group
from rocketha.simulation.controller_model import GroupState
from rocketha.simulation.findings import Findings
from rocketha.simulation.history import History
from rocketha.simulation.raft_checks import RaftChecks


class ControllerChecks:
    """See the module.

    :param cleaned: called with the group and the id of every broker that an entry cleaned out.
    """

    def __init__(
        self,
        findings: Findings,
        raft: RaftChecks,
        oracle: BrokerOracle,
        history: History,
        cleaned: Callable[[Group, int], None],
    ) -> None:
        self._findings = findings
        self._raft = raft
        self._oracle = oracle
        self._history = history
        self._cleaned = cleaned
        self._groups: dict[Group, GroupState] = {}
        self._addresses: dict[Group, dict[int, str]] = {}
        self._before_election: dict[Group, tuple[int, ...]] = {}
        self._anew: set[Group] = set()  # cleaned as a whole, and no master since
        self._given: dict[tuple[Group, int], str] = {}
        self._index = 0
        self.log: dict[int, bytes] = {}

    def watch(self, name: str, now: Any, service: Any) -> None:
        """See every entry that this service's state takes."""
        state: ControllerState = service.state
        apply_entry = state.apply_entry

        def applied(data: bytes, index: int) -> Any:
            outcome = apply_entry(data, index)
            self._raft.state(name, index, zlib.crc32(state.snapshot()))
            if index > self._index:
                self._index = index
                self.log[index] = data
                self._judge(now(), state, data, index)
            elif self.log.get(index, data) != data:
                self._findings.violated("applied prefix equal on all (5)", f"{name} applies another entry {index}")
            return outcome

        state.apply_entry = applied  # type: ignore[method-assign]

    def _judge(self, now: float, state: ControllerState, data: bytes, index: int) -> None:
        event = decode(data)
        record = state.record(event.cluster, event.broker_name)
        if record is None:
            return
        key = Group(record.cluster, record.broker_name)
        members = tuple((number, record.members[number].check_code) for number in sorted(record.members))
        after = GroupState(
            record.next_id, members, record.master, record.master_epoch, record.in_sync, record.set_epoch
        )
        before = self._groups.get(key, GroupState())
        self._groups[key] = after
        wrong = self._wrong(key, before, after, event, record.adopted) or self._moved(key, record.addresses, event)
        if wrong is not None:
            rule, what = wrong
            self._findings.violated(rule, f"entry {index}, {event}: {what}; {before} became {after}")
        if after.epoch != before.epoch and isinstance(event, ElectMaster):
            token = self._history.invoke(key, 0.0, "log", ("elected", after.master, after.epoch, after.set_epoch))
            self._history.settle(token, now, ())
            self._findings.count("elections" if after.master else "unseatings")
            self._before_election[key] = before.in_sync
        if after.in_sync != before.in_sync and after.epoch == before.epoch:
            self._findings.count("set changes")
        for number, _ in before.members:
            if not after.has(number):
                self._cleaned(key, number)
        if before.members and not after.members:
            self._anew.add(key)
            self._before_election.pop(key, None)
            self._oracle.cleaned(key, after.epoch)
            self._findings.count("groups cleaned")

    def _wrong(self, key: Group, before: GroupState, after: GroupState, event: Any, adopted: bool) -> Any:
        if after.epoch < before.epoch or after.set_epoch < before.set_epoch or after.next_id < before.next_id:
            return "epochs and ids never fall (6)", "one did"
        numbers = {number for number, _ in after.members}
        if after.master and after.master not in after.in_sync:
            return "SyncStateSet contains the master (14)", "it does not"
        if not set(after.in_sync) <= numbers:
            return "only registered ids in the SyncStateSet (14)", "there are others"
        if not isinstance(event, CleanBrokerData) and any(not after.has(number) for number, _ in before.members):
            return "broker ids leave by an operator only (16)", "one is gone"
        for number, code in after.members:
            owner = self._given.setdefault((key, number), code)
            if owner != code:
                return "broker id never reused (16)", f"{number} was given to {owner} and to {code}"
        if after.in_sync != before.in_sync and after.epoch == before.epoch:
            if isinstance(event, AlterSyncStateSet):
                expected = (event.master_id, event.master_epoch, event.set_epoch)
                if expected != (before.master, before.epoch, before.set_epoch):
                    return "SyncStateSet changes by compare-and-set (14)", "it was another's epoch"
            if after.set_epoch != before.set_epoch + 1:
                return "SyncStateSet changes by compare-and-set (14)", "a change without an epoch of its own"
        if after.epoch != before.epoch:
            return self._elected(key, before, after, adopted)
        if after.master != before.master:
            return "one master per epoch (8)", "another master in the same epoch"
        return None

    def _elected(self, key: Group, before: GroupState, after: GroupState, adopted: bool) -> tuple[str, str] | None:
        if after.epoch != before.epoch + 1 and (before.epoch or not adopted):
            return "epochs rise by one", f"{before.epoch} to {after.epoch}"
        if not after.master:
            return None
        first = not before.epoch or (key in self._anew and not before.in_sync)
        self._anew.discard(key)
        if first or after.master in before.in_sync:
            return None
        # Only an election that its winner never acted on may be taken back, to the set before it.
        if after.master in self._before_election.get(key, ()) and not self._oracle.acted(key, before.epoch):
            self._findings.count("elections taken back")
            return None
        return "master chosen from the set (15)", f"{after.master} is not in {before.in_sync}"

    def _moved(self, key: Group, addresses: Any, event: Any) -> tuple[str, str] | None:
        before = self._addresses.get(key, {})
        self._addresses[key] = dict(addresses)
        for number, address in addresses.items():
            if before.get(number, address) != address:
                if not (isinstance(event, RegisterBroker) and event.broker_id == number):
                    return "an address changes by its broker's registration (E1)", f"{number} is now {address}"
        return None

    def refold(self, states: list[tuple[str, ControllerState]]) -> None:
        """17: every node's table is what the log alone makes."""
        fold = ControllerState()
        snapshots = {0: fold.snapshot()}
        for index in sorted(self.log):
            fold.apply_entry(self.log[index], index)
            snapshots[index] = fold.snapshot()
        for name, state in states:
            if snapshots.get(state.index) != state.snapshot():
                self._findings.violated("metadata table = fold of the log (17)", f"{name} at entry {state.index}")

    def group(self, key: Group) -> GroupState:
        """A group as of the newest entry."""
        return self._groups.get(key, GroupState())
