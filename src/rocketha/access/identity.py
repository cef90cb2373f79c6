"""Who a process is, as its certificate says: a URI among the names in it.

Pure.  ``rocketha://CLUSTER/broker/NAME/ID`` is a broker by name and id, without the id any replica of that name;
likewise ``controller/ID``, ``nameserver/NAME``, ``operator/NAME`` and ``client/NAME``.  A CLUSTER of ``*`` is every
one: controllers and nameservers may serve several.  Characters that mean something in a URI are quoted.
"""

from __future__ import annotations

from enum import Enum
from urllib.parse import quote, unquote

import attrs

from rocketha.errors import ConfigError

SCHEME = "rocketha://"
EVERY = "*"
"""In place of a cluster's name."""
NAME_CHARACTERS_MAX = 255
ID_MAX = (1 << 63) - 1


class Part(Enum):
    """What somebody is in a cluster."""

    BROKER = "broker"
    CONTROLLER = "controller"
    NAMESERVER = "nameserver"
    OPERATOR = "operator"
    CLIENT = "client"


@attrs.frozen
class Identity:
    """Of one process, or of an operator.

    :ivar name: of a broker its brokerName, of a controller its id in the peers' list.
    :ivar number: of a broker its id among the replicas; None: whichever.
    """

    cluster: str
    part: Part
    name: str
    number: int | None = None

    def belongs_to(self, cluster: str) -> bool:
        """Whether it is something in this cluster."""
        return EVERY in (cluster, self.cluster) or cluster == self.cluster

    def __str__(self) -> str:
        words = [self.part.value, self.name] + ([] if self.number is None else [str(self.number)])
        return f"{'/'.join(words)} of {self.cluster}"

    @property
    def uri(self) -> str:
        """As it stands in a certificate."""
        words = [self.cluster, self.part.value, self.name]
        if self.number is not None:
            words.append(str(self.number))
        return SCHEME + "/".join(quote(word, safe="") for word in words)


def parse_uri(uri: str) -> Identity | None:
    """The identity in a URI; None where it is none of ours.

    :raises ConfigError: it is one of ours, and wrong.
    """
    if not uri.startswith(SCHEME):
        return None
    words = [unquote(word) for word in uri.removeprefix(SCHEME).split("/")]
    if not 3 <= len(words) <= 4:
        raise ConfigError(f"{uri!r}: {SCHEME}CLUSTER/PART/NAME is wanted, and of a broker maybe /ID behind it")
    return make(*words)


def make(cluster: str, part: str, name: str, number: str | None = None) -> Identity:
    """From its words.

    :raises ConfigError: one of them is wrong.
    """
    parts = [each.value for each in Part]
    if part not in parts:
        raise ConfigError(f"{part!r} is no part of a cluster: {', '.join(parts)}")
    for word in (cluster, name):
        if not word or len(word) > NAME_CHARACTERS_MAX or not word.isprintable():
            raise ConfigError(f"{word[:40]!r} is no name: 1 to {NAME_CHARACTERS_MAX} characters that can be printed")
    if number is None:
        return Identity(cluster, Part(part), name)
    if part != Part.BROKER.value:
        raise ConfigError(f"{number!r}: only brokers have numbers")
    if not (number.isascii() and number.isdigit()) or int(number) > ID_MAX or number != str(int(number)):
        raise ConfigError(f"{number[:40]!r} is no broker id: a whole number from 0 is wanted")
    return Identity(cluster, Part.BROKER, name, int(number))
