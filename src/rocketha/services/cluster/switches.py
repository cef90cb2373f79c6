"""Who is the master of a group, told to a person as it changes.

Decides nothing.  When clients can find the new master is seen in the nameserver of this process, which is looked at
often; its epoch, and why there is a new one, is what the leading controller says, the same as ``rocketha controller
why`` prints.  A change is told once both agree.  Where there are no controllers, because brokers elect their master
themselves, the nameserver's word is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet import defer, error

from rocketha.errors import RemoteProtocolError
from rocketha.namesrv.route_table import Broker
from rocketha.observe.events import ClusterInSync, ClusterLeader, ClusterMaster
from rocketha.observe.logging import emit, lasting, make_logger
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.ticker import Ticker
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode

LOOK_S = 0.02
ASK_S = 0.5
ANSWER_TIMEOUT_S = 1.0
UNANSWERED = (
    error.ConnectError,
    error.ConnectionLost,
    error.ConnectionDone,
    error.ConnectionAborted,
    defer.TimeoutError,
    RemoteProtocolError,
)


class Switches:
    """Watches one broker group.

    :param controllers: address to name.
    :param brokers: port to name.
    :param tell: takes one line.
    :param controlled: there are controllers; else brokers elect their master themselves.
    :param label: name to what a person needs to know of that process.
    :ivar master: name of the broker that is known to serve as master; "" before there is one.
    :ivar leader: name of the controller that leads; "" before there is one.
    :ivar group: what it said last (11003); None before, and without controllers.
    """

    def __init__(
        self,
        dialer: Dialer,
        namesrv: NameServerService,
        broker_name: str,
        controllers: Mapping[str, str],
        brokers: Mapping[int, str],
        tell: Callable[[str], None],
        label: Callable[[str], str] = str,
        *,
        controlled: bool = True,
    ) -> None:
        self.master = ""
        self._controlled = controlled
        self._reactor = dialer.reactor
        self._namesrv = namesrv
        self._broker_name = broker_name
        self._controllers = dict(controllers)
        self._brokers = dict(brokers)
        self._tell = tell
        self._label = label
        self._client = RemotingClient(dialer)
        self._loop = Ticker(self._reactor, lasting(self._look, "a look at the masters"), LOOK_S)
        self._asked_first = next(iter(self._controllers), "")
        self._asking = False
        self._ask_at_s = 0.0
        self._epoch = 0
        self._in_sync: tuple[str, ...] = ()
        self.group: Mapping[str, Any] | None = None
        self.leader = ""
        self._serving = ""
        self._since_s: float | None = None
        self._until_s: float | None = None
        self._seen = ""
        self._gone: set[str] = set()
        self._log = make_logger()

    def start(self) -> None:
        """Watch from now on."""
        self._loop.start()

    def stop(self) -> None:
        """No more words."""
        self._loop.stop()
        self._client.close()

    @property
    def registered(self) -> dict[int, str]:
        """Broker id to name, of those that the nameserver knows; the master has 0."""
        found: Broker | None = None
        for key, broker in self._namesrv.server.table.brokers.items():
            if key.name == self._broker_name:
                found = broker
        if found is None:
            return {}
        return {number: self._name_of(address) for number, address in sorted(found.addresses.items())}

    def ended(self, name: str) -> None:
        """A process is gone: if it was the master, nobody is from now on, whatever the nameserver still believes."""
        self._gone.add(name)
        if name == self._serving:
            self._nobody()

    def started(self, name: str) -> None:
        """A process is there again."""
        self._gone.discard(name)

    def _nobody(self) -> None:
        if self._since_s is None:
            self._since_s = self._reactor.seconds()
        self._serving = ""

    @property
    def ids(self) -> dict[str, int]:
        """Name of each broker to the id that the controllers gave it: they come in the order of arrival."""
        addresses: Mapping[str, str] = {} if self.group is None else self.group["brokerAddrs"]
        return {self._name_of(address): int(number) for number, address in addresses.items()}

    def named(self, name: str) -> str:
        """A broker by both of its names, where it has two."""
        number = self.ids.get(name)
        return name if number is None else f"{name} (id {number})"

    def _name_of(self, address: str) -> str:
        port = address.rpartition(":")[2]
        return self._brokers.get(int(port) if port.isdecimal() else 0, address)

    def _look(self) -> None:
        now_s = self._reactor.seconds()
        serving = self.registered.get(0, "")
        if serving in self._gone:
            serving = ""
        if serving != self._seen:
            self._seen = serving
            if not serving:
                self._nobody()
            else:
                self._serving, self._until_s = serving, now_s
            self._ask_at_s = 0.0
            if serving and not self._controlled:
                self._told_switch(serving, 0, "")
        if self._controlled and now_s >= self._ask_at_s and not self._asking:
            self._asking = True
            self._ask_at_s = now_s + ASK_S
            asking = defer.Deferred.fromCoroutine(self._ask())
            asking.addErrback(lambda failure: self._log.error("{trace}", trace=failure.getTraceback()))
            asking.addBoth(self._asked)

    def _asked(self, _: None) -> None:
        self._asking = False

    async def _ask(self) -> None:
        """The leading controller; it is the first one asked next time."""
        names = sorted(self._controllers, key=lambda address: address != self._asked_first)
        for address in names:
            fields = {"brokerName": self._broker_name}
            try:
                answer = await self._client.request(address, PrivateCode.WHY, fields, timeout_s=ANSWER_TIMEOUT_S)
            except UNANSWERED:
                continue
            if answer.code == 0:
                self._asked_first = address
                self._heard(json_dialect.loads(answer.body), self._controllers[address])
                return

    def _heard(self, group: Mapping[str, Any], controller: str) -> None:
        if not self._loop.running:
            return
        self.group = group
        if controller != self.leader:
            if self.leader:
                emit(self._log, ClusterLeader(controller, self.leader))
                self._tell(f"{controller} leads the controllers instead of {self.leader}")
            self.leader = controller
        epoch, number = group["masterEpoch"], group["masterBrokerId"]
        addresses: Mapping[str, str] = group["brokerAddrs"]
        master = self._name_of(addresses.get(str(number), ""))
        if number and epoch > self._epoch and master == self._serving:
            self._told_switch(master, epoch, why(group["decisions"], epoch))
        in_sync = tuple(sorted(self._name_of(addresses.get(str(each), "")) for each in group["syncStateSet"]))
        if self.master and in_sync != self._in_sync:
            self._in_sync = in_sync
            emit(self._log, ClusterInSync(", ".join(self.named(name) for name in in_sync)))
            self._tell(f"in sync: {', '.join(in_sync)}")

    def _told_switch(self, master: str, epoch: int, reason: str) -> None:
        text = f"{self._label(master)} is master" + (f" of epoch {epoch}" if epoch else "")
        without_s = None
        if self.master:
            text += " again" if master == self.master else f" instead of {self.master}"
            if self._since_s is not None and self._until_s is not None:
                without_s = round(max(0.0, self._until_s - self._since_s), 2)
                text += f"; no master for {without_s:.2f} s"
            text += f" ({reason})" if reason else ""
        before = self.named(self.master) if self.master else "nobody"
        emit(self._log, ClusterMaster(text, self.named(master), before, epoch, without_s, reason))
        self.master, self._epoch = master, epoch
        self._since_s = None
        self._tell(text)


def why(decisions: Sequence[Mapping[str, Any]], epoch: int) -> str:
    """Why there is a master of this epoch: the decision that made it, oldest first."""
    for each in decisions:
        if each["masterEpoch"] == epoch and each["masterBrokerId"]:
            return f"{each['why']}: {each['reason']}" if each["reason"] else str(each["why"])
    return ""
