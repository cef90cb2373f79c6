"""``twistd`` as a group's processes run it: in the foreground, and no longer than the one that started it.

Standard input is a pipe whose other end only the parent holds, and never writes to.  When the parent goes, however it
goes (``kill -9`` too), the pipe is at its end, and this process stops as if it had been sent SIGTERM.  Ctrl-C at the
terminal is for the parent, which knows the order to stop in, so each of these is a process group of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any

from twisted.internet import error
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.services.cluster.member import HURRY_S


@implementer(IReadDescriptor)
class Parent:
    """What can be read from the parent: nothing, and then its end.

    :param fd: the pipe.
    """

    def __init__(self, reactor: Any, fd: int = 0) -> None:
        self._reactor = reactor
        self._fd = fd

    def fileno(self) -> int:
        """Twisted: what to watch."""
        return self._fd

    def logPrefix(self) -> str:
        """Twisted: whose errors these are."""
        return "parent"

    def doRead(self) -> Any:
        """Twisted: there is something; the end where a reactor tells it so."""
        return None if os.read(self._fd, 4096) else error.ConnectionDone()

    def connectionLost(self, reason: Failure) -> None:
        """Twisted: the end; also called when this reactor stops for another reason."""
        with contextlib.suppress(error.ReactorNotRunning):
            self._reactor.stop()
            self._reactor.callLater(HURRY_S, os.kill, os.getpid(), signal.SIGTERM)  # as the parent would


def main() -> None:
    """``python -m rocketha.services.cluster.child``, then what ``twistd`` takes."""
    with contextlib.suppress(OSError):  # the leader of a session has a group of its own
        os.setpgid(0, 0)
    from twisted.internet import reactor
    from twisted.scripts.twistd import run

    whole: Any = reactor
    whole.callWhenRunning(whole.addReader, Parent(whole))
    sys.argv[0] = "twistd"
    run()


if __name__ == "__main__":
    main()
