"""A whole small RocketMQ in one process: a nameserver, a broker registered with it, and a word to who starts them.

Decides nothing; it starts the nameserver before the broker, says when both serve, and stops them in the other order, so
that the broker can still sign off and close its store.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from twisted.application import service
from twisted.internet import defer, error

import rocketha
from rocketha.broker.names import NO_SEND_TOPICS, SYSTEM_TOPIC_PREFIX
from rocketha.observe.logging import lasting
from rocketha.services.broker.service import BrokerService
from rocketha.services.config.tls import DEFAULT_FILE, ENVIRONMENT, TlsConfig
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.fatal import end_process
from rocketha.services.process.status import StatusService
from rocketha.services.process.ticker import Ticker

READY_CHECK_S = 0.02


def tell_terminal(text: str) -> None:
    """Print for the person, past Twisted's redirection of standard output into the log."""
    stream = sys.__stdout__
    if stream is not None:
        stream.write(text)
        stream.flush()


def near_address(host: str, port: int) -> str:
    """``host:port`` as seen from this machine, where a service that listens on ``host`` is to be reached."""
    address = ipaddress.ip_address(host)
    if address.version == 6:
        return f"[{'::1' if address.is_unspecified else host}]:{port}"
    return f"{'127.0.0.1' if address.is_unspecified else host}:{port}"


class ClusterService(service.MultiService):
    """Nameserver and broker as one service.

    :param data: where both keep their files, for the words at the start.
    :param log: where they log to, for the same.
    :param tell: where these words go.
    :ivar served: fires when the broker is registered and clients can find it.
    """

    def __init__(
        self,
        namesrv: NameServerService,
        broker: BrokerService,
        data: str,
        log: str,
        status: StatusService | None = None,
        reactor: Any = None,
        tell: Callable[[str], None] = tell_terminal,
    ) -> None:
        super().__init__()
        self.setName("cluster")
        self.namesrv = namesrv
        self.broker = broker
        self.served: defer.Deferred[None] = defer.Deferred()
        self._data = data
        self._log = log
        self._reactor = reactor
        self._tell = tell
        self._waiting: Ticker | None = None
        for child in (status, namesrv, broker):
            if child is not None:
                child.setServiceParent(self)

    def privilegedStartService(self) -> None:
        """Twisted: ports are opened here; a taken one ends the process with one line instead of a traceback."""
        try:
            super().privilegedStartService()
        except error.CannotListenError as problem:
            self._give_up(problem)

    def startService(self) -> None:
        """Twisted: start both, and watch for the moment they serve."""
        if self._reactor is None:
            from twisted.internet import reactor

            self._reactor = reactor
        try:
            super().startService()
        except error.CannotListenError as problem:
            self._give_up(problem)
            return
        self._waiting = Ticker(self._reactor, lasting(self._look, "a look at the broker"), READY_CHECK_S)
        self._waiting.start()

    def _give_up(self, problem: error.CannotListenError) -> None:
        if self._reactor is None:
            from twisted.internet import reactor

            self._reactor = reactor
        host = problem.interface or "all addresses"
        end_process(self._reactor, f"port {problem.port} on {host} can not be opened: {problem.socketError}")

    def _look(self) -> None:
        if self.broker.ready() is None and self.namesrv.ready and self._waiting is not None:
            self._waiting.stop()
            self._waiting = None
            self._tell(self.words())
            self.served.callback(None)

    def words(self) -> str:
        """Addresses, state, and what to type next."""
        identity, names = self.broker.broker.state.identity, self.namesrv.config
        namesrv = near_address(names.bind_address, names.listen_port)
        command = command_name()
        lines = [
            f"rocketha {rocketha.__version__} serves",
            f"  nameserver  {namesrv}",
            f"  broker      {identity.address} ({identity.broker_name})",
            f"  data        {self._data}: {self._state()}",
            f"  log         {self._log}",
            "try it in another shell",
            *tls_lines(self.broker.config.remoting.tls),
            f"  {command} send --namesrv {namesrv} TopicTest hello",
            f"  {command} receive --namesrv {namesrv} TopicTest --from first",
            "Ctrl-C stops it",
        ]
        return "\n".join(lines) + "\n"

    def _state(self) -> str:
        report = self.broker.broker.recovery
        if not report.end:
            return "new"
        topics = messages = 0
        for topic, queues in self.broker.broker.store.queue_table().items():
            if topic not in NO_SEND_TOPICS and not topic.startswith((SYSTEM_TOPIC_PREFIX, "%")):
                topics += 1
                messages += sum(high - low for low, high in queues.values())
        how = "stopped cleanly" if report.clean else "recovered after a crash"
        return f"{messages} messages in {topics} topics, {how}"

    @defer.inlineCallbacks
    def stopService(self) -> Any:
        """Twisted: the broker first, which signs off at the nameserver; fires when all is closed."""
        service.Service.stopService(self)
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None
        for child in reversed(list(self)):
            yield defer.maybeDeferred(child.stopService)


def tls_lines(tls: TlsConfig) -> list[str]:
    """What the command needs to be told before it connects; nothing where all is in the clear."""
    if not tls.enable or tls.config_file in ("", DEFAULT_FILE):
        return []
    operators = os.path.join(os.path.dirname(tls.config_file), "operator.properties")  # of rocketha pki cluster
    file = operators if tls.identities == "required" and os.path.exists(operators) else tls.config_file
    return [f"  export {ENVIRONMENT}={os.path.relpath(file)}"]


def command_name() -> str:
    """How to call our command from the present directory: by its name if the shell finds it, else by its path."""
    beside = os.path.join(os.path.dirname(sys.executable), "rocketha")
    found = shutil.which("rocketha")
    if (found is not None and os.path.realpath(found) == os.path.realpath(beside)) or not os.path.exists(beside):
        return "rocketha"
    relative = os.path.relpath(beside)
    return beside if relative.startswith("..") else relative
