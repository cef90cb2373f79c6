"""A master and a slave in classic roles, each Java's or ours; waiting for replicas to be equal, comparing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from . import remoting
from .controllers import GROUP, TOPICS
from .links import peers
from .processes import NotReady, wait_until
from .replica_files import compare_queues, compare_whole_logs
from .roles import GET_BROKER_RUNTIME_INFO, NAMESRVS, READY_S, JavaBroker, OurBroker, Role, _Broker


class _QuickJavaBroker(JavaBroker):
    """Compiled by the quick compiler only: two at a time must start on two busy cores."""

    quick = True


PAIR_BROKERS: dict[str, type[_Broker]] = {"java": _QuickJavaBroker, "ours": OurBroker}


class LogState(NamedTuple):
    """What a broker says of its log (request 28)."""

    begin: int
    end: int
    behind: int  # bytes that its consume queues do not have yet


def log_state(broker: _Broker) -> LogState | None:
    """None while the broker does not answer."""
    try:
        reply = remoting.call(broker.address, GET_BROKER_RUNTIME_INFO, timeout_s=5)
        table = remoting.loads(reply.body)["table"]
    except (OSError, ValueError):
        return None
    return LogState(*(int(table[key]) for key in ("commitLogMinOffset", "commitLogMaxOffset", "dispatchBehindBytes")))


def seed_topics(broker: _Broker) -> None:
    """The load's topic, there from the first start on every replica: metadata sync is tested elsewhere."""
    config = broker.root / "config"
    config.mkdir(parents=True, exist_ok=True)
    if not (config / "topics.json").exists():
        (config / "topics.json").write_text(TOPICS)


def await_equal(brokers: Sequence[_Broker], timeout_s: float = READY_S) -> int:
    """Until all logs end at the same offset and every broker has dispatched its own; that offset.

    Nobody must be sending: the first broker's end is where the others have to get to.
    """
    seen: list[LogState | None] = []

    def equal() -> int | None:
        seen[:] = [log_state(broker) for broker in brokers]
        known = [state for state in seen if state is not None]
        same = len(known) == len(brokers) and len({state.end for state in known}) == 1
        return known[0].end + 1 if same and all(state.behind <= 0 for state in known) else None

    try:
        end = wait_until("replicas to be equal", equal, timeout_s, lambda: all(b.running() for b in brokers))
    except NotReady as why:
        raise NotReady(f"{why}; last seen {dict(zip((b.name for b in brokers), seen, strict=False))}") from None
    assert isinstance(end, int)
    return end - 1


def kind_of(broker: _Broker) -> str:
    return "ours" if isinstance(broker, OurBroker) else "java"


def roots_of(brokers: Sequence[_Broker]) -> dict[str, Path]:
    """Their store folders, by names for a report."""
    return {f"{broker.name} ({kind_of(broker)})": broker.root for broker in brokers}


def compare_at_rest(brokers: Sequence[_Broker]) -> tuple[int, int]:
    """Of brokers that have stopped, everything: bytes of the logs, entries of the consume queues."""
    return compare_whole_logs(roots_of(brokers)), compare_queues(roots_of(brokers))


class ClassicPair:
    """`kinds` are those of master and slave. `sync`: SYNC_MASTER, two copies for an acknowledgement."""

    def __init__(
        self,
        kinds: tuple[str, str],
        folder: Path,
        *,
        sync: bool = False,
        extra: Mapping[str, object] | None = None,
        namesrv: str = "java",
    ) -> None:
        self.kinds = kinds
        self.namesrv = NAMESRVS[namesrv]("namesrv", folder / "namesrv")
        common = {
            "brokerName": GROUP,
            "timerWheelEnable": False,
            "transactionCheckInterval": 600000,
            "fileReservedTime": 72,
            # less than the load's own patience, so that it is told
            "slaveTimeout": 1000,
            **(extra or {}),
        }
        as_master = {"brokerRole": "SYNC_MASTER" if sync else "ASYNC_MASTER", "inSyncReplicas": 2 if sync else 1}
        as_slave = {"brokerRole": "SLAVE", "brokerId": 1}
        self.master = PAIR_BROKERS[kinds[0]](folder / "master", self.namesrv, {**common, **as_master}, name="master")
        self.slave = PAIR_BROKERS[kinds[1]](folder / "slave", self.namesrv, {**common, **as_slave}, name="slave")
        for broker in self.brokers:
            seed_topics(broker)

    @property
    def brokers(self) -> list[_Broker]:
        return [self.master, self.slave]

    @property
    def processes(self) -> list[Role]:
        return [self.namesrv, *self.brokers]

    @property
    def ha_port(self) -> int:
        """Where the master listens for its slave."""
        return self.master.port + 1

    def start(self) -> ClassicPair:
        """Both on empty disks: an empty slave of a long log gets its last file only, so it comes before the log."""
        self.namesrv.start()
        for broker in self.brokers:
            # one after the other: a Java slave that registers first asks for its master only ten seconds later
            broker.start()
        self.await_linked()
        return self

    def await_linked(self, timeout_s: float = READY_S) -> None:
        """Until a slave is connected to the master."""
        wait_until("a link", lambda: peers(self.ha_port), timeout_s, self.master.running)
