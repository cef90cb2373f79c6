"""``rocketha keys``: every configuration key, from the declarations that the services themselves read.

What it must not know: any key. ``docs/configuration.rst`` is this command's output, and a test says when it is stale.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import click

from rocketha.admin import options, output
from rocketha.admin.commands import DONE, FAILED, Given
from rocketha.admin.commands import command as declared
from rocketha.services.config.access import AccessConfig
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.config.keys import BrokerConfig, NamesrvConfig, RemotingConfig, StoreSettings
from rocketha.services.config.metrics import MetricsConfig
from rocketha.services.config.proxies import ProxiesConfig
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.config.settings import Key, Section, show
from rocketha.services.config.tls import TlsConfig
from rocketha.services.config.unsupported import IGNORED, REFUSED

SECTIONS: tuple[tuple[str, str, type[Section]], ...] = (
    ("Broker", "broker.conf", BrokerConfig),
    ("Store", "broker.conf", StoreSettings),
    ("Replication", "broker.conf", ReplicationConfig),
    ("Users", "broker.conf", AccessConfig),
    ("Proxies", "broker.conf and namesrv.conf", ProxiesConfig),
    ("Nameserver", "namesrv.conf", NamesrvConfig),
    ("Controller", "controller.conf, or namesrv.conf with enableControllerInNamesrv", ControllerConfig),
    ("Ports", "broker.conf, namesrv.conf and controller.conf", RemotingConfig),
    ("Metrics", "broker.conf and controller.conf", MetricsConfig),
    ("TLS", "the same, or the file that tls.config.file names", TlsConfig),
)

HEAD = """Configuration
=============

Written by ``rocketha keys --rst docs/configuration.rst`` from the declarations that the services read. Names and
defaults are RocketMQ's; where a default differs, Java's is in the row. *Live* keys may be changed by ``mqadmin
updateBrokerConfig``, ``updateNamesrvConfig`` or ``updateControllerConfig`` once ``configUpdateEnable`` is true. Keys of
RocketMQ without effect, and those that stop the start, are at the end; why: `divergence.md <divergence.md>`_.
"""


@declared("keys")
@click.argument("word", default="")
@click.option("--rst", metavar="FILE", help="Write the manual's page there instead.")
@options.JSON
def command(args: Given) -> int:
    """Print the configuration keys, or those with WORD in the name or the words."""
    if args.rst is not None:
        pathlib.Path(args.rst).write_text(page(), encoding="utf-8")
        return DONE
    wanted = args.word.lower()
    found = [
        {"name": name, "default": default(key), "section": title.lower(), "file": file, "description": description(key)}
        for title, file, section in SECTIONS
        for name, key in keys(section).items()
        if wanted in f"{name} {key.doc}".lower()
    ]
    if args.json:
        output.say_json(found)
    else:
        for each in found:
            print("{name} = {default}    ({section}; {file})\n    {description}".format(**each))
    return DONE if found else FAILED


def keys(section: type[Section]) -> dict[str, Key]:
    """Name -> declaration, by name."""
    return {name: key for name, (_attribute, key) in sorted(section.declared().items())}


def default(key: Key) -> str:
    """The default as it stands in a file."""
    return show(key.default)


def description(key: Key) -> str:
    """What it does, what is allowed, and what is special about it."""
    parts = [key.doc]
    if key.kind != "text" or key.check is not None:
        parts.append(f"{key.allowed[0].upper()}{key.allowed[1:]}.")
    if key.java_default:
        parts.append(f"Java: {key.java_default}.")
    if key.ours:
        parts.append("Not a key of RocketMQ.")
    if key.live:
        parts.append("*Live.*")
    if key.no_effect:
        parts.append(f"*No effect:* {key.no_effect}.")
    return " ".join(parts)


def page() -> str:
    """docs/configuration.rst."""
    lines = [HEAD]
    for title, file, section in SECTIONS:
        heading = f"{title} ({file})"
        lines += [heading, "-" * len(heading), ""]
        for name, key in keys(section).items():
            shown = f" = {default(key)}" if default(key) else ""
            lines += [f"``{name}{shown}``", f"   {description(key).replace('|', chr(92) + '|')}", ""]
    return "\n".join([*lines, *unsupported()])


def unsupported() -> Iterator[str]:
    """The keys of RocketMQ that nothing acts on."""
    yield from ("Keys of RocketMQ that stop the start", "-" * 36, "")
    for name, (allowed, reason) in sorted(REFUSED.items()):
        words = " or ".join(f"``{word}``" if word else "nothing" for word in allowed)
        yield f"- ``{name}`` other than {words}: {reason}."
    yield from ("", "Keys of RocketMQ without effect", "-" * 31, "")
    groups: dict[str, list[str]] = {}
    for name, reason in IGNORED.items():
        groups.setdefault(reason, []).append(name)
    for reason, names in groups.items():
        yield f"- {reason[0].upper()}{reason[1:]}: " + ", ".join(f"``{name}``" for name in sorted(names)) + "."
    yield ""
