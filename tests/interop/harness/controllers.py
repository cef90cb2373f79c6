"""A group of controllers, Java's or ours, and the brokers that live under it, Java's and ours in any mixture.

`Controllers` starts one, three or five of a kind, alone or inside nameservers, and asks them. `ReplicaGroup` is one
broker name with its replicas, all in controller mode. Both sides are one parameter, so that every test can run on
Java's controllers and brokers too: that is how the tests themselves are proved.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import remoting
from .processes import NotReady, wait_until
from .roles import (
    CONTROLLERS,
    EMBEDDED_CONTROLLERS,
    LOOPBACK,
    NAMESRVS,
    READY_S,
    Host,
    JavaBroker,
    OurBroker,
    Role,
    _Broker,
    _Controller,
    _EmbeddedController,
)

GET_METADATA, GET_SYNC_STATE_DATA, GET_BROKER_CLUSTER_INFO = 1005, 1006, 106
CLUSTER, GROUP, TOPIC = "DefaultCluster", "broker-a", "Switch"


class GroupState(NamedTuple):
    """What the lead controller says of one broker name (request 1006)."""

    master_id: int  # -1: none
    master_address: str
    master_epoch: int
    set_epoch: int
    in_sync: tuple[int, ...]  # broker ids
    others: tuple[int, ...]
    alive: tuple[int, ...]
    addresses: tuple[tuple[int, str], ...]

    @property
    def ids(self) -> dict[str, int]:
        return {address: number for number, address in self.addresses}


def parse_state(body: bytes, group: str) -> GroupState | None:
    """None: the controller knows no such group (yet)."""
    entry = remoting.loads(body)["replicasInfoTable"].get(group)
    if entry is None:
        return None
    both = [*entry["inSyncReplicas"], *entry["notInSyncReplicas"]]
    return GroupState(
        -1 if entry.get("masterBrokerId") is None else int(entry["masterBrokerId"]),
        entry.get("masterAddress") or "",
        int(entry["masterEpoch"]),
        int(entry["syncStateSetEpoch"]),
        tuple(sorted(int(r["brokerId"]) for r in entry["inSyncReplicas"])),
        tuple(sorted(int(r["brokerId"]) for r in entry["notInSyncReplicas"])),
        tuple(sorted(int(r["brokerId"]) for r in both if r.get("alive"))),
        tuple(sorted((int(r["brokerId"]), r["brokerAddress"]) for r in both)),
    )


class Controllers:
    """`count` controllers of `kind` ("java" or "ours"); `embedded`: inside nameservers of the same kind."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        count: int = 3,
        *,
        embedded: bool = False,
        extra: Mapping[str, object] | None = None,
        hosts: Sequence[Host] = (),
    ) -> None:
        self.kind = kind
        self.embedded = embedded
        table: Mapping[str, type[_Controller]] = EMBEDDED_CONTROLLERS if embedded else CONTROLLERS
        places = list(hosts) or [LOOPBACK] * count
        self.nodes = [table[kind](f"n{i}", folder / f"n{i}", extra, host=places[i]) for i in range(count)]
        for node in self.nodes:
            node.peers = self.nodes

    @property
    def addresses(self) -> str:
        """As brokers want them: "host:port;host:port"."""
        return ";".join(node.address for node in self.nodes)

    @property
    def namesrvs(self) -> str:
        return ";".join(n.namesrv_address for n in self.nodes if isinstance(n, _EmbeddedController))

    def spawn(self) -> None:
        for node in self.nodes:
            node.spawn()

    def start(self) -> Controllers:
        self.spawn()
        for node in self.nodes:
            node.await_ready()
        self.await_leader()
        return self

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def metadata(self, node: _Controller) -> dict[str, str]:
        """The answer to 1005 of one controller; empty when it does not answer."""
        try:
            return remoting.call(node.address, GET_METADATA, timeout_s=1).fields
        except (OSError, ValueError):
            return {}

    def leader(self) -> _Controller | None:
        """The one that says of itself that it leads."""
        for node in self.nodes:
            if node.running() and self.metadata(node).get("isLeader") == "true":
                return node
        return None

    def await_leader(self, timeout_s: float = READY_S) -> _Controller:
        found = wait_until("a leading controller", self.leader, timeout_s)
        assert isinstance(found, _Controller)
        return found

    def call(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", timeout_s: float = 20
    ) -> remoting.Reply:
        """Ask whoever leads, again while nobody does."""
        end = time.monotonic() + timeout_s
        while True:
            leader = self.leader()
            if leader is not None:
                try:
                    reply = remoting.call(leader.address, code, fields, body, timeout_s=3)
                    if reply.code != 2007:
                        return reply
                except (OSError, ValueError):
                    pass
            if time.monotonic() > end:
                raise NotReady(f"no leading controller answered request {code} within {timeout_s:g} s")
            time.sleep(0.02)  # an election of theirs sends us no event

    def state(self, group: str = GROUP, timeout_s: float = 20) -> GroupState | None:
        reply = self.call(GET_SYNC_STATE_DATA, body=f'["{group}"]'.encode(), timeout_s=timeout_s)
        return parse_state(reply.body, group) if reply.code == 0 else None


class Replica(_Broker):
    """One replica in controller mode, all acknowledgements from the whole SyncStateSet. `number` only names it here."""

    implementation = ""

    def __init__(
        self,
        number: int,
        folder: Path,
        namesrvs: str,
        controllers: str,
        extra: Mapping[str, object] | None = None,
        *,
        host: Host = LOOPBACK,
    ) -> None:
        super().__init__(folder, None, extra, name=f"replica{number}", host=host)
        self.namesrv_addresses = namesrvs
        self.controller_addresses = controllers
        self.group = GROUP
        config = self.root / "config"
        config.mkdir(parents=True, exist_ok=True)
        if not (config / "topics.json").exists():
            (config / "topics.json").write_text(TOPICS)

    def configuration(self) -> dict[str, object]:
        return {
            **super().configuration(),
            "brokerName": self.group,
            "brokerId": -1,
            "brokerRole": "SLAVE",
            "namesrvAddr": self.namesrv_addresses,
            "enableControllerMode": True,
            "controllerAddr": self.controller_addresses,
            "allAckInSyncStateSet": True,
            "totalReplicas": 3,
            "inSyncReplicas": 3,
            "minInSyncReplicas": 1,
            "timerWheelEnable": False,
            "transactionCheckInterval": 600000,
            # tests read back what they sent hours of virtual queue time later, never what a cleaner left
            "fileReservedTime": 72,
            "diskMaxUsedSpaceRatio": 80,
        }

    def ready(self) -> object:
        for namesrv in self.namesrv_addresses.split(";"):
            try:
                reply = remoting.call(namesrv, GET_BROKER_CLUSTER_INFO, timeout_s=2)
            except (OSError, ValueError):
                continue
            if f'"{self.address}"'.encode() in reply.body:
                return True
        return None

    def identity(self) -> str:
        """The content of brokerIdentity; empty while there is none."""
        path = self.root / "brokerIdentity"
        return path.read_text() if path.exists() else ""

    def broker_id(self) -> int:
        """The id that its identity file gives it; -1 while there is none."""
        text = self.identity()
        return int(text.split("#")[2]) if text.count("#") == 2 else -1

    def masterships(self) -> list[tuple[int, str]]:
        """(epoch, address) of each time it began to be master, in its own words."""
        raise NotImplementedError


class ReplicaBroker(Replica, JavaBroker):
    """Java's."""

    implementation = "java"
    quick = True
    heap_mb = 384

    def masterships(self) -> list[tuple[int, str]]:
        found = []
        for path in self.logs()[1:]:
            for line in path.read_text(errors="replace").splitlines():
                match = re.search(r"Begin to change to master, .*replicas:([^,]+), new Epoch:(\d+)", line)
                if match:
                    found.append((int(match[2]), match[1]))
        return found


class OurReplicaBroker(Replica, OurBroker):
    """Ours, on the same property file."""

    implementation = "ours"

    def masterships(self) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for line in self.log().splitlines():
            match = re.search(r"this broker \d+ is master of epoch (\d+)", line)
            if match:
                found.append((int(match[1]), self.address))
        return found


REPLICAS: dict[str, type[Replica]] = {"java": ReplicaBroker, "ours": OurReplicaBroker}

TOPICS = json.dumps(
    {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1700000000000},
        "topicConfigTable": {
            TOPIC: {
                "attributes": {},
                "order": False,
                "perm": 6,
                "readQueueNums": 4,
                "topicFilterType": "SINGLE_TAG",
                "topicName": TOPIC,
                "topicSysFlag": 0,
                "writeQueueNums": 4,
            }
        },
    }
)


class ReplicaGroup:
    """`count` replicas of one broker name, their controllers and, unless these hold one, a nameserver.

    `kinds` says whose each replica is; the first of them starts first where `start(first=True)` asks for it. `namesrv`
    says whose the nameserver is.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        embedded: bool = False,
        count: int = 3,
        controllers: int = 3,
        extra: Mapping[str, object] | None = None,
        controller_extra: Mapping[str, object] | None = None,
        hosts: Callable[[str], Host] = lambda name: LOOPBACK,
        kinds: Sequence[str] = (),
        namesrv: str = "java",
    ) -> None:
        kinds = kinds or ("java",) * count
        places = [hosts(f"c{i}") for i in range(controllers)]
        self.controllers = Controllers(
            kind, folder, controllers, embedded=embedded, extra=controller_extra, hosts=places
        )
        self.namesrv = None if embedded else NAMESRVS[namesrv]("namesrv", folder / "namesrv", host=hosts("namesrv"))
        self.namesrv_addresses = self.namesrv.address if self.namesrv else self.controllers.namesrvs
        self.brokers = [
            REPLICAS[kind](
                i,
                folder / f"replica{i}",
                self.namesrv_addresses,
                self.controllers.addresses,
                extra,
                host=hosts(f"b{i}"),
            )
            for i, kind in enumerate(kinds, 1)
        ]

    @property
    def processes(self) -> list[Role]:
        return [*([self.namesrv] if self.namesrv else []), *self.controllers.nodes, *self.brokers]

    def start(self, timeout_s: float = 2 * READY_S, *, first: bool = False) -> ReplicaGroup:
        """Controllers first, then all replicas at once; returns when the SyncStateSet holds all of them.

        `first`: the first replica alone until it is master, so that it is known which one begins as what.
        """
        if self.namesrv:
            self.namesrv.spawn()
        self.controllers.start()
        if self.namesrv:
            self.namesrv.await_ready()
        if first:
            self.brokers[0].start()
            self.await_master()
        for broker in self.brokers[first:]:
            broker.spawn()
        self.await_whole(timeout_s)
        return self

    def exchange(self, broker: Replica, kind: str) -> Replica:
        """Another implementation in the place of a stopped replica: on its folder, its ports and its keys."""
        at = self.brokers.index(broker)
        other = REPLICAS[kind](
            at + 1, broker.folder, self.namesrv_addresses, self.controllers.addresses, broker.extra, host=broker.host
        )
        other.move(broker.port)
        self.brokers[at] = other
        return other

    def kill(self) -> None:
        for process in reversed(self.processes):
            process.kill()

    def state(self, timeout_s: float = 20) -> GroupState | None:
        return self.controllers.state(timeout_s=timeout_s)

    def master(self) -> Replica:
        """The replica that the controllers call master; AssertionError when there is none."""
        state = self.state()
        for broker in self.brokers:
            if state is not None and state.master_address == broker.address:
                return broker
        raise NotReady(f"no master: {state}")

    def slaves(self) -> list[Replica]:
        master = self.master()
        return [broker for broker in self.brokers if broker is not master]

    def await_master(
        self, wanted: Callable[[GroupState], Any] = lambda state: True, timeout_s: float = READY_S
    ) -> GroupState:
        """Until the controllers name a master for which `wanted` holds."""

        def named() -> GroupState | None:
            state = self.state(timeout_s)
            return state if state is not None and state.master_id > 0 and wanted(state) else None

        found = wait_until("a master", named, timeout_s)
        assert isinstance(found, GroupState)
        return found

    def outsiders(self) -> list[Replica]:
        """Who does not run, or is not in the SyncStateSet."""
        in_sync = self.await_master().in_sync
        return [broker for broker in self.brokers if broker.broker_id() not in in_sync or not broker.running()]

    def stop_brokers(self) -> None:
        """The master last, and not before the controllers know that nobody else is there to be elected."""
        slaves, master = self.slaves(), self.master()
        for slave in slaves:
            slave.stop()
        self.await_master(lambda state: state.alive == (state.master_id,))
        master.stop()

    def await_whole(self, timeout_s: float = 2 * READY_S) -> GroupState:
        """Until all replicas are in the SyncStateSet and alive."""
        seen: list[GroupState | None] = [None]

        def whole() -> GroupState | None:
            state = seen[0] = self.state(timeout_s)
            full = state is not None and len(state.in_sync) == len(self.brokers) == len(state.alive)
            return state if full and state is not None and state.master_id > 0 else None

        try:
            found = wait_until("all replicas in the SyncStateSet", whole, timeout_s)
        except NotReady as why:
            raise NotReady(f"{why}; last seen {seen[0]}") from None
        assert isinstance(found, GroupState)
        return found
