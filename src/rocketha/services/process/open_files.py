"""How many files and sockets this process may have open, and how many of them may be connections.

Theory of operation.  The limit is the hard one where it is not absurdly high: a process may raise its soft limit that
far, and a server does (:func:`raise_limit`).  The soft limit that systems begin with, 1024, is for programs that use
``select``.  A quarter, at least :data:`FILES_MIN`, stays for the files of a store and for connections that we open.
"""

from __future__ import annotations

import resource

FILES_MIN = 256
FILES_MAX = 8192
LIMIT_MAX = 65_536
"""Enough for any one server; what it allows is counted with the memory of each connection."""


def limit() -> int:
    """Files that this process may have open, once :func:`raise_limit` has run."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_finite(soft), min(_finite(hard), LIMIT_MAX))


def raise_limit() -> None:
    """Raise the soft limit as far as is useful and allowed; it is never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limit()
    if _finite(soft) < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connections_allowed() -> int:
    """How many of them may be connections of one port."""
    allowed = min(limit(), LIMIT_MAX)
    return max(16, allowed - min(max(FILES_MIN, allowed // 4), FILES_MAX))


def _finite(value: int) -> int:
    return LIMIT_MAX if value == resource.RLIM_INFINITY else value
