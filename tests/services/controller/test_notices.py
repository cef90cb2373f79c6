"""Who is told of an election, in what order, how often, and until when: on a clock, with scripted connections."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import attrs
from twisted.internet import defer, error, task
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller.group import GroupKey
from rocketha.controller.liveness import Heartbeat, Liveness, ReplicaKey
from rocketha.controller.notices import RoleChanged
from rocketha.namesrv.own_port import OwnPort
from rocketha.services.controller.elections import Elections
from rocketha.services.controller.notices import Notices
from rocketha.wire.remoting import Command

GROUP = GroupKey("C", "broker-a")
ADDRESSES = {1: "h1:1", 2: "h2:2", 3: "h3:3"}


def living(group: tuple[str, str]) -> Command:
    """How a broker of this group answers 1007."""
    return Command(0, body=json.dumps({"clusterName": group[0], "brokerName": group[1], "epochList": []}).encode())


OURS = living(GROUP)
OTHER = GroupKey("D", "broker-x")


def election(new: int, epoch: int, old: int = 1) -> tuple[RoleChanged, ...]:
    """To the old master, the new one, and the rest."""
    order = dict.fromkeys((old, new, 1, 2, 3))
    return tuple(
        RoleChanged(GROUP, number, ADDRESSES[number], new, ADDRESSES[new], epoch, epoch, (new,), 40 + epoch)
        for number in order
    )


class Connection:
    """One to a broker, which says who it is (1007) and lets wait what else is asked."""

    def __init__(self, address: str, log: list[tuple[str, int]], who: Command | None) -> None:
        self.address = address
        self.closed = False
        self.who = who  # None: it does not answer
        self.met: list[defer.Deferred[Command]] = []
        self.asked: list[tuple[dict[str, str], defer.Deferred[Command]]] = []
        self.bodies: list[bytes] = []
        self._log = log

    def request(self, code: int, fields: Any = None, body: bytes = b"", timeout_s: float = 0.0) -> Any:
        if code == 1007:
            self.met.append(defer.Deferred())
            if self.who is not None:
                self.met[-1].callback(self.who)
            return self.met[-1]
        assert code == 1008
        self._log.append((self.address, int(fields["masterEpoch"])))
        found: defer.Deferred[Command] = defer.Deferred()
        self.asked.append((fields, found))
        self.bodies.append(body)
        return found

    def answer(self, code: int = 0) -> None:
        self.asked.pop(0)[1].callback(Command(code))

    def break_off(self) -> None:
        self.closed = True
        self.asked.pop(0)[1].errback(error.ConnectionLost())

    def close(self) -> None:
        self.closed = True

    abort = close


class Network:
    """Stands in for ``PeerConnections``: links are there or not, dialling works, fails or hangs."""

    def __init__(self) -> None:
        self.links: dict[str, Connection] = {}
        self.fate: dict[str, Exception | None] = {}  # None: hangs
        self.made: list[Connection] = []
        self.log: list[tuple[str, int]] = []
        self.dialled: list[str] = []
        self.who: dict[str, Command | None] = {}  # lives at an address, where it is not one of the group
        self.known: dict[str, tuple[str, str] | None] = {}  # of links, where that is not so

    def link(self, address: str) -> Connection:
        found = self.links[address] = Connection(address, self.log, self.who.get(address, OURS))
        return found

    def behind(self, address: str) -> tuple[str, str] | None:
        return self.known.get(address, GROUP)

    def open(self, address: str) -> Connection | None:
        return self.links.get(address)

    def dial(self, address: str, timeout_s: float) -> Any:
        self.dialled.append(address)
        if address in self.fate:
            fate = self.fate[address]
            return defer.Deferred() if fate is None else defer.fail(Failure(fate))
        self.made.append(Connection(address, self.log, self.who.get(address, OURS)))
        return defer.succeed(self.made[-1])


class Decisions:
    """Stands in for the elections: what holds now, and whether a majority says so at once."""

    def __init__(self) -> None:
        self.now: dict[int, tuple[int, ...]] = {}  # epoch -> set, where it changed since
        self.void: set[int] = set()  # epochs
        self.held: list[defer.Deferred[None]] | None = None  # barriers that wait
        self.gone: set[int] = set()  # receivers that are not heard
        self.elsewhere: set[int] = set()  # receivers that come from another host than that of their address
        self.unproven: set[int] = set()  # receivers whose port may be another's
        self.told_ids: list[int] = []
        self.untold_ids: list[int] = []

    def current(self, notice: RoleChanged) -> RoleChanged | None:
        if notice.master_epoch in self.void:
            return None
        in_sync = self.now.get(notice.master_epoch)
        return notice if in_sync is None else attrs.evolve(notice, in_sync=in_sync, set_epoch=notice.set_epoch + 1)

    def port(self, notice: RoleChanged) -> OwnPort | None:
        own = OwnPort(notice.receiver_address, notice.receiver_id not in self.unproven)
        return None if notice.receiver_id in self.elsewhere else own

    def lives_there(self, notice: RoleChanged, by_link: bool) -> bool:
        return by_link or notice.receiver_id not in self.gone

    def barrier(self) -> defer.Deferred[None]:
        if self.held is None:
            return defer.succeed(None)
        self.held.append(defer.Deferred())
        return self.held[-1]

    def told(self, notice: RoleChanged) -> None:
        self.told_ids.append(notice.receiver_id)

    def untold(self, notice: RoleChanged) -> None:
        self.untold_ids.append(notice.receiver_id)


class NoticesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = task.Clock()
        self.network = Network()
        self.decisions = Decisions()
        self.told, self.untold = self.decisions.told_ids, self.decisions.untold_ids
        self.notices = Notices(self.clock, self.network, self.network.behind, self.decisions)  # type: ignore[arg-type]

    def quiet(self) -> None:
        """Nothing is under way any more."""
        self.assertEqual((self.notices.pending, self.clock.getDelayedCalls()), (0, []))

    def test_old_master_first(self) -> None:
        """And everybody at once, where the old one is dead anyway."""
        self.notices.send(election(2, 5), old_is_alive=False)
        self.assertEqual(self.network.log, [("h1:1", 5), ("h2:2", 5), ("h3:3", 5)])
        for connection in self.network.made:
            connection.answer()
        self.assertTrue(all(connection.closed for connection in self.network.made))
        self.assertEqual(self.told, [1, 2, 3])
        self.quiet()

    def test_live_old_master_has_a_head_start(self) -> None:
        """The new one learns of it when the old one has changed its role."""
        self.notices.send(election(2, 5), old_is_alive=True)
        self.assertEqual(self.network.log, [("h1:1", 5)])
        self.clock.advance(0.1)
        self.assertEqual(self.network.log, [("h1:1", 5)])
        self.network.made[0].answer()
        self.assertEqual(self.network.log, [("h1:1", 5), ("h2:2", 5), ("h3:3", 5)])

    def test_what_waited_for_a_head_start_is_confirmed(self) -> None:
        """The election is not just now any more: another controller may lead, and links may be younger than it."""
        self.decisions.held = []
        for address in ADDRESSES.values():
            self.network.link(address)
        self.notices.send(election(2, 5), old_is_alive=True)
        self.assertEqual((self.network.log, self.decisions.held), ([("h1:1", 5)], []))
        self.clock.advance(0.3)
        self.assertEqual((len(self.network.log), len(self.decisions.held)), (1, 2))
        for each in self.decisions.held:
            each.callback(None)
        self.assertEqual(self.network.log, [("h1:1", 5), ("h2:2", 5), ("h3:3", 5)])

    def test_head_start_ends(self) -> None:
        """After 0.3 s: a set without a master is worse than one with two for a moment."""
        self.notices.send(election(2, 5), old_is_alive=True)
        self.clock.advance(0.3)
        self.assertEqual(self.network.log, [("h1:1", 5), ("h2:2", 5), ("h3:3", 5)])

    def test_first_master_needs_nobodys_leave(self) -> None:
        """There is no old one."""
        self.notices.send(election(1, 1), old_is_alive=True)
        self.assertEqual(len(self.network.log), 3)

    def test_a21_frozen_master(self) -> None:
        """It lies in its socket; nothing more is sent, however long it takes, and the link stays."""
        link = self.network.link("h1:1")
        self.notices.send(election(2, 5), old_is_alive=False)
        for connection in self.network.made:
            connection.answer()
        self.clock.pump([1] * 500)
        self.assertEqual((self.network.log.count(("h1:1", 5)), self.notices.pending, link.closed), (1, 1, False))
        link.answer()
        self.assertFalse(link.closed)
        self.quiet()

    def test_connection_that_breaks_is_made_again(self) -> None:
        """Until there is an answer."""
        self.network.link("h1:1")
        self.notices.send(election(2, 5)[:1], old_is_alive=False)
        self.network.links.pop("h1:1").break_off()
        self.assertEqual(self.network.log, [("h1:1", 5)])
        self.clock.advance(1)
        self.assertEqual(self.network.log, [("h1:1", 5), ("h1:1", 5)])
        self.network.made[0].answer(1)  # it says that it failed
        self.clock.advance(1)
        self.network.made[1].answer()
        self.quiet()

    def test_unreachable_old_master_is_tried_for_ten_minutes(self) -> None:
        """The others, which poll anyway, for half a minute."""
        self.network.fate = dict.fromkeys(ADDRESSES.values(), error.TimeoutError())
        self.notices.send(election(2, 5), old_is_alive=False)
        self.clock.pump([1] * 31)
        self.assertEqual(self.notices.pending, 1)
        self.clock.pump([1] * 568)
        self.assertEqual(self.notices.pending, 1)
        self.clock.pump([1] * 2)
        self.assertEqual((self.notices.failed, self.untold), (3, []))
        self.quiet()

    def test_refused_is_the_end(self) -> None:
        """That process is gone: it was surely not told (regression A23), and the next one registers."""
        self.network.fate["h2:2"] = error.ConnectionRefusedError()
        self.notices.send(election(2, 5), old_is_alive=False)
        self.assertEqual((self.untold, self.told, self.notices.pending), ([2], [1, 3], 2))

    def test_at_the_host_that_it_comes_from(self) -> None:
        """Nowhere else.  Who is heard from elsewhere asks by itself; who is not heard may come until its time is up."""
        self.decisions.elsewhere = {1, 3}
        self.decisions.gone = {1}
        self.notices.send(election(2, 5), old_is_alive=False)
        self.assertEqual(self.notices.pending, 2)
        self.clock.advance(3)
        self.assertNotIn(("h1:1", 5), self.network.log)
        self.assertEqual(self.network.dialled.count("h1:1"), 0)
        self.decisions.void = {5}
        self.clock.advance(1)
        self.assertEqual((self.notices.pending, self.notices.failed), (1, 0))

    def test_a_refusal_that_proves_nothing(self) -> None:
        """Behind a name may be another host than the one that it comes from."""
        self.decisions.unproven = {2}
        self.network.fate["h2:2"] = error.ConnectionRefusedError()
        self.notices.send(election(2, 5, old=2), old_is_alive=False)
        self.assertEqual(self.decisions.untold_ids, [])
        del self.network.fate["h2:2"]
        self.clock.advance(1)
        self.assertIn(("h2:2", 5), self.network.log)

    def test_refused_after_it_was_written(self) -> None:
        """Then it may have been read."""
        self.notices.send(election(2, 5), old_is_alive=False)
        self.network.fate["h2:2"] = error.ConnectionRefusedError()
        self.network.made[1].break_off()
        self.clock.advance(1)
        self.assertEqual((self.untold, self.notices.pending), ([], 2))

    def test_newer_epoch_voids_older_notices(self) -> None:
        """Also those that are still being tried."""
        self.network.fate["h1:1"] = error.TimeoutError()
        self.notices.send(election(2, 5), old_is_alive=False)
        self.network.log.clear()
        self.notices.send(election(3, 6, old=2), old_is_alive=False)
        del self.network.fate["h1:1"]
        self.clock.advance(1)
        self.assertEqual(self.network.log, [("h2:2", 6), ("h3:3", 6), ("h1:1", 6)])

    def test_older_epoch_changes_nothing(self) -> None:
        """A new leader that tells again what was replaced meanwhile."""
        self.notices.send(election(3, 6), old_is_alive=False)
        self.network.log.clear()
        self.notices.send(election(2, 5), old_is_alive=True)
        self.assertEqual((self.network.log, self.notices.pending), ([], 3))

    def test_a_set_that_has_changed(self) -> None:
        """A master that was dead is told of the set that its epoch has now, not of that of its election."""
        self.network.fate["h2:2"] = error.TimeoutError()
        self.notices.send(election(2, 5)[1:2], old_is_alive=False)
        self.decisions.now[5] = (2, 3)
        del self.network.fate["h2:2"]
        self.clock.advance(1)
        fields, body = self.network.made[0].asked[0][0], self.network.made[0].bodies[0]
        self.assertEqual(fields["syncStateSetEpoch"], "6")
        self.assertEqual(json.loads(body), {"syncStateSet": [2, 3], "syncStateSetEpoch": 6})

    def test_what_is_known_is_confirmed_before_a_new_connection_hears_it(self) -> None:
        """The process behind it may be younger than the set; a link that was open at the election is told at once."""
        self.decisions.held = []
        self.network.link("h1:1")
        self.notices.send(election(2, 5), old_is_alive=False)
        self.assertEqual((self.network.log, self.told, len(self.decisions.held)), ([("h1:1", 5)], [1], 2))
        self.decisions.now[5] = (2, 1)
        self.decisions.held[0].callback(None)
        self.assertEqual(self.network.log, [("h1:1", 5), ("h2:2", 5)])
        self.assertEqual(self.network.made[0].asked[0][0]["syncStateSetEpoch"], "6")
        self.decisions.held[1].errback(error.TimeoutError())  # no majority: it tells nobody, and tries again
        self.assertEqual((len(self.network.log), self.network.made[1].closed), (2, True))
        self.decisions.held = None
        self.clock.advance(1)
        self.assertEqual(self.network.log[2:], [("h3:3", 5)])

    def test_a_link_may_be_new_when_it_is_told_again(self) -> None:
        """What is tried again, or told by another leader, is confirmed on links too, and the link stays."""
        self.decisions.held = []
        link = self.network.link("h2:2")
        self.notices.send(election(2, 5)[1:2], old_is_alive=False, prompt=False)
        self.assertEqual((self.network.log, len(self.decisions.held)), ([], 1))
        self.decisions.held.pop().callback(None)
        self.assertEqual(self.network.log, [("h2:2", 5)])
        link.answer(1)
        self.clock.advance(1)
        self.assertEqual((len(self.network.log), len(self.decisions.held)), (1, 1))
        self.notices.cancel()
        self.decisions.held.pop().callback(None)
        self.assertEqual((len(self.network.log), link.closed), (1, False))
        self.quiet()

    def test_an_election_that_is_void_by_now(self) -> None:
        """Its own notices tell of the next one, or nobody is master: this one is over."""
        self.network.fate["h2:2"] = error.TimeoutError()
        self.notices.send(election(2, 5)[1:2], old_is_alive=False)
        self.decisions.void.add(5)
        del self.network.fate["h2:2"]
        self.clock.advance(1)
        self.assertEqual((self.network.log, self.told, self.network.made[0].closed), ([], [], True))
        self.quiet()

    def test_whoever_lives_there_is_told_nothing(self) -> None:
        """Unless it is heard to be the one that is meant; whether its port refuses is found out all the same."""
        self.decisions.gone = {2}
        self.notices.send(election(2, 5)[1:2], old_is_alive=False)
        self.clock.advance(1)
        self.assertEqual((self.network.dialled, self.network.log), (["h2:2"] * 2, []))
        self.assertEqual([connection.closed for connection in self.network.made], [True, True])
        self.decisions.gone.clear()
        self.clock.advance(1)
        self.assertEqual((self.network.log, self.told), ([("h2:2", 5)], [2]))

    def test_time_is_up_while_it_is_confirmed(self) -> None:
        """Given up, with the connection."""
        self.decisions.held = []
        self.notices.send(election(2, 5)[1:2], old_is_alive=False)
        self.clock.advance(31)
        self.decisions.held.pop().callback(None)
        self.assertEqual((self.network.log, self.notices.failed, self.network.made[0].closed), ([], 1, True))
        self.quiet()

    def test_time_is_up_while_it_is_connected(self) -> None:
        """The connection is there a moment too late: nothing is asked on it (seed 80381 of controllers)."""
        dialled: defer.Deferred[Connection] = defer.Deferred()
        self.patch(self.network, "dial", lambda address, timeout_s: dialled)
        self.notices.send(election(2, 5)[1:2], old_is_alive=False)
        self.clock.advance(31)
        connection = Connection("h2:2", self.network.log, OURS)
        dialled.callback(connection)
        self.assertEqual((connection.met, self.network.log, connection.closed), ([], [], True))
        self.assertEqual((self.notices.failed, self.notices.pending), (1, 0))
        self.quiet()

    def test_another_set_at_the_same_address(self) -> None:
        """Whoever registers with a broker's address does not keep its demotion from it."""
        self.network.fate["h1:1"] = error.TimeoutError()
        self.notices.send(election(2, 5)[:1], old_is_alive=False)
        self.notices.send((RoleChanged(OTHER, 1, "h1:1", 1, "h1:1", 9, 9, (1,), 3),), old_is_alive=False)
        self.assertEqual(self.notices.pending, 2)
        del self.network.fate["h1:1"]
        self.clock.advance(1)
        self.assertEqual(self.network.log, [("h1:1", 5)])
        self.network.who["h1:1"] = living(OTHER)
        self.clock.advance(1)
        self.assertEqual(self.network.log, [("h1:1", 5), ("h1:1", 9)])

    def test_who_is_there_is_asked_first(self) -> None:
        """It may have begun where another was, and nobody has heard it yet; a machine that lost its power hung up on
        nobody.
        """
        for who in (living(OTHER), Command(1, remark="this request only for controllerMode "), Command(0, body=b"{}")):
            self.network.who["h2:2"] = who
            self.notices.send(election(2, 5)[1:2], old_is_alive=False)
            self.clock.advance(1)
            self.assertEqual((self.network.log, self.told), ([], []))
            self.assertEqual([connection.closed for connection in self.network.made], [True, True])
            self.notices.cancel()
            self.network.made.clear()
        self.quiet()

    def test_who_does_not_say_who_it_is(self) -> None:
        """It is frozen: it is told when it thaws, on that connection; not once its time is up."""
        self.network.who["h1:1"] = None
        self.notices.send(election(2, 5)[:1], old_is_alive=False)
        self.clock.pump([1] * 500)
        (connection,) = self.network.made
        self.assertEqual((self.network.log, self.notices.pending, connection.closed), ([], 1, False))
        connection.met[0].callback(OURS)
        self.assertEqual(self.network.log, [("h1:1", 5)])
        connection.answer()
        self.quiet()

    def test_it_said_so_when_nobody_wants_to_know(self) -> None:
        """Another controller leads by then."""
        self.network.who["h1:1"] = None
        self.notices.send(election(2, 5)[:1], old_is_alive=False)
        self.notices.cancel()
        self.network.made[0].met[0].callback(OURS)
        self.assertEqual((self.network.log, self.network.made[0].closed), ([], True))
        self.quiet()

    def test_a_link_to_another(self) -> None:
        """It was made when that one lived there already, and has said so; it stays."""
        link = self.network.link("h2:2")
        self.network.known["h2:2"] = OTHER
        self.notices.send(election(2, 5)[1:2], old_is_alive=False)
        self.assertEqual((self.network.log, link.met, link.closed), ([], [], False))

    def test_a_link_that_has_not_said_whose_it_is(self) -> None:
        """It is asked as a new connection is."""
        self.network.who["h2:2"] = living(OTHER)
        link = self.network.link("h2:2")
        self.network.known["h2:2"] = None
        self.notices.send(election(2, 5)[1:2], old_is_alive=False)
        self.assertEqual((self.network.log, len(link.met), link.closed), ([], 1, False))
        link.who = OURS
        self.clock.advance(1)
        self.assertEqual((self.network.log, len(link.met)), ([("h2:2", 5)], 2))

    def test_heartbeat_with_the_new_epoch(self) -> None:
        """It knows; one with an older epoch says nothing."""
        self.network.fate["h1:1"] = None
        self.notices.send(election(2, 5)[:1], old_is_alive=False)
        self.notices.heard(GROUP, "h1:1", 4)
        self.assertEqual(self.notices.pending, 1)
        self.notices.heard(GROUP, "h1:1", 5)
        self.quiet()

    def test_asked_by_itself(self) -> None:
        """1004 told it."""
        self.network.fate["h1:1"] = None
        self.notices.send(election(2, 5)[:1], old_is_alive=False)
        self.notices.asked(GroupKey("D", "broker-a"), "h1:1")
        self.assertEqual(self.notices.pending, 1)
        self.notices.asked(GROUP, "h1:1")
        self.quiet()

    def test_cancel(self) -> None:
        """Another controller leads: head starts and retries end; what is written stays written."""
        self.network.fate["h3:3"] = error.TimeoutError()
        self.notices.send(election(2, 5), old_is_alive=True)
        self.notices.send((RoleChanged(GroupKey("C", "b"), 9, "h3:3", 9, "h3:3", 1, 1, (9,), 3),), old_is_alive=False)
        self.notices.cancel()
        self.quiet()
        self.clock.advance(5)
        self.assertEqual(self.network.log, [("h1:1", 5)])


class LivesThereTests(SynchronousTestCase):
    """What heartbeats tell of the address of broker 2."""

    def setUp(self) -> None:
        self.liveness, self.now_ms = Liveness(), 0
        unused: Any = None
        self.elections = Elections(unused, unused, unused, unused, unused)
        self.awaited = False
        fresh = SimpleNamespace(awaits=lambda key, now_ms: self.awaited and self.liveness.last(key) is None)
        watch = SimpleNamespace(
            liveness=self.liveness, now_ms=lambda: self.now_ms, detector=SimpleNamespace(fresh=fresh)
        )
        self.elections.watch = cast(Any, watch)

    def heard(self, name: str, number: int, address: str = "h2:2", connection: int = 7) -> None:
        self.liveness.heard(ReplicaKey("C", name, number), Heartbeat(address), connection, self.now_ms)

    def lives(self) -> tuple[bool, bool]:
        """By a new connection, and by a link."""
        notice = election(3, 5)[2]
        self.assertEqual(notice.receiver_id, 2)
        return self.elections.lives_there(notice, False), self.elections.lives_there(notice, True)

    def test_itself(self) -> None:
        """Heard, frozen, and gone."""
        self.assertEqual(self.lives(), (False, True))
        self.heard("broker-a", 2)
        self.assertEqual(self.lives(), (True, True))
        self.liveness.died(ReplicaKey("C", "broker-a", 2))
        self.now_ms = 60_000
        self.assertEqual(self.lives(), (True, True))
        self.liveness.connection_lost(7)
        self.assertEqual(self.lives(), (False, True))

    def test_killed_a_moment_ago(self) -> None:
        """Its heartbeat still holds, and somebody else may have its address."""
        self.heard("broker-a", 2)
        self.liveness.connection_lost(7)
        self.assertEqual(self.lives(), (False, True))

    def test_never_heard(self) -> None:
        """By a leader that has just begun itself: it will be, and until then whoever says that it is of the group, is
        it.  But not who was heard and is gone, nor where one of another group is heard.
        """
        self.awaited = True
        self.assertEqual(self.lives(), (True, True))
        self.heard("broker-a", 2)
        self.liveness.connection_lost(7)
        self.assertEqual(self.lives(), (False, True))
        self.heard("broker-b", 2, connection=8)
        self.assertEqual(self.lives(), (False, False))

    def test_elsewhere(self) -> None:
        """It has moved."""
        self.heard("broker-a", 2, "h9:9")
        self.assertEqual(self.lives(), (False, True))

    def test_others(self) -> None:
        """One of another group, and one that came in its place."""
        self.heard("broker-a", 2)
        self.heard("broker-b", 2, connection=8)
        self.assertEqual(self.lives(), (False, False))
        self.heard("broker-a", 4, connection=9)
        self.assertEqual(self.lives(), (True, True))
