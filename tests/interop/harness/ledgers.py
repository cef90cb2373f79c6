"""A group of brokers in DLedger mode, each Java's or ours: n0, n1, n2."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from rocketha.wire.codes import RequestCode

from . import disk, ports, remoting
from .ledger import Ack
from .pairs import PAIR_BROKERS, kind_of
from .processes import wait_until
from .roles import LOOPBACK, Host, _Broker, _Namesrv

GROUP = "broker-a"
ELECTION_S = 30


class LedgerGroup:
    """`kinds` are "ours" and "java"; `hosts` has the host of each member."""

    def __init__(
        self,
        kinds: Sequence[str],
        folder: Path,
        namesrv: _Namesrv,
        extra: Mapping[str, object] | None = None,
        peers: str | None = None,
        hosts: Callable[[str], Host] = lambda name: LOOPBACK,
    ) -> None:
        self.namesrv = namesrv
        self._folder, self._extra = folder, extra or {}
        self.peers = peers or ";".join(
            f"n{number}-{hosts(f'n{number}').ip}:{port}" for number, port in enumerate(ports.free_ports(len(kinds)))
        )
        self.brokers: list[_Broker] = [
            self._made(kind, f"n{number}", self.peers, hosts(f"n{number}")) for number, kind in enumerate(kinds)
        ]

    def replace(self, number: int, kind: str) -> _Broker:
        """A member of another kind in the place of one that has ended, with its store and ports; it is not started."""
        before = self.brokers[number]
        broker = self._made(kind, f"n{number}", self.peers, before.host, f"n{number}-{kind}", before.root, before.port)
        self.brokers[number] = broker
        return broker

    def _made(
        self,
        kind: str,
        name: str,
        peers: str,
        host: Host = LOOPBACK,
        folder: str = "",
        root: Path | None = None,
        port: int | None = None,
        **more: object,
    ) -> _Broker:
        keys = {
            "enableDLegerCommitLog": True,
            "dLegerGroup": GROUP,
            "dLegerPeers": peers,
            "dLegerSelfId": name,
            **self._extra,
            **more,
        }
        return PAIR_BROKERS[kind](self._folder / (folder or name), self.namesrv, keys, root=root, port=port, host=host)

    def newcomer(self, name: str) -> tuple[_Broker, str]:
        """One of ours that waits to be added, and what it is added as; it is none of `brokers`."""
        peer = f"{name}-{LOOPBACK.ip}:{ports.free_ports(1)[0]}"
        return self._made("ours", name, f"{self.peers};{peer}", raftJoinExisting=True), peer

    @property
    def kinds(self) -> str:
        """For a report: J and o, in the order of the members."""
        return "".join("J" if kind_of(broker) == "java" else "o" for broker in self.brokers)

    def member(self, broker: _Broker) -> str:
        """For a report: J0 or o0."""
        number = self.brokers.index(broker)
        return f"{self.kinds[number]}{number}"

    def start(self) -> None:
        for broker in self.brokers:
            broker.spawn()  # one alone answers nobody
        for broker in self.brokers:
            broker.await_ready()
        self.await_master()

    def registered(self) -> dict[str, str]:
        """Addresses of members by their ids, as the nameserver has them."""
        reply = remoting.call(self.namesrv.address, RequestCode.GET_BROKER_CLUSTER_INFO)
        group = remoting.loads(reply.body)["brokerAddrTable"].get(GROUP, {"brokerAddrs": {}})
        return {str(number): address for number, address in group["brokerAddrs"].items()}

    def master(self) -> _Broker | None:
        """Whom the nameserver calls master, if that one runs."""
        address = self.registered().get("0")
        return next((each for each in self.brokers if each.running() and each.address == address), None)

    def await_master(self) -> _Broker:
        found = wait_until("a master", self.master, ELECTION_S)
        assert isinstance(found, _Broker)
        return found

    def followers(self) -> list[_Broker]:
        master = self.await_master()
        return [broker for broker in self.brokers if broker is not master]

    def not_stored(self, acks: Collection[Ack]) -> list[Ack]:
        """What was acknowledged and is not in the log of each member, there where it was said to be; of members that
        have stopped.
        """
        missing: list[Ack] = []
        for number, broker in enumerate(self.brokers):
            records = disk.ledger(broker.root / f"dledger-n{number}" / "data")
            stored = {
                record.at: (record.properties.get("KEYS"), record.queue, record.queue_offset) for record in records
            }
            missing += [ack for ack in acks if stored.get(ack.physical) != (ack.key, ack.queue, ack.offset)]
        return missing

    def await_successor(self, before: _Broker, began: float | None = None) -> float:
        """Until another one is the master; the seconds that took."""
        began = began or time.monotonic()

        def other() -> bool:
            master = self.master()
            return master is not None and master is not before

        wait_until("another master", other, ELECTION_S)
        return time.monotonic() - began
