"""Timers of a broker whose turn raises what nobody reckoned with: the next turn comes all the same, and it is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.services.namesrv.service import NameServerService
from rocketha.services.replication.set_links import SetLinks
from tests.services.controlled_case import ControlledCase
from tests.services.events_case import lines_of


class Bug(Exception):
    """What nobody reckoned with."""


class TimersTests(ControlledCase):
    """One controller, a master and a slave, a nameserver."""

    controllers_count = 1
    brokers_count = 2

    def setUp(self) -> None:
        super().setUp()
        self.names = self.nameserver()
        self.keys = f"namesrvAddr={self.names.address}:9876\nregisterNameServerPeriod=10000"
        self.first = self.start_group()
        self.slave = next(host for host in self.brokers if host is not self.first)
        self.lines = lines_of(self)

    def spoil(self, thing: Any, name: str, turns: int = 3) -> Callable[[], int]:
        """So many calls of it raise; how often it was called well after them."""
        good, calls = getattr(thing, name), [0]

        def spoilt(*args: Any, **more: Any) -> Any:
            calls[0] += 1
            if calls[0] <= turns:
                raise Bug(name)
            return good(*args, **more)

        setattr(thing, name, spoilt)
        self.addCleanup(setattr, thing, name, good)
        return lambda: calls[0] - turns

    def said(self, words: str, times: int = 3) -> None:
        """So often, with the trace."""
        found = [line for line in self.lines if line.startswith(f"{words} failed, it goes on")]
        self.assertEqual([times, times], [len(found), sum("Bug" in line for line in found)], self.lines[-5:])

    def test_heartbeats(self) -> None:
        """The controller hears it again, and elects nobody."""
        well = self.spoil(self.mode(self.slave)._client, "beat")
        self.until("heartbeats", lambda: well() > 2, 10.0)
        self.said("a heartbeat")

    def test_the_life_of_a_role(self) -> None:
        """A master asks for its lease again, and keeps it."""
        life = self.mode(self.first).life
        well = self.spoil(life, "tick", 2)
        self.until("turns", lambda: well() > 2, 10.0)
        self.said("a turn of the role's life", 2)
        self.until("it acknowledges", lambda: self.masters() == [self.first])

    def test_the_flush(self) -> None:
        """Of what nobody waits for."""
        well = self.spoil(self.service(self.first).broker.store, "flush_job")
        self.until("flushes", lambda: well() > 2, 10.0)
        self.said("a flush")

    def test_registrations(self) -> None:
        """At the nameservers, each period."""
        well = self.spoil(self.service(self.first).broker.registration, "register", 1)
        self.until("a registration", lambda: well() > 0, 30.0)
        self.said("a registration", 1)

    def test_the_set(self) -> None:
        """It is looked at again half a second later."""
        links = self.service(self.first).broker.replication.links
        assert isinstance(links, SetLinks)
        well = self.spoil(links.sync, "request", 1)
        links._stop_timer()
        links._due()
        self.until("another look", lambda: well() > 0, 0.6)
        self.said("a look at the SyncStateSet", 1)

    def test_attempts_to_reach_the_master(self) -> None:
        """After the link broke."""
        following = self.service(self.slave).broker.replication.following
        well = self.spoil(following, "_try")
        for stream in self.world.network.between(self.first.address, self.slave.address):
            stream.reset()
        self.until("an attempt", lambda: well() > 0, 10.0)
        self.said("an attempt to reach the master")
        self.whole()

    def test_questions_for_the_ha_port(self) -> None:
        """A failure that is no broken connection."""
        address = self.mode(self.slave)._ha_address
        address.find(self.first.address + ":10911", 1)
        found: list[str] = []
        address._found = lambda place, epoch: found.append(place)  # type: ignore[method-assign]
        search = address._search
        address._connections.dial = lambda *_: defer.fail(Failure(Bug("dial")))  # type: ignore[method-assign]
        address._failed(Failure(Bug("asking")), search)
        self.assertIsNotNone(address._timer)
        self.assertIn("asking for the HA port failed, it goes on", self.lines[-1])

    def test_sweeps_of_a_port(self) -> None:
        """Connections that miss their deadlines are ended by them."""
        factory = self.running_namesrv().factory
        assert factory is not None
        well = self.spoil(factory.admission, "settle")
        self.until("sweeps", lambda: well() > 2, 10.0)
        self.said("a sweep")

    def running_namesrv(self) -> NameServerService:
        """The nameserver."""
        assert self.names.process is not None
        found: NameServerService = self.names.process.service
        return found
