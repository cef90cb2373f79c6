"""An operator's hands: designates masters, cleans out brokers that are gone, hands leadership on, at random moments.

Speaks through the same remoting client as everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketha.protocols.remoting_client import RemotingClient
from rocketha.simulation.broker import DEFINITE
from rocketha.simulation.broker_oracle import Group
from rocketha.simulation.findings import Findings
from rocketha.simulation.history import History
from rocketha.simulation.host import Process
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Command

MEAN_S = 8.0


class Operator:
    """See the module.

    :param until_s: true time; then it keeps its hands off.
    """

    def __init__(
        self,
        client: RemotingClient,
        process: Process,
        controllers: tuple[str, ...],
        groups: tuple[Group, ...],
        history: History,
        findings: Findings,
        until_s: float,
    ) -> None:
        self._client = client
        self._reactor = process.reactor
        self._chance = process.host.random
        self._controllers = controllers
        self._groups = groups
        self._history = history
        self._findings = findings
        self._until_s = until_s
        self._wait()

    def _wait(self) -> None:
        self._reactor.callLater(MEAN_S * (0.2 + 1.6 * self._chance.random()), self._act)

    def _act(self) -> None:
        if self._reactor.scheduler.now > self._until_s:
            return
        address = self._chance.choice(self._controllers)
        group, number = self._chance.choice(self._groups), self._chance.randrange(1, 5)
        names = {"clusterName": group.cluster, "brokerName": group.name}
        kind = self._chance.choice(("elect", "clean", "transfer", "elect"))
        if kind == "elect":
            fields = {**names, "brokerId": str(number), "designateElect": "true"}
            self._ask(address, RequestCode.CONTROLLER_ELECT_MASTER, fields, group, ("elect", number))
        elif kind == "clean":
            fields = {**names, "brokerControllerIdsToClean": str(number), "isCleanLivingBroker": "false"}
            self._ask(address, RequestCode.CLEAN_BROKER_DATA, fields, group, ("clean", number))
        else:
            to = f"n{self._chance.randrange(len(self._controllers))}"
            self._client.request(address, PrivateCode.TRANSFER, {"to": to}).addBoth(lambda _: None)
        self._wait()

    def _ask(self, address: str, code: int, fields: Mapping[str, str], group: Group, what: Any) -> None:
        scheduler = self._reactor.scheduler
        token = self._history.invoke(group, scheduler.now, "operator", what)

        def answered(answer: Command) -> None:
            if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
                self._history.drop(token)
            elif answer.code in DEFINITE:
                self._history.settle(token, scheduler.now, (answer.code, tuple(sorted(answer.fields.items())), ()))
                self._findings.count(f"operator: {what[0]}" if not answer.code else f"operator refused: {what[0]}")

        self._client.request(address, code, fields).addCallback(answered).addErrback(lambda _: None)
