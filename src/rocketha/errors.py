"""The error tree: who is at fault, and what goes back on the wire.

Pure.  Every error that leaves a package of rocketha is one of these; ``construct``, ``struct``, ``orjson`` and
``OSError`` never cross a seam (the codec and the posix disk turn them into ours, with the path and the offset that a
person needs).
"""

from __future__ import annotations

from enum import Enum


class RockethaError(Exception):
    """The root: anything rocketha raises on purpose."""


class RemoteProtocolError(RockethaError):
    """A peer's bytes break the protocol.  The connection is closed without an answer, as Java's decoder does."""


class RequestRefused(RockethaError):
    """A request that is understood and not granted: ``code`` and ``remark`` are answered, the connection stays.

    :param code: a response code of :class:`rocketha.wire.codes.ResponseCode`.
    :param remark: the text for a person; goes into the answer's ``remark``.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{remark} (code {code})")
        self.code = code
        self.remark = remark


class Ignored(Enum):
    """Why a part of a request was left out while the rest of it was served: nothing is raised and nothing answered.

    Whoever leaves it out says so: a broker's handler with ``connection.ignored(command, reason, what)``, the
    nameserver's with a :class:`~rocketha.namesrv.effects.RowIgnored`.  The values are labels of a metric: few, fixed.
    """

    NO_NAME = "no_name"
    BAD_VALUE = "bad_value"
    TOO_MANY = "too_many"
    NOT_ALLOWED = "not_allowed"


class ConfigError(RockethaError):
    """A configuration file, key or flag is wrong: the process says which and refuses to start."""


class CorruptStore(RockethaError):
    """Bytes on disk are not what was written.

    :param path: the file.
    :param offset: byte offset within the file.
    :param reason: what was expected and what was found.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class DiskFailure(RockethaError):
    """The operating system (or a simulated disk) failed an operation.

    :param path: the file or directory.
    :param operation: ``open``, ``write``, ``sync`` ...
    :param errno: the system's number (``errno.ENOSPC`` ...), 0 where there is none.
    :param message: the system's text.
    """

    def __init__(self, path: str, operation: str, errno: int, message: str) -> None:
        super().__init__(f"{operation} {path}: {message} (errno {errno})")
        self.path = path
        self.operation = operation
        self.errno = errno
        self.message = message


class NotOpened(DiskFailure):
    """A file or a directory could not be opened for want of descriptors or memory.  Nothing was done to it, and the
    same may succeed a moment later."""


class WriteInDoubt(DiskFailure):
    """A write failed half way: nobody knows how much of it a restart will find, none, a part or all."""


class InvariantBroken(RockethaError):
    """Our own mistake: a rule that protects data does not hold, and nothing is written.

    A request that meets it is answered with code 1; a role or a Raft member that meets it ends the process.
    """


def ensure(condition: bool, message: str) -> None:
    """``assert`` for rules that protect data: it also works under ``python -O``."""
    if not condition:
        raise InvariantBroken(message)
