"""Which proxies are believed when they say from whom a connection is, and what does not go together with that.

In Java a PROXY header is always read.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from rocketha.addresses import Networks
from rocketha.errors import ConfigError
from rocketha.services.config.checks import check_listed
from rocketha.services.config.settings import Section, text


@attrs.define(slots=True)
class ProxiesConfig(Section):
    """See the module."""

    proxy_protocol_networks: str = text(
        "",
        "Addresses and networks of proxies whose every connection to the ports for clients begins with a PROXY header "
        "(version 1 or 2), which says from whom it is; empty is none.",
        check=check_listed,
        ours=True,
        java_default="always on",
    )

    @property
    def networks(self) -> Networks:
        """The list."""
        return Networks.parse(self.proxy_protocol_networks)


def check_proxies(description: str, proxies: Networks, trusted: Iterable[str]) -> None:
    """See that a port can be opened with these proxies.

    :param description: endpoint string.
    :param trusted: the addresses of ``tls.trustedPeers``.
    :raises ConfigError: it can not.
    """
    if description.startswith("haproxy:"):
        raise ConfigError(
            f"{description}: a PROXY header would be believed from everybody: leave out haproxy: and name the proxies "
            "in proxyProtocolNetworks"
        )
    if not proxies:
        return
    if description.startswith("ssl:"):
        raise ConfigError(
            f"{description}: with proxyProtocolNetworks a PROXY header comes before TLS: leave the latter to the keys "
            "tls.server.* (docs/tls)"
        )
    for address in trusted:
        if address in proxies:
            raise ConfigError(
                f"tls.trustedPeers names {address}, which is in proxyProtocolNetworks: what comes from a proxy is not "
                "from a peer"
            )
