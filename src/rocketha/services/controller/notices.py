"""Telling brokers of an election (1008): the old master first, everybody in any case, until they know.

Decides nothing about elections; must not know how a notice came to be.

Theory of operation.  Java's controllers send the notice oneway, to those they think alive.  Ours is the same request
with an answer, so that it is known who heard of it; a Java broker answers when its role is changed.

1. The old master's notice is written first.  Where it was thought alive (an operator moved the mastership) the others
   are told when it has answered, or a moment later: so for the shortest time two brokers take messages.
2. A frozen broker's kernel takes the connection and the bytes.  They lie in its socket when it thaws, on a connection
   it accepted long ago where there is a link (regression A21), and nothing more is sent to it meanwhile.
3. A connection that ends or cannot be made is made again until the broker answers, is heard with the new epoch, or
   asks by itself (1004); an old master for ten minutes, the others, which poll anyway, for half a minute.
4. A refused connection is the end: that process is gone, and the next one registers.
5. A newer epoch of a set makes older notices to the same address void.
6. What a notice says of the set is what holds when it is written, not at the election: the process that reads it may be
   younger than the set it would be told, takes the mastership of that epoch from it, and would acknowledge alone what
   the others of the set do not have.  A link that was open at the election leads to a process that may learn the set of
   the election; before anything is said on another connection a majority confirms that this controller knows the last
   set (``barrier``).
7. It goes only to the host that its broker's connection comes from (:mod:`rocketha.namesrv.own_port`): anybody can
   register any address.
8. It names no group, and a Java broker obeys any, also one that has just begun where another was before, which no
   connection tells that ended without a word when a machine lost its power.  So the process at the other end is asked
   first who it is (1007), once for each link and each new connection; and nothing is written to a new connection unless
   its broker is heard from there, or the connection of its heartbeats is still open.

Java: ``ControllerManager.notifyBrokerRoleChanged``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs
from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.controller.group import GroupKey
from rocketha.controller.notices import RoleChanged
from rocketha.namesrv.own_port import OwnPort
from rocketha.observe.logging import make_logger
from rocketha.protocols.peer_connections import PeerConnections
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.services.controller.probes import group_of
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Command

CONNECT_TIMEOUT_S = 3.0
RETRY_S = 1.0
PERSISTENCE_OLD_S = 600.0
PERSISTENCE_S = 30.0
HEAD_START_S = 0.3
DELIVERIES_MAX = 10_000
_VOID = "that election is not the last one any more, or it lives elsewhere"


class Decisions(Protocol):
    """Whose elections are told."""

    def current(self, notice: RoleChanged) -> RoleChanged | None:
        """The notice with what holds now; None where its election is not the last one any more, or its receiver has
        another address.
        """

    def port(self, notice: RoleChanged) -> OwnPort | None:
        """Where its receiver may be told; None while it has not come from its address."""

    def lives_there(self, notice: RoleChanged, by_link: bool) -> bool:
        """Whether a broker of its group is behind a connection to its address, as far as is known."""

    def barrier(self) -> defer.Deferred[None]:
        """Fires when what holds here held for everybody at some time after this call; fails if that cannot be known."""

    def told(self, notice: RoleChanged) -> None:
        """Its broker has it, or may have it."""

    def untold(self, notice: RoleChanged) -> None:
        """Its broker surely has it not and will not: its port refused."""


@attrs.define(eq=False)
class _Delivery:
    """One notice on its way."""

    notice: RoleChanged
    until_s: float
    settled: defer.Deferred[None]
    prompt: bool  # the election was just now, and nothing was tried yet
    pooled: bool = False  # whether ``connection`` is a link
    connection: RemotingProtocol | None = None
    retry: Any = None
    over: bool = False
    written: bool = False


class Notices:
    """Carries out the notices of one controller.

    :param links: whose pooled connections are used where there are any.
    :param behind: of an address: the group that the process behind its link says it is of; None: it has not said.
    """

    def __init__(
        self,
        reactor: Any,
        links: PeerConnections,
        behind: Callable[[str], tuple[str, str] | None],
        decisions: Decisions,
    ) -> None:
        self._reactor = reactor
        self._links = links
        self._behind = behind
        self._decisions = decisions
        self._log = make_logger()
        self._deliveries: dict[tuple[GroupKey, str], _Delivery] = {}
        self._waiting: set[Any] = set()
        self.sent = self.failed = 0

    @property
    def pending(self) -> int:
        """Brokers that were not told yet."""
        return len(self._deliveries)

    def send(self, notices: Sequence[RoleChanged], old_is_alive: bool, prompt: bool = True) -> None:
        """Deliver the notices of one election, in their order.

        :param old_is_alive: whether to wait a moment for the first one's answer.
        :param prompt: whether the election was just now.
        """
        if not notices:
            return
        first, rest = notices[0], notices[1:]
        deposed = first.receiver_id != first.master_id
        settled = self._begin(first, PERSISTENCE_OLD_S if deposed else PERSISTENCE_S, prompt)
        if not (deposed and old_is_alive and rest):
            self._begin_all(rest, prompt)
            return
        done = defer.Deferred[None]()
        timer = self._reactor.callLater(HEAD_START_S, done.callback, None)
        self._waiting.add(timer)

        def answered(_result: Any) -> None:
            if timer.active():
                timer.cancel()
                done.callback(None)

        settled.addBoth(answered)
        done.addCallback(lambda _: self._waiting.discard(timer))
        done.addCallback(lambda _: self._begin_all(rest, prompt=False))  # the election is not just now any more

    def heard(self, group: GroupKey, address: str, epoch: int) -> None:
        """A broker's heartbeat came from this address with the newest epoch of its log."""
        delivery = self._deliveries.get((group, address))
        if delivery is not None and epoch >= delivery.notice.master_epoch:
            self._finish(delivery, "it is heard with the new epoch")

    def asked(self, group: GroupKey, address: str) -> None:
        """A broker asked for the state of its set by itself and was answered."""
        delivery = self._deliveries.get((group, address))
        if delivery is not None:
            self._finish(delivery, "it asked by itself")

    def cancel(self) -> None:
        """Tell nobody any more: another controller leads, or this one stops."""
        for timer in self._waiting:
            if timer.active():
                timer.cancel()
        self._waiting.clear()
        for delivery in list(self._deliveries.values()):
            self._end(delivery)

    # -- one delivery ---------------------------------------------------------------------------------------------

    def _begin_all(self, notices: Sequence[RoleChanged], prompt: bool) -> None:
        for notice in notices:
            self._begin(notice, PERSISTENCE_S, prompt)

    def _begin(self, notice: RoleChanged, persistence_s: float, prompt: bool) -> defer.Deferred[None]:
        settled: defer.Deferred[None] = defer.Deferred()
        address = notice.receiver_address
        before = self._deliveries.get((notice.group, address))
        if before is not None:
            if before.notice.master_epoch >= notice.master_epoch:
                settled.callback(None)
                return settled
            self._end(before)
        if len(self._deliveries) >= DELIVERIES_MAX:
            self._log.warn(
                "{count} brokers wait for notices: {address} must poll", count=DELIVERIES_MAX, address=address
            )
            settled.callback(None)
            return settled
        delivery = _Delivery(notice, self._reactor.seconds() + persistence_s, settled, prompt)
        self._deliveries[notice.group, address] = delivery
        self._attempt(delivery)
        return settled

    def _attempt(self, delivery: _Delivery) -> None:
        if delivery.over:
            return
        delivery.retry = None
        if self._is_late(delivery):
            return
        port = self._decisions.port(delivery.notice)
        if port is None:
            self._not_there(delivery)
            return
        link = self._links.open(port.address)
        delivery.pooled = link is not None
        if link is None:
            dialled = self._links.dial(port.address, CONNECT_TIMEOUT_S)
            dialled.addCallbacks(
                lambda connection: self._connected(connection, delivery),
                lambda failure: self._not_connected(failure, delivery, port),
            )
        elif delivery.prompt and self._behind(port.address) == delivery.notice.group:
            delivery.connection = link
            self._write(delivery)
        else:
            self._connected(link, delivery, self._behind(port.address))

    def _not_there(self, delivery: _Delivery) -> None:
        """It is not told where it did not come from: any address can be registered."""
        if self._decisions.current(delivery.notice) is None:
            self._finish(delivery, _VOID)
        elif self._decisions.lives_there(delivery.notice, False):
            self._finish(delivery, "it comes from another host than its address names, and asks by itself")
        else:
            self._again(delivery, "it has not come from that address")

    def _connected(
        self, connection: RemotingProtocol, delivery: _Delivery, known: tuple[str, str] | None = None
    ) -> None:
        """To a process that may be younger than the election.

        :param known: what it has said that it is of.
        """
        if delivery.over:
            if not delivery.pooled:
                connection.abort()
            return
        delivery.connection = connection
        if self._is_late(delivery):
            return
        if known is not None:
            self._met(known, delivery)
            return
        left_s = delivery.until_s - self._reactor.seconds()
        connection.request(RequestCode.GET_BROKER_EPOCH_CACHE, timeout_s=left_s).addCallbacks(
            lambda answer: self._met(group_of(answer), delivery), lambda failure: self._broken(failure, delivery)
        )

    def _met(self, group: tuple[str, str] | None, delivery: _Delivery) -> None:
        """Whoever lives there says of which group it is."""
        if delivery.over:
            return
        if group != delivery.notice.group:
            self._again(delivery, f"a process of {'/'.join(group) if group else 'it does not say what'} lives there")
            return
        self._decisions.barrier().addCallbacks(
            lambda _: self._write(delivery), lambda failure: self._broken(failure, delivery)
        )

    def _write(self, delivery: _Delivery) -> None:
        if delivery.over or delivery.connection is None:
            return
        notice = self._decisions.current(delivery.notice)
        if notice is None:
            self._finish(delivery, _VOID)
            return
        if self._is_late(delivery):
            return
        if not self._decisions.lives_there(notice, delivery.pooled):
            self._again(delivery, "nobody is heard to live there")
            return
        command, connection, left_s = notice.command(), delivery.connection, delivery.until_s - self._reactor.seconds()
        delivery.written = True
        self.sent += 1
        self._decisions.told(notice)
        answer = connection.request(command.code, command.fields, command.body, timeout_s=left_s)
        answer.addCallbacks(
            lambda found: self._answered(found, delivery), lambda failure: self._broken(failure, delivery)
        )

    def _answered(self, answer: Command, delivery: _Delivery) -> None:
        if delivery.over:
            return
        if answer.code == 0:
            self._finish(delivery, "it answered")
        else:
            self._again(delivery, f"it answered {answer.code} {answer.remark or ''}".rstrip())

    def _not_connected(self, failure: Failure, delivery: _Delivery, port: OwnPort) -> None:
        if delivery.over:
            return
        if failure.check(error.ConnectionRefusedError) and port.proves_death:
            if not delivery.written:
                self._decisions.untold(delivery.notice)
            # Usual at its first start: it opens its port after it has registered.
            self._finish(delivery, "its port refuses, it will register")
        else:
            self._again(delivery, failure.getErrorMessage())

    def _broken(self, failure: Failure, delivery: _Delivery) -> None:
        if not delivery.over:
            self._again(delivery, failure.getErrorMessage())

    def _again(self, delivery: _Delivery, why: str) -> None:
        notice = delivery.notice
        self._log.info(
            "broker {id} at {address} was not told of epoch {epoch} yet: {why}",
            id=notice.receiver_id,
            address=notice.receiver_address,
            epoch=notice.master_epoch,
            why=why,
        )
        self._hang_up(delivery)
        delivery.prompt = False
        delivery.retry = self._reactor.callLater(RETRY_S, self._attempt, delivery)

    def _finish(self, delivery: _Delivery, how: str) -> None:
        notice = delivery.notice
        self._log.info(
            "broker {id} at {address} need not be told that {master} is the master of {group} in epoch {epoch}: {how}",
            id=notice.receiver_id,
            address=notice.receiver_address,
            master=notice.master_id,
            group=f"{notice.group.cluster}/{notice.group.broker_name}",
            epoch=notice.master_epoch,
            how=how,
        )
        self._end(delivery)

    def _is_late(self, delivery: _Delivery) -> bool:
        """Whether its time is up: then it is given up."""
        if self._reactor.seconds() < delivery.until_s:
            return False
        notice = delivery.notice
        self.failed += 1
        self._log.warn(
            "broker {id} at {address} was not told of epoch {epoch}: the time is up",
            id=notice.receiver_id,
            address=notice.receiver_address,
            epoch=notice.master_epoch,
        )
        self._end(delivery)
        return True

    def _end(self, delivery: _Delivery) -> None:
        delivery.over = True
        key = (delivery.notice.group, delivery.notice.receiver_address)
        if self._deliveries.get(key) is delivery:
            del self._deliveries[key]
        if delivery.retry is not None and delivery.retry.active():
            delivery.retry.cancel()
        self._hang_up(delivery)
        if not delivery.settled.called:
            delivery.settled.callback(None)

    def _hang_up(self, delivery: _Delivery) -> None:
        """End its own connection, after what is written has gone out; a link stays."""
        connection, delivery.connection = delivery.connection, None
        if connection is not None and not delivery.pooled and not connection.closed:
            connection.close()
