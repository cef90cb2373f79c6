"""What goes into a bundle: what processes tell over their ports, and files of directories on this machine.

What it must not know: how it is packed (:mod:`rocketha.admin.bundle`).  Nothing leaves here that
:class:`~rocketha.admin.redaction.Redactor` has not seen: what is collected is text, and a file that is no text is not
taken.  Never taken are messages (commit log, queues, index), keys and certificates, and files of passwords.  Of the
files that would be taken by their names, each that is not is told with the reason (:class:`LeftOut`).
"""

from __future__ import annotations

import fnmatch
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from twisted.internet.defer import Deferred, gatherResults
from twisted.web.client import URI, Agent, readBody
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from rocketha.admin.client import NETWORK_ERRORS, plain
from rocketha.admin.picture import Picture, Process
from rocketha.admin.redaction import Redactor, secrets_in
from rocketha.errors import ConfigError, RockethaError
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.config import properties_file
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, RequestCode

FILE_BYTES_MAX = 8 << 20
"""Of a longer file the end is taken."""
FILES_MAX = 500
"""Of a directory; of more the newest are taken."""
NAMED_MAX = 10_000
"""Of files that are left out; of more the number is told."""
ANSWER_S = 5.0

TAKEN = (
    "*.conf",
    "*.properties",
    "*.log",
    "*.log.[0-9]*",
    "log/*",
    "*/log/*",
    "logs/*",
    "*/logs/*",
    "config/*.json",
    "*/config/*.json",
    "*brokerIdentity",
    "*epochFileCheckpoint*",
)
"""Of a directory, by the path in it."""

LEFT_OUT = (
    "*commitlog/*",
    "*consumequeue/*",
    "*index/*",
    "*raft-*/*",
    "*dledger*/*",
    "*.key",
    "*.pem",
    "*.crt",
    "*.p12",
    "*.jks",
    "*plain_acl*",
    "*tools.yml",
    "*secret*",
    "*password*",
    "*credentials*",
    "*users*",
)
"""Whatever they match besides."""

_CONFIGS = {
    "broker": RequestCode.GET_BROKER_CONFIG,
    "nameserver": RequestCode.GET_NAMESRV_CONFIG,
    "controller": RequestCode.GET_CONTROLLER_CONFIG,
}
_ASKED: Mapping[str, Mapping[str, int]] = {
    "nameserver": {"clients.json": PrivateCode.CLIENTS, "sets.json": RequestCode.GET_BROKER_CLUSTER_INFO},
    "controller": {"clients.json": PrivateCode.CLIENTS, "status.json": PrivateCode.STATUS},
    "broker": {
        "clients.json": PrivateCode.CLIENTS,
        "runtime.json": RequestCode.GET_BROKER_RUNTIME_INFO,
        "replication.json": RequestCode.GET_BROKER_HA_STATUS,
        "epochs.json": RequestCode.GET_BROKER_EPOCH_CACHE,
    },
}
"""Kind of process to what it is asked, and what the answer is called."""

_FAILURES = (RockethaError, *NETWORK_ERRORS)


@attrs.frozen(order=True)
class LeftOut:
    """A file that is not in the bundle, or not all of it.

    :ivar path: where it would be in the bundle.
    """

    why: str
    path: str


class Collected:
    """Names to texts, before secrets are taken out.

    :ivar files: path in the bundle to text.
    :ivar secrets: what is known to be secret.
    :ivar left_out: what is not there.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.secrets: set[str] = set()
        self.left_out: list[LeftOut] = []

    def add(self, name: str, text: str) -> None:
        """One file; of a name that is there already, under another one."""
        stem, number = name, 1
        while name in self.files:
            number += 1
            name = f"{stem}.{number}"
        self.files[name] = text

    def why_left_out(self) -> dict[str, int]:
        """Each reason, and of how many files."""
        return dict(sorted(Counter(each.why for each in self.left_out).items()))

    def manifest(self) -> str:
        """What is in the bundle besides this, and what is not."""
        lines = [*sorted(self.files), ""]
        for why, count in self.why_left_out().items():
            named = sorted(each.path for each in self.left_out if each.why == why)
            lines += [f"{count} files left out: {why}", *(f"    {path}" for path in named[:NAMED_MAX])]
            lines += [f"    and {count - NAMED_MAX} more"] if count > NAMED_MAX else []
        return "\n".join(lines if self.left_out else [*lines, "nothing was left out"]) + "\n"

    def redacted(self) -> Iterator[tuple[str, str]]:
        """Names and texts without secrets, sorted."""
        redactor = Redactor(self.secrets)
        for name in sorted(self.files):
            yield redactor.text(name).strip(), redactor.text(self.files[name])


# -- over the ports


async def of_processes(client: RemotingClient, picture: Picture, into: Collected) -> None:
    """What every process that answered tells."""
    asked = [_process(client, each, into) for each in picture.processes if not each.problem]
    asked += [_why(client, picture, each.name, each.cluster, into) for each in picture.sets]
    asked += [
        _ask(client, each.address, PrivateCode.STATUS, {}, f"members/{_place(each.address)}.json", into)
        for each in picture.ledgers
        if each.ours
    ]
    await gatherResults([Deferred.fromCoroutine(each) for each in asked], consumeErrors=True)


async def _process(client: RemotingClient, process: Process, into: Collected) -> None:
    where = f"processes/{process.kind}-{_place(process.address)}"
    for name, code in _ASKED[process.kind].items():
        await _ask(client, process.address, code, {}, f"{where}/{name}", into)
    await _ask(client, process.address, _CONFIGS[process.kind], {}, f"{where}/effective.properties", into)


async def _why(client: RemotingClient, picture: Picture, name: str, cluster: str, into: Collected) -> None:
    leader = picture.leader
    if leader is not None:
        fields = {"brokerName": name, **({"clusterName": cluster} if cluster else {})}
        await _ask(client, leader.process.address, PrivateCode.WHY, fields, f"why/{_safe(name)}.json", into)


async def _ask(
    client: RemotingClient, address: str, code: int, fields: Mapping[str, str], name: str, into: Collected
) -> None:
    """An answer's body; where there is none, why."""
    try:
        answer = await client.request(address, code, dict(fields), timeout_s=ANSWER_S)
    except _FAILURES as problem:
        into.add(f"{name}.failed", f"{plain(problem)}\n")
        return
    if answer.code != 0:
        into.add(f"{name}.failed", f"{answer.code} {answer.remark}\n")
        return
    text = answer.body.decode("utf-8", "backslashreplace")
    if name.endswith(".json"):
        try:
            text = json.dumps(json_dialect.loads(answer.body), indent=2, default=str) + "\n"
        except RockethaError:
            pass  # as it came
    else:
        into.secrets.update(_secrets_of(text, name))
    into.add(name, text)


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """Connections to status ports are made where all are."""

    def __init__(self, reactor: Any) -> None:
        self._dialer = Dialer(reactor)  # these ports speak plain HTTP

    def endpointForURI(self, uri: URI) -> Any:
        """Twisted: what connects to the host of a URI."""
        return self._dialer.endpoint(uri.netloc.decode("ascii"), ANSWER_S)


async def of_status_ports(reactor: Any, addresses: Iterable[str], into: Collected) -> None:
    """Metrics, health and readiness.

    :param addresses: HOST:PORT of ``--http``.
    """
    agent = Agent.usingEndpointFactory(reactor, _Endpoints(reactor))

    async def fetched(uri: str) -> bytes:
        body: bytes = await readBody(await agent.request(b"GET", uri.encode()))
        return body

    async def page(address: str, name: str) -> None:
        into_name = f"status-ports/{_place(address)}/{name}"
        try:
            body = await Deferred.fromCoroutine(fetched(f"http://{address}/{name}")).addTimeout(ANSWER_S, reactor)
        except Exception as problem:  # an Agent's failures have no common class
            into.add(f"{into_name}.failed", f"{type(problem).__name__} {plain(problem)}\n")
            return
        into.add(f"{into_name}.txt", body.decode("utf-8", "backslashreplace"))

    pages = [page(address, name) for address in addresses for name in ("metrics", "healthz", "readyz")]
    await gatherResults([Deferred.fromCoroutine(each) for each in pages], consumeErrors=True)


# -- directories


def of_directories(directories: Iterable[str], into: Collected) -> None:
    """Logs, configurations and small tables; what they say is secret is known for all the rest.

    :raises ConfigError: one is no directory.
    """
    for number, directory in enumerate(directories, 1):
        if not os.path.isdir(directory):
            raise ConfigError(f"--directory {directory}: it is no directory")
        root = f"directories/{number}-{_safe(os.path.basename(os.path.abspath(directory)))}"
        for path in _taken(directory, root, into):
            found = _end_of(os.path.join(directory, path))
            if isinstance(found, Problem):
                into.left_out.append(LeftOut(found.why, f"{root}/{path}"))
                continue
            if found.shortened:
                into.left_out.append(LeftOut(f"only the last {FILE_BYTES_MAX} bytes are here", f"{root}/{path}"))
            into.add(f"{root}/{path}", found.text)
            if path.endswith((".conf", ".properties")):
                into.secrets.update(_secrets_of(found.text, path))
                into.secrets.update(_secrets_named(found.text, path))


def _taken(directory: str, root: str, into: Collected) -> list[str]:
    """The paths in a directory that are to be taken, sorted: of too many the newest.

    :param root: what the directory is called in the bundle.
    """
    found: list[tuple[float, str]] = []
    for parent, _below, names in os.walk(directory):
        for name in names:
            whole = os.path.join(parent, name)
            path = os.path.relpath(whole, directory)
            if not _matches(path, TAKEN):
                continue
            if _matches(path.lower(), LEFT_OUT):
                into.left_out.append(LeftOut("its name is one of messages, keys or passwords", f"{root}/{path}"))
            else:
                found.append((_modified_s(whole), path))
    found.sort(key=lambda each: (-each[0], each[1]))
    why = f"a directory has more than {FILES_MAX} files, and these are not its newest"
    into.left_out += [LeftOut(why, f"{root}/{path}") for _, path in found[FILES_MAX:]]
    return sorted(path for _, path in found[:FILES_MAX])


def _modified_s(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0  # it is gone, which is told when it is read


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, each) for each in patterns)


@attrs.frozen
class Text:
    """Of a file.

    :ivar shortened: whether it is only the end.
    """

    text: str
    shortened: bool


@attrs.frozen
class Problem:
    """Why there is no text."""

    why: str


def _end_of(path: str) -> Text | Problem:
    """A file's text, from its last bytes."""
    if os.path.islink(path):
        return Problem("it is a link")
    if os.path.exists(path) and not os.path.isfile(path):
        return Problem("it is no file")
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - FILE_BYTES_MAX)
            file.seek(begin)
            data = file.read(FILE_BYTES_MAX)
    except OSError as problem:
        return Problem(f"it cannot be read: {problem.strerror}")
    if begin:  # from the next line on
        data = data.partition(b"\n")[2]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    return Problem("it is no text") if "\0" in text else Text(text, bool(begin))


def _texts(text: str, name: str) -> dict[str, str]:
    try:
        return {key: value for key, value, _ in properties_file.parse(text.encode("utf-8", "replace"), name)}
    except ConfigError:
        return {}


def _secrets_of(text: str, name: str) -> Iterator[str]:
    return secrets_in(_texts(text, name))


def _secrets_named(text: str, name: str) -> Iterator[str]:
    """What stands in the files of secrets that a configuration names."""
    for key, path in _texts(text, name).items():
        if key.lower().endswith("secretfile"):
            found = _end_of(path.strip())
            yield from () if isinstance(found, Problem) else (found.text, *found.text.split())


# -- names


def _place(address: str) -> str:
    return _safe(address.replace(":", "_"))


def _safe(text: str) -> str:
    """A name for a file, whatever a peer calls itself."""
    kept = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in text)
    return kept.lstrip(".")[:100] or "_"
