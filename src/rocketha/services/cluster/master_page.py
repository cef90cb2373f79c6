"""What the page of a group's master shows of topics and consumer groups, for the page of the whole group.

What it must not know: who is master.  Asked (OVERVIEW, 11010) only while somebody looks at the group's page, and of a
former master nothing is kept.
"""

from __future__ import annotations

from twisted.internet import defer

from rocketha.errors import RequestRefused
from rocketha.observe import overview
from rocketha.observe.logging import make_logger
from rocketha.observe.overview import Overview
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.cluster.switches import ANSWER_TIMEOUT_S, ASK_S, UNANSWERED
from rocketha.wire.codes import PrivateCode

REFUSED_S = 60.0
"""It is asked again so long after it refused: that is logged there."""


class MasterPage:
    """See the module."""

    def __init__(self, dialer: Dialer) -> None:
        self._reactor = dialer.reactor
        self._client = RemotingClient(dialer)
        self._log = make_logger()
        self._address = ""
        self._told = Overview()
        self._ask_at_s = 0.0
        self._asking = False

    def look(self, address: str) -> Overview:
        """What the master told last; it is asked anew where that is no longer so.

        :param address: of its main port; "" while there is none.
        """
        if address != self._address:
            self._address, self._told, self._ask_at_s = address, Overview(), 0.0
        if address and not self._asking and self._reactor.seconds() >= self._ask_at_s:
            self._asking = True
            asking = defer.Deferred.fromCoroutine(self._ask(address))
            asking.addErrback(lambda failure: self._log.error("{trace}", trace=failure.getTraceback()))
            asking.addBoth(self._asked)
        return self._told

    def _asked(self, _: None) -> None:
        self._asking = False

    async def _ask(self, address: str) -> None:
        pause_s = ASK_S
        try:
            answer = await self._client.request(address, PrivateCode.OVERVIEW, timeout_s=ANSWER_TIMEOUT_S)
            if answer.code != 0:
                pause_s = REFUSED_S
                raise RequestRefused(answer.code, answer.remark or "")
            told = overview.told(answer.body)
        except (RequestRefused, *UNANSWERED) as problem:
            told = Overview(notes=[f"The master did not tell its topics and consumer groups: {problem}"])
        if address == self._address:
            self._told, self._ask_at_s = told, self._reactor.seconds() + pause_s

    def close(self) -> None:
        """Ask nothing any more."""
        self._client.close()
