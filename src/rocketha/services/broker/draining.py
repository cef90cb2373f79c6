"""A broker that has handed its role over stays for clients that do not know yet: it passes their requests on.

Decides how long, and to whom.  Why: a Java client learns routes every 30 s, and does not ask for one because a
connection was closed, so it goes on sending to an address that refuses until then.

Theory of operation.  It is over when no request to pass on has come for a while (those clients have moved, or are
gone), after the longest time allowed, or when somebody is in a hurry.  The store is closed before it begins, so a
process that is killed meanwhile has nothing to recover.

The master may change again meanwhile, and this broker has no role any more in which it would hear of that.  So it asks
the controllers now and then who is master (1004), one question at a time, as long as it drains, and no longer; at once
when the master that it knows refuses what was passed on, because there is a newer one.  If it is this broker itself, it
is over: it has no store to lead with, and while its port answers it passes for a live master, so that nobody else is
elected.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.broker.clients import Clients
from rocketha.broker.master_watch import MasterWatch
from rocketha.broker.state import BrokerIdentity
from rocketha.errors import RockethaError
from rocketha.observe import events
from rocketha.observe.logging import emit, make_logger
from rocketha.services.broker.controller_client import ControllerClient, Reply
from rocketha.services.broker.forwarding import Forwarding
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.process.platform import Platform
from rocketha.wire import controller_calls as calls

INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
"""A producer group that every Java client registers, consumers too."""
ANSWERS_S = 0.1
"""Between two looks at whether the master has answered the last sends; and for those on their way at the end."""
ASK_S = 0.5
"""Between an answer of the controllers and the next question, and how long one may take."""
DOUBT_ASK_S, DOUBT_S = 0.1, 2.0
"""The same between them while the master that is known says that there is a newer one, and for how long after that."""


class Draining:
    """Of one broker."""

    def __init__(
        self,
        platform: Platform,
        keys: ReplicationConfig,
        watch: MasterWatch,
        forwarding: Forwarding,
        clients: Clients,
        identity: BrokerIdentity,
    ) -> None:
        self._clock, self._chance = platform.reactor, platform.chance
        self._dialer = platform.dialer
        self._keys = keys
        self._watch = watch
        self._forwarding = forwarding
        self._clients = clients
        self._quiet_s = keys.handover_linger_quiet / 1000
        self._hurried = self._leaving = False
        self._began_s = self._until_s = 0.0
        self._timer: Any = None
        self._identity = identity
        self._controllers: ControllerClient | None = None
        self._next_question: Any = None
        self._heard_s = self._doubt_until_s = 0.0
        self._over: defer.Deferred[None] | None = None
        self._log = make_logger()

    def wanted(self, led: bool) -> bool:
        """Whether there is a master to pass requests on to, and anybody who would send them.

        :param led: this broker was the master when it was told to stop; producers then are its clients.
        """
        keys = self._keys
        if self._hurried or not (keys.forward_sends and keys.handover_linger):
            return False
        if self._watch.address is None:
            return False
        producers = self._clients.producers.keys() - {INNER_PRODUCER}
        return (led and bool(producers)) or self._quiet_until_s > self._clock.seconds()

    @property
    def _quiet_until_s(self) -> float:
        return self._forwarding.came_s + self._quiet_s

    def begin(self) -> defer.Deferred[None]:
        """Fires when it is over."""
        over = self._over = defer.Deferred()
        self._began_s = self._clock.seconds()
        self._until_s = self._began_s + self._keys.handover_linger / 1000
        emit(self._log, events.DrainBegan(self._watch.address or "the next master"))
        poll_s = self._keys.sync_controller_metadata_period / 1000
        self._controllers = ControllerClient(self._dialer, self._keys.controllers, self._chance, poll_s, lambda: None)
        self._controllers.start()
        self._forwarding.when_doubted(self._doubted)
        self._ask()
        self._look()
        return over

    # --- who is master

    def _ask(self) -> None:
        self._next_question = None
        if self._controllers is not None:
            identity = self._identity
            asking = self._controllers.ask(calls.get_replica_info(identity.cluster_name, identity.broker_name), ASK_S)
            asking.addCallback(self._heard).addErrback(self._not_heard).addCallback(lambda _: self._ask_again())

    def _heard(self, reply: Reply) -> None:
        info = calls.replica_info(reply.command)
        if self._over is None or not info.master_id or info.master_epoch <= self._watch.epoch:
            return
        if info.master_address == self._identity.address:
            self._elected(info.master_epoch)
        else:
            emit(self._log, events.DrainMoved(info.master_address))
            self._doubt_until_s = 0.0
            self._watch.other(info.master_address, info.master_epoch, info.master_id)

    def _elected(self, epoch: int) -> None:
        self._log.warn("elected master of epoch {epoch} while it stops: ends at once", epoch=epoch)
        self._until_s = self._clock.seconds()
        self._watch.unknown()
        self._look_now()

    def _not_heard(self, failure: Failure) -> None:
        """The next question may be answered."""
        if not failure.check(RockethaError, error.ConnectError, error.ConnectionClosed):
            self._log.error("asking who is master: {trace}", trace=failure.getTraceback())

    def _ask_again(self) -> None:
        if self._over is not None:
            self._heard_s = self._clock.seconds()
            pause_s = DOUBT_ASK_S if self._doubt_until_s > self._heard_s else ASK_S
            self._next_question = self._clock.callLater(pause_s, self._ask)

    def _doubted(self) -> None:
        now_s = self._clock.seconds()
        self._doubt_until_s = now_s + DOUBT_S
        if self._next_question is not None and self._next_question.active():
            self._next_question.reset(max(0.0, self._heard_s + DOUBT_ASK_S - now_s))

    # --- how long

    def _look(self) -> None:
        self._timer = None
        now_s = self._clock.seconds()
        due_s = max(self._quiet_until_s, self._began_s + self._quiet_s)
        if due_s <= now_s and self._forwarding.awaited:
            due_s = now_s + ANSWERS_S
        due_s = min(due_s, self._until_s)
        if due_s <= now_s or self._hurried:
            self._leave()
        else:
            self._timer = self._clock.callLater(due_s - now_s, self._look)

    def _leave(self) -> None:
        """Whoever sends now had better ask another group at once; what is on its way has a moment to be answered."""
        again, self._leaving = self._leaving, True
        self._forwarding.take_no_more()
        if self._forwarding.awaited and not again:
            self._timer = self._clock.callLater(ANSWERS_S, self._end)
        else:
            self._end()

    def _end(self) -> None:
        self._timer = None
        over, self._over = self._over, None
        controllers, self._controllers = self._controllers, None
        if controllers is not None:
            controllers.close()
        if self._next_question is not None and self._next_question.active():
            self._next_question.cancel()
        self._next_question = None
        emit(self._log, events.DrainEnded(self._clock.seconds() - self._began_s))
        if over is not None:
            over.callback(None)

    def hurry(self) -> None:
        """Somebody wants the process to end: now, or as soon as it would begin."""
        self._hurried = True
        self._look_now()

    def _look_now(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
            self._look()
