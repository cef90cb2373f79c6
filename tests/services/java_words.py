"""Members of ours that speak Java's protocol with each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from rocketha.protocols import dledger_line, raft_peers


@contextlib.contextmanager
def java_words(between: Callable[[str, str], bool] = lambda one, other: True) -> Iterator[None]:
    """Those of which ``between`` says so take each other for Java's."""
    dial = raft_peers._Peer.dial

    def as_java(peer: Any) -> None:
        if between(peer.identity.id, peer.id):
            peer.java = True
        dial(peer)

    with mock.patch.object(raft_peers._Peer, "dial", as_java), mock.patch.object(dledger_line, "JAVA", "PYTHON"):
        yield
