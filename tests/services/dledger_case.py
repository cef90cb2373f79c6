"""Real brokers whose commit log is a Raft log, on simulated hosts."""

from __future__ import annotations

from functools import partial

from rocketha.broker.role import Role
from rocketha.services.replication.dledger import DLedgerReplication
from rocketha.simulation.host import Host
from rocketha.simulation.link import Link
from rocketha.wire.codes import ResponseCode
from tests.services.replication_case import ReplicationCase

RAFT_PORT = 40911


class DLedgerCase(ReplicationCase):
    """A group of as many brokers as the class says, on empty disks."""

    brokers_count = 3
    keys = ""

    def setUp(self) -> None:
        super().setUp()
        names = [f"n{number}" for number in range(self.brokers_count)]
        self.ended: list[str] = []
        self.brokers: list[Host] = [
            self.broker(name, "", start=False, platform={"on_fatal": partial(self._ended, name)}) for name in names
        ]
        peers = ";".join(f"{host.name}-{host.address}:{RAFT_PORT}" for host in self.brokers)
        for host in self.brokers:
            host.settings = (  # type: ignore[attr-defined]
                f"enableDLegerCommitLog=true\ndLegerGroup=g\ndLegerPeers={peers}\ndLegerSelfId={host.name}\n{self.keys}"
            )

    def _ended(self, name: str, why: str) -> None:
        self.ended.append(why)
        self.world.hosts[name].exited(why)

    def start_group(self) -> Host:
        """All brokers; the master."""
        for host in self.brokers:
            host.start()
        for host in self.brokers:
            self.started(host)
        return self.master()

    # -- what is

    def replication(self, host: Host) -> DLedgerReplication:
        """Of a broker that runs."""
        found = self.service(host).broker.replication
        assert isinstance(found, DLedgerReplication)
        return found

    def role(self, host: Host) -> Role:
        """What a broker is; FENCED while it does not run."""
        if not host.alive or host.process is None or host.process.service is None or not self.service(host).serving:
            return Role.FENCED
        return self.replication(host).role

    def masters(self) -> list[Host]:
        """Those that serve as master."""
        return [
            host
            for host in self.brokers
            if self.role(host) is Role.MASTER and not host.frozen and self.replication(host).refusal is None
        ]

    def master(self, seconds: float = 20.0) -> Host:
        """The one that is; waits for it."""
        self.until("a master", lambda: len(self.masters()) == 1, seconds)
        return self.masters()[0]

    def followers(self) -> list[Host]:
        """The others that run."""
        master = self.master()
        return [host for host in self.brokers if host is not master and host.alive]

    def whole(self, seconds: float = 30.0) -> None:
        """Wait until every broker that runs has all of the log, and has made its queues."""
        running = [host for host in self.brokers if host.alive]

        def equal() -> bool:
            ends = {self.log(host).end for host in running}
            confirmed = {self.replication(host).confirm_offset for host in running}
            dispatched = {self.log(host).dispatched_offset for host in running}
            return len(self.masters()) == 1 and ends == confirmed == dispatched and len(ends) == 1

        self.until("all have the log", equal, seconds)

    def ways(self, one: Host, other: Host) -> list[Link]:
        """Both."""
        link = self.world.network.link
        return [link(one.address, other.address), link(other.address, one.address)]

    def cut_off(self, host: Host) -> None:
        """Nothing passes between a broker and the others."""
        for other in self.brokers:
            if other is not host:
                for link in self.ways(host, other):
                    link.blocks.add("cut off")

    def stamps(self) -> tuple[int, int]:
        """The epoch in the version of a master's topics, and its term."""
        master = self.master()
        return self.service(master).broker.state.topics.data_version.state_version, self.replication(master).epoch

    def acknowledged(self, host: Host, count: int, size: int = 500) -> int:
        """How many of as many messages were acknowledged."""
        return self.send_many(host, count, size).count(ResponseCode.SUCCESS)

    def restart_all(self) -> None:
        """After the end of all; they have the same log again."""
        for host in self.brokers:
            self.restart(host)
        self.whole()

    def stored(self, host: Host) -> int:
        """Messages in the queues of topic T, as consumers see them there."""
        return sum(high for _, high in self.log(host).store.queue_table()["T"].values())
