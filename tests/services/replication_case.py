"""Real brokers on simulated hosts, in one process and at the speed of the processor: pairs, and what clients see of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet import defer
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.broker.service import BrokerService
from rocketha.services.config.loading import load_broker, load_namesrv
from rocketha.services.namesrv.service import NameServerService
from rocketha.simulation.host import Host, Process
from rocketha.simulation.world import World
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Answer, Command
from tests.services.broker_case import pull_fields, send_fields

PORT, NAMESERVER_PORT = 10911, 9876
SEGMENT = 131072
COMMON = f"""
brokerName=g
listenPort={PORT}
storePathRootDir=/store
mappedFileSizeCommitLog={SEGMENT}
mappedFileSizeConsumeQueue=6000
maxMessageSize=60000
maxHashSlotNum=1000
maxIndexNum=4000
fastPortEnable=false
"""


class ReplicationCase(SynchronousTestCase):
    """A world of brokers; nothing happens in it but by :meth:`run`."""

    seed = 1

    def setUp(self) -> None:
        self.world = World(self.seed)
        self.client_host = self.world.add_host("client", lambda process: RemotingClient(Dialer(process.reactor)))
        self.run_for(0.01)

    # -- hosts

    def broker(
        self, name: str, settings: str, start: bool = True, platform: Mapping[str, Any] | None = None, **more: Any
    ) -> Host:
        """A host that runs a broker with these lines in its broker.conf."""

        def program(process: Process) -> BrokerService:
            address = process.host.address
            text = f"{COMMON}bindAddress={address}\nbrokerIP1={address}\n{process.host.settings}\n"  # type: ignore[attr-defined]
            loaded = load_broker(text.encode(), "broker.conf", {}, {"HOME": "/home"}, name)
            here = process.platform(pid=lambda: process.number, **(platform or {}))
            service = BrokerService(loaded.config, here, **more)
            service.startService()
            return service

        host = self.world.add_host(name, program, start=False)
        host.settings = settings  # type: ignore[attr-defined]
        if start:
            host.start()
            self.started(host)
        return host

    def nameserver(self) -> Host:
        """A host that runs a nameserver."""

        def program(process: Process) -> NameServerService:
            text = f"listenPort={NAMESERVER_PORT}\nbindAddress={process.host.address}\nkvConfigPath=/kvConfig.json\n"
            loaded = load_namesrv(text.encode(), "namesrv.conf", {}, {"HOME": "/home"})
            service = NameServerService(loaded.config, process.platform())
            service.startService()
            return service

        host = self.world.add_host("nameserver", program)
        self.run_for(0.01)
        return host

    def service(self, host: Host) -> BrokerService:
        """What runs on a broker's host."""
        assert host.process is not None, f"{host.name} is down"
        found: BrokerService = host.process.service
        return found

    def log(self, host: Host) -> ReplicaLog:
        """Its log."""
        return self.service(host).broker.replication.log

    def started(self, host: Host) -> None:
        """Let a broker come up."""
        self.until(f"{host.name} serves", lambda: host.process and host.process.service and self.service(host).serving)

    def stop(self, host: Host) -> None:
        """A clean stop, and the process's end."""
        stopped = defer.maybeDeferred(self.service(host).stopService)
        self.await_(stopped)
        host.exited("stopped")

    def restart(self, host: Host, settings: str | None = None) -> None:
        """Start it again, perhaps as something else."""
        if settings is not None:
            host.settings = settings  # type: ignore[attr-defined]
        host.start()
        self.started(host)

    # -- time

    def run_for(self, seconds: float) -> None:
        """Let the world go on."""
        self.world.scheduler.flush()  # what a test had a broker say leaves now, not with the next event
        self.world.run(seconds)

    def until(self, what: str, true: Callable[[], object], seconds: float = 30.0) -> float:
        """Let the world go on until something is true; how long that took."""
        began = self.world.now
        while not true():
            self.assertLess(self.world.now - began, seconds, f"not within {seconds} s: {what}")
            self.run_for(0.005)
        return self.world.now - began

    def await_(self, deferred: defer.Deferred[Any], seconds: float = 30.0) -> Any:
        """Its result."""
        results: list[Any] = []
        deferred.addBoth(results.append)
        self.until("a result", lambda: results, seconds)
        if hasattr(results[0], "raiseException"):
            results[0].raiseException()
        return results[0]

    # -- clients

    def asking(
        self,
        host: Host,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = 20.0,
        port: int = PORT,
    ) -> defer.Deferred[Command]:
        """A request that is under way."""
        assert self.client_host.process is not None
        client: RemotingClient = self.client_host.process.service
        asked = client.request(f"{host.address}:{port}", code, dict(fields or {}), body, timeout_s)
        self.world.scheduler.flush()  # else it would leave with the next event
        return asked

    def ask(self, host: Host, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Command:
        """A request and its answer."""
        answer: Command = self.await_(self.asking(host, code, fields, body))
        return answer

    def sending(self, host: Host, body: bytes = b"body", **fields: str) -> defer.Deferred[Command]:
        """A message that is under way."""
        return self.asking(host, RequestCode.SEND_MESSAGE_V2, send_fields(**fields), body)  # type: ignore[arg-type]

    def send(self, host: Host, body: bytes = b"body", **fields: str) -> int:
        """The code that a message is answered with."""
        answer: Command = self.await_(self.sending(host, body, **fields))
        return answer.code

    def send_many(self, host: Host, count: int, size: int = 500, topic: str = "T") -> list[int]:
        """The codes of as many messages, sent one after the other's answer would be too slow: all at once."""
        waiting = defer.gatherResults(
            [
                self.sending(host, bytes([number % 251]) * size, topic=topic, queue_id=str(number % 4))
                for number in range(count)
            ]
        )
        return [answer.code for answer in self.await_(waiting)]

    def pull(self, host: Host, offset: int = 0, queue_id: int = 0, **more: str) -> Command:
        """What a pull gets."""
        return self.ask(host, RequestCode.PULL_MESSAGE, pull_fields(offset=offset, queue_id=queue_id, **more))

    # -- comparisons

    def level(self, *hosts: Host) -> bool:
        """Whether all logs end at the same place, and all queues are made."""
        logs = [self.log(host) for host in hosts]
        return len({log.end for log in logs}) == 1 and all(log.dispatched_offset == log.end for log in logs)

    def same_logs(self, *hosts: Host) -> None:
        """Logs are equal to the byte, and so are queues."""
        first = self.log(hosts[0])
        for host in hosts[1:]:
            other = self.log(host)
            begin = max(first.begin, other.begin)
            self.assertEqual(first.end, other.end, host.name)
            self.assertEqual(self.bytes_of(first, begin), self.bytes_of(other, begin), host.name)
            if first.begin == other.begin:
                self.assertEqual(first.store.queue_table(), other.store.queue_table(), host.name)
        for log in map(self.log, hosts):
            for topic, queues in log.store.queue_table().items():
                for queue_id, (low, high) in queues.items():
                    for offset in range(low, high):
                        where = log.store.physical_offset(topic, queue_id, offset)
                        self.assertIsNotNone(log.store.message_at(where), f"{topic}/{queue_id}/{offset} at {where}")

    @staticmethod
    def bytes_of(log: ReplicaLog, begin: int) -> bytes:
        """All of it from there on."""
        parts, reader = [], log.reader()
        while begin < log.end:
            size = log.readable(begin)
            parts.append(reader.read(begin, size))
            begin += size
        reader.close()
        return b"".join(parts)

    def answered(self, waiting: defer.Deferred[Any]) -> bool:
        """Whether it has a result."""
        return waiting.called and not isinstance(waiting.result, defer.Deferred)


__all__ = ["Answer", "ReplicationCase"]
