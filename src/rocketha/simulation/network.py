"""The virtual network: hosts, names, ports, and what each way between two hosts does to packets.

Knows hosts by address, not what runs on them.  Theory of operation: between two hosts there are two one-way links, each
with its delay, jitter, loss and bandwidth, each open or blocked; every kind of partition is a set of blocked links
(:mod:`rocketha.simulation.faults`).  Connections are TCP (:mod:`rocketha.simulation.stream`), so loss shows as delay,
never as a hole.  Opening one follows the kernel's rules: a host that is up but has nobody listening refuses; one that
is off, unreachable either way or wholly paused says nothing, and SYN is repeated after 1, 3, 7 ... seconds; a process
that merely stands still is accepted for, by its kernel.
"""

from __future__ import annotations

import ipaddress
import random
from typing import Any

import attrs
from twisted.internet import defer, error
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IConnector, IListeningPort
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.simulation.link import Link, Quality
from rocketha.simulation.reactor import SimulatedReactor
from rocketha.simulation.scheduler import Owner, Scheduler
from rocketha.simulation.stream import Stream
from rocketha.simulation.trace import Trace

LOOPBACK_S = 0.00003
SYN_RETRIES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


@attrs.define(eq=False)
class Station:
    """A host as the network knows it.

    :ivar up: its kernel runs: it answers SYN.
    :ivar accepting: false for a host that stands still whole: it keeps its state and says nothing.
    """

    name: str
    address: str
    up: bool = True
    accepting: bool = True
    ports: dict[int, SimulatedPort] = attrs.Factory(dict)

    @property
    def answers(self) -> bool:
        """Whether the kernel answers."""
        return self.up and self.accepting


class Network:
    """See the module.

    :param chance: decides delays, losses and splits.
    :ivar streams: connections of which an end lives.
    """

    def __init__(
        self, scheduler: Scheduler, chance: random.Random, trace: Trace, quality: Quality | None = None
    ) -> None:
        self.scheduler = scheduler
        self.random = chance
        self.trace = trace
        self.quality = quality or Quality()
        self.stations: dict[str, Station] = {}
        self.streams: dict[int, Stream] = {}
        self.opened = 0
        self._names: dict[str, str] = {}
        self._links: dict[tuple[str, str], Link] = {}

    # -- hosts and links

    def add(self, name: str, address: str) -> Station:
        """A host joins; its links have the network's quality."""
        station = Station(name, address)
        for other in self.stations:
            self._links[other, address] = Link(attrs.evolve(self.quality))
            self._links[address, other] = Link(attrs.evolve(self.quality))
        self._links[address, address] = Link(Quality(delay_s=LOOPBACK_S, jitter_s=0.0))
        self.stations[address] = station
        self._names[name] = address
        return station

    def resolve(self, name: str, failing: bool = False) -> str | None:
        """The address of a name, or of an address; None when nobody knows, or when name service fails."""
        try:
            return str(ipaddress.ip_address(name))
        except ValueError:
            return None if failing else self._names.get(name)

    def rename(self, name: str, address: str) -> None:
        """The name stands for another address from now on."""
        self._names[name] = address

    def link(self, source: str, target: str) -> Link:
        """The way from one address to another."""
        return self._links[source, target]

    def open_both_ways(self, one: str, other: str) -> bool:
        """Whether packets pass in both directions."""
        return not self._links[one, other].blocks and not self._links[other, one].blocks

    def heal(self, name: str) -> None:
        """Take a reason away from every link: what it blocked is open, what it slowed or lost is as before."""
        for link in self._links.values():
            link.blocks.discard(name)
            link.slow.pop(name, None)
            link.loss.pop(name, None)
            link.corrupt.pop(name, None)

    def heal_all(self) -> None:
        """Every link is as its quality says."""
        for link in self._links.values():
            link.blocks.clear()
            link.slow.clear()
            link.loss.clear()
            link.corrupt.clear()

    # -- connections

    def listen(self, reactor: SimulatedReactor, port: int, factory: Any, interface: str) -> SimulatedPort:
        """See :meth:`SimulatedReactor.listenTCP`.

        :raises CannotListenError: the port is taken.
        """
        station = self.stations[reactor.address]
        number = port or reactor.ephemeral_port()
        if number in station.ports:
            raise error.CannotListenError(interface, number, OSError(98, "Address already in use"))
        made = SimulatedPort(self, reactor, station, number, factory, interface)
        made.startListening()
        return made

    def connect(self, reactor: SimulatedReactor, host: str, port: int, factory: Any, timeout: float) -> Connector:
        connector = Connector(self, reactor, host, port, factory, timeout)
        connector.connect()
        return connector

    def forget_process(self, owner: Owner) -> None:
        """A process is gone: its ports are closed and its connections end, as its kernel ends them."""
        for station in self.stations.values():
            for number in [number for number, port in station.ports.items() if port.reactor.owner is owner]:
                del station.ports[number]
        for stream in self.of(owner):
            stream.process_died(owner)

    def of(self, owner: Owner) -> list[Stream]:
        """The connections of a process, in the order they were made."""
        return [stream for stream in list(self.streams.values()) if owner in stream.owners]

    def between(self, one: str, other: str) -> list[Stream]:
        """The connections between two addresses."""
        pair = {one, other}
        return [stream for stream in list(self.streams.values()) if set(stream.addresses) == pair]


@implementer(IListeningPort)
class SimulatedPort:
    """A listening port."""

    def __init__(
        self, network: Network, reactor: SimulatedReactor, station: Station, number: int, factory: Any, interface: str
    ) -> None:
        self.network = network
        self.reactor = reactor
        self.factory = factory
        self.number = number
        self.interface = interface
        self._station = station

    def startListening(self) -> None:
        self._station.ports[self.number] = self
        self.factory.doStart()

    def stopListening(self) -> defer.Deferred[None]:
        """Twisted: accept no more."""
        if self._station.ports.get(self.number) is self:
            del self._station.ports[self.number]
            self.factory.doStop()
        return defer.succeed(None)

    loseConnection = stopListening

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", self.interface or self._station.address, self.number)


@implementer(IConnector)
class Connector:
    """One attempt to connect, and the connection that came of it."""

    def __init__(
        self, network: Network, reactor: SimulatedReactor, host: str, port: int, factory: Any, timeout: float
    ) -> None:
        self.network = network
        self.reactor = reactor
        self.host = host
        self.port = port
        self.factory = factory
        self.timeout = timeout
        self.state = "disconnected"
        self._attempt = 0
        self._expiry: Any = None
        self._stream: Stream | None = None

    def getDestination(self) -> IPv4Address:
        return IPv4Address("TCP", self.host, self.port)

    def connect(self) -> None:
        """Twisted: begin."""
        if self.state != "disconnected":
            raise RuntimeError("can't connect in this state")
        self.state = "connecting"
        self._attempt += 1
        self.factory.doStart()
        if self.timeout is not None:
            self._expiry = self.reactor.callLater(self.timeout, self._failed, error.TimeoutError())
        self.factory.startedConnecting(self)
        self._syn(self._attempt, 0)

    def stopConnecting(self) -> None:
        """Twisted: never mind."""
        if self.state != "connecting":
            raise error.NotConnectingError("we're not trying to connect")
        self._failed(error.UserError())

    def disconnect(self) -> None:
        """Twisted: whatever the state."""
        if self.state == "connecting":
            self.stopConnecting()
        elif self._stream is not None:
            self._stream.client.loseConnection()

    def _over(self, attempt: int) -> bool:
        return self.state != "connecting" or attempt != self._attempt or self.reactor.owner.dead

    def _syn(self, attempt: int, retry: int) -> None:
        """A SYN leaves.  A kernel sends it, so a frozen process makes no difference."""
        if self._over(attempt):
            return
        network, scheduler = self.network, self.network.scheduler
        source = self.reactor.address
        target = network.resolve(self.host)
        station = network.stations.get(target) if target is not None else None
        if station is not None and station.address == source:
            pass
        elif station is None or not station.answers or not network.open_both_ways(source, station.address):
            if retry < len(SYN_RETRIES_S):
                scheduler.after(SYN_RETRIES_S[retry], None, self._syn, attempt, retry + 1)
            return
        delay = network.link(source, station.address).delay_s(network.random)
        scheduler.after(delay, None, self._arrived, attempt, retry, station)

    def _arrived(self, attempt: int, retry: int, station: Station) -> None:
        network, scheduler = self.network, self.network.scheduler
        if self._over(attempt):
            return
        if not station.answers:
            scheduler.after(SYN_RETRIES_S[min(retry, 5)], None, self._syn, attempt, retry + 1)
            return
        back = network.link(station.address, self.reactor.address).delay_s(network.random)
        port = station.ports.get(self.port)
        if port is None:
            scheduler.after(back, self.reactor.owner, self._refused, attempt)
            return
        stream = Stream(network, self, port, station.address)
        scheduler.after(0.0, port.reactor.owner, stream.server.accepted)
        scheduler.after(back, self.reactor.owner, self._established, attempt, stream)

    def _refused(self, attempt: int) -> None:
        if not self._over(attempt):
            self._failed(error.ConnectionRefusedError())

    def _established(self, attempt: int, stream: Stream) -> None:
        if self._over(attempt):
            stream.client.vanish()
            return
        if stream.client.gone:
            self._failed(error.ConnectError(string="reset while connecting"))
            return
        self.state = "connected"
        self._cancel_expiry()
        self._stream = stream
        stream.client.connected_as_client()

    def _cancel_expiry(self) -> None:
        if self._expiry is not None and self._expiry.active():
            self._expiry.cancel()
        self._expiry = None

    def _failed(self, reason: Exception) -> None:
        if self.state != "connecting":
            return
        self.state = "disconnected"
        self._cancel_expiry()
        self.factory.clientConnectionFailed(self, Failure(reason))
        if self.state == "disconnected":
            self.factory.doStop()

    def lost(self, reason: Failure) -> None:
        """The connection ended."""
        self.state = "disconnected"
        self._stream = None
        self.factory.clientConnectionLost(self, reason)
        if self.state == "disconnected":
            self.factory.doStop()
