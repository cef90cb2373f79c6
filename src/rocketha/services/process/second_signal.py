"""SIGTERM or Ctrl-C once more, to a process that stops already and takes its time: it shall hurry.

Twisted takes the first of them as the wish to stop, and the second as a mistake.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from twisted.application import service


class SecondSignal(service.Service):
    """To be a sibling of what it hastens: both are told to stop at the same time.

    :param hurry: called in the reactor's thread, once for each signal.
    """

    def __init__(self, hurry: Callable[[], None], reactor: Any = None) -> None:
        self.setName("second signal")
        self._hurry = hurry
        self._reactor = reactor

    def stopService(self) -> None:
        """Twisted: the first one came, or something else ends the process."""
        super().stopService()
        reactor = self._reactor
        if reactor is None:
            from twisted.internet import reactor

        if not reactor.running:  # nobody but Twisted's own loop gives it the signals
            return

        def again(number: int, frame: Any) -> None:
            reactor.callFromThread(self._hurry)  # wakes the reactor, too

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, again)
