"""A group of controllers as a command sees it: one that is given says where the others are, and who leads.

What it must not know: what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from twisted.internet.task import deferLater

from rocketha.admin import options
from rocketha.admin.client import NETWORK_ERRORS, NoRoute, RequestFailed, plain
from rocketha.admin.commands import Given
from rocketha.admin.secure import dialer_of
from rocketha.errors import RockethaError
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command

TRIES, PAUSE_S = 20, 0.25
CHANGE_TIMEOUT_S = 30.0


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

        :raises RequestFailed: it is refused, or nobody leads.
        """
        refused: RockethaError = NoRoute("no controller leads")
        for _ in range(TRIES):
            leader = (await self.metadata()).fields.get("controllerLeaderAddress")
            if leader:
                try:
                    return await self.ask(leader, code, fields, timeout_s, body)
                except RequestFailed as problem:
                    if problem.code != ResponseCode.CONTROLLER_NOT_LEADER:
                        raise
                    refused = problem
                except NETWORK_ERRORS as problem:
                    refused = NoRoute(f"{leader}: {plain(problem)}")
            await deferLater(self._reactor, PAUSE_S, lambda: None)
        raise refused


def opened(reactor: Any, args: Given) -> AbstractContextManager[Controllers]:
    """Those of ``--controllers``."""
    return closing(Controllers(dialer_of(reactor, args), options.addresses(args.controllers, "--controllers")))
