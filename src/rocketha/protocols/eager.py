"""Writing to a socket, or reading it, now instead of in the reactor's next turn.

``transport.write`` queues the bytes and asks epoll to say when the socket is writable: two system calls and a turn of
the reactor for bytes that the socket would have taken at once.  This is the one place that looks inside Twisted's TCP
transport (docs/adr/0003).
"""

from __future__ import annotations

from typing import Any

from twisted.internet.tcp import Connection

PIECE_BYTES = 64 * 1024
"""Of what is copied on its way to the socket: memory of this size is used again and again, and in the caches still."""


def eager_write(transport: Any, data: bytes) -> bool:
    """Write to the socket now when nothing waits before it; what the socket does not take is queued as usual.

    :return: whether all of it went out, so that nothing waits.

    Falls back to ``transport.write`` for anything that is not a plain TCP transport (TLS, tests).
    """
    if not _takes_bytes_now(transport):
        transport.write(data)
        return False
    if transport.disconnecting:
        return True
    try:
        sent = transport.socket.send(data)
    except OSError:
        sent = 0  # full, or gone: the reactor finds out by its own write
    if sent == len(data):
        return True
    transport.write(data[sent:] if sent else data)
    return False


def eager_write_block(transport: Any, head: bytes, body: bytes | memoryview) -> None:
    """Like :func:`eager_write` for a large ``body``, which is neither joined to its head nor sent in slices.

    Copies of a megabyte cost more than the socket does: each is memory that the system has to clear first.  What the
    socket does not take is copied: the body is the caller's again.  What cannot go there at once (bytes wait before it,
    or it is encrypted first) is copied in pieces.
    """
    if not _takes_bytes_now(transport):
        first = PIECE_BYTES - len(head)
        transport.write(b"".join((head, body[:first])))
        for at in range(first, len(body), PIECE_BYTES):
            transport.write(bytes(body[at : at + PIECE_BYTES]))
        return
    if transport.disconnecting:
        return
    try:
        sent = transport.socket.sendmsg((head, body))
    except OSError:
        sent = 0  # full, or gone: the reactor finds out by its own write
    if sent < len(head):
        transport.write(b"".join((head[sent:], body)))
    elif sent < len(head) + len(body):
        transport.write(bytes(memoryview(body)[sent - len(head) :]))


def eager_read(transport: Any) -> None:
    """What has come and was not read yet reaches the protocol before this returns; nothing where that cannot be."""
    transport = tcp_of(transport)
    if isinstance(transport, Connection) and transport.connected and not transport.disconnecting:
        transport.doRead()  # whoever hung up is found out by the reactor


def tcp_of(transport: Any) -> Any:
    """The transport itself, or that beneath TLS."""
    return getattr(transport, "tcp", transport)


def _takes_bytes_now(transport: Any) -> bool:
    # By its class: a wrapper, TLS among them, passes on questions for attributes to the transport beneath it.
    return (
        isinstance(transport, Connection)
        and not (transport.TLS or getattr(transport, "_tempDataBuffer", True) or transport.dataBuffer)
        and bool(transport.connected)
    )


def queued_bytes(transport: Any) -> int:
    """Bytes that wait in a TCP transport's own buffers, also beneath TLS, which passes the question on; 0 of others.

    TLS itself keeps no more than 64 kB of what was written, until the end of the reactor's turn.
    """
    if not hasattr(transport, "_tempDataLen"):
        return 0
    return len(transport.dataBuffer) - int(transport.offset) + int(transport._tempDataLen)
