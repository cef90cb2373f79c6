"""The base of tests in which Java brokers are switched under load, by Java's controllers or by ours.

A class starts one group on empty disks and shares it; each test leaves it whole. `storm()` runs a list of faults under
load and gives the verdict over every message that was acknowledged meanwhile.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .case import FULL, InteropCase
from .controllers import GroupState, ReplicaGroup
from .faults import Faults
from .ledger import Load, Present, Verdict, Watch, judge, shared_epochs
from .processes import NotReady, wait_until
from .roles import LOOPBACK, READY_S, ROOT, Host

SIDES = (("ours", False), ("ours", True), ("java", False), ("java", True))
# the controller comes in parts: as long as its plugin is missing, only the sides that exist are made
OURS = "rocketha-controller" in (ROOT / "twisted" / "plugins" / "rocketha_plugins.py").read_text()


class Storm(NamedTuple):
    """What came of a list of faults."""

    verdict: Verdict
    switches: list[tuple[int, int, str]]  # (time, epoch, address) of each election that the watch saw
    took_s: list[tuple[str, float]]
    stuck: int  # replicas that did not come back into the set by themselves and were restarted
    longest_gap_ms: int  # without any acknowledgement
    back_s: list[tuple[str, float]]  # from its start or thaw to a replica's place in the set
    settled_s: list[tuple[str, float]]  # from the end of each fault to the full set
    diverged: list[int]  # bytes that killed masters had to cut
    errors: dict[str, int]  # what senders were told instead of SEND_OK, and how often
    present: Present  # what the queues hold afterwards

    def text(self) -> str:
        back = [(f"in the set after {what}", seconds) for what, seconds in self.back_s]
        settled = [(f"full set after {fault}", seconds) for fault, seconds in self.settled_s]
        return (
            f"{self.verdict.text()}; {len(self.switches)} switches; {_times(self.took_s + back + settled)}; "
            f"{sum(size > 0 for size in self.diverged)} diverged tails {self.diverged}; "
            f"{self.stuck} replicas restarted by hand"
        )


def _times(named: Sequence[tuple[str, float]]) -> str:
    """Count, median and worst of each name."""
    by: dict[str, list[float]] = {}
    for name, seconds in named:
        by.setdefault(name, []).append(seconds)
    return "; ".join(
        f"{name} x{len(values)}: median {sorted(values)[len(values) // 2]:.2f} s, worst {max(values):.2f} s"
        for name, values in by.items()
    )


class SwitchingCase(InteropCase):
    """`kind`: whose controllers; `embedded`: inside nameservers of that kind."""

    kind = "java"
    embedded = False
    replicas = 3
    kinds: tuple[str, ...] = ()  # whose each replica is; empty: all Java's
    controllers = 3
    group: ReplicaGroup
    load: Load
    watch: Watch
    extra: dict[str, object] = {}
    controller_extra: dict[str, object] = {}

    @classmethod
    def hosts(cls, name: str) -> Host:
        return LOOPBACK

    @classmethod
    def prepare(cls) -> None:
        cls.group = ReplicaGroup(
            cls.kind,
            cls.folder,
            embedded=cls.embedded,
            count=cls.replicas,
            controllers=cls.controllers,
            extra=cls.extra,
            controller_extra=cls.controller_extra,
            hosts=cls.hosts,
            kinds=cls.kinds,
        )
        cls._shared.extend(cls.group.processes)
        cls.group.start()
        cls.load = cls.share(Load(cls.group.namesrv_addresses, cls.folder / "load", host=cls.hosts("client")))
        cls.watch = Watch(cls.group.controllers).start()
        cls.addClassCleanup(cls.watch.stop)

    @classmethod
    def say(cls, text: str) -> None:
        sys.stderr.write(f"\n{cls.__name__}: {text}\n")

    def settle(self, stuck: list[int] | None = None, patience_s: float = 60) -> GroupState:
        """The group whole again. A replica that does not come back by itself in time is restarted, and counted."""
        try:
            return self.group.await_whole(patience_s)
        except NotReady:
            state = self.group.await_master()
            for broker in self.group.brokers:
                if broker.broker_id() not in state.in_sync or not broker.running():
                    if stuck is not None:
                        stuck.append(broker.broker_id())
                    broker.kill()
                    broker.restart()
            return self.group.await_whole(2 * READY_S)

    def storm(
        self,
        faults: Sequence[Callable[[Faults], Any]],
        *,
        rate: float = 400,
        patience_s: float = 60,
        client: Mapping[str, Any] | None = None,
    ) -> Storm:
        """Run each fault under load; between them the group becomes whole and messages flow.

        `client`: options for Load.begin(), of a client other than the one that never tries again.
        """
        epoch = self.settle(patience_s=patience_s).master_epoch
        wait_until("the watch to be up to date", lambda: any(e == epoch for _, e, _ in self.watch.masters()), READY_S)
        before = len(self.watch.elections())
        ids = self.identities()
        acting, stuck, settled = Faults(self.group), list[int](), list[tuple[str, float]]()
        run = self.load.begin(rate=rate, **(client or {}))
        self.load.await_more(run, 100)
        self.load.state(run, reset_gap=True)
        for fault in faults:
            fault(acting)
            began = time.monotonic()
            self.settle(stuck, patience_s)
            settled.append((getattr(fault, "__name__", "it"), time.monotonic() - began))
            self.load.await_more(run, 100)
        said = self.load.state(run)
        acks = self.load.end(run)
        self.settle(stuck, patience_s)
        present = self.load.read(retried=client is not None)
        verdict = judge(acks, present, self.watch, acting.freezes)
        self.assertEqual(self.identities(), ids, "an id changed")
        self.assertEqual(shared_epochs(self.group.brokers), {}, "two masters in one epoch")
        switches = self.watch.elections()[before:]
        return Storm(
            verdict,
            switches,
            acting.switch_s,
            len(stuck),
            said["longest_gap_ms"],
            acting.back_s,
            settled,
            acting.diverged,
            said["errors"],
            present,
        )

    def identities(self) -> list[str]:
        return [broker.identity() for broker in self.group.brokers]

    def assertNoneLost(self, storm: Storm, *, even_replaced: bool = True) -> None:
        """No acknowledged message is lost but what a thawed Java master acknowledged by itself."""
        bad = storm.verdict.other + (storm.verdict.replaced if even_replaced else [])
        shown = [(ack, self.watch.master_at(ack.at_ms)) for ack in bad[:5]]
        self.assertEqual(bad, [], f"{storm.text()}\n{shown}\n{storm.switches}")


def for_controllers(
    base: type[SwitchingCase],
    *,
    sample: Sequence[tuple[str, bool]] = SIDES[:2],
    full: Sequence[tuple[str, bool]] = SIDES,
) -> dict[str, type]:
    """A test class for each side; `sample` are those that ``make test`` runs, `full` with ROCKETHA_INTEROP_FULL=1."""
    made: dict[str, type] = {}
    for kind, embedded in full if FULL else sample:
        if kind == "ours" and not OURS:
            continue
        name = f"{base.__name__}_{kind}_{'embedded' if embedded else 'alone'}"
        made[name] = type(
            name, (base,), {"kind": kind, "embedded": embedded, "__module__": base.__module__, "__doc__": base.__doc__}
        )
    return made


__all__ = ["FULL", "SIDES", "Storm", "SwitchingCase", "for_controllers"]
