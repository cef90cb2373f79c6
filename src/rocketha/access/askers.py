"""Who is at the other end of a connection, as far as can be known.

Pure.  Theory of operation.  A certificate that one of the configured authorities issued says it; where the other end
shows none, ``tls.trustedPeers`` may name its address.  Nobody's own word counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rocketha.access import trusted
from rocketha.access.identity import Identity, Part
from rocketha.addresses import plain


class Askers:
    """Of one process.

    :param shown: the identities in the certificate that a transport's other end showed; none where it did not.
    :param trusted_peers: as :mod:`rocketha.access.trusted` reads them.
    :ivar own: who this process is, its parts where it is several; empty: identities are not demanded, and anybody may
        ask anything.
    """

    def __init__(
        self,
        shown: Callable[[Any], Sequence[Identity]],
        own: Sequence[Identity],
        trusted_peers: trusted.Trusted,
    ) -> None:
        self._shown = shown
        self.own = tuple(own)
        self._trusted = trusted_peers

    @property
    def known(self) -> bool:
        """Whether identities are demanded."""
        return bool(self.own)

    def at(self, transport: Any, host: str) -> Sequence[Identity]:
        """Who a connection is by its certificate, or whoever is trusted to be at its address.

        :param host: the IP address of the other end.
        """
        return self._shown(transport) or self._trusted.get(plain(host), ())

    def is_replica(self, transport: Any, host: str, number: int | None = None) -> bool:
        """Whether it may be another replica of this broker.

        :param number: the id that it says it has.
        """
        names = {each.name for each in self.own if each.part is Part.BROKER}
        return not self.known or any(
            self._is(each, Part.BROKER)
            and each.name in names
            and (None in (number, each.number) or each.number == number)
            for each in self.at(transport, host)
        )

    def is_controller(self, transport: Any, host: str, name: str) -> bool:
        """Whether it may be this controller."""
        return not self.known or any(
            self._is(each, Part.CONTROLLER) and each.name == name for each in self.at(transport, host)
        )

    def _is(self, asker: Identity, part: Part) -> bool:
        return asker.part is part and any(asker.belongs_to(each.cluster) for each in self.own)


ANYBODY = Askers(lambda transport: (), (), {})
"""Identities are not demanded."""
