"""A broker that is not master passes requests of clients with a stale route on to the master, and its answers back.

Theory of operation.  What :func:`rocketha.broker.forward_rules.course` says is done: a request is passed on at once, or
kept until the master is known, or refused.  Kept are also all that come after a kept one, so that the requests of a
connection reach the master in the order in which they came; everything to one master goes over one connection.  What
another broker passed on to us, which it takes for the master, stands in a line of its own: others do not wait for that.
When this broker becomes master what is kept is served here, before anything newer.  A master that may not serve for a
moment (its lease is not confirmed, and whether it is will be known soon) keeps requests the same way.  What was
passed on to a broker that was master no more when it came is refused there and begins again here: it may have been
overtaken.  If that broker knows of a newer master and we do not, it waits here until we do.

While there is no connection to the master requests are kept, too: nothing was written of them, so they go to whoever
is master by then.  What was handed to a connection may have been written and is never handed to another.  A send that
got no answer there may have been stored: its answer says so (SYSTEM_ERROR: a Java producer sends it again, and must
reckon with two).  So that it is not stored long after that, a connection over which nothing comes is given up.  A
refusal is what this broker would have answered without all this: nothing was stored.

Bounded in requests, bytes and time, and none of it by who came first (:class:`FairBudget`).  Pulls have a budget of
their own, since each may take a minute; those of a client that is gone are given up.  The one connection to the master
is everybody's, so nothing is written to it that would make either end close it: a header that the two fields more make
too long is refused here, and what a master that does not read would have to find in our buffer is kept.

The master sees this broker as the client: a message's born host is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import attrs
from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.broker import forward_rules
from rocketha.broker.fair_budget import FairBudget, held_bytes
from rocketha.broker.forward_rules import EPOCH_MARK, MARK, NEWER_MARK, REFUSALS, Course, epoch_in
from rocketha.broker.master_watch import Mastership, MasterWatch
from rocketha.broker.routes import PULLS, REPEATABLE
from rocketha.broker.send import MAYBE_STORED
from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.observe.logging import make_logger
from rocketha.observe.metrics import Registry
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting import OPAQUE_MAX, RemotingProtocol
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.waiting.deadline_line import DeadlineLine
from rocketha.wire.codes import ResponseCode
from rocketha.wire.framing import FRAME_LIMIT
from rocketha.wire.remoting import HEADER_LIMIT, Answer, Command, encode

IN_DOUBT = Answer(ResponseCode.SYSTEM_ERROR, f"passed on to the master, which did not answer: {MAYBE_STORED}")
RETRY_S = 0.1
"""Between two attempts to connect to a master that is known and cannot be reached."""
CONNECT_S = forward_rules.HOLD_MS / 1000
"""Of one attempt: but for pulls, nothing that is kept waits for longer."""
UNSENT_MAX = 32 * 1024 * 1024
"""Bytes that may wait for a master to read them; with one frame more, less than what ends a connection."""
SILENCE_S = 5.0
"""A connection over which answers are due and none comes for so long is given up: TCP goes on for a quarter of an hour,
and what it delivers then was sent again long ago.  A master of controllers that stands still for so long is none."""
_WORDS_BYTES = 8
"""Before a header: the frame's length, the header's."""


@attrs.define(eq=False)
class _Request:
    """A client's request on its way.

    :ivar refusal: its answer if it cannot be passed on.
    :ivar hold_until_s: when a master must be known.
    :ivar answer_until_s: when it must be answered.
    :ivar under: what was known of the master when it was last passed on.
    :ivar from_epoch: whoever refused it knew of a master of this epoch.
    """

    connection: Any
    command: Command
    refusal: Answer
    bytes: int
    hold_until_s: float
    answer_until_s: float
    under: Mastership | None = None
    from_epoch: int = 0


@attrs.define(eq=False)
class _Link:
    """An open connection to a master.

    :ivar due: answers that should come soon, to all but pulls.
    :ivar silent_since_s: since when answers are due, or were, and none has come; None: the last one came.
    """

    address: str
    connection: RemotingProtocol
    due: int = 0
    silent_since_s: float | None = None

    def asked(self, now_s: float) -> None:
        """An answer is due soon."""
        self.due += 1
        if self.silent_since_s is None:
            self.silent_since_s = now_s

    def answered(self, pull: bool, now_s: float) -> None:
        """An answer came."""
        self.due -= not pull
        self.silent_since_s = now_s if self.due else None

    def missed(self, pull: bool, now_s: float) -> None:
        """An answer did not come in time."""
        self.due -= not pull
        if self.silent_since_s is None:
            self.silent_since_s = now_s
        elif now_s - self.silent_since_s >= SILENCE_S and not self.connection.closed:
            self.connection.abort()


class Forwarding(BrokerFeature):
    """What one broker keeps for its master and has on the way to it.

    :param own_address: this broker's, as others may know it as their master.
    :param serve: answers a request here, as master; None: later, but not after the moment given.
    :param as_turn: does work as one turn of this broker's ports (:mod:`rocketha.protocols.turn`).
    :param serves: whether this broker, if it is the master, may serve now.
    :param enabled: forwardSends.

    :ivar forwarded: requests passed on.
    :ivar served: requests kept and then served here.
    :ivar refused: requests refused after they were taken.
    :ivar doubtful: sends passed on and not answered.
    :ivar came_s: when the last request was taken.
    :ivar budgets: of requests taken and not answered yet, by whether they are pulls.
    """

    def __init__(
        self,
        dialer: Dialer,
        watch: MasterWatch,
        own_address: str,
        serve: Callable[[Any, Command, float], Answer | None],
        as_turn: Callable[[Callable[[], None]], None],
        enabled: bool = True,
        serves: Callable[[], bool] = lambda: True,
    ) -> None:
        self._clock = dialer.reactor
        self._watch = watch
        self._own_address = own_address
        self._serve = serve
        self._as_turn = as_turn
        self._serves = serves
        self._client = RemotingClient(dialer)
        self._enabled = enabled
        # By whether they are pulls, and whether another broker passed them on to us.
        # But for pulls the order of their deadlines is that in which they came.
        self._kept: dict[tuple[bool, bool], DeadlineLine[_Request]] = {
            (pulls, passed_on): DeadlineLine(lambda request: request.hold_until_s)
            for pulls in (False, True)
            for passed_on in (False, True)
        }
        self.budgets = {
            False: FairBudget(forward_rules.REQUESTS_MAX, forward_rules.BYTES_MAX),
            True: FairBudget(forward_rules.PULLS_MAX, forward_rules.PULL_BYTES_MAX),
        }
        self._pulling: dict[int, dict[_Request, defer.Deferred[Command]]] = {}  # passed on, by the client's connection
        self._timer: Any = None
        self._retry: Any = None
        self._link: _Link | None = None  # to the last master that could be reached
        self._connecting: str | None = None
        self._complained: str | None = None  # of this master
        self._log = make_logger()
        self._when_doubted: list[Callable[[], None]] = []
        self.came_s = -inf
        self.forwarded = self.served = self.refused = self.doubtful = 0
        watch.watch(self.go_on)

    def when_doubted(self, call: Callable[[], None]) -> None:
        """Have it called when the master refuses what was passed on to it, because there is a newer one."""
        self._when_doubted.append(call)

    def install(self, metrics: Registry) -> None:
        for what, text, value in (
            ("forwarded", "Requests passed on to the master.", lambda: self.forwarded),
            ("served", "Requests kept until this broker was master.", lambda: self.served),
            ("refused", "Requests kept or passed on in vain.", lambda: self.refused),
            ("doubtful", "Sends passed on and not answered.", lambda: self.doubtful),
        ):
            metrics.ask(f"rocketha_stray_requests_{what}_total", text, value, "counter")
        metrics.ask("rocketha_stray_requests_kept", "Requests that wait for a master.", lambda: self.kept)

    @property
    def kept(self) -> int:
        """Requests that wait for a master, or for a connection to it."""
        return sum(map(len, self._kept.values()))

    @property
    def awaited(self) -> int:
        """Requests taken and not answered yet; without pulls, which may wait for a message."""
        return self.budgets[False].count

    @property
    def waiting(self) -> bool:
        """Whether sends are kept: whoever serves a send that comes now serves these first (:meth:`go_on`)."""
        return bool(self._kept[False, False] or self._kept[False, True])

    def take(self, connection: Any, command: Command, refusal: Answer) -> Answer | None:
        """A request came that only a master serves, and this broker is none, or may not serve now.

        :param refusal: what is answered where it is not passed on.
        :return: the refusal; None: it is taken, and answered later.
        """
        course = forward_rules.course(command, self._watch.address, self._watch.epoch)
        if not self._enabled or course is Course.REFUSE:
            return forward_rules.told(command, refusal, self._watch.epoch)
        size = held_bytes(command)
        if not self.budgets[command.code in PULLS].take(connection.id, size):
            return refusal
        now_s, patience = self._clock.seconds(), forward_rules.patience(command)
        request = _Request(
            connection, command, refusal, size, now_s + patience.hold_ms / 1000, now_s + patience.answer_ms / 1000
        )
        self.came_s = now_s
        link = None if course is Course.HOLD or self._line(request) else self._master()
        if link is None or not self._pass_on(link, request):
            self._keep(request)
        return None

    # --- the connection

    def _master(self) -> _Link | None:
        """To the master that is known; None: there is no connection yet, and it is being made."""
        address = self._watch.address
        if address is None:
            return None
        if not self._linked(address) and self._connecting != address:
            self._connecting = address
            attempt = self._client.connect(address, CONNECT_S)
            attempt.addCallbacks(self._connected, self._not_connected, (address,), errbackArgs=(address,))
        return self._link if self._linked(address) else None

    def _linked(self, address: str) -> bool:
        return self._link is not None and self._link.address == address and not self._link.connection.closed

    def _connected(self, connection: RemotingProtocol, address: str) -> None:
        if address != self._connecting:
            return  # another one is master by now
        self._connecting = self._complained = None
        self._link = _Link(address, connection)
        self.go_on()

    def _not_connected(self, failure: Failure, address: str) -> None:
        if address != self._connecting:
            return
        self._connecting = None
        self._complain(failure, address)
        self._try_again()  # whether or not anything is kept: if this comes within the call, what is kept comes next

    def _complain(self, failure: Failure, address: str) -> None:
        if self._complained != address:  # once, not with every attempt
            self._complained = address
            why = failure.getErrorMessage()
            self._log.warn("requests cannot be passed on to master {master}: {why}", master=address, why=why)

    # --- kept

    def _line(self, request: _Request) -> DeadlineLine[_Request]:
        return self._kept[request.command.code in PULLS, MARK in request.command.fields]

    def _keep(self, request: _Request) -> None:
        self._line(request).add(request)
        self._arm()
        if self._watch.leads:  # of one that retires nobody says when it may serve again
            self._try_again()

    def _try_again(self) -> None:
        if not self._trying_again:
            self._retry = self._clock.callLater(RETRY_S, self.go_on)

    @property
    def _trying_again(self) -> bool:
        return self._retry is not None and self._retry.active()

    def _arm(self) -> None:
        due = min((line.due_s for line in self._kept.values() if line.due_s is not None), default=None)
        if self._timer is not None and self._timer.active():
            if due is not None and self._timer.getTime() <= due:
                return
            self._timer.cancel()
        self._timer = None
        if due is not None:
            self._timer = self._clock.callLater(max(0.0, due - self._clock.seconds()), self._time_over)

    def _time_over(self) -> None:
        freed = self._refuse_overdue()
        self._arm()
        if freed:
            self.go_on()

    def _refuse_overdue(self) -> bool:
        """Whether one of them kept those behind it waiting for a newer master, and the next does not."""
        now_s, epoch, freed = self._clock.seconds(), self._watch.epoch, False
        for line in self._kept.values():
            waited = False
            for request in line.overdue(now_s):
                waited |= request.from_epoch > epoch
                self._refuse(request)
            freed |= waited and line.first is not None and line.first.from_epoch <= epoch
        return freed

    def go_on(self) -> None:
        """Something is known about the master, or may be: do with everything kept what is to be done now."""
        self._refuse_overdue()  # after a freeze of the process its timer may come later than this
        if not self.kept:
            return
        if self._watch.leads:
            if self._serves():
                self._serve_kept()
            else:
                self._try_again()
            return
        link = self._master()
        for line in self._kept.values():
            self._pass_on_line(line, link)
        self._arm()
        if link is not None and link.connection.closed:  # by what was written to it
            self._try_again()

    def _pass_on_line(self, line: DeadlineLine[_Request], link: _Link | None) -> None:
        way = link

        def stays(request: _Request) -> bool:
            nonlocal way
            if way is not None and (way.connection.closed or request.from_epoch > self._watch.epoch):
                way = None  # for those behind it, too
            course = forward_rules.course(request.command, self._watch.address, self._watch.epoch)
            if course is Course.REFUSE:
                self._refuse(request)
                return False
            if course is not Course.HOLD and way is not None:
                if self._pass_on(way, request):
                    return False
                way = None
            return True

        line.sift(stays)

    def _serve_kept(self) -> None:
        requests = [request for line in self._kept.values() for request in line.all()]
        self._as_turn(lambda: self._serve_all(requests))

    def _serve_all(self, requests: Iterable[_Request]) -> None:
        for request in requests:
            self._done(request)
            if request.connection.closed and not request.command.is_oneway:
                continue
            self.served += 1
            try:
                answer = self._serve(request.connection, request.command, request.hold_until_s)
            except RequestRefused as refusal:
                answer = Answer(refusal.code, refusal.remark)
            except Exception as problem:
                self._log.error("a request kept for the master: {trace}", trace=Failure().getTraceback())
                answer = Answer(ResponseCode.SYSTEM_ERROR, f"{type(problem).__name__}: {problem}"[:1000])
            if answer is not None:
                self._answer(request, answer)

    # --- passed on

    def _pass_on(self, link: _Link, request: _Request) -> bool:
        """False: as much as may waits for the master to read it, and this is to be kept."""
        connection, command, now_s = link.connection, request.command, self._clock.seconds()
        left_s = request.answer_until_s - now_s
        fields = {**command.fields, MARK: self._own_address, EPOCH_MARK: str(self._watch.epoch)}
        size = _frame_bytes(command, fields)
        if left_s <= 0 or size is None:
            self._refuse(request)
            return True
        if self._client.unsent(link.address) + size > UNSENT_MAX:
            self._try_again()
            return False
        self.forwarded += 1
        request.under = self._watch.now
        if command.is_oneway:
            connection.notify(command.code, fields, command.body)
            self._done(request)
        else:
            asked = connection.request(command.code, fields, command.body, left_s)
            if command.code in PULLS:
                self._pulling.setdefault(request.connection.id, {})[request] = asked
            else:
                link.asked(now_s)
            asked.addCallbacks(self._answered, self._not_answered, (request, link), errbackArgs=(request, link))
        return True

    def _answered(self, answer: Command, request: _Request, link: _Link) -> None:
        link.answered(request.command.code in PULLS, self._clock.seconds())
        self._back(request)
        if answer.code in REFUSALS and self._enabled and not request.connection.closed:
            request.from_epoch = epoch_in(answer.fields, NEWER_MARK)
            outdated = request.from_epoch > self._watch.epoch
            if outdated or request.under != self._watch.now:  # it went to one who was not the master any more
                self._keep_again(request, outdated)
                return
        self._done(request)
        self._answer(request, Answer(answer.code, answer.remark, answer.fields, answer.body))

    def _keep_again(self, request: _Request, outdated: bool) -> None:
        self._keep(request)
        if outdated:
            for call in self._when_doubted:
                call()
        elif self._watch.leads or (not self._trying_again and self._master() is not None):
            self.go_on()  # else it waits as the others do: to go through them for each that comes back takes seconds

    def _back(self, request: _Request) -> None:
        """It is not on its way any more."""
        pulling = self._pulling.get(request.connection.id)
        if pulling is not None and pulling.pop(request, None) is not None and not pulling:
            del self._pulling[request.connection.id]

    def _not_answered(self, failure: Failure, request: _Request, link: _Link) -> None:
        self._back(request)
        if failure.check(defer.CancelledError):  # its client is gone
            self._done(request)
            return
        if failure.check(error.TimeoutError):
            link.missed(request.command.code in PULLS, self._clock.seconds())
        if failure.check(error.ConnectionClosed, error.TimeoutError, error.ConnectionAborted, RemoteProtocolError):
            self._complain(failure, link.address)
        else:
            self._log.error("passing on to {master}: {trace}", master=link.address, trace=failure.getTraceback())
        if request.command.code in REPEATABLE:
            self._refuse(request)
        else:
            self._done(request)
            self.doubtful += 1
            self._answer(request, IN_DOUBT)

    # --- ends

    def _refuse(self, request: _Request) -> None:
        self._done(request)
        self.refused += 1
        self._answer(request, forward_rules.told(request.command, request.refusal, self._watch.epoch))

    def _done(self, request: _Request) -> None:
        pulls = request.command.code in PULLS
        self.budgets[pulls].give_back(request.connection.id, request.bytes)

    def _answer(self, request: _Request, answer: Answer) -> None:
        if not request.connection.closed:
            request.connection.answer(request.command, answer)

    def disconnected(self, connection: Any) -> None:
        """A client is gone: nobody waits for its answers; what wants none is still passed on."""
        waited = False
        for line in self._kept.values():
            for request in line.sift(lambda each: each.connection is not connection or each.command.is_oneway):
                waited |= request.from_epoch > self._watch.epoch
                self._done(request)
        for asked in list(self._pulling.get(connection.id, {}).values()):
            asked.cancel()
        if waited:  # and those behind it with it
            self.go_on()

    def take_no_more(self) -> None:
        """Refuse what is kept and what comes; what is on its way may still be answered."""
        self._enabled = False
        for line in self._kept.values():
            for request in line.all():
                self._refuse(request)

    def end(self) -> None:
        """Refuse what is kept; what is on its way is in doubt."""
        self.take_no_more()
        self._client.close()
        for timer in (self._timer, self._retry):
            if timer is not None and timer.active():
                timer.cancel()


def _frame_bytes(command: Command, fields: dict[str, str]) -> int | None:
    """The length of the frame that passes a request on; None: the master would close the connection over it."""
    longest = Command(command.code, opaque=OPAQUE_MAX, flag=command.flag, fields=fields)
    try:
        header = len(encode(longest)) - _WORDS_BYTES
    except RemoteProtocolError:
        return None
    frame = 4 + header + len(command.body)
    return frame if header <= HEADER_LIMIT and frame <= FRAME_LIMIT else None
