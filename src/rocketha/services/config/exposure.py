"""Which ports others than this machine can reach, and what must hold for them to be opened.

Pure.  Loopback needs nothing.  Elsewhere whoever reaches a port could be a broker, a controller or an operator: so it
is not opened without identities, unless ``insecureNetwork=true`` says that the network itself keeps strangers away.
"""

from __future__ import annotations

import re

from rocketha.addresses import Networks
from rocketha.errors import ConfigError
from rocketha.protocols.endpoints import is_loopback
from rocketha.services.config.tls import TlsConfig

INSECURE = (
    "insecureNetwork=true: who reaches a port of this process may do there whatever he likes, also as a broker, a "
    "controller or an operator"
)
_INTERFACE = re.compile(r":interface=((?:\\.|[^:\\])*)")


def is_exposed(description: str) -> bool:
    """Whether others than this machine may reach the port of an endpoint string."""
    if description.startswith("unix:"):
        return False
    found = _INTERFACE.findall(description)
    return len(found) != 1 or not is_loopback(re.sub(r"\\(.)", r"\1", found[0]))


_WITHOUT = (
    "other machines reach this port, and without identities whoever does is believed to be a broker, a controller or "
    "an operator: set tls.identities=required (docs/tls), or insecureNetwork=true if the network keeps all others away"
)


def check_proxied(networks: Networks, config: TlsConfig) -> None:
    """See that proxies may pass others on to the ports, wherever these listen.

    :raises ConfigError: they may not.
    """
    if networks and config.identities == "off" and not config.insecure_network:
        raise ConfigError(f"proxyProtocolNetworks: through a proxy {_WITHOUT}")


def check_exposure(description: str, config: TlsConfig, what: str = "") -> None:
    """See that a port may be opened.

    :param description: endpoint string.
    :param what: the key or flag that has it so, for the error.
    :raises ConfigError: it may not.
    """
    if config.identities == "off" and not config.insecure_network and is_exposed(description):
        raise ConfigError(f"{what or description}: {_WITHOUT}")
