"""A broker's id in controller mode: how it is applied for, and the two files that make it last.

Must not know a socket or a clock.  What goes to the controllers is :mod:`rocketha.broker.role_life`'s affair; here is
what is on the disk between any two steps.

Theory of operation (the seed S3).  An id is applied for before it is ours, and the application outlives the process::

    nothing --1012: a free id--> want --> brokerIdentity-temp --1013--> granted --> keep --> brokerIdentity
       ^                                          |      ^                                  (temp removed)
       +------------------ give_up <--2014--------+      +-- no answer, any other answer: again, with the same code

The **check code** makes a repetition harmless: the controller grants an id again to whoever names the code under which
it gave it.  It holds the broker's address, as Java's controllers read it from there, the time, and chance: two brokers
with equal addresses (each behind its own NAT) that start in the same millisecond must not be given one id.

A crash leaves one of these, and each goes on where it stood: neither file; temp; temp and final (temp is removed).
Files of Java, which are not written atomically, may also be torn: a torn temp was not vouched for by a sync, so at
most an id is left unused; a torn final file is made good from temp, and without temp the start is refused, since the id
under which the controllers know this log must not be replaced by another one silently.

Java: ``BrokerMetadata``, ``TempBrokerMetadata``, and the first half of ``ReplicasManager``, which gives an application
up, and with it an id, when its answer is lost.
"""

from __future__ import annotations

import random
import re
from enum import Enum

import attrs

from rocketha.errors import ConfigError, CorruptStore
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.wire.json_members import LONG_MAX

FILE_BYTES_MAX = 4096
_ID = re.compile("[1-9][0-9]{0,18}")
_CODE = re.compile('[!-"$-~]{1,1000}')
"""No ``#``, which ends a field."""


class Step(Enum):
    """What an identity needs next."""

    NEXT_ID = "ask for a free id"
    APPLY = "apply for it"
    REGISTER = "register under it"


@attrs.frozen
class Application:
    """An id that is applied for, and the code by which the application is known again."""

    number: int
    check_code: str


@attrs.frozen
class Identity:
    """What is on the disk.

    :ivar number: the id that is ours for good.
    :ivar application: what was begun; None once ``number`` is there.
    """

    number: int | None = None
    application: Application | None = None

    @property
    def step(self) -> Step:
        """What is next."""
        if self.number is not None:
            return Step.REGISTER
        return Step.NEXT_ID if self.application is None else Step.APPLY


def check_code(address: str, wall_ms: int, chance: random.Random) -> str:
    """A code that no other application has.

    :param address: ``host:port`` told to the controllers.
    :param wall_ms: the time of day.
    """
    return f"{address};{wall_ms}.{chance.getrandbits(64):016x}"


class IdentityFiles:
    """The files of one broker.  Every call blocks on the disk, and has reached it when it returns.

    :param path: of the final file; the other is beside it.
    """

    def __init__(self, disk: Disk, path: str, cluster: str, broker_name: str) -> None:
        self.path = path
        self.temp_path = f"{path}-temp"
        self._disk = disk
        self._names = (cluster, broker_name)

    def load(self) -> Identity:
        """What a start finds, put in order.

        :raises ConfigError: a file of another cluster or broker.
        :raises CorruptStore: the final file is damaged and nothing else says the id.
        """
        final = self._read(self.path, 3)
        temp = self._read(self.temp_path, 4)
        if isinstance(final, list):
            if temp is not None:
                self._remove_temp()
            return Identity(int(final[2]))
        if isinstance(temp, list):
            return Identity(application=Application(int(temp[2]), temp[3]))
        if final is not None:
            raise CorruptStore(
                self.path,
                0,
                f"wanted is {'#'.join(self._names)}#<id>, found is {final[:80]!r}. The controllers know this broker's "
                "id (mqadmin getSyncStateSet): write it there. Only a broker whose store is empty may do without: "
                "remove the file, and it is given another id",
            )
        if temp is not None:
            self._remove_temp()
        return Identity()

    def want(self, number: int, code: str) -> Identity:
        """An id is about to be applied for."""
        self._write(self.temp_path, f"{number}#{code}")
        return Identity(application=Application(number, code))

    def give_up(self) -> Identity:
        """The application was refused: the id is another broker's."""
        self._remove_temp()
        return Identity()

    def keep(self, number: int) -> Identity:
        """The id is ours."""
        self._write(self.path, str(number))
        self._remove_temp()
        return Identity(number)

    def _read(self, path: str, count: int) -> list[str] | bytes | None:
        """Its fields; the bytes of what is no such file; None where there is none.

        :raises ConfigError: they are another broker's.
        """
        if not self._disk.exists(path):
            return None
        data = self._disk.read_all(path, FILE_BYTES_MAX)
        found = data.decode("utf-8", "replace").strip().split("#", count - 1)
        good = len(found) == count and _ID.fullmatch(found[2]) and int(found[2]) <= LONG_MAX
        if not good or (count == 4 and not _CODE.fullmatch(found[3])):
            return data
        if (found[0], found[1]) != self._names:
            raise ConfigError(
                f"{path} is of broker {found[1]} in cluster {found[0]}, and the configuration says brokerName="
                f"{self._names[1]} and brokerClusterName={self._names[0]}: to move a broker see docs/controller.rst"
            )
        return found

    def _write(self, path: str, rest: str) -> None:
        atomic_file.make_dirs(self._disk, path.rpartition("/")[0])
        atomic_file.save(self._disk, path, "#".join((*self._names, rest)).encode(), backup=False)

    def _remove_temp(self) -> None:
        if self._disk.exists(self.temp_path):
            self._disk.remove(self.temp_path)
            self._disk.sync_dir(self.temp_path.rpartition("/")[0] or "/")
