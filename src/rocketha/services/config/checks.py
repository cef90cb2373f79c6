"""What the text of a configuration value may be: given it, each check says None, or what is allowed instead."""

from __future__ import annotations

import ipaddress
import re

from rocketha.addresses import Networks
from rocketha.errors import ConfigError

_NAME = re.compile(r"[%|a-zA-Z0-9_.-]{1,127}")
_DELAY = re.compile(r"[1-9][0-9]{0,8}[smhd]")
_HOST = re.compile(r"\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,251}[a-zA-Z0-9])?")
_PLUGIN = re.compile(r"[a-z][a-z0-9-]{0,39}")
DELAY_LEVELS_MAX = 64
NETWORKS_MAX = 256


def check_name(value: str) -> str | None:
    """Names end up in topic names and in files: Java's alphabet for topics, and dots for host names."""
    if _NAME.fullmatch(value) and value not in (".", ".."):
        return None
    return "1 to 127 of the characters % | a-z A-Z 0-9 _ . -"


def check_address(value: str) -> str | None:
    """One IP address (or nothing: then it is found out)."""
    try:
        if value:
            ipaddress.ip_address(value)
    except ValueError:
        return "an IPv4 or IPv6 address"
    return None


def check_bind(value: str) -> str | None:
    """One to listen on: names belong to hosts, not to interfaces, but for this one."""
    return None if value == "localhost" else check_address(value)


def bind_address(value: str) -> str:
    """The IP address to listen on."""
    return "127.0.0.1" if value == "localhost" else value


def check_host(value: str) -> str | None:
    """An IP address, of version 6 also in brackets, as Java's broker writes it; or a host name; or nothing.

    What ends in a number is a mistyped address, and no name.
    """
    if check_address(bare_address(value)) is None:
        return None
    if not value.startswith("[") and _HOST.fullmatch(value) and not value.rpartition(".")[2].isdigit():
        return None
    return "an IPv4 or IPv6 address, or a host name"


def bare_address(value: str) -> str:
    """An address without the brackets of IPv6."""
    return value[1:-1] if value.startswith("[") and value.endswith("]") and ":" in value else value


def check_endpoints(value: str) -> str | None:
    """``host:port;host:port``, or nothing."""
    for item in filter(None, value.split(";")):
        host, colon, port = item.strip().rpartition(":")
        if not (colon and _HOST.fullmatch(host) and re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536):
            return "host:port, several separated by ;"
    return None


def check_networks(value: str) -> str | None:
    """Addresses and networks, or nothing."""
    allowed = f"up to {NETWORKS_MAX} addresses or networks such as 10.0.0.0/8, separated by ; or ,"
    try:
        return allowed if len(Networks.parse(value)) > NETWORKS_MAX else None
    except ValueError:
        return allowed


def check_listed(value: str) -> str | None:
    """The same, but not everybody."""
    problem = check_networks(value)
    if problem is None and any(not network.prefixlen for network in Networks.parse(value).listed):
        return "those of proxies, and not all addresses: whoever is in the list says where he likes to be"
    return problem


def check_hours(value: str) -> str | None:
    """``deleteWhen``: hours of the day."""
    parts = [part.strip() for part in value.split(";")]
    if all(re.fullmatch("[0-9]{1,2}", part) and int(part) < 24 for part in parts):
        return None
    return "hours of the day from 00 to 23, several separated by ;"


def check_delay_levels(value: str) -> str | None:
    """``messageDelayLevel``."""
    levels = value.split()
    if 0 < len(levels) <= DELAY_LEVELS_MAX and all(_DELAY.fullmatch(level) for level in levels):
        return None
    return f"1 to {DELAY_LEVELS_MAX} delays such as 10s 5m 2h 1d, separated by blanks"


def check_plain_path(value: str) -> str | None:
    """A path, or nothing for the default place.  Java's lists of several disks are not supported."""
    return "one directory (a list of several disks is not supported)" if "," in value else None


def is_plugin_name(value: str) -> bool:
    """Whether a plug-in may be named so."""
    return _PLUGIN.fullmatch(value) is not None


def plugin_names(value: str) -> list[str]:
    """The names in ``plugins = NAME, NAME``, in order."""
    return [word.strip() for word in value.split(",") if word.strip()]


def check_plugin_names(value: str) -> str | None:
    """``plugins``."""
    names = plugin_names(value)
    if all(map(is_plugin_name, names)) and len(set(names)) == len(names):
        return None
    return "names of small letters, digits and hyphens, separated by commas, each once"


def key_and_value(pair: str) -> tuple[str, str]:
    """Both sides of ``--set KEY=VALUE``.

    :raises ConfigError: it is no such pair.
    """
    key, equals, value = pair.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {pair}: KEY=VALUE is wanted")
    return key.strip(), value
