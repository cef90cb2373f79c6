"""The files of ACL 1: where they are, read, and read again when they changed.

Theory of operation.  ``aclFiles`` names files and folders; without it they are where RocketMQ has them, ``conf/acl``
and ``conf/plain_acl.yml`` below ``rocketmqHome``.  A folder stands for all below it that ends in .yml or .yaml, by
name; tools.yml, which is a client's, and hidden names are left out.  When one has changed all are read again
(:meth:`AclFiles.look`); what cannot be used leaves the old rules in place, and says so until it can.  Half of a file
may give more than the whole, so what somebody is still writing is not taken: two looks in a row must find the same, and
so must one more after it was read.

Java: ``PlainPermissionManager``, ``AclFileWatchService``.
"""

from __future__ import annotations

import importlib.util
import os
import stat
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rocketha.errors import ConfigError
from rocketha.services.process.bounded_file import file_stamp, read_bounded
from rocketha.services.process.secret_file import refuse_readable

if TYPE_CHECKING:
    from rocketha.access.accounts import Accounts
    from rocketha.access.plain_acl import PlainAcl

FOLDER, FILE = "conf/acl", "conf/plain_acl.yml"
FILE_BYTES_MAX = 1 << 20
FILES_MAX = 100
_ENDINGS = (".yml", ".yaml")
_OF_A_CLIENT = "tools.yml"
NOT_INSTALLED = "ACL 1 needs PyYAML, which is not installed: pip install 'rocketha[acl]'"


class AclFiles:
    """Those of one broker.

    :param named: what ``aclFiles`` says.
    :param home: what ``rocketmqHome`` says; paths in ``named`` begin there.
    :raises ConfigError: there is none, or something in one is wrong.
    :ivar acl: what they say.
    :ivar paths: they themselves, the first that counts first.
    :ivar problem: why the files, which have changed, are not used; empty: they are.
    :ivar changes: how often other files were taken.
    """

    def __init__(self, named: str, home: str) -> None:
        if importlib.util.find_spec("yaml") is None:
            raise ConfigError(NOT_INSTALLED)
        self._must_be = bool(named)
        if not named and not home:
            raise ConfigError("aclFiles says where the files of ACL 1 are; or rocketmqHome, or $ROCKETMQ_HOME")
        places = [word.strip() for word in named.split(",") if word.strip()] or [FOLDER, FILE]
        self._places = [os.path.join(home, place) for place in places]
        self.problem = ""
        self.changes = 0
        self._used: object  # of those in use, or not usable
        self.paths, self._used = self._find()
        self._seen = self._used
        self.acl = self._read(self.paths)

    # --- who may log in, as of now

    @property
    def accounts(self) -> Accounts:
        return self.acl.accounts

    @property
    def has_white(self) -> bool:
        return self.acl.has_white

    def lets_in(self, name: str, host: str) -> bool:
        """See :meth:`PlainAcl.lets_in`."""
        return self.acl.lets_in(name, host)

    # --- reading

    def look(self) -> bool:
        """Read them again if they changed; whether something new is in use, or a new problem is to be told."""
        try:
            paths, seen = self._find()
        except ConfigError as problem:
            self._used = self._seen = None  # what is found next is read, also where it is what it was
            return self._failed(problem)
        before, self._seen = self._seen, seen
        if seen != before or seen == self._used:
            return False
        try:
            acl = self._read(paths)
        except ConfigError as problem:
            return self._is_still(seen) and self._failed(problem)
        if not self._is_still(seen):
            return False
        self.paths, self.acl, self.problem = paths, acl, ""
        self.changes += 1
        return True

    def _is_still(self, seen: object) -> bool:
        """Whether the files are what they were before they were read; then they count."""
        try:
            self._seen = self._find()[1]
        except ConfigError:
            self._seen = None
        if self._seen != seen:
            return False
        self._used = seen
        return True

    def _failed(self, problem: ConfigError) -> bool:
        known, self.problem = self.problem, str(problem)
        return self.problem != known

    def _find(self) -> tuple[list[str], object]:
        """The files, and what tells that they are others."""
        found = [path for place in self._places for path in self._below(place)]
        paths = list(dict.fromkeys(map(os.path.abspath, found)))
        if not paths:
            raise ConfigError(f"there is no file of ACL 1: {' and '.join(self._places)} were looked for")
        if len(paths) > FILES_MAX:
            raise ConfigError(f"{len(paths)} files of ACL 1 were found, allowed is {FILES_MAX}")
        return paths, [(path, file_stamp(path)) for path in paths]

    def _below(self, place: str) -> Iterator[str]:
        if not os.path.isdir(place):
            if self._must_be or os.path.exists(place):
                yield place
            return
        try:
            names = sorted(os.listdir(place))
        except OSError as error:
            raise ConfigError(f"{place}: cannot be read: {error.strerror}") from None
        for name in names:
            path = os.path.join(place, name)
            if name.startswith(".") or name == _OF_A_CLIENT:
                continue
            if os.path.isdir(path):
                if not os.path.islink(path):
                    yield from self._below(path)
            elif name.endswith(_ENDINGS):
                yield path

    @staticmethod
    def _read(paths: Sequence[str]) -> PlainAcl:
        from rocketha.access import plain_acl  # it needs an extra

        return plain_acl.read([(path, _bytes(path)) for path in paths])

    @property
    def warnings(self) -> list[str]:
        """What a person should know about them."""
        return [*filter(None, map(_readable, self.paths)), *self.acl.warnings]


def _readable(path: str) -> str:
    """Why it is not as secret as it should be; empty: it is."""
    try:
        refuse_readable(path)
    except ConfigError as problem:
        return str(problem)
    return ""


def _bytes(path: str) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ConfigError(f"{path}: is no plain file")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    data = read_bounded(path, FILE_BYTES_MAX)
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: more than {FILE_BYTES_MAX} bytes, so it is no file of ACL 1")
    return data
