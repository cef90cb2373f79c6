"""What a broker in controller mode is, from its start to its stop: events in, effects out.

Must not know a socket, a file or a clock of its own; who leads the controllers is the caller's affair too: an
:class:`~rocketha.broker.role_effects.Ask` goes to whoever leads, and an answer of one who does not is no answer.

Theory of operation.

*Joining.*  An id, as :mod:`rocketha.broker.controller_identity` says; then 1003; from then on heartbeats.  Until it is
told a role the broker is fenced (regression A9).

*Roles.*  What is believed, and ordered of it, is :mod:`rocketha.broker.role_assignment`.  A slave asks 1004 now and
then, and when its link breaks; where nobody is master it asks 1002, every second, unless it is a learner.

*A master acknowledges nothing before it is confirmed*: it is promoted first, then asks 11006 (Java's controllers do not
know it and are asked 1004).  So an election that its winner could not take up may be taken back by our controllers, and
one that it took up may not.  The same question, at a third of the lease, keeps the lease.

*A notice* (1008) comes from whoever reaches the port, so it is a reason to ask our controllers (1004) and changes no
role.  But it may be true, and then the other master may have acknowledged and shown more than we know of.  So a master
is *suspended* until they answer: sends and reads wait, and so do acknowledgements.  One question is open at a time, and
covers all notices that came before it was asked.  An answer that names this broker stands for a moment: notices that
come meanwhile suspend it when that is over, unless the next answer is there by then; so forged ones, however many, make
requests wait for one answer.  Where none comes within half a second it is fenced, and leads again when one names it.  A
master that the answer replaces takes no more sends, gives its replicas a moment to get what it has (their acks are
still good, and whoever sent is answered), and is fenced, all before the notice is answered, since our controllers tell
the new master after that.

*Resigning.*  The epoch cannot be led (bytes that were sent may be missing after a crash), or the disk fails: the broker
falls silent and hangs up.  The controllers find it gone, elect somebody, or the same broker in a new epoch when it
registers again.

*Leaving.*  A master that is to stop takes no more sends, lets its replicas reach its end, and asks for one of the
SyncStateSet to be elected (1002, designated: Java's controllers and ours do that at once if it is alive).  It follows
that one until it serves, so that what is forwarded finds it, and is gone; the broker may go on forwarding for a while.

Java: ``ReplicasManager``.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from rocketha.broker import role_effects as wanted
from rocketha.broker.controller_identity import Identity, Step, check_code
from rocketha.broker.role import Role
from rocketha.broker.role_assignment import RoleAssignment
from rocketha.broker.role_departure import Departure
from rocketha.broker.role_effects import Effect, Leaving, Question, RoleTiming, Setback
from rocketha.broker.role_questions import Place, Questions, joining_call, master_call
from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.replication.sync_state import SetChange
from rocketha.wire import controller_calls as calls
from rocketha.wire.codes import ResponseCode as Code
from rocketha.wire.controller_calls import Call, MasterInfo
from rocketha.wire.remoting import Command
from rocketha.wire.replica_list import replicas

ID_MAX = (1 << 32) - 1
"""A replica tells its id to its master in four bytes."""

NOTICE_GAP_MS = 10
"""Between questions that notices bring about."""

SUSPENDED_MS_MAX = 500
"""Controllers that have not answered by then may be out of reach: fenced, the broker keeps requests for the master."""

FRESH_MS = 200
"""From when a question about a notice was asked, its answer stands against other notices: a master that is heard is not
replaced within so short a time without its answer, and one that stood still looks at the clock first."""

_REPLACED = "another broker is the master"
_MASTERS = (Question.ALTER, Question.CONFIRM, Question.REPLICAS)
_JOINING = {Step.NEXT_ID: Question.NEXT_ID, Step.APPLY: Question.APPLY, Step.REGISTER: Question.REGISTER}
_UNKNOWN = (Code.CONTROLLER_BROKER_METADATA_NOT_EXIST, Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
_OVERTAKEN = (
    Code.CONTROLLER_FENCED_MASTER_EPOCH,
    Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
    Code.CONTROLLER_INVALID_MASTER,
    Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
)


class RoleLife:
    """See the module.  Every method that takes ``now_ms`` returns effects, to be carried out in their order.

    :param last_epoch: the newest in the own log, 0 of none.
    :param wall_ms: ms since 1970, for what the controllers write down.
    :param learner: is never to be master.
    :ivar registered: whether the controllers know us, as far as we know.
    :ivar ours: whether the controllers know 11006; None before one was asked.
    :ivar problem: what an operator should know now, or empty.
    """

    def __init__(
        self,
        place: Place,
        identity: Identity,
        last_epoch: int,
        timing: RoleTiming,
        chance: random.Random,
        wall_ms: Callable[[], int],
        learner: bool = False,
    ) -> None:
        self.place = place
        self.identity = identity
        self.assignment = RoleAssignment(last_epoch)
        self.registered = False
        self.ours: bool | None = None
        self.problem = ""
        self.departure = Departure()
        self._timing = timing
        self._chance = chance
        self._wall_ms = wall_ms
        self._learner = learner
        self._questions = Questions(self._timeout_ms)
        self._out: list[Effect] = []
        self._change: SetChange | None = None
        self._retire_until: int | None = None
        self._notices: list[tuple[int, int]] = []  # number and epoch; the controllers are asked about them
        self._new_notices: list[tuple[int, int]] = []  # the question that is open is older than these
        self._notice_asked_ms = -NOTICE_GAP_MS
        self._suspended = False
        self._suspended_until: int | None = None
        self._fresh_until = 0  # by the controllers' last answer to a notice, this broker is master until then
        self._resign_until: int | None = None
        self._resign_ms = timing.resign

    # -- what is ------------------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """Our id; 0 before there is one."""
        return self.identity.number or 0

    @property
    def beating(self) -> bool:
        """Whether heartbeats go out."""
        return self.registered and self._heeds

    @property
    def _heeds(self) -> bool:
        return self.departure.stage is not Leaving.LEFT

    def next_due_ms(self) -> int | None:
        """When to call :meth:`tick`; None: when something happens."""
        if self.departure.stage is Leaving.LEFT:
            return None
        due = self._questions.due_ms(self.registered) + self.departure.due_ms()
        times = (self._resign_until, self._retire_until, self._suspended_until)
        due += [each for each in times if each is not None]
        return min(due, default=None)

    # -- what happens -------------------------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> list[Effect]:
        """The log is recovered, the port is open."""
        return self.saved(self.identity, now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Time passed."""
        if self._resign_until is not None and now_ms >= self._resign_until:
            self._resign_until = None
            self._questions.at(Question.REGISTER, now_ms)
        if self._retire_until is not None and now_ms >= self._retire_until:
            self._fence(_REPLACED)
        if self._suspended_until is not None and now_ms >= self._suspended_until:
            self._fence("another broker is said to be the master, and no controller answers")
            self.assignment.told = None
        if self.departure.waited_enough(now_ms):
            self._hand_over(now_ms)
        if self.departure.over(now_ms):
            self._leave(now_ms)
        return self._effects(now_ms)

    def saved(self, identity: Identity, now_ms: int) -> list[Effect]:
        """A file is written."""
        self.identity = identity
        self._next_step(now_ms)
        return self._effects(now_ms)

    def not_saved(self, why: str, now_ms: int) -> list[Effect]:
        """It is not: the question whose answer led to it is asked again."""
        self._trouble(f"the broker's id cannot be saved: {why}")
        self._next_step(now_ms + self._timing.register)
        return self._effects(now_ms)

    def answered(self, number: int, answer: Command, asked_ms: int, now_ms: int) -> list[Effect]:
        """The leading controller answered; it was asked at ``asked_ms``."""
        question = self._questions.close(number)
        if question is not None and self._heeds:
            try:
                self._read(question, answer, asked_ms, now_ms)
            except RequestRefused as refusal:
                self._refused(question, refusal.code, refusal.remark, now_ms)
            except RemoteProtocolError as problem:
                self._trouble(f"asked {question.value}, a controller answered what cannot be: {problem}")
                self._no_answer(question, now_ms)
        return self._effects(now_ms)

    def unanswered(self, number: int, why: str, now_ms: int) -> list[Effect]:
        """Nobody answered in time, or nobody leads."""
        question = self._questions.close(number)
        if question is not None and self._heeds:
            if not self.registered:
                self._trouble(f"no controller answers: {why}")
            self._no_answer(question, now_ms)
        return self._effects(now_ms)

    def joins(self, notice: int, info: MasterInfo) -> bool:
        """Whether a notice is asked about with others that came before it and changes nothing else; then it is taken.

        This much can be said without an effect, so a flood costs little.
        """
        doubted = self._suspended or not self.assignment.leads or info.master_id == self.number
        joins = bool(self._new_notices) and doubted and self._is_news(info)
        if joins:
            self._new_notices.append((notice, info.master_epoch))
        return joins

    def noticed(self, notice: int, info: MasterInfo, now_ms: int) -> list[Effect]:
        """Somebody says that there is another master (1008)."""
        if not self._is_news(info):
            self._out.append(wanted.Noticed(notice, True))
            return self._effects(now_ms)
        if self.assignment.leads and info.master_id != self.number and not self._suspended:
            self._suspend(max(now_ms, self._fresh_until))
        if not self._new_notices:
            if not self._notices:
                self._questions.disregard(Question.INFO)  # asked before the notice, of somebody who may be gone
            self._notice_asked_ms = max(now_ms, self._notice_asked_ms + NOTICE_GAP_MS)
            self._questions.at(Question.INFO, self._notice_asked_ms)
        self._new_notices.append((notice, info.master_epoch))
        return self._effects(now_ms)

    def _is_news(self, info: MasterInfo) -> bool:
        """Whether a notice is a reason to ask."""
        heeds = self.registered and self._heeds and self.departure.stage is Leaving.NO
        return heeds and info.master_epoch > self.assignment.epoch

    def done(self, order: int, now_ms: int) -> list[Effect]:
        """An order is carried out."""
        if order == self.assignment.order:
            self.assignment.order = None
            if self._retire_until is not None:
                self._fence(_REPLACED)
            elif self.departure.stage is Leaving.RETIRING:
                self._hand_over(now_ms)
            elif self.assignment.ordered.role is not Role.FENCED:
                self._settled(now_ms)
        return self._effects(now_ms)

    def failed(self, order: int | None, setback: Setback, why: str, now_ms: int) -> list[Effect]:
        """An order could not be carried out; None: what it was ordered to be it cannot be any more."""
        if order == self.assignment.order and setback is not Setback.REPLACED:
            epoch = self.assignment.ordered.epoch
            if setback is Setback.ELECTION_NEEDED:
                self.assignment.unfit_epoch = epoch
                why = f"epoch {epoch} cannot be led again: {why}"
            else:
                self._resign_ms = self._timing.resign_max
            self._resign(why, now_ms)
        return self._effects(now_ms)

    def wants_set(self, change: SetChange, now_ms: int) -> list[Effect]:
        """The master's SyncStateSet is to change."""
        if self.assignment.leads_in(change.epoch) and self._change is None:
            self._change = change
            self._questions.at(Question.ALTER, now_ms)
        else:
            self._out.append(wanted.SetUnanswered(change.number))
        return self._effects(now_ms)

    def doubted(self, question: Question, now_ms: int) -> list[Effect]:
        """An answer may be outdated: INFO, as the link to the master broke; REPLICAS, as an unknown one came."""
        self._questions.hasten(question, now_ms)
        return self._effects(now_ms)

    def leave(self, now_ms: int) -> list[Effect]:
        """The broker is to stop."""
        if self.departure.stage is not Leaving.NO and not self.departure.stays:
            return []
        self.departure.stays = ""
        if self.departure.stage is Leaving.NO and not self._retire("the broker stops", now_ms):
            self._leave(now_ms)
        return self._effects(now_ms)

    def unfit(self, why: str, now_ms: int) -> list[Effect]:
        """Another broker should be master, by what this one's health checks say: it hands over as when it stops, and
        stays.  Where nobody else can be elected it begins anew, and may be elected again."""
        if self.departure.stage is Leaving.NO and self._retire(why, now_ms):
            self._trouble(why)
            self.departure.stays = why
        return self._effects(now_ms)

    def _retire(self, why: str, now_ms: int) -> bool:
        """Begin to hand over, if there is a role to give and somebody to take it."""
        assignment = self.assignment
        others = [each for each in assignment.in_sync.members if each != self.number]
        if not (assignment.leads and assignment.order is None and others and self._timing.hand_over):
            return False
        self.departure.begin(others, self._timing.hand_over, now_ms)
        self._out += assignment.retire(why)
        return True

    def master_serves(self, epoch: int, now_ms: int) -> list[Effect]:
        """The master of this epoch, which is followed, answers as one."""
        if self.departure.stage is Leaving.FOLLOWING and epoch == self.assignment.ordered.epoch:
            self._leave(now_ms)
        return self._effects(now_ms)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _read(self, question: Question, answer: Command, asked_ms: int, now_ms: int) -> None:
        """Take an answer.

        :raises RequestRefused: it is a no.
        :raises RemoteProtocolError: it cannot be read.
        """
        if answer.code == Code.CONTROLLER_NOT_LEADER:
            self._no_answer(question, now_ms)
        elif question is Question.NEXT_ID:
            broker_id = calls.next_broker_id(answer)
            if broker_id > ID_MAX:
                raise RemoteProtocolError(f"a broker id of {broker_id}, at most {ID_MAX}")
            self._out.append(wanted.Want(broker_id, check_code(self.place.address, self._wall_ms(), self._chance)))
        elif question is Question.APPLY:
            calls.applied(answer)
            if self.identity.application is not None:
                self._out.append(wanted.Keep(self.identity.application.number))
        elif question is Question.REGISTER:
            self._registered(calls.registered(answer), now_ms)
        elif question is Question.ELECT:
            self._take(calls.elected(answer))
        elif question is Question.INFO:
            self._informed(calls.replica_info(answer), asked_ms, now_ms)
        elif question is Question.CONFIRM:
            self._confirmed(answer, asked_ms, now_ms)
        elif question is Question.ALTER:
            in_sync, change, self._change = calls.altered(answer), self._change, None
            if change is not None and self.assignment.leads_in(change.epoch):
                self._out += self.assignment.know_set(in_sync) or [wanted.SetUnanswered(change.number)]
        elif question is Question.REPLICAS:
            self._out.append(wanted.Registered(replicas(answer, *self.place[:2])))
            self._questions.by(Question.REPLICAS, now_ms + self._timing.replicas)
        else:
            self._handed_over(calls.elected(answer), now_ms)

    def _registered(self, info: MasterInfo, now_ms: int) -> None:
        self.registered, self.ours = True, None  # the controllers may be other ones than before
        self._trouble("")
        self._out.append(wanted.Beat())
        if info.master_id:
            self._take(info)
        elif self.assignment.told is None:
            self._questions.at(Question.ELECT, now_ms)
        else:
            self._questions.at(Question.INFO, now_ms)
        self._questions.by(Question.INFO, now_ms + self._timing.poll)

    def _informed(self, info: MasterInfo, asked_ms: int, now_ms: int) -> None:
        led = self.assignment.leads
        self._believe(info, now_ms)
        told = self.assignment.told
        if self._notices and led and told is not None and told.master_id != self.number:
            self._make_way(now_ms)
        elif self._retire_until is None:
            self._answer(self._notices, confirmed=False)
            if self._names_us(info):
                self._go_on(asked_ms, now_ms)
        self._questions.by(Question.INFO, now_ms + (self._timing.retry if self._suspended else self._timing.poll))

    def _go_on(self, asked_ms: int, now_ms: int) -> None:
        """The controllers say that this broker still is the master."""
        if not self._suspended:
            return
        self._fresh_until = asked_ms + FRESH_MS
        if self._new_notices and now_ms >= self._fresh_until:
            return
        self._suspended, self._suspended_until = False, None
        self._out.append(wanted.Resume())
        if self._new_notices:
            self._suspend(self._fresh_until)

    def _suspend(self, from_ms: int) -> None:
        self._suspended, self._suspended_until = True, from_ms + SUSPENDED_MS_MAX
        self._out.append(wanted.Suspend(from_ms))

    def _make_way(self, now_ms: int) -> None:
        """The controllers confirm a notice of another master."""
        self._suspended_until = None
        if not self.assignment.leads or self._retire_until is not None:
            return
        if self.assignment.order is None:
            self._retire_until = now_ms + self._timing.retire
            self._out += self.assignment.retire(_REPLACED, replaced=True)
        else:  # it does not lead yet
            self._fence(_REPLACED)

    def _answer(self, notices: list[tuple[int, int]], confirmed: bool = True) -> None:
        self._out += [wanted.Noticed(notice, confirmed or epoch <= self.assignment.epoch) for notice, epoch in notices]
        notices.clear()

    def _believe(self, info: MasterInfo, now_ms: int) -> None:
        """Who is master, or that nobody is."""
        if info.master_id:
            self._take(info)
            return
        problem = self.assignment.headless(info.master_epoch)
        if problem:
            self._trouble(problem)
            return
        if self.assignment.leads:
            self._fence(f"the controllers know no master in epoch {info.master_epoch}")
        self._questions.by(Question.ELECT, now_ms)

    def _names_us(self, info: MasterInfo) -> bool:
        """Whether this broker is said to be the master that it is."""
        return info.master_id == self.number and self.assignment.leads_in(info.master_epoch)

    def _take(self, info: MasterInfo) -> None:
        problem = self.assignment.take(info)
        self._trouble(problem or self.problem)
        if not problem:
            self._questions.drop(Question.ELECT)

    def _confirmed(self, answer: Command, asked_ms: int, now_ms: int) -> None:
        """The answer to a lease question."""
        if self.ours is False:
            info = calls.replica_info(answer)
        else:
            info = calls.confirmed(answer)
            self.ours = True
        self._believe(info, now_ms)
        if self._names_us(info):
            self._out += self.assignment.know_set(info.in_sync)  # first: the lease confirms for whoever joined, too
            self._out.append(wanted.LeaseConfirmed(info.master_epoch, asked_ms))
            self._questions.at(Question.CONFIRM, max(now_ms + 1, asked_ms + self._timing.lease // 3))
        else:
            self._questions.at(Question.CONFIRM, self._later(self._timing.retry, now_ms))

    def _refused(self, question: Question, code: int, remark: str, now_ms: int) -> None:
        questions, timing = self._questions, self._timing
        joining = question in _JOINING.values()
        if question is Question.APPLY and code == Code.CONTROLLER_BROKER_ID_INVALID:
            self._out.append(wanted.GiveUp())
        elif joining:
            words = f"asked {question.value}, a controller refused with {code}: {remark}"
            if question is Question.REGISTER and code in _UNKNOWN:
                words += f". They gave id {self.number} to nobody, or took it back: see docs/controller.rst"
            self._trouble(words)
            questions.at(question, self._later(timing.register, now_ms))
        elif question is Question.CONFIRM and code == Code.REQUEST_CODE_NOT_SUPPORTED:
            self.ours = False
            questions.at(Question.CONFIRM, now_ms)
        elif question is Question.ALTER:
            change, self._change = self._change, None
            if change is not None:
                self._out.append(wanted.SetRefused(change.number, code, self.ours is True))
            if code == Code.CONTROLLER_INVALID_REPLICAS:
                questions.hasten(Question.REPLICAS, now_ms)
        elif question is Question.HAND_OVER:
            self._next_candidate(now_ms)
        else:
            slow = question in (Question.ELECT, Question.REPLICAS)
            questions.at(question, self._later(timing.elect if slow else timing.retry, now_ms))
        if code in _OVERTAKEN and question is not Question.INFO:
            questions.hasten(Question.INFO, now_ms)
        if code in _UNKNOWN and not joining:
            self.registered = False
            questions.at(Question.REGISTER, self._later(timing.retry, now_ms))

    def _no_answer(self, question: Question, now_ms: int) -> None:
        if question is not Question.ALTER:
            self._questions.by(question, self._later(self._timing.retry, now_ms))
        elif self._change is not None:
            self._out.append(wanted.SetUnanswered(self._change.number))
            self._change = None

    # -- joining ------------------------------------------------------------------------------------------------------

    def _next_step(self, at_ms: int) -> None:
        self.assignment.number = self.number
        self._questions.at(_JOINING[self.identity.step], at_ms)

    # -- the role -----------------------------------------------------------------------------------------------------

    def _settled(self, now_ms: int) -> None:
        """It is what it was ordered to be."""
        self._trouble("")
        self._out.append(wanted.Beat())  # which says the newest epoch
        if self.assignment.leads:
            self._resign_ms = self._timing.resign
            self._questions.at(Question.CONFIRM, now_ms)
            self._questions.at(Question.REPLICAS, now_ms)

    def _fence(self, why: str) -> None:
        self._out += self.assignment.fence(why)
        self._change = None
        for question in _MASTERS:
            self._questions.drop(question)
        self._retire_until = None
        self._suspended, self._suspended_until = False, None
        self._answer(self._notices)
        self._answer(self._new_notices)

    def _resign(self, why: str, now_ms: int) -> None:
        self._trouble(why)
        self._fence(why)
        self._out.append(wanted.HangUp())
        self._questions.clear()
        self.assignment.told = None
        self.registered = False
        self._resign_until = now_ms + self._resign_ms
        self._resign_ms = min(2 * self._resign_ms, self._timing.resign_max)

    # -- leaving ------------------------------------------------------------------------------------------------------

    def _hand_over(self, now_ms: int) -> None:
        self.departure.stage = Leaving.HANDING_OVER
        self._questions.at(Question.HAND_OVER, now_ms)

    def _next_candidate(self, now_ms: int) -> None:
        """The one that was to be elected is not."""
        if self.departure.next_candidate():
            self._questions.at(Question.HAND_OVER, now_ms)
        else:
            self._leave(now_ms)

    def _handed_over(self, info: MasterInfo, now_ms: int) -> None:
        if info.master_id == self.number:
            self._next_candidate(now_ms)
        else:
            self._take(info)

    def _leave(self, now_ms: int) -> None:
        if self.departure.stays:
            why, self.departure.stays, self.departure.stage = self.departure.stays, "", Leaving.NO
            if self.assignment.leads:
                self._resign(why, now_ms)
            return
        if self.assignment.leads:
            self._fence("the broker stops")
        self.departure.stage = Leaving.LEFT
        self._questions.clear()
        self._out += [wanted.HangUp(), wanted.Left()]

    # -- within -------------------------------------------------------------------------------------------------------

    def _effects(self, now_ms: int) -> list[Effect]:
        """What is to be done now: the last thing that every event does."""
        assignment = self.assignment
        if self._heeds and self._retire_until is None:
            self._steer(now_ms)
        if self._heeds:
            self._out += self._questions.ask(self._call, now_ms, self.registered)
        if self.departure.stage is Leaving.HANDING_OVER and assignment.ordered.role is Role.SLAVE:
            self.departure.stage = Leaving.FOLLOWING
        out, self._out = self._out, []
        return out

    def _steer(self, now_ms: int) -> None:
        told = self.assignment.told
        if told is not None and told.master_id == self.number and told.master_epoch <= self.assignment.unfit_epoch:
            self._resign(f"this broker is still to lead epoch {told.master_epoch}, which it cannot", now_ms)
            return
        before = self.assignment.ordered
        self._out += self.assignment.steer()
        if self.assignment.ordered != before:
            self._change, self._suspended, self._suspended_until, self._fresh_until = None, False, None, 0
            for question in _MASTERS:
                self._questions.drop(question)

    def _timeout_ms(self, question: Question) -> int:
        request = self._timing.request
        return min(request, self._timing.lease // 3) if question is Question.CONFIRM else request

    def _later(self, pause_ms: int, now_ms: int) -> int:
        """After a pause that is not the same for all brokers."""
        return now_ms + pause_ms + self._chance.randrange(pause_ms)

    def _trouble(self, text: str) -> None:
        if text != self.problem:
            self.problem = text
            self._out.append(wanted.Trouble(text))

    def _call(self, question: Question) -> Call | None:
        """What to ask; None: there is no point any more."""
        place, assignment, wall_ms = self.place, self.assignment, self._wall_ms()
        if not self.registered:
            return joining_call(question, place, self.identity, wall_ms)
        if question is Question.INFO:
            self._notices += self._new_notices
            self._new_notices.clear()
            return calls.get_replica_info(place.cluster, place.broker_name)
        if question is Question.ELECT and assignment.told is None and not self._learner:
            return calls.elect_master(place.cluster, place.broker_name, self.number, wall_ms)
        if question is Question.HAND_OVER and self.departure.stage is Leaving.HANDING_OVER:
            return calls.elect_master(
                place.cluster,
                place.broker_name,
                self.departure.candidate,
                wall_ms,
                designate=True,
                retiring=self.number,
                reason=self.departure.stays,
            )
        if not assignment.leads:
            return None
        ours = self.ours is not False
        return master_call(question, place, self.number, assignment.ordered.epoch, self._change, ours, wall_ms)
