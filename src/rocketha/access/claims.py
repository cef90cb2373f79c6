"""Whom a request may come from: what it claims, and whether the identity of who asks bears that out.

Pure.  A row of a server's table of requests has a :class:`Claim`; clients' requests have none, for what they may do
their users' rights say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from rocketha.access.identity import Identity, Part


@attrs.frozen
class Claim:
    """What a request says about who sends it.

    :ivar parts: those that may ask.
    :ivar cluster: header field that must be a broker's own cluster, where the request has it.
    :ivar name: likewise its brokerName.
    :ivar number: likewise its id, where its certificate has one.
    :ivar said: a broker must say its cluster: nothing else on its connection does.
    :ivar replica: a broker must be of the same name as the one that is asked.
    :ivar operators: header field with which only an operator may ask, where it is ``true``.
    :ivar instead: header field with which a broker may ask that, too; its id is there then, and not in ``number``.
    :ivar names: finds more broker names in a body; a broker's own is the only one that may be there.
    """

    parts: frozenset[Part]
    cluster: str = ""
    name: str = ""
    number: str = ""
    said: bool = False
    replica: bool = False
    operators: str | None = None
    instead: str | None = None
    names: Callable[[bytes], Iterable[str]] | None = None

    def holds(self, asker: Identity, own: Sequence[Identity], fields: Mapping[str, str], body: bytes) -> bool:
        """Whether this one may ask it.

        :param own: who the process is that is asked.
        :raises RemoteProtocolError: the body cannot be read.
        """
        if asker.part not in self.parts or not any(asker.belongs_to(each.cluster) for each in own):
            return False
        if asker.part is Part.OPERATOR:
            return True
        number = self.number
        if self.operators is not None and fields.get(self.operators, "").lower() == "true":
            if self.instead is None or self.instead not in fields:
                return False
            number = self.instead
        if asker.part is not Part.BROKER:
            return True
        if self.replica and not any(each.part is Part.BROKER and each.name == asker.name for each in own):
            return False
        cluster = fields.get(self.cluster)
        if not asker.belongs_to(cluster) if cluster else self.said:
            return False
        if self.name in fields and fields[self.name] != asker.name:
            return False
        if asker.number is not None and fields.get(number, str(asker.number)) != str(asker.number):
            return False
        return self.names is None or all(name == asker.name for name in self.names(body))


_MEMBERS = frozenset((Part.BROKER, Part.CONTROLLER, Part.NAMESERVER, Part.OPERATOR))

OPERATOR = Claim(frozenset((Part.OPERATOR,)))
ANY_MEMBER = Claim(_MEMBERS)
"""Changes nothing, and shows what every process of a cluster may know."""
REPLICA = Claim(frozenset((Part.BROKER, Part.OPERATOR)), replica=True)
"""What replicas of one broker ask each other."""
REPLICA_OR_CONTROLLER = Claim(frozenset((Part.BROKER, Part.CONTROLLER, Part.OPERATOR)), replica=True)
CONTROLLER = Claim(frozenset((Part.CONTROLLER,)))
NAMESERVER = Claim(frozenset((Part.NAMESERVER,)))


def of_broker(cluster: str = "", name: str = "", number: str = "") -> Claim:
    """A broker speaks for itself, and these header fields say who it is."""
    return Claim(frozenset((Part.BROKER,)), cluster, name, number)
