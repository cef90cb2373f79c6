"""A broker that has handed its role over stays for clients that do not know yet: it passes their requests on.

Decides how long, and nothing else.  Why: a Java client learns routes every 30 s, and does not ask for one because a
connection was closed, so it goes on sending to an address that refuses until then.

Theory of operation.  It is over when no request to pass on has come for a while (those clients have moved, or are
gone), after the longest time allowed, or when somebody is in a hurry.  The store is closed before it begins, so a
process that is killed meanwhile has nothing to recover.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import defer

from rocketha.broker.clients import Clients
from rocketha.broker.master_watch import MasterWatch
from rocketha.observe.logging import make_logger
from rocketha.services.config_replication import ReplicationConfig
from rocketha.services.forwarding import Forwarding

INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
"""A producer group that every Java client registers, consumers too."""
ANSWERS_S = 0.1
"""Between two looks at whether the master has answered the last sends."""


class Lingering:
    """Of one broker.

    :param clock: the reactor.
    """

    def __init__(
        self, clock: Any, keys: ReplicationConfig, watch: MasterWatch, forwarding: Forwarding, clients: Clients
    ) -> None:
        self._clock = clock
        self._keys = keys
        self._watch = watch
        self._forwarding = forwarding
        self._clients = clients
        self._quiet_s = keys.handover_linger_quiet / 1000
        self._hurried = False
        self._began_s = self._until_s = 0.0
        self._timer: Any = None
        self._over: defer.Deferred[None] | None = None
        self._log = make_logger()

    def wanted(self, led: bool) -> bool:
        """Whether there is a master to pass requests on to, and anybody who would send them.

        :param led: this broker was the master when it was told to stop; producers then are its clients.
        """
        keys = self._keys
        if self._hurried or not (keys.enable_controller_mode and keys.forward_sends and keys.handover_linger):
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
        self._log.info("passes requests of clients that come here still on to {master}", master=self._watch.address)
        self._look()
        return over

    def _look(self) -> None:
        self._timer = None
        now_s = self._clock.seconds()
        due_s = max(self._quiet_until_s, self._began_s + self._quiet_s)
        if due_s <= now_s and self._forwarding.awaited:
            due_s = now_s + ANSWERS_S
        due_s = min(due_s, self._until_s)
        if due_s <= now_s or self._hurried:
            self._end(now_s)
        else:
            self._timer = self._clock.callLater(due_s - now_s, self._look)

    def _end(self, now_s: float) -> None:
        over, self._over = self._over, None
        self._log.info("no more after {seconds:.1f} s", seconds=now_s - self._began_s)
        if over is not None:
            over.callback(None)

    def hurry(self) -> None:
        """Somebody wants the process to end: now, or as soon as it would begin."""
        self._hurried = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
            self._look()
