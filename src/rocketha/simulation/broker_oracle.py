"""What all simulated brokers together must never do, and what they must be able to do: the judge of their actions.

Knows every broker's log at once, as no broker does.  A message is one record; an acknowledged one must be in the log of
every later master (invariant 7), one epoch has one master (8 and 9), an id belongs to one broker for ever (16).  An
operator who cleans out the last broker of a group gives up what it acknowledged: the group begins anew, at the next
epoch and id.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketha.simulation.findings import Findings


class Group(NamedTuple):
    """A broker group's name."""

    cluster: str
    name: str


class BrokerOracle:
    """Told of every action, it reports those that break an invariant."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._masters: dict[tuple[Group, int], str] = {}
        self._acted: set[tuple[Group, int]] = set()
        self._acked: dict[Group, list[str]] = {}
        self._newest: dict[Group, tuple[int, str]] = {}
        self._given_up: dict[Group, int] = {}  # the last epoch of a group before it was cleaned as a whole
        self._ids: dict[tuple[Group, int], str] = {}
        self._identities: dict[str, int] = {}
        self.logs: dict[str, list[str]] = {}

    def took_id(self, group: Group, broker: str, number: int) -> None:
        """A broker wrote its id down for good.  ``broker`` names one disk: a wiped one is another broker."""
        owner = self._ids.setdefault((group, number), broker)
        if owner != broker:
            self._findings.violated("broker id never reused (16)", f"{group} id {number} of {owner} and of {broker}")
        before = self._identities.setdefault(broker, number)
        if before != number:
            self._findings.violated("one id for one broker (16)", f"{broker} had {before} and has {number}")
        self._findings.count("ids taken")

    def became_master(self, group: Group, epoch: int, broker: str) -> None:
        """A broker was told that it is the master of an epoch, and takes the role."""
        self._acts(group, epoch, broker)
        newest = self._newest.get(group, (0, ""))
        if epoch < newest[0]:
            return
        self._newest[group] = (epoch, broker)
        missing = sorted(set(self._acked.get(group, ())) - set(self.logs[broker]))
        if missing:
            self._findings.violated(
                "acked => in every later master's log (7)",
                f"{broker}, master of {group} in epoch {epoch}, lacks {len(missing)}: {missing[:3]}",
            )
        self._findings.count("masters")

    def _acts(self, group: Group, epoch: int, broker: str) -> None:
        other = self._masters.setdefault((group, epoch), broker)
        if other != broker:
            self._findings.violated("one master per epoch (8)", f"{group} epoch {epoch}: {other} and {broker}")

    def acked(self, group: Group, epoch: int, broker: str, records: list[str]) -> None:
        """A master acknowledges messages to their senders."""
        self._acts(group, epoch, broker)
        self._acted.add((group, epoch))
        self._findings.count("messages acknowledged", len(records))
        if epoch <= self._given_up.get(group, 0):
            return  # cut off when it was cleaned out, it goes on for a while
        self._acked.setdefault(group, []).extend(records)
        newest_epoch, newest = self._newest.get(group, (0, ""))
        if newest_epoch > epoch:
            missing = sorted(set(records) - set(self.logs[newest]))
            if missing:
                self._findings.violated(
                    "acked => in every later master's log (7)",
                    f"{broker} acknowledges {missing[:3]} of {group} in epoch {epoch}, {newest} leads in "
                    f"{newest_epoch} without",
                )

    def cleaned(self, group: Group, epoch: int) -> None:
        """An operator cleaned out the last broker of a group.

        :param epoch: of the group after that.
        """
        self._given_up[group] = epoch
        self._acked.pop(group, None)

    def acted(self, group: Group, epoch: int) -> bool:
        """Whether anything was acknowledged in an epoch."""
        return (group, epoch) in self._acted

    def wiped(self, broker: str) -> None:
        """The disk is a new one: another broker, as far as ids go."""
        self.logs[broker] = []

    def acknowledged(self, group: Group) -> int:
        """Messages acknowledged so far."""
        return len(self._acked.get(group, ()))
