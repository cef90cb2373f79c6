"""When the controller elects by itself: every transition of the suspicion machine, as an equality of effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import permutations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller.detector_effects import (
    AskControllers,
    Cleared,
    Died,
    Effect,
    Elect,
    Held,
    Probe,
    Reading,
    Suspected,
    Verdict,
)
from rocketha.controller.events import Saw, Seen, Why
from rocketha.controller.failure_detector import FailureDetector
from rocketha.controller.liveness import Heartbeat, Liveness, ReplicaKey
from rocketha.controller.suspect import State
from rocketha.controller.watched import Times

NAME = "broker-a"
M, S, T = (ReplicaKey("C", NAME, number) for number in (1, 2, 3))
ADDRESSES = {1: "h1:1", 2: "h2:2", 3: "h3:3"}
CLOSED = "its connection closed"
SAID_NOTHING = Reading()
MUTE = "nothing heard for 1201 ms"


@attrs.define
class FakeGroup:
    """A set with master 1, all three in sync."""

    cluster: str = "C"
    broker_name: str = NAME
    master_id: int | None = 1
    master_epoch: int = 5
    in_sync: frozenset[int] = frozenset({1, 2, 3})
    former: tuple[int, ...] = ()
    addresses: Mapping[int, str] = attrs.Factory(lambda: dict(ADDRESSES))

    def address(self, broker_id: int) -> str | None:
        return self.addresses.get(broker_id)


class FakeGroups:
    """The state."""

    def __init__(self, *groups: FakeGroup) -> None:
        self.all = list(groups)

    def groups(self) -> Iterable[FakeGroup]:
        return self.all

    def group(self, cluster: str, broker_name: str) -> FakeGroup | None:
        for group in self.all:
            if (group.cluster, group.broker_name) == (cluster, broker_name):
                return group
        return None


def probe(question: int, key: ReplicaKey, about: ReplicaKey = M) -> Probe:
    return Probe(question, key, ADDRESSES[key.broker_id], 600, key == about)


class SuspicionCase(SynchronousTestCase):
    """A leader among three controllers; 1, 2 and 3 heartbeat at times 0, 1000, ... until told otherwise."""

    controllers = 3

    def setUp(self) -> None:
        self.group = FakeGroup()
        self.groups = FakeGroups(self.group)
        self.liveness = Liveness()
        self.machine = FailureDetector(self.groups, self.liveness, Times())
        self.machine.controllers = self.controllers
        self.now_ms = 0
        self.beats(M, S, T)
        self.machine.led(0)
        for address in ADDRESSES.values():
            self.machine.reachable(address, True)

    def beats(self, *keys: ReplicaKey, timeout_ms: int = 10_000) -> list[Effect]:
        """Heartbeats of these, each by its own connection."""
        effects: list[Effect] = []
        for key in keys:
            beat = Heartbeat(ADDRESSES[key.broker_id], 5, 100, 100, timeout_ms)
            self.liveness.heard(key, beat, key.broker_id, self.now_ms)
            effects += self.machine.heard(key)
        return effects

    def close(self, key: ReplicaKey) -> list[Effect]:
        """The connection of a broker's heartbeats ends."""
        effects: list[Effect] = []
        for lost in self.liveness.connection_lost(key.broker_id):
            effects += self.machine.connection_closed(lost, self.now_ms)
        return effects

    def at(self, now_ms: int) -> list[Effect]:
        """A tick at this time."""
        self.now_ms = now_ms
        return self.machine.tick(now_ms)

    def port(self, key: ReplicaKey, verdict: Verdict, link: Reading = SAID_NOTHING, question: int = 1) -> list[Effect]:
        """What a probe found."""
        return self.machine.port_answered(question, key, verdict, link, self.now_ms)

    def voice(self, node: str, heard_ms_ago: int | None, connected: bool = True, question: int = 1) -> list[Effect]:
        """What another controller says."""
        return self.machine.controller_answered(question, node, connected, heard_ms_ago, self.now_ms)

    def elect(self, alive: tuple[int, ...], kind: Why, why: str, seen: tuple[Seen, ...] = ()) -> Elect:
        return Elect("C", NAME, 1, 5, alive, kind, why, seen)

    def silence(self) -> list[Effect]:
        """The master freezes at 0; the slaves are heard at 1000 and 2000."""
        self.now_ms = 1000
        self.beats(S, T)
        return self.at(1201)

    def members_answer(self, *readings: Reading | None, question: int = 1) -> None:
        """Both slaves answer."""
        for key, reading in zip((S, T), readings, strict=True):
            self.assertEqual(self.port(key, Verdict.ANSWERED, reading or SAID_NOTHING, question), [])


class BeginTests(SuspicionCase):
    """What raises a suspicion, and what is asked."""

    def test_closed_connection(self) -> None:
        """Its port, the other members of its set, and the other controllers, all at once."""
        self.assertEqual(
            self.close(M), [Suspected(M, CLOSED), probe(1, M), probe(1, S), probe(1, T), AskControllers(1, M)]
        )
        self.assertEqual(self.machine.states(), {M: State.ASKING})
        self.assertFalse(self.machine.settled(M))

    def test_missed_heartbeat(self) -> None:
        """After 1.2 s, not before."""
        self.now_ms = 1000
        self.beats(S, T)
        self.assertEqual(self.at(1200), [])
        self.assertEqual(
            self.at(1201), [Suspected(M, MUTE), probe(1, M), probe(1, S), probe(1, T), AskControllers(1, M)]
        )

    def test_broker_that_was_late_is_given_more(self) -> None:
        """Its heartbeats took 1.3 s once: 0.3 s late, so it is given 0.6 s more."""
        for self.now_ms in (1000, 2000, 3000, 4000, 5300):
            self.beats(M, S, T)
        self.now_ms = 6300
        self.beats(S, T)
        self.assertEqual(self.at(5300 + 1037 + 207 + 600), [])
        self.assertEqual(self.at(5300 + 1037 + 207 + 600 + 1)[0], Suspected(M, "nothing heard for 1845 ms"))

    def test_slave_is_asked_alone(self) -> None:
        """Nobody else's word is needed: its death elects nobody (regression B4)."""
        self.assertEqual(self.close(S), [Suspected(S, CLOSED), probe(1, S, about=S)])

    def test_only_members_of_the_set_that_are_thought_alive_are_asked(self) -> None:
        """Nobody else could be elected."""
        self.group.in_sync = frozenset({1, 2})
        self.assertEqual(self.close(M)[1:], [probe(1, M), probe(1, S), AskControllers(1, M)])

    def test_unclean_asks_all(self) -> None:
        """enableElectUncleanMaster."""
        self.group.in_sync, self.machine.unclean = frozenset({1}), True
        self.assertEqual(self.close(M)[1:4], [probe(1, M), probe(1, S), probe(1, T)])

    def test_one_suspicion_at_a_time(self) -> None:
        """A silent broker whose connection then closes is not asked twice."""
        self.silence()
        self.assertEqual(self.close(M), [])

    def test_broker_of_no_set(self) -> None:
        """It heartbeats but is not registered: nobody asks for it."""
        stranger = ReplicaKey("C", "broker-x", 1)
        self.liveness.heard(stranger, Heartbeat("h9:9"), 9, 0)
        self.beats(M, S, T)
        self.assertEqual(self.machine.connection_closed(stranger, 0), [])

    def test_followers_suspect_nobody(self) -> None:
        """Whoever leads asks them."""
        self.machine.deposed()
        self.assertEqual([self.close(M), self.at(60_000), self.machine.scan(60_000)], [[], [], []])


class ManyTests(SuspicionCase):
    """A whole rack falls silent: asked about a few at a time, and all of them in the end."""

    def setUp(self) -> None:
        super().setUp()
        self.groups.all = [FakeGroup(broker_name=f"b{number:02}", in_sync=frozenset({1})) for number in range(50)]
        for group in self.groups.all:
            self.liveness.heard(ReplicaKey("C", group.broker_name, 1), Heartbeat("h1:1"), 1, 0)

    def test_a_few_rounds_a_tick(self) -> None:
        """The rest is queued, and its turn comes with the next ticks."""
        effects = self.close(M)
        counts = [(type(each), 1) for each in effects]
        self.assertEqual((counts.count((Suspected, 1)), counts.count((Probe, 1))), (50, 20))
        states = list(self.machine.states().values())
        self.assertEqual((states.count(State.ASKING), states.count(State.QUEUED)), (20, 30))
        queued = [key for key, state in self.machine.states().items() if state is State.QUEUED]
        self.assertFalse(self.machine.settled(queued[0]))
        asked = [sum(isinstance(each, Probe) for each in self.at(now_ms)) for now_ms in (50, 100, 150)]
        self.assertEqual(asked, [20, 10, 0])


class RefusedTests(SuspicionCase):
    """Its process is gone."""

    def setUp(self) -> None:
        super().setUp()
        self.close(M)

    def seen(self, *more: Seen) -> tuple[Seen, ...]:
        return (Seen(1, Saw.PORT_REFUSED, f"{CLOSED}; its port refuses connections"), *more)

    def test_elects_when_the_members_have_answered(self) -> None:
        """At once: within the milliseconds that they take."""
        self.members_answer(None, None)
        why = f"{CLOSED}; its port refuses connections"
        seen = self.seen(Seen(1, Saw.REPLICA_DOES_NOT_HEAR, "broker 2"), Seen(1, Saw.REPLICA_DOES_NOT_HEAR, "broker 3"))
        self.assertEqual(self.port(M, Verdict.REFUSED), [Died(M, why), self.elect((2, 3), Why.PORT_REFUSED, why, seen)])
        self.assertFalse(self.liveness.alive(M, self.now_ms))
        self.assertEqual(self.machine.states(), {M: State.DEAD})

    def test_waits_a_moment_for_the_members(self) -> None:
        """Whoever is slow is left out when somebody answered; it may be dying too (regression A23)."""
        (died,) = self.port(M, Verdict.REFUSED)
        self.assertIsInstance(died, Died)
        self.assertEqual(self.machine.states(), {M: State.CHOOSING})
        self.port(T, Verdict.ANSWERED)
        self.assertEqual(self.at(99), [])
        (elect,) = self.at(100)
        self.assertEqual((elect.alive, self.machine.states()), ((3,), {M: State.DEAD}))

    def test_the_best_has_answered(self) -> None:
        """Broker 3 has more than broker 2: what that one would say cannot change who wins."""
        self.liveness.heard(T, Heartbeat(ADDRESSES[3], 5, 101), 3, 0)
        self.port(M, Verdict.REFUSED)
        (elect,) = self.port(T, Verdict.ANSWERED)
        self.assertEqual((elect.alive, self.machine.states()), ((3,), {M: State.DEAD}))

    def test_the_best_of_the_set(self) -> None:
        """Unclean elections ask outsiders too, but these only win when nobody of the set does."""
        self.machine.heard(M)
        self.machine.unclean, self.group.in_sync = True, frozenset({1, 2})
        self.liveness.heard(M, Heartbeat(ADDRESSES[1], 5, 100), 1, 0)
        self.liveness.heard(T, Heartbeat(ADDRESSES[3], 5, 900), 3, 0)
        self.close(M)
        _died = self.port(M, Verdict.REFUSED, question=2)
        self.assertEqual(self.port(T, Verdict.ANSWERED, question=2), [])
        (elect,) = self.port(S, Verdict.ANSWERED, question=2)
        self.assertEqual(elect.alive, (2, 3))

    def test_refusing_member_is_no_candidate(self) -> None:
        """Regression A23: master and slave killed together."""
        self.port(M, Verdict.REFUSED)
        self.assertEqual(self.port(S, Verdict.REFUSED), [])
        (elect,) = self.port(T, Verdict.ANSWERED)
        self.assertEqual((elect.alive, elect.seen[-1]), ((3,), Seen(2, Saw.PORT_REFUSED)))

    def test_no_member_answers(self) -> None:
        """Then those not known to be dead may be elected, as their heartbeats hold."""
        self.port(M, Verdict.REFUSED)
        self.port(T, Verdict.REFUSED)
        (elect,) = self.at(100)
        self.assertEqual(elect.alive, (2,))

    def test_all_dead(self) -> None:
        """An election that finds nobody: the set has no master."""
        self.port(S, Verdict.REFUSED)
        self.port(T, Verdict.REFUSED)
        _died, elect = self.port(M, Verdict.REFUSED)
        self.assertEqual((elect.alive, elect.dead_id), ((), 1))

    def test_address_that_was_never_reachable_proves_nothing(self) -> None:
        """The broker advertises an address that refuses although its heartbeats come: as good as silence."""
        self.machine.reachable(ADDRESSES[1], False)
        self.members_answer(None, None)
        self.assertEqual(self.port(M, Verdict.REFUSED), [])
        self.voice("n1", 100)
        self.voice("n2", 200)
        self.at(300)
        self.assertEqual(self.at(600), [Held(M, "controllers n1, n2 hear it")])

    def test_slave(self) -> None:
        """Dead, and nothing else happens (regression B4)."""
        self.close(S)
        why = f"{CLOSED}; its port refuses connections"
        self.assertEqual(self.port(S, Verdict.REFUSED, question=2), [Died(S, why)])
        self.assertFalse(self.liveness.alive(S, 0))


class AnothersPortTests(SuspicionCase):
    """A broker of another group was given the master's address, and is heard there."""

    def setUp(self) -> None:
        super().setUp()
        other = ReplicaKey("C", "broker-b", 1)
        self.now_ms = 1000
        self.beats(S, T)
        self.liveness.heard(other, Heartbeat(ADDRESSES[1]), 9, 1000)
        self.at(1201)

    def test_its_answer_is_not_the_masters(self) -> None:
        """Nor that it takes a connection and closes it: the port is as good as silent."""
        for verdict in (Verdict.ANSWERED, *[Verdict.CLOSED] * 3):
            self.assertEqual(self.port(M, verdict, Reading(True)), [])
        self.voice("n1", 1200)
        self.members_answer(None, None)
        self.at(1501)
        self.members_answer(None, None)
        self.assertEqual([type(each) for each in self.at(1801)], [Died, Elect])

    def test_who_says_that_it_is_another(self) -> None:
        """Nobody hears it here: it has just begun, or its controllers are others. A broker that leads is no sign of
        life of the master, nor is any of a candidate.
        """
        self.liveness.forget(ReplicaKey("C", "broker-b", 1))
        for group in (("C", "broker-b"), ("D", NAME), ("", "")):
            self.assertEqual(self.port(M, Verdict.ANSWERED, Reading(True, group=group)), [])
            self.assertEqual(self.port(S, Verdict.ANSWERED, Reading(False, group=group)), [])
        self.port(T, Verdict.ANSWERED, Reading(False, 1, 100, ("C", NAME)))
        _died, *rest = self.port(M, Verdict.REFUSED)
        self.assertEqual(rest, [])
        (elect,) = self.at(1301)
        self.assertEqual(getattr(elect, "alive", None), (3,))

    def test_its_own_answer(self) -> None:
        """Nothing is different where it says whose it is."""
        self.liveness.forget(ReplicaKey("C", "broker-b", 1))
        self.assertEqual(
            self.port(M, Verdict.ANSWERED, Reading(True, group=("C", NAME))), [Held(M, "its port answers")]
        )

    def test_a_member_whose_address_is_anothers_is_no_candidate(self) -> None:
        """It would be elected, and nobody would be there."""
        self.liveness.heard(ReplicaKey("C", "broker-b", 2), Heartbeat(ADDRESSES[2]), 10, 1100)
        self.assertEqual([self.port(each, Verdict.ANSWERED) for each in (S, T)], [[], []])
        died, *rest = self.port(M, Verdict.REFUSED)
        self.assertEqual((died, rest), (Died(M, f"{MUTE}; its port refuses connections"), []))
        (elect,) = self.at(1301)
        self.assertEqual(getattr(elect, "alive", None), (3,))


class MasterMissingTests(SuspicionCase):
    """A set without a master, and one member of which nothing is heard although its heartbeat still holds."""

    def setUp(self) -> None:
        super().setUp()
        self.group.master_id, self.group.in_sync = None, frozenset({2})
        self.now_ms = 1000
        self.beats(M, T)
        self.assertEqual([type(each) for each in self.at(1201)], [Suspected, Probe])

    def test_who_is_being_asked_is_waited_for(self) -> None:
        """Elected and dead it would take the set with it."""
        self.assertEqual(self.machine.scan(1201), [])
        self.assertEqual([type(each) for each in self.port(S, Verdict.REFUSED)], [Died])
        self.assertEqual(self.machine.scan(1301), [])

    def test_who_answers_is_elected(self) -> None:
        """With the next scan."""
        self.assertEqual(self.port(S, Verdict.ANSWERED, Reading(False)), [Held(S, "its port answers")])
        (elect,) = self.machine.scan(1301)
        self.assertEqual(getattr(elect, "alive", None), (2,))


class UncleanTests(SuspicionCase):
    """Outsiders may be elected, where nobody of the SyncStateSet lives."""

    def setUp(self) -> None:
        super().setUp()
        self.machine.unclean = True
        self.group.in_sync = frozenset({1, 2})

    def test_a_slow_member_of_the_set_comes_before_an_outsider(self) -> None:
        """It has what was acknowledged; an outsider answered a tenth of a second before it, that is all."""
        self.close(M)
        self.port(T, Verdict.ANSWERED, Reading(False, 1, 100))
        self.port(M, Verdict.REFUSED)
        (elect,) = self.at(100)
        self.assertEqual(getattr(elect, "alive", None), (2, 3))

    def test_an_outsider_where_the_member_is_gone(self) -> None:
        """That is what unclean elections are for."""
        self.close(M)
        self.port(S, Verdict.REFUSED)
        self.port(T, Verdict.ANSWERED, Reading(False, 1, 100))
        _died, elect = self.port(M, Verdict.REFUSED)
        self.assertEqual(getattr(elect, "alive", None), (3,))

    def test_a_member_that_is_being_asked_is_waited_for(self) -> None:
        """Also where the set has no master."""
        self.group.master_id = None
        self.now_ms = 1000
        self.beats(M, T)
        self.assertEqual([type(each) for each in self.at(1201)], [Suspected, Probe])
        self.liveness.died(M)
        self.assertEqual(self.machine.scan(1201), [])
        self.port(S, Verdict.REFUSED)
        (elect,) = self.machine.scan(1301)
        self.assertEqual(getattr(elect, "alive", None), (3,))


class FreshLeaderTests(SuspicionCase):
    """A controller that began a moment ago: of some brokers it has heard nothing yet."""

    def setUp(self) -> None:
        super().setUp()
        for key in (S, T):
            self.liveness.forget(key)
        self.close(M)

    def refused(self) -> list[Effect]:
        return self.port(M, Verdict.REFUSED)

    def test_who_was_never_heard_may_live(self) -> None:
        """It has the time of a heartbeat; the group does not lose its master for nothing, and nobody waits longer."""
        self.assertEqual([type(each) for each in self.refused()], [Died])
        self.assertEqual(self.at(500), [])
        self.now_ms = 550
        self.beats(T)
        (elect,) = self.at(600)
        self.assertEqual((getattr(elect, "alive", None), getattr(elect, "kind", None)), ((3,), Why.PORT_REFUSED))

    def test_nobody_is_heard(self) -> None:
        """Then it has no master."""
        self.refused()
        self.assertEqual(self.at(1100), [])
        (elect,) = self.at(1250)
        self.assertEqual(getattr(elect, "alive", None), ())

    def test_heard_since_it_began_to_ask(self) -> None:
        """Whom it did not know when it asked, it knows when it chooses."""
        self.now_ms = 50
        self.beats(S)
        self.refused()
        (elect,) = self.at(150)
        self.assertEqual(getattr(elect, "alive", None), (2,))

    def test_those_known_to_be_dead_are_not_waited_for(self) -> None:
        """Of them something is known."""
        self.beats(S, T)
        for key in (S, T):
            self.liveness.died(key)
        self.refused()
        (elect,) = self.at(100)
        self.assertEqual(getattr(elect, "alive", None), ())

    def test_who_was_never_heard_is_asked(self) -> None:
        """Its port knows sooner than its next heartbeat comes."""
        self.refused()
        (elect,) = self.port(S, Verdict.ANSWERED) + self.port(T, Verdict.REFUSED)
        self.assertEqual(getattr(elect, "alive", None), (2,))


class NeverHeardTests(SuspicionCase):
    """A fresh leader has not heard the master: it died with the leader before, or its heartbeat is on its way."""

    WHY = "not heard since this controller leads"

    def setUp(self) -> None:
        super().setUp()
        self.liveness = Liveness()
        self.machine = FailureDetector(self.groups, self.liveness, Times())
        self.machine.controllers = 3
        self.assertEqual(self.machine.led(0), [])

    def witness(self, question: int = 1) -> list[Effect]:
        """Another controller has heard the master, and its connection is closed."""
        return self.voice("n1", 300, connected=False, question=question)

    def rounds(self, until_ms: int, beats: tuple[ReplicaKey, ...] = (), **port: Verdict) -> list[Effect]:
        """All that is done until then, each round's answers being: no controller ever heard it, and these ports."""
        found: list[Effect] = []
        ports = {{"master": M, "two": S, "three": T}[name]: verdict for name, verdict in port.items()}
        for now_ms in range(self.now_ms, until_ms, 50):
            self.now_ms = now_ms
            if self.now_ms % 1000 == 0:
                found += self.beats(*beats)
            effects = self.at(self.now_ms) + (self.machine.scan(self.now_ms) if self.now_ms % 1000 == 0 else [])
            for effect in effects:
                if isinstance(effect, Probe) and effect.replica in ports:
                    found += self.port(effect.replica, ports[effect.replica], SAID_NOTHING, effect.question)
                if isinstance(effect, AskControllers):
                    for node in ("n1", "n2"):
                        found += self.voice(node, None, False, effect.question)
            found += effects
        return [each for each in found if not isinstance(each, Probe | AskControllers)]

    def test_is_asked_at_once(self) -> None:
        """And so are the members of the set, of which nothing is heard either."""
        self.assertEqual(
            self.at(50), [Suspected(M, self.WHY), probe(1, M), probe(1, S), probe(1, T), AskControllers(1, M)]
        )

    def test_killed_with_the_leader_before(self) -> None:
        """In the milliseconds that they all take, in whatever order they answer."""
        answers: dict[str, Callable[[], list[Effect]]] = {
            "port": lambda: self.port(M, Verdict.REFUSED),
            "witness": self.witness,
            "two": lambda: self.port(S, Verdict.ANSWERED),
        }
        for order in permutations(answers):
            self.setUp()
            self.at(50)
            self.port(T, Verdict.REFUSED)
            *before, last = [answers[name]() for name in order]
            self.assertEqual(before, [[], []], order)
            self.assertEqual([type(each) for each in last], [Died, Elect], order)
            self.assertEqual((last[-1].alive, last[-1].kind), ((2,), Why.PORT_REFUSED))  # type: ignore[union-attr]

    def test_dies_while_others_are_asked(self) -> None:
        """A process may take a moment to end: its port was silent, and the witness heard it still.  When the port
        refuses he is asked again; what counts is what he says last.
        """
        self.at(50)
        self.members_answer(None, None)
        self.assertEqual(self.voice("n1", 300), [])
        self.assertEqual(self.port(M, Verdict.REFUSED), [AskControllers(1, M)])
        self.assertEqual(self.voice("n1", 310), [])
        self.assertEqual([type(each) for each in self.voice("n1", 600, connected=False)], [Died, Elect])

    def test_connects_again_while_others_are_asked(self) -> None:
        """Then it is heard, whatever was said before."""
        self.at(50)
        self.members_answer(None, None)
        self.assertEqual(self.voice("n1", 300), [])
        self.assertEqual(self.voice("n1", 600, connected=False), [])
        self.assertEqual(self.voice("n1", 10), [])
        self.assertEqual(self.port(M, Verdict.REFUSED), [AskControllers(1, M)])

    def test_heard_meanwhile(self) -> None:
        """It is not asked, or no more."""
        self.beats(M)
        self.assertEqual(self.at(50), [])
        self.setUp()
        self.at(50)
        self.assertEqual(self.beats(M), [Cleared(M, False)])

    def test_groups_that_it_did_not_know_yet(self) -> None:
        """Restarted a moment ago, it learns what is committed only when it has committed an entry of its own."""
        self.groups.all.clear()
        self.assertEqual(self.at(50), [])
        self.groups.all.append(self.group)
        self.assertEqual(self.at(200), [])
        self.assertEqual(self.at(250)[0], Suspected(M, self.WHY))
        self.assertEqual(self.at(450), [])

    def test_a_closed_connection_is_needed(self) -> None:
        """A controller that began a moment ago itself has not heard it either; one that was late hears it still."""
        for heard_ms_ago, connected in ((None, False), (950, True)):
            self.setUp()
            self.at(50)
            self.members_answer(None, None)
            self.assertEqual(self.voice("n1", heard_ms_ago, connected), [])
            self.assertEqual(self.voice("n2", heard_ms_ago, connected), [])
            self.assertEqual(self.port(M, Verdict.REFUSED), [])

    def test_d3_all_controllers_were_restarted(self) -> None:
        """It lives, where its address refuses: Java's brokers look for controllers every 3 s only."""
        found = self.rounds(4000, (S, T), master=Verdict.REFUSED, two=Verdict.ANSWERED, three=Verdict.ANSWERED)
        self.assertNotIn(Died, [type(each) for each in found])
        self.assertEqual(self.beats(M), [Cleared(M, False)])

    def test_all_controllers_were_restarted_and_it_is_gone(self) -> None:
        """Four times the silence of a broker, and what is left of a round and a pause."""
        found = self.rounds(6000, (S, T), master=Verdict.REFUSED, two=Verdict.ANSWERED, three=Verdict.ANSWERED)
        kinds = [each.kind for each in found if isinstance(each, Elect)]
        self.assertEqual(kinds, [Why.PORT_REFUSED])

    def test_d3_silence_has_a_lease(self) -> None:
        """Counted from when this controller began to lead; whoever asks for an election meanwhile."""
        self.machine.doubt(M, "broker 2 asks", 0)
        found = self.rounds(10_000, (S, T), two=Verdict.ANSWERED, three=Verdict.ANSWERED)
        self.assertEqual({type(each) for each in found}, {Held})
        self.assertIn(Held(M, "never heard; its lease runs"), found)
        found = self.rounds(11_500, (S, T), two=Verdict.ANSWERED, three=Verdict.ANSWERED)
        self.assertEqual([each.kind for each in found if isinstance(each, Elect)], [Why.UNHEARD_SINCE_START])

    def test_nobody_to_elect(self) -> None:
        """A cluster starts, and nobody's port is open yet: no epoch is spent on taking a mastership from nobody."""
        found = self.rounds(10_000, master=Verdict.REFUSED, two=Verdict.REFUSED, three=Verdict.REFUSED)
        self.assertNotIn(Elect, [type(each) for each in found])
        found = self.rounds(11_500, master=Verdict.REFUSED, two=Verdict.REFUSED, three=Verdict.REFUSED)
        self.assertEqual([each.alive for each in found if isinstance(each, Elect)], [()])

    def test_nobody_to_elect_although_heard(self) -> None:
        """The slaves are heard, but their ports are not open yet."""
        for order in permutations((M, S, T)):
            self.setUp()
            self.at(50)
            self.beats(S, T)
            self.witness()
            found = [effect for key in order for effect in self.port(key, Verdict.REFUSED)]
            found += self.at(650)
            self.assertNotIn(Elect, [type(each) for each in found])
            self.assertIn(Held, [type(each) for each in found])

    def test_answers(self) -> None:
        """It lives: nobody knows better."""
        self.at(50)
        self.witness()
        self.members_answer(None, None)
        self.assertEqual(self.port(M, Verdict.ANSWERED, Reading(True)), [Held(M, "its port answers")])

    def test_killed_after_it_answered(self) -> None:
        """Before it was heard: its address is right, and it is gone."""
        self.at(50)
        self.port(M, Verdict.ANSWERED, Reading(True))
        self.at(550)
        self.members_answer(None, None, question=2)
        self.voice("n1", None, connected=False, question=2)
        self.assertEqual([type(each) for each in self.port(M, Verdict.REFUSED, question=2)], [Died, Elect])

    def test_registers(self) -> None:
        """A new process, which leads nothing: nothing is spared by waiting for it."""
        self.machine.registered(M, 0)
        self.members_answer(None, None)
        self.voice("n1", None, connected=False)
        self.assertEqual([type(each) for each in self.port(M, Verdict.REFUSED)], [Died, Elect])

    def test_alone(self) -> None:
        """Nobody could be elected: it is not even asked before its lease."""
        self.group.in_sync, self.group.addresses = frozenset({1}), {1: "h1:1"}
        self.assertEqual([self.at(50), self.machine.scan(10_000)], [[], []])
        self.assertEqual(self.machine.scan(10_001)[0], Suspected(M, "never heard since this controller leads"))


class ManyNeverHeardTests(SuspicionCase):
    """Hundreds of groups, and a leader that has just begun."""

    def setUp(self) -> None:
        super().setUp()
        self.groups.all = [FakeGroup(broker_name=f"b{number:03}", in_sync=frozenset({1})) for number in range(300)]
        self.machine.deposed()
        self.machine.led(0)

    def asked(self, *times_ms: int) -> list[int]:
        """How many probes begin at each of these times."""
        return [sum(isinstance(each, Probe) for each in self.at(now_ms)) for now_ms in times_ms]

    def test_a_few_at_a_time(self) -> None:
        """And no more while these are not settled: what is known of one is not kept waiting by the many."""
        self.assertEqual(self.asked(*range(50, 550, 50)), [20] * 5 + [0] * 5)
        key = ReplicaKey("C", "b299", 1)
        self.liveness.heard(key, Heartbeat("h1:1"), 9, 500)
        self.liveness.connection_lost(9)
        self.assertIn(Probe, [type(each) for each in self.machine.connection_closed(key, 500)])

    def test_the_dead_are_settled(self) -> None:
        """A rack was lost together with the leader before: the next of its masters are asked."""
        self.asked(50, 100, 150, 200, 250)
        for suspect in self.machine._open.values():
            suspect.state = State.DEAD
        self.assertEqual(self.asked(300, 350), [20, 20])


class LackingTests(SuspicionCase):
    """A member of the set came back with a shorter log than its last heartbeat spoke of."""

    def test_another_is_elected(self) -> None:
        """However soon it answered, and whatever the table says of it."""
        self.close(M)
        self.port(S, Verdict.ANSWERED, Reading(False, 1, 99))
        self.assertEqual([type(each) for each in self.port(M, Verdict.REFUSED)], [Died])
        (elect,) = self.port(T, Verdict.ANSWERED, Reading(False, 1, 100))
        self.assertEqual(getattr(elect, "alive", None), (3,))

    def test_nobody_else_is_left(self) -> None:
        """As ever: the set is what decides."""
        self.close(M)
        self.port(S, Verdict.ANSWERED, Reading(False, 1, 0))
        self.port(T, Verdict.REFUSED)
        _died, elect = self.port(M, Verdict.REFUSED)
        self.assertEqual(getattr(elect, "alive", None), (2,))

    def test_it_is_a_witness_all_the_same(self) -> None:
        """That this controller is not deaf."""
        self.silence()
        self.members_answer(Reading(False, 1, 1), Reading(False, 1, 1))
        self.voice("n1", None)
        self.at(1501)
        self.assertEqual([type(each) for each in self.at(1801)], [Died, Elect])

    def test_a_master_says_nothing_of_the_sort(self) -> None:
        """It has no link of its own: the zeros there are no end of a log."""
        self.assertEqual([Reading(leads, -1, 0).lacks(Heartbeat("h:1", 1, 5)) for leads in (True, None)], [False] * 2)
        self.assertEqual([Reading(False, -1, end).lacks(Heartbeat("h:1", 1, 5)) for end in (-1, 5)], [False] * 2)
        self.assertFalse(Reading(False, -1, 0).lacks(None))


class MovedTests(SuspicionCase):
    """The master registers at another address than it had."""

    def setUp(self) -> None:
        super().setUp()
        self.now_ms = 1000
        self.beats(S, T)

    def test_silent_where_it_was(self) -> None:
        """Whatever its lease: its process has been replaced."""
        self.now_ms = 1201
        effects = self.machine.registered(M, 1201, moved=True)
        self.assertEqual([type(each) for each in effects], [Suspected, *[Probe] * 3, AskControllers, Died])
        self.assertEqual(self.machine.states()[M], State.CHOOSING)
        self.assertEqual(
            [type(each) for each in self.port(S, Verdict.ANSWERED) + self.port(T, Verdict.ANSWERED)], [Elect]
        )

    def test_heard_where_it_was(self) -> None:
        """Two processes have one id, and this one leads."""
        effects = self.machine.registered(M, 1200, moved=True)
        self.assertEqual((effects[-1], self.machine.states()[M]), (AskControllers(1, M), State.ASKING))
        self.assertEqual(self.port(M, Verdict.ANSWERED, Reading(True)), [Held(M, "its port answers")])

    def test_not_heard_yet(self) -> None:
        """By a controller that leads for a moment only: its port is asked first."""
        self.liveness.forget(M)
        effects = self.machine.registered(M, 1200, moved=True)
        self.assertEqual((effects[-1], self.machine.states()[M]), (AskControllers(1, M), State.ASKING))
        self.liveness.forget(M)
        self.machine.deposed()
        self.machine.led(5000)
        self.assertIsInstance(self.machine.registered(M, 6201, moved=True)[-1], Died)

    def test_hung_up_where_it_was(self) -> None:
        """As the kernel does for a process that is gone."""
        self.close(M)
        self.port(M, Verdict.ANSWERED, Reading(True))
        self.assertIsInstance(self.machine.registered(M, 1200, moved=True)[-1], Died)


class UnknownPortTests(SuspicionCase):
    """A fresh leader that never reached the master's port itself."""

    def setUp(self) -> None:
        super().setUp()
        self.machine.deposed()
        self.close(M)
        self.begun = self.machine.led(0)
        self.members_answer(None, None)

    def test_closed_connection_is_looked_into_at_once(self) -> None:
        """Leader and master killed together."""
        why = "its connection was closed when this controller became leader"
        self.assertEqual(self.begun[:2], [Suspected(M, why), probe(1, M)])

    def test_refused_and_a_majority_does_not_hear_it(self) -> None:
        """In whatever order the answers come."""
        self.assertEqual(self.port(M, Verdict.REFUSED), [])
        self.assertEqual([type(each) for each in self.voice("n1", 400, connected=False)], [Died, Elect])

    def test_refusal_after_the_voices(self) -> None:
        """The other order."""
        self.assertEqual(self.voice("n1", 400, connected=False), [])
        self.assertEqual([type(each) for each in self.port(M, Verdict.REFUSED)], [Died, Elect])

    def test_refused_but_heard(self) -> None:
        """The address is wrong; the broker is fine."""
        self.port(M, Verdict.REFUSED)
        self.assertEqual([self.voice("n1", 100), self.voice("n2", 900)], [[], []])
        self.at(300)
        self.assertEqual(self.at(600), [Held(M, "controllers n1, n2 hear it")])


class AnsweredTests(SuspicionCase):
    """Its port answers: alive, whatever happened to its connections (regression A24)."""

    def test_no_election_and_watched_until_heard(self) -> None:
        """Asked again after each pause; a heartbeat ends it."""
        self.close(M)
        self.assertEqual(self.port(M, Verdict.ANSWERED), [Held(M, "its port answers")])
        self.assertTrue(self.machine.settled(M))
        self.assertEqual(self.at(499), [])
        self.assertEqual(self.at(500)[0], probe(2, M))
        self.assertEqual(self.port(M, Verdict.ANSWERED, question=2), [Held(M, "its port answers")])
        self.assertEqual(self.beats(M), [Cleared(M, False)])
        self.assertEqual(self.at(1001), [])

    def test_twenty_resets(self) -> None:
        """Nobody is elected."""
        for number in range(1, 21):
            self.close(M)
            self.assertEqual(self.port(M, Verdict.ANSWERED, question=number), [Held(M, "its port answers")])
            self.beats(M)
        self.assertTrue(self.liveness.alive(M, 0))

    def test_stays_alive_without_heartbeats(self) -> None:
        """Its lease is renewed by its port: 1001 of the same set must not find it dead."""
        self.beats(M, timeout_ms=700)
        self.close(M)
        self.now_ms = 600
        self.port(M, Verdict.ANSWERED)
        self.assertTrue(self.liveness.alive(M, 1300))

    def test_killed_while_held(self) -> None:
        """The next round finds out."""
        self.close(M)
        self.port(M, Verdict.ANSWERED)
        self.at(500)
        self.members_answer(None, None, question=2)
        self.assertEqual([type(each) for each in self.port(M, Verdict.REFUSED, question=2)], [Died, Elect])

    def test_closed_again_while_held(self) -> None:
        """A new round at once."""
        self.close(M)
        self.port(M, Verdict.ANSWERED)
        self.assertEqual(self.machine.connection_closed(M, 10)[0], probe(2, M))

    def test_port_that_closes_unanswered(self) -> None:
        """A process that dies does that once; one that lives (TLS only, say) again and again."""
        self.close(M)
        self.assertEqual(self.port(M, Verdict.CLOSED), [probe(1, M)])
        self.assertEqual(self.port(M, Verdict.CLOSED), [probe(1, M)])
        why = "its port takes connections; its lease runs"
        self.assertEqual(self.port(M, Verdict.CLOSED), [Held(M, why)])

    def test_port_that_closes_for_ever(self) -> None:
        """So does what stands before the port of a process that is gone, a balancer or a sidecar: that is no life."""
        self.close(M)
        for _ in range(3):
            self.port(M, Verdict.CLOSED)
        self.now_ms = 10_000
        self.beats(S, T)
        effects = self.at(10_100)
        question = next(each.question for each in effects if isinstance(each, Probe))
        for _ in range(3):
            self.port(M, Verdict.CLOSED, question=question)
        self.assertEqual(self.machine.states()[M], State.ASKING)
        self.assertIn(Died, [type(each) for each in self.at(10_700)])
        self.assertIsInstance(self.at(10_800)[-1], Elect)

    def test_closed_then_refused(self) -> None:
        """It was dying."""
        self.members_closed = self.close(M)
        self.members_answer(None, None)
        self.port(M, Verdict.CLOSED)
        self.assertEqual([type(each) for each in self.port(M, Verdict.REFUSED)], [Died, Elect])

    def test_late_answers_are_void(self) -> None:
        """Of a round that is over, or of a suspicion that is."""
        self.close(M)
        self.port(M, Verdict.ANSWERED)
        self.at(500)
        self.assertEqual(self.port(M, Verdict.REFUSED, question=1), [])
        self.beats(M)
        self.assertEqual([self.port(M, Verdict.REFUSED, question=2), self.voice("n1", None, question=2)], [[], []])


class SilentTests(SuspicionCase):
    """It takes connections and says nothing: frozen, or cut from us."""

    def setUp(self) -> None:
        super().setUp()
        self.silence()

    def nobody(self) -> None:
        """The slaves' links stand still, the other controllers hear as little as we do."""
        self.members_answer(Reading(False, 900, 100), Reading(False, 950, 100))
        self.voice("n1", 1190)
        self.voice("n2", 1210)

    def test_frozen(self) -> None:
        """Asked a second time half-way; dead at the end of the round: 1.8 s after its last heartbeat."""
        self.nobody()
        self.assertEqual(self.at(1501), [probe(1, S), probe(1, T), AskControllers(1, M)])
        self.nobody()
        self.now_ms = 2000
        self.beats(S, T)
        self.assertEqual(self.at(1800), [])
        why = f"{MUTE}; silent for 1801 ms, and nobody hears it"
        seen = (
            Seen(1, Saw.PORT_SILENT, why),
            Seen(1, Saw.CONTROLLER_DOES_NOT_HEAR, "n1"),
            Seen(1, Saw.CONTROLLER_DOES_NOT_HEAR, "n2"),
            Seen(1, Saw.REPLICA_DOES_NOT_HEAR, "broker 2"),
            Seen(1, Saw.REPLICA_DOES_NOT_HEAR, "broker 3"),
        )
        self.assertEqual(self.at(1801), [Died(M, why), self.elect((2, 3), Why.NOBODY_HEARS_IT, why, seen)])

    def test_closed_connection_is_no_short_cut(self) -> None:
        """It freezes as its connection ends: still not dead before 1.8 s after its heartbeat (another's lease)."""
        SuspicionCase.setUp(self)
        self.now_ms = 950
        self.close(M)
        self.nobody()
        self.at(1250)
        self.assertEqual(self.at(1550), [], "its heartbeat of 1000 may be on its way")
        self.assertEqual(self.at(1675), [probe(1, S), probe(1, T), AskControllers(1, M)])
        self.assertEqual(self.at(1799), [])
        self.assertEqual([type(each) for each in self.at(1800)], [Died, Elect])

    def test_slow_heartbeats_are_heard_as_long_as_they_usually_take(self) -> None:
        """``brokerHeartbeatInterval=2000``: 1.5 s ago is no silence."""
        SuspicionCase.setUp(self)
        for self.now_ms in (2000, 4000, 6000):
            self.beats(M, S, T)
        self.now_ms = 8000
        self.beats(S, T)
        self.close(M)
        self.voice("n1", 1999)
        self.voice("n2", 1500)
        self.port(S, Verdict.ANSWERED, Reading(False, 1, 1))
        self.assertEqual(self.at(8600)[-1], Held(M, "controllers n1, n2 hear it"))

    def test_frozen_slave_is_not_elected(self) -> None:
        """Its heartbeats still hold, but it does not answer."""
        self.port(T, Verdict.ANSWERED, Reading(False, 1, 100))
        self.voice("n1", None)
        self.at(1501)
        _died = self.at(1801)
        (elect,) = self.at(1901)
        self.assertEqual(elect.alive, (3,))

    def test_b3_a_majority_hears_it(self) -> None:
        """The master is cut from the lead controller only: no election, ever."""
        question = 1
        for now_ms in range(1201, 60_000, 100):
            self.now_ms = now_ms
            if now_ms % 1000 < 100:
                self.beats(S, T)
            for effect in self.at(now_ms):
                self.assertNotIsInstance(effect, Died)
                question = getattr(effect, "question", question)
            self.voice("n1", now_ms % 1000, question=question)
            self.voice("n2", now_ms % 1000, question=question)
            self.port(S, Verdict.ANSWERED, Reading(False, 0, 0), question)

    def test_another_controller_hears_it(self) -> None:
        """Held, but no longer than its lease."""
        self.nobody()
        self.voice("n1", 700)
        self.at(1501)
        self.assertEqual(self.at(1801), [Held(M, "controller n1 hears it; its lease runs")])
        self.now_ms = 10_000
        self.beats(S, T)
        self.at(10_000)
        self.members_answer(None, None, question=2)
        self.voice("n1", 700, question=2)
        self.at(10_300)
        why = f"{MUTE}; silent for 10601 ms, and its lease ran out"
        died, elect = self.at(10_601)
        self.assertEqual((died, elect.kind), (Died(M, why), Why.LEASE_EXPIRED))

    def test_a_heartbeat_kept_in_its_socket_is_not_hearing(self) -> None:
        """The other controllers heard it as long ago as we did, give or take a beat."""
        self.nobody()
        self.voice("n1", 1201)
        self.at(1501)
        self.assertIsInstance(self.at(1801)[0], Died)

    def test_closed_at_the_others_too(self) -> None:
        """Their news may be fresh, but their connection is gone."""
        self.nobody()
        self.voice("n1", 700, connected=False)
        self.at(1501)
        self.assertIsInstance(self.at(1801)[0], Died)

    def test_a_replica_hears_it(self) -> None:
        """Its link moved between the two readings: by what was read, or by what was stored."""
        for second in (Reading(False, 901, 100), Reading(False, 900, 101)):
            self.setUp()
            self.nobody()
            self.at(1501)
            self.port(S, Verdict.ANSWERED, second)
            self.assertEqual(self.at(1801), [Held(M, "its link to broker 2 moves; its lease runs")])

    def test_link_that_stands_still(self) -> None:
        """Reading it twice is not moving; a clock set back is not either."""
        self.nobody()
        self.at(1501)
        self.port(S, Verdict.ANSWERED, Reading(False, 800, 100))
        self.assertIsInstance(self.at(1801)[0], Died)

    def test_nobody_answers_us(self) -> None:
        """Then it may be us: wait for the lease."""
        self.at(1501)
        self.assertEqual(self.at(1801), [Held(M, "too few others answer, it may be us; its lease runs")])

    def test_only_members_answer(self) -> None:
        """Without a majority of the controllers we may not even lead any more."""
        self.members_answer(None, None)
        self.at(1501)
        self.assertEqual(self.at(1801), [Held(M, "too few others answer, it may be us; its lease runs")])

    def test_only_controllers_answer(self) -> None:
        """Nobody could be elected: no use in a death."""
        self.voice("n1", None)
        self.voice("n2", None)
        self.at(1501)
        self.assertEqual(self.at(1801), [Held(M, "too few others answer, it may be us; its lease runs")])

    def test_heard_during_the_round(self) -> None:
        """It was only late."""
        self.nobody()
        self.now_ms = 2100
        self.assertEqual(self.beats(M, S, T), [Cleared(M, False)])
        self.assertEqual(self.at(2300), [])

    def test_thawed(self) -> None:
        """It is heard again after it was replaced."""
        self.nobody()
        self.at(1501)
        self.at(1801)
        self.assertEqual(self.beats(M), [Cleared(M, True)])
        self.assertTrue(self.liveness.alive(M, self.now_ms))

    def test_slave(self) -> None:
        """Silence alone never kills a slave before its lease."""
        self.setUp()
        self.now_ms = 9900
        self.beats(M, T)
        mute = "nothing heard for 8900 ms"
        self.assertIn(Suspected(S, mute), self.at(9900))
        self.assertIn(Held(S, "its lease runs"), self.at(10_500))
        self.at(11_000)
        found = self.at(11_600)
        self.assertIn(Died(S, f"{mute}; silent, and its lease ran out"), found)
        self.assertNotIn(Elect, [type(each) for each in found])


class SingleControllerTests(SuspicionCase):
    """There is nobody else to ask."""

    controllers = 1

    def test_asks_no_controllers(self) -> None:
        """Only ports."""
        self.assertEqual(self.close(M), [Suspected(M, CLOSED), probe(1, M), probe(1, S), probe(1, T)])

    def test_frozen(self) -> None:
        """The members' word is enough."""
        self.silence()
        self.members_answer(Reading(False, 1, 1), Reading(False, 1, 1))
        self.at(1501)
        self.assertEqual([type(each) for each in self.at(1801)], [Died, Elect])

    def test_wrong_address(self) -> None:
        """Its port refuses although it is heard: then a refusal after a reset proves nothing."""
        self.machine.reachable(ADDRESSES[1], False)
        self.close(M)
        self.members_answer(None, None)
        self.assertEqual(self.port(M, Verdict.REFUSED), [])
        self.assertEqual(self.beats(M), [Cleared(M, False)])

    def test_master_without_replicas(self) -> None:
        """Silence elects nobody before the lease; then the set has no master."""
        self.group.in_sync, self.group.addresses = frozenset({1}), {1: "h1:1"}
        self.at(1201)
        self.assertEqual(self.at(1801), [Held(M, "too few others answer, it may be us; its lease runs")])
        self.assertEqual(self.at(10_000), [], "nobody could follow it: it is asked once")
        died, elect = self.at(10_001)
        self.assertEqual((type(died), elect.alive), (Died, ()))

    def test_an_outsider_is_asked_once(self) -> None:
        """It cannot be elected: whether it lives need not be known before its lease is over."""
        self.group.in_sync = frozenset({1, 2})
        self.assertEqual(self.close(T), [Suspected(T, "its connection closed"), probe(1, T, T)])
        effects = []
        for now_ms in range(100, 10_001, 100):
            self.beats(M, S)
            effects += self.at(now_ms)
        self.assertEqual(effects, [Held(T, "its lease runs")])
        self.assertEqual([type(each) for each in self.at(10_001)], [Died])


class LeaderTests(SuspicionCase):
    """Becoming one, and scanning."""

    def fresh(self) -> None:
        """A controller that started a moment ago and became leader at 0."""
        self.liveness = Liveness()
        self.machine = FailureDetector(self.groups, self.liveness, Times())
        self.machine.controllers = 3
        self.machine.led(0)

    def test_doubt(self) -> None:
        """A broker asks for an election while the master is not heard: find out first."""
        self.fresh()
        self.beats(S, T)
        self.assertEqual(self.machine.doubt(M, "broker 2 asks", 5)[:2], [Suspected(M, "broker 2 asks"), probe(1, M)])
        self.assertFalse(self.machine.settled(M))
        self.assertEqual(self.port(M, Verdict.ANSWERED), [Held(M, "its port answers")])
        self.assertTrue(self.machine.settled(M))
        self.assertTrue(self.liveness.alive(M, 5))

    def test_doubt_of_a_live_one(self) -> None:
        """Nothing to find out."""
        self.assertEqual(self.machine.doubt(M, "broker 2 asks", 5), [])

    def test_no_master(self) -> None:
        """As soon as a member of the set is alive, and again if it failed."""
        self.group.master_id = None
        wanted = Elect(
            "C", NAME, None, 5, (1, 2, 3), Why.MASTER_MISSING, "the set has no master, and broker 1, 2, 3 alive"
        )
        self.assertEqual(self.machine.scan(10), [wanted])
        self.assertEqual(self.machine.scan(20), [])
        self.machine.election_ended("C", NAME, 30)
        self.assertEqual(self.machine.scan(1029), [])
        self.assertEqual(self.machine.scan(1030), [wanted])

    def test_lost_election_is_tried_again(self) -> None:
        """Regression D1: the service never says how it ended."""
        self.group.master_id = None
        self.machine.scan(10)
        self.assertEqual([len(self.machine.scan(now)) for now in (5009, 5010)], [0, 1])

    def test_dead_master_and_a_member_comes_back(self) -> None:
        """All were dead when it was decided; the first to return is elected."""
        self.close(M)
        for key in (S, T, M):
            self.liveness.died(key)
            self.port(key, Verdict.REFUSED)
        self.machine.election_ended("C", NAME, 0)
        self.assertEqual(self.machine.scan(2000), [])
        self.now_ms = 2000
        self.beats(T)
        (elect,) = self.machine.scan(2000)
        self.assertEqual((elect.alive, elect.why), ((3,), "its master is dead, and broker 3 alive"))

    def test_second_master_dies_at_once(self) -> None:
        """The election of its predecessor does not delay its own."""
        self.close(M)
        self.members_answer(None, None)
        self.port(M, Verdict.REFUSED)
        self.group.master_id, self.group.master_epoch, self.group.in_sync = 2, 6, frozenset({2, 3})
        self.machine.election_ended("C", NAME, 0)
        self.close(S)
        self.port(T, Verdict.ANSWERED, question=2)
        _died, elect = self.port(S, Verdict.REFUSED, question=2)
        self.assertEqual((elect.dead_id, elect.master_epoch, elect.alive), (2, 6, (3,)))

    def test_a23_winner_that_does_not_know_dies(self) -> None:
        """Alone in the set; whoever was in the set before is asked at once, and is elected."""
        self.group.in_sync, self.group.former = frozenset({1}), (1, 2, 3)
        self.liveness.died(S)
        self.assertEqual(self.close(M), [Suspected(M, CLOSED), probe(1, M), probe(1, T), AskControllers(1, M)])
        self.port(T, Verdict.ANSWERED)
        _died, elect = self.port(M, Verdict.REFUSED)
        self.assertEqual(elect.alive, (3,))

    def test_a23_tried_again(self) -> None:
        """Nobody was there when it died: the first of the set before it that is back is elected, it itself too."""
        self.group.in_sync, self.group.former, self.group.master_id = frozenset({1}), (1, 2, 3), None
        for key in (M, S, T):
            self.liveness.died(key)
        self.assertEqual(self.machine.scan(2000), [])
        self.now_ms = 2000
        self.beats(T)
        (elect,) = self.machine.scan(2000)
        self.assertEqual(elect.alive, (3,))
        self.machine.election_ended("C", NAME, 2000)
        self.beats(M)
        (elect,) = self.machine.scan(3000)
        self.assertEqual(elect.alive, (1,))

    def test_cleaned_set_is_forgotten(self) -> None:
        """Its suspicions with it."""
        self.close(M)
        self.groups.all.clear()
        self.machine.scan(10)
        self.assertEqual(self.machine.states(), {})

    def test_b5_two_clusters(self) -> None:
        """The death of one set's master concerns no other set of its name."""
        other = FakeGroup(cluster="D")
        self.groups.all.append(other)
        key = M._replace(cluster="D")
        self.liveness.heard(key, Heartbeat("h1:1"), 77, 0)
        self.close(M)
        self.members_answer(None, None)
        (_died, elect) = self.port(M, Verdict.REFUSED)
        self.assertEqual((elect.cluster, self.liveness.alive(key, 0)), ("C", True))


class RestartedTests(SuspicionCase):
    """The master's process was replaced by a new one faster than it was missed."""

    NEW = "its port answers, but as a new process that leads nothing"

    def test_registers(self) -> None:
        """It is asked whether it leads, and so are the others; one of them is elected."""
        self.assertEqual(
            self.machine.registered(M, 0),
            [Suspected(M, "it registers anew"), probe(1, M), probe(1, S), probe(1, T), AskControllers(1, M)],
        )
        self.members_answer(Reading(False), Reading(False))
        died, elect = self.port(M, Verdict.ANSWERED, Reading(False))
        self.assertEqual(died, Died(M, f"it registers anew; {self.NEW}"))
        self.assertEqual((elect.alive, elect.dead_id), ((2, 3), 1))

    def test_alone(self) -> None:
        """The set has no master for a moment; its own request for an election then gives it a new epoch."""
        self.group.in_sync, self.group.addresses = frozenset({1}), {1: "h1:1"}
        self.machine.registered(M, 0)
        _died, elect = self.port(M, Verdict.ANSWERED, Reading(False))
        self.assertEqual((elect.alive, elect.dead_id), ((), 1))

    def test_registers_and_still_leads(self) -> None:
        """Brokers do that when the controller answers that it does not know their set."""
        self.machine.registered(M, 0)
        self.assertEqual(self.port(M, Verdict.ANSWERED, Reading(True)), [Held(M, "its port answers")])

    def test_registers_and_is_heard(self) -> None:
        """That the new process lives says nothing of whether it leads, neither before its port answers nor after."""
        self.machine.registered(M, 0)
        self.assertEqual((self.beats(M), self.machine.settled(M)), ([], False))
        died = self.port(M, Verdict.ANSWERED, Reading(False))
        self.assertEqual(died, [Died(M, f"it registers anew; {self.NEW}")])
        self.assertEqual((self.beats(M), self.machine.settled(M)), ([], False))
        (elect,) = self.port(S, Verdict.ANSWERED, Reading(False))
        self.assertEqual((elect.alive, elect.dead_id), ((2,), 1))
        self.assertEqual(self.beats(M), [Cleared(M, True)])

    def test_registers_and_is_heard_while_its_port_is_silent(self) -> None:
        """It lives; whether it leads is not found out, and it is no longer asked."""
        self.machine.registered(M, 0)
        self.members_answer(Reading(False), Reading(False))
        self.beats(M)
        self.assertEqual(self.at(Times().round)[-1], Held(M, "it is heard, and its port says nothing"))
        self.assertEqual((self.machine.settled(M), self.beats(M)), (True, [Cleared(M, False)]))

    def test_heard_before_it_registers_again(self) -> None:
        """Each round asks anew."""
        self.machine.registered(M, 0)
        self.beats(M)
        self.port(M, Verdict.ANSWERED, Reading(True))
        self.machine.registered(M, 10)
        for node in ("n1", "n2"):
            self.voice(node, 10, question=2)
        self.assertEqual(self.at(10 + Times().round)[-1], Held(M, "controllers n1, n2 hear it"))

    def test_registers_while_held(self) -> None:
        """Asked anew, not believed by an old answer."""
        self.close(M)
        self.port(M, Verdict.ANSWERED, Reading(True))
        self.assertEqual(self.machine.registered(M, 10)[0], probe(2, M))

    def test_found_by_a_probe(self) -> None:
        """Killed and restarted before the probe came: who answers has led nothing, but its last heartbeat had."""
        self.close(M)
        self.members_answer(Reading(False), Reading(False))
        self.assertEqual([type(each) for each in self.port(M, Verdict.ANSWERED, Reading(False))], [Died, Elect])

    def test_elected_a_moment_ago(self) -> None:
        """It does not lead yet, and nothing is wrong with that."""
        self.group.master_epoch = 6
        self.close(M)
        self.assertEqual(self.port(M, Verdict.ANSWERED, Reading(False)), [Held(M, "its port answers")])

    def test_first_start(self) -> None:
        """Elected before it has opened its port: that it refuses says nothing, until it was seen open."""
        self.group.master_id = None
        self.assertEqual(self.machine.registered(M, 0), [])
        self.group.master_id = 1
        self.close(M)
        self.assertEqual(self.port(M, Verdict.REFUSED), [])
        self.at(300)
        self.assertEqual(self.at(600), [Held(M, "too few others answer, it may be us; its lease runs")])
        self.at(1100)
        self.assertEqual(self.port(M, Verdict.ANSWERED, Reading(True), question=2), [Held(M, "its port answers")])
        self.beats(S, T)
        self.at(1600)
        self.voice("n1", None, question=3)
        self.assertEqual([type(each) for each in self.port(M, Verdict.REFUSED, question=3)], [Died])

    def test_slave(self) -> None:
        """Slaves come and go."""
        self.assertEqual(self.machine.registered(S, 0), [])
        self.close(S)
        self.assertEqual(self.port(S, Verdict.ANSWERED, Reading(False)), [Held(S, "its port answers")])
