"""How many files and sockets this process may have open, and what they are for.

Theory of operation.  The limit is the hard one where it is not absurdly high: a process may raise its soft limit that
far, and a server does (:func:`raise_limit`).  The soft limit that systems begin with, 1024, is for programs that use
``select``.  A quarter, or what a store and its replicas need, stays for files, links to replicas, the status port and
connections that we open: so clients, however many, take none of it.  The rest is for connections of clients' ports,
those in reserve among them.
"""

from __future__ import annotations

import resource

from rocketha.protocols.limits import reserve_of

FILES_MIN = 512
FILES_MAX = 8192
LIMIT_MAX = 65_536
"""Enough for any one server; what it allows is counted with the memory of each connection."""
STORE_MAX, LINKS_MAX, LISTENED_MAX = 256, 64, 65_535
PORTS, OTHERS = 3, 40
"""Ports of one server at most, and what is open beside: log, lock, tables, pipes, the status port's connections."""


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


def connections_allowed(servers: int = 1, unbounded: bool = False) -> int:
    """How many connections clients may have at a server, on all its ports; its reserve comes to that.

    :param servers: that share this process.
    :param unbounded: as many as the limit allows, and not only what is enough for any server.
    """
    allowed = limit() if unbounded else min(limit(), LIMIT_MAX)
    places = (allowed - _kept(allowed)) // servers
    clients = places * 16 // 17
    return max(16, clients - max(0, clients + reserve_of(clients) - places))


def store_files() -> int:
    """How many files a store may keep open for reading."""
    return max(16, min(STORE_MAX, _kept(limit()) // 4))


def replica_links() -> int:
    """How many connections the port for replicas takes; each may hold a file, too."""
    return max(8, min(LINKS_MAX, _kept(limit()) // 16))


def accepted_at_once() -> int:
    """How many connections one port may accept in one turn of the reactor.

    Those that lose their places to them give their descriptors back only in the next turn.
    """
    free = _kept(limit()) - store_files() - 2 * replica_links() - OTHERS
    return max(8, min(LISTENED_MAX, free // PORTS))


def _kept(allowed: int) -> int:
    return min(max(FILES_MIN, allowed // 4), allowed * 5 // 8, FILES_MAX)


def _finite(value: int) -> int:
    return LIMIT_MAX if value == resource.RLIM_INFINITY else value
