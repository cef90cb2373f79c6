"""Where a master's HA port is: it is asked at its main port (906), until it answers as master.

What that port shows need not be the epoch of this master.  One of Java's that was elected twice with no message between
does not write the second epoch down (``EpochFileCache.appendEntry``), so that whoever heard of it from the master
itself follows it all the same.

Java: ``BrokerOuterAPI.retrieveBrokerHaInfo``, of slaves that stand in for masters; under controllers Java's brokers
wait for a nameserver to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.observe.logging import make_logger
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.peer_connections import PeerConnections
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command

ASK_S = 1.0
UNREACHED = (
    error.ConnectError,
    error.ConnectionClosed,
    error.ConnectionAborted,
    error.TimeoutError,
    error.DNSLookupError,
    error.ConnectingCancelledError,
    defer.CancelledError,
    OSError,
)
"""How a connection or a request fails without anybody's mistake."""

PAUSE_S = (0.05, 1.0)
"""Between questions: the first pause, and the longest."""


class HaAddress:
    """See the module.

    :param found: called with ``host:port``, the epoch that was given to :meth:`find`, and whether a link to there shows
        that epoch.
    """

    def __init__(self, dialer: Dialer, found: Callable[[str, int, bool], None]) -> None:
        self._reactor = dialer.reactor
        self._found = found
        self._connections = PeerConnections(dialer)
        self._address = ""
        self._epoch = 0
        self._search = 0  # answers of an older one count no more
        self._pause_s = PAUSE_S[0]
        self._timer: Any = None
        self._asking = False
        self._told: str | None = None  # why it is not said, once for each reason
        self._log = make_logger()

    def find(self, address: str, epoch: int) -> None:
        """The master's main port is at ``address``."""
        self.stop()
        self._address, self._epoch = address, epoch
        self._ask()

    def again(self) -> None:
        """What was found is no good (any more)."""
        if self._address and not self._asking and self._timer is None:
            self._wait()

    def stop(self) -> None:
        """Nobody is followed."""
        self._search += 1
        self._asking = False
        if self._address:
            self._connections.drop(self._address)
        self._address, self._pause_s = "", PAUSE_S[0]
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def close(self) -> None:
        """For good."""
        self.stop()
        self._connections.close()

    def _ask(self) -> None:
        self._timer = None
        self._asking = True
        search = self._search
        asked: defer.Deferred[Any] = self._connections.connect(self._address, ASK_S)
        asked.addCallback(lambda connection: connection.request(RequestCode.EXCHANGE_BROKER_HA_INFO, timeout_s=ASK_S))
        asked.addCallbacks(self._answered, self._failed, callbackArgs=(search,), errbackArgs=(search,))

    def _answered(self, answer: Command, search: int) -> None:
        if search != self._search:
            return
        self._asking = False
        fields = answer.fields
        address = fields.get("masterHaAddress", "")
        if answer.code == 0 and address and fields.get("masterAddress", self._address) == self._address:
            self._connections.drop(self._address)
            self._pause_s = PAUSE_S[0]
            self._found(address, self._epoch, answer.language == "PYTHON")
        else:
            self._tell(answer)
            self._wait()

    def _tell(self, answer: Command) -> None:
        """Who may not ask waits for somebody to change that; others for a master, and there will be one."""
        if answer.code == ResponseCode.NO_PERMISSION and answer.remark != self._told:
            self._told = answer.remark
            self._log.warn("{master} does not say where its HA port is: {why}", master=self._address, why=answer.remark)

    def _failed(self, failure: Failure, search: int) -> None:
        if not failure.check(*UNREACHED):
            self._log.error("asking for the HA port failed, it goes on: {trace}", trace=failure.getTraceback())
        if search == self._search:
            self._asking = False
            self._wait()

    def _wait(self) -> None:
        self._timer = self._reactor.callLater(self._pause_s, self._ask)
        self._pause_s = min(2 * self._pause_s, PAUSE_S[1])
