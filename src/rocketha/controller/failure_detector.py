"""Whether a broker that fell silent is dead: the machine that decides when the controller elects by itself.

Must not know a socket, a clock or a log.  The service feeds it what happened and carries out
the effects it returns; nothing else changes its state.

Theory of operation.  **A closed connection or a missed heartbeat is a suspicion, not a death** (regression A24: Java's
controllers elect on any closed connection, and messages are lost).  A suspicion goes in rounds.  A round begins by
asking, all at once, the suspect's own port (a request that the broker itself must answer: a frozen process still takes
connections), the other controllers whether they hear its heartbeats, and, when it is the master of its set, the other
members of the set: whether their replication link to it moves, and whether they could follow it.  What follows from
which answers is the table of docs/controller.rst, "Who is dead"; ``port_answered`` and ``_judge`` are its rows.

``refuses`` counts as silence where the port was found unreachable although heartbeats came: then the address that the
broker advertises is wrong, and a refusal says nothing.  A heartbeat ends a suspicion in any state.

A dead master is followed by one election (:mod:`rocketha.controller.succession`), with the members that answered in
this round as its evidence: a replica that is itself dead or frozen but not yet missed must not be chosen.  It waits a
moment for them, but not once that one has answered who would win whatever the others said.  While a set has no live
master and one of its members is alive, the election is tried again.  Slaves are suspected too, since the dead may not
be elected, but that elects nobody (regression B4).

Only a leader suspects.  Having just become one it believes its own table, which it kept as a follower.  Masters never
heard are asked at once, but not believed to be dead as soon as others (:mod:`rocketha.controller.fresh`).

Java has none of this: ``BrokerHeartbeatManager`` fires, ``ControllerManager`` elects.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketha.controller.detector_effects import (
    AskControllers,
    Cleared,
    Died,
    Effect,
    Held,
    Probe,
    Reading,
    Suspected,
    Verdict,
)
from rocketha.controller.events import Why
from rocketha.controller.fresh import OPEN_MAX, FreshLeader
from rocketha.controller.liveness import Liveness, ReplicaKey
from rocketha.controller.succession import Succession
from rocketha.controller.suspect import State, Suspect
from rocketha.controller.watched import Groups, Times, address_of, led_group, master_key

ROUNDS_MAX = 20
"""Rounds that may begin between two ticks.  When hundreds fall silent together it is more likely we who are deaf, and
asking everybody about all of them at once would make us so."""

CLOSED_MAX = 3
"""A port that so often in one round takes a connection and closes it unanswered belongs to a living process, or to what
stands before the port of one that is gone: no election before the lease of its last heartbeat ran out.
"""


class FailureDetector:
    """All suspicions of one controller.

    :param liveness: shared with the service, which records the heartbeats in it.
    :param unclean: whether a replica outside the in-sync set may be elected.
    """

    def __init__(self, groups: Groups, liveness: Liveness, times: Times, unclean: bool = False) -> None:
        self._groups = groups
        self._liveness = liveness
        self._times = times
        self.controllers = 1
        """How many vote, this one included; kept by the service."""
        self.fresh = FreshLeader(groups, liveness, times)
        self._succession = Succession(groups, liveness, times, unclean)
        self._open: dict[ReplicaKey, Suspect] = {}
        self._by_question: dict[int, ReplicaKey] = {}
        self._question = 0
        self._rounds = ROUNDS_MAX  # that may still begin before the next tick
        # Master address -> whether its port was reachable while it was heard.
        self._reachable: dict[str, bool] = {}
        # When a replica registered that was not the master.
        self._starting: dict[ReplicaKey, int] = {}

    # -- what the service asks ------------------------------------------------------------------------------------

    @property
    def unclean(self) -> bool:
        """Whether a replica outside the in-sync set may be elected."""
        return self._succession.unclean

    @unclean.setter
    def unclean(self, may: bool) -> None:
        self._succession.unclean = may

    @property
    def leading(self) -> bool:
        """Whether this controller suspects anybody."""
        return self.fresh.led_ms is not None

    def states(self) -> dict[ReplicaKey, State]:
        """Every open suspicion, for the status page."""
        return {key: suspicion.state for key, suspicion in self._open.items()}

    def settled(self, key: ReplicaKey) -> bool:
        """Whether there is nothing to wait for before acting on whether this replica is alive."""
        suspicion = self._open.get(key)
        return suspicion is None or suspicion.state in (State.HELD, State.DEAD)

    # -- what happened --------------------------------------------------------------------------------------------

    def led(self, now_ms: int) -> list[Effect]:
        """This controller became leader: suspect every master whose connection is closed."""
        self.fresh.led(now_ms)
        effects: list[Effect] = []
        for group in self._groups.groups():
            key = master_key(group)
            if key is not None and self.fresh.has_heard(key) and not self._liveness.connected(key):
                effects += self._suspect(key, "its connection was closed when this controller became leader", now_ms)
        return effects

    def deposed(self) -> None:
        """It leads no more: whoever does has suspicions of its own."""
        self.fresh.deposed()
        self._succession.deposed()
        for each in (self._open, self._by_question, self._reachable, self._starting):
            each.clear()

    def heard(self, key: ReplicaKey) -> list[Effect]:
        """A heartbeat of a suspect came (the table has it already).

        Of one that registers it says that the new process lives, and that was never the question.
        """
        suspicion = self._open.get(key)
        if suspicion is None:
            return []
        if suspicion.registers and not self.settled(key):
            suspicion.heard = True
            return []
        del self._open[key]
        self._by_question.pop(suspicion.question, None)
        return [Cleared(key, suspicion.state is State.DEAD)]

    def connection_closed(self, key: ReplicaKey, now_ms: int) -> list[Effect]:
        """The connection of its heartbeats ended (the table knows already)."""
        if not self.leading:
            return []
        return self._suspect(key, "its connection closed", now_ms)

    def doubt(self, key: ReplicaKey, why: str, now_ms: int) -> list[Effect]:
        """Somebody asked for what only the death of this replica would allow: find out before acting."""
        if not self.leading or self._liveness.alive(key, now_ms):
            return []
        return self._suspect(key, why, now_ms)

    def registered(self, key: ReplicaKey, now_ms: int, moved: bool = False) -> list[Effect]:
        """It registers (1003), as a starting process does.  If it is the master, does it still lead?

        A Java broker opens its port after it has registered: until it was seen open, a refusal says nothing of one that
        is elected meanwhile.

        :param moved: from another address; if nothing is heard from there, that one is gone.  Else it is asked, master
            or not: whoever took the id of a living member of the SyncStateSet could be elected in its place.
        """
        if not self.leading:
            return []
        if led_group(self._groups, key) is None:
            self._starting[key] = now_ms
            self._reachable.pop(address_of(self._groups, key) or "", None)
            if not moved:
                return []
        suspicion = self._open.get(key)
        if suspicion is None:
            effects = self._suspect(key, "it registers anew", now_ms)
        elif suspicion.state is State.HELD:
            effects = self._begin(suspicion, now_ms)
        else:
            effects = []
        suspicion = self._open.get(key)
        if suspicion is not None:
            suspicion.registers = True
            gone = moved and self._liveness.unheard(key, self._times.silence, now_ms)
            if gone and not self.fresh.may_hear_of([key], now_ms) and suspicion.state is State.ASKING:
                effects += self._die(suspicion, Why.PORT_REFUSED, "it registers at another address", now_ms)
        return effects

    def reachable(self, address: str, reached: bool) -> None:
        """What came of a connection to a master's port while it was heard."""
        self._reachable[address] = reached

    def port_answered(
        self, question: int, key: ReplicaKey, verdict: Verdict, reading: Reading, now_ms: int
    ) -> list[Effect]:
        """What came of a :class:`Probe`."""
        suspicion = self._asked(question)
        taken = reading.is_of_another(key) or self._liveness.taken(address_of(self._groups, key), key, now_ms)
        if suspicion is None or (taken and verdict is not Verdict.REFUSED):
            return []
        if verdict is Verdict.ANSWERED:
            self._starting.pop(key, None)
        if key != suspicion.replica:
            return self._member_answered(suspicion, key.broker_id, verdict, reading, now_ms)
        if suspicion.state is not State.ASKING:
            return []
        if verdict is Verdict.CLOSED:
            suspicion.closed += 1
            if suspicion.closed < CLOSED_MAX:
                return self._probe(suspicion, [key.broker_id])
            alive = self._liveness.alive(key, now_ms)
            return self._hold(suspicion, "its port takes connections; its lease runs", now_ms) if alive else []
        if verdict is Verdict.ANSWERED:
            if reading.leads is False and self._had_led(suspicion):
                why = "its port answers, but as a new process that leads nothing"
                return self._die(suspicion, Why.PORT_REFUSED, why, now_ms)
            self._liveness.proved(key, now_ms)
            return self._hold(suspicion, "its port answers", now_ms)
        if verdict is Verdict.REFUSED:
            suspicion.refused = True
            effects = self._weigh_refusal(suspicion, now_ms)
            if not effects and suspicion.against < len(suspicion.voices):
                effects = self._ask_controllers(suspicion)  # it may have died since they said that they hear it
            return effects
        return []

    def controller_answered(
        self, question: int, node: str, connected: bool, heard_ms_ago: int | None, now_ms: int
    ) -> list[Effect]:
        """Another controller answered :class:`AskControllers`."""
        suspicion = self._asked(question)
        if suspicion is None or suspicion.state is not State.ASKING:
            return []
        fresh_ms = max(self._times.hears, self._liveness.in_turn_ms(suspicion.replica))
        suspicion.voice(node, connected, heard_ms_ago, fresh_ms)
        return self._weigh_refusal(suspicion, now_ms)

    def election_ended(self, cluster: str, broker_name: str, now_ms: int) -> None:
        """An election was applied or failed: where there is still no live master it may be tried again."""
        self._succession.ended(cluster, broker_name, self.leading, now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Begin suspicions of the silent and end rounds; to be called every 100 ms or so."""
        if not self.leading:
            return []
        self._rounds = ROUNDS_MAX
        effects: list[Effect] = []
        for key in self._liveness.silent(self._times.silence, now_ms):
            if key not in self._open and address_of(self._groups, key) is not None:
                effects += self._suspect(key, f"nothing heard for {self._liveness.age_ms(key, now_ms)} ms", now_ms)
        for suspicion in list(self._open.values()):
            effects += self._move(suspicion, now_ms)
        unsettled = sum(suspicion.state is not State.DEAD for suspicion in self._open.values())
        for key in self.fresh.next_unheard(min(self._rounds, OPEN_MAX - unsettled), now_ms):
            effects += self._suspect(key, "not heard since this controller leads", now_ms)
        return effects

    def scan(self, now_ms: int) -> list[Effect]:
        """Find the sets without a live master; to be called every second or so.

        A master that this process never heard and does not suspect is suspected once it had its lease; a set
        whose master is known to be dead, or that has none, is given one once a member lives and is not being asked.
        """
        if not self.leading:
            return []
        effects: list[Effect] = []
        for old in [key for key, since in self._starting.items() if now_ms - since > self._liveness.holds_ms(key)]:
            del self._starting[old]
        for gone in [key for key in self._open if address_of(self._groups, key) is None]:
            self._by_question.pop(self._open.pop(gone).question, None)
        for group in self._groups.groups():
            key = master_key(group)
            if key is not None:
                if not self.fresh.has_heard(key) and not self.fresh.in_first_lease(key, now_ms):
                    effects += self._suspect(key, "never heard since this controller leads", now_ms)
                suspicion = self._open.get(key)
                if suspicion is None or suspicion.state is not State.DEAD:
                    continue
            here = self._succession.living(group, now_ms)
            here = [number for number in here if number in group.in_sync] or here  # no outsider before one of the set
            alive = tuple(each for each in here if self.settled(ReplicaKey(group.cluster, group.broker_name, each)))
            if alive:
                why = f"{'the set has no master' if key is None else 'its master is dead'}, and {_text(alive)} alive"
                effects += self._succession.elect(group, Why.MASTER_MISSING, why, (), alive, now_ms)
        return effects

    # -- the machine ----------------------------------------------------------------------------------------------

    def _suspect(self, key: ReplicaKey, why: str, now_ms: int) -> list[Effect]:
        """Open a suspicion, or begin a new round of one that is held."""
        suspicion = self._open.get(key)
        if suspicion is not None and suspicion.state is not State.HELD:
            return []
        if address_of(self._groups, key) is None:
            return []
        if suspicion is not None:
            return self._begin(suspicion, now_ms)
        suspicion = self._open[key] = Suspect(key, why, State.ASKING, 0, now_ms)
        return [Suspected(key, why), *self._begin(suspicion, now_ms)]

    def _begin(self, suspicion: Suspect, now_ms: int) -> list[Effect]:
        """A round: ask everybody at once."""
        if self._rounds <= 0:
            suspicion.state = State.QUEUED
            return []
        self._rounds -= 1
        self._by_question.pop(suspicion.question, None)
        self._question += 1
        self._by_question[self._question] = suspicion.replica
        suspicion.begin(self._question, now_ms + self._times.round, now_ms + self._times.round // 2)
        effects = self._probe(suspicion, [suspicion.replica.broker_id])
        group = led_group(self._groups, suspicion.replica)
        if group is None:
            suspicion.again_ms = None
            return effects
        others = [suspicion.replica._replace(broker_id=number) for number in self._succession.others(group)]
        others = [key for key in others if self._liveness.alive(key, now_ms) or self.fresh.awaits(key, now_ms)]
        suspicion.asked = tuple(key.broker_id for key in others)
        return effects + self._probe(suspicion, suspicion.asked) + self._ask_controllers(suspicion)

    def _move(self, suspicion: Suspect, now_ms: int) -> list[Effect]:
        """Time passed."""
        if suspicion.state is State.ASKING:
            effects: list[Effect] = []
            if suspicion.again_ms is not None and now_ms >= suspicion.again_ms:
                suspicion.again_ms = None
                effects = self._probe(suspicion, sorted(suspicion.links)) + self._ask_controllers(suspicion)
            if now_ms >= suspicion.due_ms:
                effects += self._judge(suspicion, now_ms)
            return effects
        if now_ms < suspicion.due_ms:
            return []
        if suspicion.state is State.HELD and not self._matters(suspicion.replica):
            return self._judge(suspicion, now_ms)
        if suspicion.state in (State.HELD, State.QUEUED):
            return self._begin(suspicion, now_ms)
        if suspicion.state is State.CHOOSING:
            return self._choose(suspicion, now_ms)
        return []

    def _weigh_refusal(self, suspicion: Suspect, now_ms: int) -> list[Effect]:
        """Its port refused: is that enough?"""
        if not suspicion.refused:
            return []
        key = suspicion.replica
        reached = self._reachable.get(address_of(self._groups, key) or "")
        starts = now_ms - self._starting.get(key, -(10**9)) <= self._liveness.holds_ms(key)
        if reached is False or (starts and not reached) or self._spares(suspicion, now_ms):
            return []
        slave = led_group(self._groups, key) is None
        if reached or slave or self._is_majority(1 + suspicion.against):
            return self._die(suspicion, Why.PORT_REFUSED, "its port refuses connections", now_ms)
        return []

    def _spares(self, suspicion: Suspect, now_ms: int) -> bool:
        """Whether a master never heard is not yet dead, although its port refuses: where no other controller has heard
        it either, it may only be late, and its address wrong (not if it had answered there); and while nobody can be
        elected nothing is gained by its death.
        """
        key = suspicion.replica
        group = led_group(self._groups, key)
        if group is None or not self._in_first_lease(suspicion, now_ms):
            return False
        if self.fresh.awaits(key, now_ms) and not suspicion.witnessed and not self._liveness.alive(key, now_ms):
            return True
        return not suspicion.candidates(group.in_sync, self._succession.living(group, now_ms))

    def _judge(self, suspicion: Suspect, now_ms: int) -> list[Effect]:
        """The round is over and its port said nothing that settles the matter."""
        key = suspicion.replica
        age_ms = self._liveness.age_ms(key, now_ms)
        never = self._in_first_lease(suspicion, now_ms)
        ran_out = not self._liveness.alive(key, now_ms) and not never
        group = led_group(self._groups, key)
        if group is None:
            if ran_out:
                return self._die(suspicion, Why.LEASE_EXPIRED, "silent, and its lease ran out", now_ms)
            return self._hold(suspicion, "its lease runs", now_ms)
        if suspicion.heard:
            return self._hold(suspicion, "it is heard, and its port says nothing", now_ms)
        hearing = sorted(node for node, hears in suspicion.voices.items() if hears)
        if self._is_majority(len(hearing)):
            return self._hold(suspicion, f"controllers {', '.join(hearing)} hear it", now_ms)
        silent = "silent" if age_ms is None else f"silent for {age_ms} ms"
        if ran_out:
            kind = Why.UNHEARD_SINCE_START if age_ms is None else Why.LEASE_EXPIRED
            return self._die(suspicion, kind, f"{silent}, and its lease ran out", now_ms)
        if never:
            return self._hold(suspicion, "never heard; its lease runs", now_ms)
        if hearing:
            return self._hold(suspicion, f"controller {', '.join(hearing)} hears it; its lease runs", now_ms)
        if suspicion.moving:
            return self._hold(suspicion, f"its link to {_text(suspicion.moving)} moves; its lease runs", now_ms)
        if not suspicion.links or not self._is_majority(1 + len(suspicion.voices)):
            return self._hold(suspicion, "too few others answer, it may be us; its lease runs", now_ms)
        if age_ms is not None and age_ms < self._times.least:
            # The round began early, with a closed connection: its heartbeat could still come.
            left_ms = self._times.least - age_ms
            suspicion.due_ms, suspicion.again_ms = now_ms + left_ms, now_ms + left_ms // 2
            return []
        return self._die(suspicion, Why.NOBODY_HEARS_IT, f"{silent}, and nobody hears it", now_ms)

    def _hold(self, suspicion: Suspect, why: str, now_ms: int) -> list[Effect]:
        suspicion.state = State.HELD
        matters, key = self._matters(suspicion.replica), suspicion.replica
        suspicion.due_ms = now_ms + (self._times.pause if matters else self._liveness.left_ms(key, now_ms))
        return [Held(suspicion.replica, why)]

    def _matters(self, key: ReplicaKey) -> bool:
        """Whether its death would have anybody elected, or take somebody out of an election.

        Others are asked once, and are dead when their lease has run out; or who registers and hangs up has us knock at
        a port of his choice for as long as he likes.
        """
        group = self._groups.group(key.cluster, key.broker_name)
        return group is not None and self._succession.matters(group, key.broker_id)

    def _die(self, suspicion: Suspect, kind: Why, why: str, now_ms: int) -> list[Effect]:
        key = suspicion.replica
        self._liveness.died(key)
        suspicion.kind, suspicion.why = kind, f"{suspicion.why}; {why}"
        suspicion.state = State.CHOOSING if led_group(self._groups, key) is not None else State.DEAD
        suspicion.due_ms = now_ms + self._times.choose
        effects: list[Effect] = [Died(key, suspicion.why)]
        if suspicion.state is State.CHOOSING:
            effects += self._choose_when_clear(suspicion, now_ms)
        return effects

    def _member_answered(
        self, suspicion: Suspect, number: int, verdict: Verdict, reading: Reading, now_ms: int
    ) -> list[Effect]:
        """A member of the suspect's set answered, or could not."""
        last = self._liveness.last(suspicion.replica._replace(broker_id=number))
        suspicion.member_answered(number, verdict, reading, last)
        if suspicion.state is State.ASKING:
            return self._weigh_refusal(suspicion, now_ms)
        return self._choose_when_clear(suspicion, now_ms)

    def _choose_when_clear(self, suspicion: Suspect, now_ms: int) -> list[Effect]:
        """Do not wait for members whose answer cannot change who wins."""
        if suspicion.state is not State.CHOOSING:
            return []
        hoped = set(suspicion.asked) - suspicion.unfit
        clear = hoped <= suspicion.links.keys() or self._succession.ahead(suspicion.replica, hoped) in suspicion.links
        return self._choose(suspicion, now_ms) if clear else []

    def _choose(self, suspicion: Suspect, now_ms: int) -> list[Effect]:
        """The master is dead, and whoever of its set answers in time has answered."""
        group = led_group(self._groups, suspicion.replica)
        suspicion.state = State.DEAD
        if group is None:
            return []
        candidates = suspicion.candidates(group.in_sync, self._succession.living(group, now_ms))
        others = [suspicion.replica._replace(broker_id=number) for number in self._succession.others(group)]
        if not candidates and self.fresh.may_hear_of(others, now_ms):
            suspicion.state, suspicion.due_ms = State.CHOOSING, now_ms + self._times.choose
            return []
        if not candidates and self._in_first_lease(suspicion, now_ms):
            return self._hold(suspicion, "nobody can be elected yet; its lease runs", now_ms)
        return self._succession.elect(group, suspicion.kind, suspicion.why, suspicion.seen(), candidates, now_ms)

    def _in_first_lease(self, suspicion: Suspect, now_ms: int) -> bool:
        """Whether silence says nothing of it yet, because it was never heard; who registers is a new process."""
        return not suspicion.registers and self.fresh.in_first_lease(suspicion.replica, now_ms)

    # -- within ---------------------------------------------------------------------------------------------------

    def _had_led(self, suspicion: Suspect) -> bool:
        """Whether a master that leads nothing now has led in this epoch: then its process has been replaced.

        It has not when it was elected a moment ago and does not know yet.
        """
        group, last = led_group(self._groups, suspicion.replica), self._liveness.last(suspicion.replica)
        if group is None:
            return False
        return suspicion.registers or (last is not None and last.epoch >= group.master_epoch)

    def _asked(self, question: int) -> Suspect | None:
        """The suspicion whose present round asked this; an answer to an older one is void."""
        key = self._by_question.get(question)
        return None if key is None else self._open.get(key)

    def _is_majority(self, count: int) -> bool:
        return 2 * count > self.controllers

    def _probe(self, suspicion: Suspect, numbers: Iterable[int]) -> list[Effect]:
        cluster, name, _ = suspicion.replica
        keys = [ReplicaKey(cluster, name, number) for number in numbers]
        addresses = [(key, address_of(self._groups, key)) for key in keys]
        return [
            Probe(suspicion.question, key, address, self._times.round, key == suspicion.replica)
            for key, address in addresses
            if address is not None
        ]

    def _ask_controllers(self, suspicion: Suspect) -> list[Effect]:
        return [AskControllers(suspicion.question, suspicion.replica)] if self.controllers > 1 else []


def _text(numbers: Iterable[int]) -> str:
    return "broker " + ", ".join(str(number) for number in sorted(numbers))
