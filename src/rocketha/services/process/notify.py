"""Words to the service manager that started this process: it serves, it stops, it is alive.

systemd's protocol (``sd_notify``): a datagram each to the socket that ``NOTIFY_SOCKET`` names; an address that begins
with ``@`` is abstract.  Nothing is said where there is none.  A process that stands still says nothing, and is ended by
the manager after ``WATCHDOG_USEC``: the word is given by the reactor, and by nothing beside it.

What it must not know: what the process serves.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, MutableMapping
from typing import Any

from twisted.application import service

from rocketha.observe.logging import lasting, make_logger
from rocketha.services.process.ticker import Ticker

LOOK_S = 0.02
"""Between two looks at whether it serves."""
_VARIABLES = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


class Notify(service.Service):
    """Tells the manager, until the process ends: also while it stops, which may take a minute.

    :param serves: whether clients are served; asked until they are.
    :param environment: the variables are taken out of it, so that processes that this one starts do not speak for it.
    """

    def __init__(
        self,
        serves: Callable[[], object],
        reactor: Any = None,
        environment: MutableMapping[str, str] = os.environ,
    ) -> None:
        self.setName("notify")
        address, interval_us, pid = (environment.pop(name, "") for name in _VARIABLES)
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        watched = interval_us.isdecimal() and pid in ("", str(os.getpid()))
        self._alive_s = int(interval_us) / 2e6 if watched else 0.0
        self._serves = serves
        self._reactor = reactor
        self._looks: Ticker | None = None
        self._log = make_logger()
        self._unheard = False

    def startService(self) -> None:
        """Twisted: watch for the moment it serves."""
        super().startService()
        if not self._address:
            return
        if self._reactor is None:
            from twisted.internet import reactor

            self._reactor = reactor
        self._looks = Ticker(self._reactor, lasting(self._look, "a look at what is served"), LOOK_S)
        self._looks.start()
        if self._alive_s:
            Ticker(self._reactor, lambda: self._say("WATCHDOG=1"), self._alive_s).start()

    def stopService(self) -> None:
        """Twisted: the process begins to stop."""
        super().stopService()
        if self._address:
            self._end_looks()
            self._say("STOPPING=1")

    def _look(self) -> None:
        if self._serves():
            self._end_looks()
            self._say("READY=1")

    def _end_looks(self) -> None:
        if self._looks is not None:
            self._looks.stop()
            self._looks = None

    def _say(self, word: str) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto(word.encode(), self._address)
            self._unheard = False
        except OSError as problem:
            if not self._unheard:
                self._log.warn("NOTIFY_SOCKET: {word} is not heard: {problem}", word=word, problem=problem)
            self._unheard = True
