"""A group of controllers as a command sees it: one that is given says where the others are, and who leads.

What it must not know: what is asked, but for this: whether a request may be sent again when it was not answered
(:data:`AGAIN`), because its leader may have carried it out.  Reading does no harm twice, nor does handing leadership to
whoever has it.  An election would undo one that the controllers held in between, a broker that was cleaned may be back,
and a change of members that is made is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from twisted.internet.task import deferLater

from rocketha.admin import options
from rocketha.admin.client import NETWORK_ERRORS, NoRoute, RequestFailed, plain, unsent
from rocketha.admin.commands import Given
from rocketha.admin.secure import dialer_of
from rocketha.errors import RockethaError
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Command

AGAIN = frozenset(
    {
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
        PrivateCode.STATUS,
        PrivateCode.WHY,
        PrivateCode.SNAPSHOT,
        PrivateCode.TRANSFER,
    }
)
"""Requests to the leader that may be sent twice."""
SHOWN_BY: Mapping[int, str] = {
    RequestCode.CONTROLLER_ELECT_MASTER: "rocketha controller why {brokerName}",
    RequestCode.CLEAN_BROKER_DATA: "rocketha controller why {brokerName}",
    PrivateCode.MEMBERS: "rocketha controller members",
}
"""The others, and what shows whether they were carried out."""

TRIES, PAUSE_S = 20, 0.25
CHANGE_TIMEOUT_S = 30.0


class NotKnown(RockethaError):
    """A request that may not be sent twice was not answered: it may have been carried out."""


class Controllers:
    """A group of controllers, of which at least one address is known."""

    def __init__(self, dialer: Dialer, addresses: Sequence[str]) -> None:
        self._reactor = dialer.reactor
        self._addresses = list(addresses)
        self._client = RemotingClient(dialer)

    def close(self) -> None:
        """End all connections."""
        self._client.close()

    async def ask(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        timeout_s: float = 5.0,
        body: bytes = b"",
    ) -> Command:
        """One request.

        :raises RequestFailed: it is refused.
        """
        answer = await self._client.request(address, code, fields, body, timeout_s)
        if answer.code != 0:
            raise RequestFailed(answer.code, answer.remark, address)
        return answer

    async def metadata(self) -> Command:
        """1005 of the first that answers.

        :raises NoRoute: nobody does.
        """
        problems = []
        for address in self._addresses:
            try:
                return await self.ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
            except NETWORK_ERRORS as problem:
                problems.append(plain(problem))
        raise NoRoute("no controller answers: " + "; ".join(problems))

    async def peers(self) -> dict[str, str]:
        """Id to ``host:port`` of all controllers."""
        found = {}
        for item in filter(None, (await self.metadata()).fields.get("peers", "").split(";")):
            node, _, address = item.partition(":")
            found[node] = address
        return found

    async def ask_leader(
        self, code: int, fields: Mapping[str, str] | None = None, timeout_s: float = 5.0, body: bytes = b""
    ) -> Command:
        """One request to whoever leads; asked again for a while where nobody does.

        :param code: one of :data:`AGAIN` or :data:`SHOWN_BY`.
        :raises RequestFailed: it is refused, or nobody leads.
        :raises NotKnown: it may have been carried out.
        """
        shown_by = None if code in AGAIN else SHOWN_BY[code].format_map(fields or {})
        refused: RockethaError = NoRoute("no controller leads: a majority of them must run (docs/disasters.rst)")
        for _ in range(TRIES):
            leader = (await self.metadata()).fields.get("controllerLeaderAddress")
            if leader:
                try:
                    return await self.ask(leader, code, fields, timeout_s, body)
                except RequestFailed as problem:
                    if problem.code != ResponseCode.CONTROLLER_NOT_LEADER:
                        raise
                    refused = problem  # it was not carried out
                except NETWORK_ERRORS as problem:
                    why = f"{leader}: {plain(problem).removeprefix(f'{leader}: ')}"
                    if shown_by is not None and not unsent(problem):
                        raise NotKnown(f"{why}. It is not known whether it was done: {shown_by} shows it") from problem
                    refused = NoRoute(why)
            await deferLater(self._reactor, PAUSE_S, lambda: None)
        raise refused


def opened(reactor: Any, args: Given) -> AbstractContextManager[Controllers]:
    """Those of ``--controllers``."""
    return closing(Controllers(dialer_of(reactor, args), options.addresses(args.controllers, "--controllers")))
