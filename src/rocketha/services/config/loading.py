"""The configuration of a service: RocketMQ's property files, flags and environment, as typed values.

``load_broker``, ``load_namesrv``, ``load_controller``, ``load_witness`` and ``load_learner`` take the bytes of a file,
so an existing ``broker.conf`` starts our broker.  Precedence: flag, then file, then environment, then the default.
What is wrong is a :class:`~rocketha.errors.ConfigError` that names file, line, key and what is allowed; what has no
effect is a warning in the result, which the service logs.

Keys and defaults: :mod:`rocketha.services.config.keys`, :mod:`rocketha.services.config.replication`,
:mod:`rocketha.services.config.controller`.
Must not start or open anything but the file it is given.
Java classes: ``MixAll.properties2Object``, ``Configuration``, and the option parsing of ``BrokerStartup`` and
``NamesrvStartup``.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar

import attrs

from rocketha.errors import ConfigError, RequestRefused
from rocketha.protocols.endpoints import literal_host
from rocketha.services.config import properties_file
from rocketha.services.config.access import AccessConfig, check_access, read_acl_files
from rocketha.services.config.checks import bare_address, bind_address, check_name, plugin_names
from rocketha.services.config.controller import ControllerConfig, check_secret, complete_controller
from rocketha.services.config.exposure import check_proxied
from rocketha.services.config.keys import BrokerConfig, NamesrvConfig, RemotingConfig, StoreSettings
from rocketha.services.config.metrics import MetricsConfig, check_otlp, complete_metrics
from rocketha.services.config.proxies import ProxiesConfig
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.config.roles import complete_replication
from rocketha.services.config.rules import fit_broker
from rocketha.services.config.settings import Key, Section, Value, clip, show
from rocketha.services.config.tls import DEFAULT_FILE as DEFAULT_TLS_FILE
from rocketha.services.config.tls import FILE_IS_WEAKEST, TlsConfig, check_tls
from rocketha.services.config.unsupported import IGNORED, REFUSED
from rocketha.services.process.bounded_file import read_bounded
from rocketha.services.process.open_files import accepted_at_once, connections_allowed
from rocketha.services.process.open_files import limit as open_files_limit
from rocketha.services.process.secret_file import refuse_readable

__all__ = [
    "AccessConfig",
    "BrokerConfig",
    "ControllerConfig",
    "Loaded",
    "NamesrvConfig",
    "ProxiesConfig",
    "RemotingConfig",
    "ReplicationConfig",
    "StoreSettings",
    "TlsConfig",
    "all_texts",
    "describe",
    "load_broker",
    "load_controller",
    "load_learner",
    "load_namesrv",
    "load_tls",
    "load_witness",
    "read_file",
    "sections",
    "update",
]

_SYSTEM_ERROR, _NO_PERMISSION = 1, 16
_NEVER = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome", "brokerConfigPath"})

Config = BrokerConfig | NamesrvConfig | ControllerConfig
CONTROLLER_ONLY = frozenset({**ControllerConfig.declared(), **MetricsConfig.declared()}) - frozenset(
    NamesrvConfig.declared()
)
"""Keys that in a file for both are the controller's alone."""

SECRETS = frozenset(
    name for section in (TlsConfig, AccessConfig) for name, (_, key) in section.declared().items() if key.secret
)
"""Keys whose values nobody else may see."""

_S = TypeVar("_S", BrokerConfig, NamesrvConfig, ControllerConfig)


@attrs.frozen(slots=True)
class Loaded(Generic[_S]):
    """A configuration and what a person should know about it."""

    config: _S
    warnings: tuple[str, ...]


def _remoting(
    texts: Mapping[str, tuple[str, str]], flags: Mapping[str, str], warnings: list[str], servers: int = 1
) -> RemotingConfig:
    """Limits of the ports, and their TLS; never more connections than there are descriptors for.

    :param servers: that share this process and its open files.
    """
    remoting = RemotingConfig.from_texts(texts)
    if "connectionsMax" not in texts:
        remoting.connections_max = connections_allowed(servers)
    elif (allowed := connections_allowed(servers, unbounded=True)) < remoting.connections_max:
        _, where = texts["connectionsMax"]
        warnings.append(
            f"{where}: connectionsMax={remoting.connections_max} counts as {allowed}: this process may have "
            f"{open_files_limit()} files open"
        )
        remoting.connections_max = allowed
    remoting.server_socket_backlog = min(remoting.server_socket_backlog, accepted_at_once())
    remoting.tls = _tls(texts, flags, warnings)
    return remoting


def _metrics(
    texts: Mapping[str, tuple[str, str]], hosts: tuple[str, ...], tls: TlsConfig, warnings: list[str]
) -> MetricsConfig:
    """Who is given metrics.

    :param hosts: where the port for Prometheus listens if nothing is said.
    """
    metrics = MetricsConfig.from_texts(texts)
    complete_metrics(metrics, hosts, tls, warnings)
    check_otlp(metrics)
    return metrics


def _tls(texts: Mapping[str, tuple[str, str]], flags: Mapping[str, str], warnings: list[str]) -> TlsConfig:
    """The ``tls.*`` keys: of the server's file, of the file for them, of flags, the strongest last."""
    path, merged = TlsConfig.from_texts(texts).config_file, dict(texts)
    named = path != DEFAULT_TLS_FILE
    if path and (named or os.path.exists(path)):
        for key, found in _tls_file(path, warnings).items():
            if key in FILE_IS_WEAKEST and not named:
                warnings.append(f"{found[1]}: {key} has no effect in the default tls.config.file, as in RocketMQ")
            elif key not in flags and not (key in FILE_IS_WEAKEST and key in texts):
                merged[key] = found
    tls = TlsConfig.from_texts(merged)
    check_tls(tls)
    return tls


def _tls_file(path: str, warnings: list[str]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for key, value, line in properties_file.parse(read_file(path), path):
        if key in TlsConfig.declared():
            found[key] = (value, f"{path}, line {line}")
        else:
            warnings.append(f"{path}, line {line}: {clip(key)} is no key of TLS")
    return found


def load_tls(path: str) -> TlsConfig:
    """TLS of a client, as a file of ``tls.*`` keys says.

    :raises ConfigError: the file is missing, or something in it is wrong.
    """
    tls = TlsConfig.from_texts({**_tls_file(path, []), "tls.enable": ("true", "--tls")})
    check_tls(tls)
    return tls


def load_broker(
    data: bytes = b"",
    name: str = "broker.conf",
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    host_name: str | None = None,
    witness: bool = False,
    judges: bool = True,
) -> Loaded[BrokerConfig]:
    """Build the broker's configuration.

    :param data: the property file's bytes.
    :param name: the file's name, for messages.
    :param flags: Java's key names to texts, from the command line.
    :param environment: ``os.environ`` where not given.
    :param host_name: the default of ``brokerName``.
    :param witness: of the member that ``dLegerWitness`` names, which is no broker.
    :param judges: whether it answers clients, so that users and their rights count, and proxies before it.
    :raises ConfigError: anything that is wrong.
    """
    environment = os.environ if environment is None else environment
    defaults = {"namesrvAddr": environment.get("NAMESRV_ADDR"), "rocketmqHome": environment.get("ROCKETMQ_HOME")}
    plugin_keys: dict[str, dict[str, str]] = {each: {} for each in _plugins_of(data, name, flags or {})}
    texts, warnings = _collect(
        data,
        name,
        flags or {},
        defaults,
        (
            BrokerConfig,
            StoreSettings,
            RemotingConfig,
            TlsConfig,
            ReplicationConfig,
            AccessConfig,
            ProxiesConfig,
            MetricsConfig,
        ),
        (NamesrvConfig, ControllerConfig),
        plugin_keys,
    )
    config = BrokerConfig.from_texts(texts)
    config.plugin_keys = plugin_keys
    config.store = StoreSettings.from_texts(texts)
    config.remoting = _remoting(texts, flags or {}, warnings)
    keys = config.replication = ReplicationConfig.from_texts(texts)
    config.access = AccessConfig.from_texts(texts)
    config.proxies = ProxiesConfig.from_texts(texts)
    if witness:
        if not keys.d_leger_witness:
            raise ConfigError(f"{name}: a witness needs dLegerWitness, its id in dLegerPeers")
        keys.d_leger_self_id = keys.d_leger_witness
    config.bind_address = bind_address(config.bind_address)
    _complete_broker(config, environment, host_name, warnings)
    config.metrics = _metrics(texts, (config.broker_ip1, config.bind_address), config.remoting.tls, warnings)
    fit_broker(config, texts.keys(), name, warnings)
    complete_replication(config, keys, texts.keys(), name, warnings)
    if judges:
        check_proxied(config.proxies.networks, config.remoting.tls)
        _complete_access(config, warnings)
    else:
        config.access.credentials  # noqa: B018  it may be refused
    if not witness and keys.d_leger_self_id and keys.d_leger_self_id == keys.d_leger_witness:
        own = keys.d_leger_self_id
        raise ConfigError(f"{name}: dLegerSelfId={own} is refused, it is dLegerWitness: start twistd rocketha-witness")
    return Loaded(config, tuple(warnings))


def _complete_access(config: BrokerConfig, warnings: list[str]) -> None:
    access, secret = config.access, None
    if access.authentication_enabled and access.auth_secret_file:
        refuse_readable(access.auth_secret_file)
        secret = read_file(access.auth_secret_file)
    check_access(access, secret, not config.replication.alone, config.remoting.tls.identities == "required")
    read_acl_files(access, config.rocketmq_home, warnings)


def load_witness(
    data: bytes = b"",
    name: str = "broker.conf",
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded[BrokerConfig]:
    """Build a witness's configuration from that of its group; arguments and errors as for :func:`load_broker`."""
    return load_broker(
        data, name, {**(flags or {}), "enableDLegerCommitLog": "true"}, environment, witness=True, judges=False
    )


def load_learner(
    data: bytes = b"",
    name: str = "broker.conf",
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded[BrokerConfig]:
    """Build a learner's configuration from that of any broker of its group; arguments and errors as for
    :func:`load_broker`.
    """
    own = {"brokerRole": "SLAVE", "brokerId": "1"}  # which broker the file is of does not matter
    return load_broker(data, name, {**(flags or {}), **own}, environment, judges=False)


def load_namesrv(
    data: bytes = b"",
    name: str = "namesrv.conf",
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded[NamesrvConfig]:
    """Build the name server's configuration; arguments and errors as for :func:`load_broker`."""
    environment = os.environ if environment is None else environment
    defaults = {"rocketmqHome": environment.get("ROCKETMQ_HOME")}
    sections = (NamesrvConfig, RemotingConfig, TlsConfig, ProxiesConfig)
    others = (BrokerConfig, ControllerConfig, MetricsConfig)
    texts, warnings = _collect(data, name, flags or {}, defaults, sections, others)
    config = NamesrvConfig.from_texts(texts)
    config.proxies = ProxiesConfig.from_texts(texts)
    config.bind_address = bind_address(config.bind_address)
    config.remoting = _remoting(texts, flags or {}, warnings, 2 if config.enable_controller_in_namesrv else 1)
    check_proxied(config.proxies.networks, config.remoting.tls)
    if config.enable_controller_in_namesrv:
        warnings = [each for each in warnings if not _is_about(each, name, CONTROLLER_ONLY)]
    home = os.path.join(environment.get("HOME") or os.path.expanduser("~"), "namesrv")
    config.kv_config_path = os.path.abspath(config.kv_config_path or os.path.join(home, "kvConfig.json"))
    config.config_store_path = config.config_store_path or os.path.join(home, "namesrv.properties")
    return Loaded(config, tuple(warnings))


def load_controller(
    data: bytes = b"",
    name: str = "controller.conf",
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    embedded: bool = False,
) -> Loaded[ControllerConfig]:
    """Build the controller's configuration; arguments and errors as for :func:`load_broker`.

    :param embedded: the file is that of the name server whose process the controller lives in: what is not a key of
        the controller alone is the name server's affair.
    """
    environment = os.environ if environment is None else environment
    defaults = {"rocketmqHome": environment.get("ROCKETMQ_HOME")}
    sections = (ControllerConfig, RemotingConfig, TlsConfig, MetricsConfig)
    others = (BrokerConfig, NamesrvConfig, ProxiesConfig)
    texts, warnings = _collect(data, name, flags or {}, defaults, sections, others)
    if embedded:
        warnings = [each for each in warnings if _is_about(each, name, CONTROLLER_ONLY)]
        texts.pop("listenPort", None)
    config = ControllerConfig.from_texts(texts)
    config.bind_address = bind_address(config.bind_address)
    config.remoting = _remoting(texts, flags or {}, warnings, 2 if embedded else 1)
    home = environment.get("HOME") or os.path.expanduser("~")
    config.controller_store_path = os.path.abspath(
        config.controller_store_path or os.path.join(home, "DLedgerController")
    )
    config.config_store_path = config.config_store_path or os.path.join(home, "controller", "controller.properties")
    if "controllerDLegerSelfId" not in texts and len(config.peers) == 1:
        config.controller_dleger_self_id = next(iter(config.peers))
    own = literal_host(config.peers.get(config.controller_dleger_self_id, ""))
    if embedded and own is not None and config.bind_address and not _is_all(config.bind_address):
        config.bind_address = ""  # it was the name server's: this one listens where the others look for it
    complete_controller(config, texts.keys(), name, warnings)
    config.metrics = _metrics(texts, (config.bind_address,), config.remoting.tls, warnings)
    if config.raft_secret_file:
        refuse_readable(config.raft_secret_file)
        config.raft_secret = check_secret(config.raft_secret_file, read_file(config.raft_secret_file))
    return Loaded(config, tuple(warnings))


def _is_all(address: str) -> bool:
    """Whether listening there is listening on every address, the peer's among them: 0.0.0.0 or ::, as behind NAT."""
    return ipaddress.ip_address(address).is_unspecified


def _is_about(warning: str, name: str, keys: Iterable[str]) -> bool:
    """Whether a warning of :func:`_collect` is about one of these keys of the file."""
    key = warning.removeprefix(f"{name}, line ").partition(": ")[2].partition(" ")[0]
    return key in keys


def read_file(path: str) -> bytes:
    """The bytes of a configuration file.

    :raises ConfigError: it cannot be read.
    """
    return read_bounded(path, properties_file.FILE_BYTES_MAX)


def _collect(
    data: bytes,
    name: str,
    flags: Mapping[str, str],
    environment: Mapping[str, str | None],
    sections: Sequence[type[Section]],
    others: Sequence[type[Section]],
    plugin_keys: Mapping[str, dict[str, str]] = MappingProxyType({}),
) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Key to text and place, the strongest source last; and the warnings.

    :param plugin_keys: of each plug-in that is on, gets its own keys, written ``NAME.KEY``.
    """
    known: dict[str, Key] = {}
    for section in sections:
        known.update((key, declaration) for key, (_, declaration) in section.declared().items())
    texts = {key: (value, f"environment of {key}") for key, value in environment.items() if value}
    warnings: list[str] = []
    seen: dict[str, int] = {}
    for key, value, line in properties_file.parse(data, name):
        where = f"{name}, line {line}"
        if key in seen:
            warnings.append(f"{where}: {key} stands in line {seen[key]} too; this line counts")
        seen[key] = line
        if key not in known and _is_a_plugins(key, value, plugin_keys):
            continue
        if key not in known:
            warnings.append(f"{where}: {_judge_unknown(key, value, where, known, others)}")
            continue
        reason = known[key].no_effect
        if reason and value.strip() != show(known[key].default):
            warnings.append(f"{where}: {key} has no effect: {reason}")
        texts[key] = (value, where)
    for key, value in flags.items():
        if key not in known and _is_a_plugins(key, value, plugin_keys):
            continue
        if key not in known:
            raise ConfigError(f"flag {key}: {_judge_unknown(key, value, 'flag', known, others)}")
        texts[key] = (value, f"flag {key}")
    return texts, warnings


def _plugins_of(data: bytes, name: str, flags: Mapping[str, str]) -> list[str]:
    """The plug-ins that ``plugins`` names, of the strongest source."""
    given = [value for key, value, _ in properties_file.parse(data, name) if key == "plugins"]
    return plugin_names(flags.get("plugins", given[-1] if given else ""))


def _is_a_plugins(key: str, value: str, plugin_keys: Mapping[str, dict[str, str]]) -> bool:
    """Whether a key is one of a plug-in that is on; then the plug-in has it."""
    plugin, _, own = key.partition(".")
    if not own or plugin not in plugin_keys:
        return False
    plugin_keys[plugin][own] = value.strip()
    return True


def _judge_unknown(key: str, value: str, where: str, known: Iterable[str], others: Sequence[type[Section]]) -> str:
    if key in REFUSED:
        allowed, reason = REFUSED[key]
        if value.strip().lower() not in [word.lower() for word in allowed]:
            words = " or ".join(repr(word) for word in allowed)
            raise ConfigError(f"{where}: {key}={clip(value)!r} is refused, allowed is {words}: {reason}")
        return f"{key} has no effect: no other value is supported"
    if key in IGNORED:
        return f"{key} has no effect: {IGNORED[key]}"
    if any(key in other.declared() for other in others):
        return f"{key} has no effect: it is a key of another service"
    if "." in key:
        return f"{clip(key)} is a key of plug-in {clip(key.partition('.')[0])}, which `plugins` does not name"
    near = difflib.get_close_matches(key, list(known), n=1)
    return f"{clip(key)} is not a key of RocketMQ or rocketha" + (f"; did you mean {near[0]}?" if near else "")


def _complete_broker(
    config: BrokerConfig, environment: Mapping[str, str], host_name: str | None, warnings: list[str]
) -> None:
    """Fill in what depends on the host."""
    if not config.broker_name:
        config.broker_name = socket.gethostname() if host_name is None else host_name
        if check_name(config.broker_name) is not None:
            config.broker_name = "DEFAULT_BROKER"
    config.broker_ip1, config.broker_ip2 = bare_address(config.broker_ip1), bare_address(config.broker_ip2)
    if not config.broker_ip1:
        config.broker_ip1 = config.bind_address or "127.0.0.1"
        if ipaddress.ip_address(config.broker_ip1).is_unspecified:
            config.broker_ip1 = _own_address(config.broker_ip1)
            warnings.append(f"brokerIP1 is not set: clients will be told {config.broker_ip1}")
    config.broker_ip2 = config.broker_ip2 or config.broker_ip1
    store = config.store
    home = environment.get("HOME") or os.path.expanduser("~")
    store.store_path_root_dir = os.path.abspath(store.store_path_root_dir or os.path.join(home, "store"))
    store.store_path_commit_log = os.path.abspath(
        store.store_path_commit_log or os.path.join(store.store_path_root_dir, "commitlog")
    )
    store.mapped_file_size_consume_queue = -(-store.mapped_file_size_consume_queue // 20) * 20


def _own_address(wildcard: str) -> str:
    """The address this host would speak from; no packet is sent.  Loopback where there is no network."""
    family = socket.AF_INET6 if ":" in wildcard else socket.AF_INET
    probe = "2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1"
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as datagram:
            datagram.connect((probe, 9))
            return str(datagram.getsockname()[0])
    except OSError:
        return "::1" if family == socket.AF_INET6 else "127.0.0.1"


def sections(config: Config) -> list[Section]:
    """All sections of keys that a configuration has."""
    found: list[Section] = [config, config.remoting, config.remoting.tls]
    if isinstance(config, BrokerConfig):
        found += config.store, config.replication, config.access
    if not isinstance(config, ControllerConfig):
        found.append(config.proxies)
    if not isinstance(config, NamesrvConfig):
        found.append(config.metrics)
    return found


def all_texts(config: Config) -> dict[str, str]:
    """Every key and its present value."""
    texts: dict[str, str] = {}
    for section in sections(config):
        texts.update(section.as_texts())
    return texts


def describe(config: Config) -> bytes:
    """The body of GET_BROKER_CONFIG (26) and GET_NAMESRV_CONFIG (319): sorted ``key=value`` lines."""
    return "".join(f"{key}={value}\n" for key, value in sorted(all_texts(config).items())).encode()


def update(config: Config, body: bytes) -> dict[str, tuple[str, str]]:
    """Apply the body of UPDATE_BROKER_CONFIG (25) or UPDATE_NAMESRV_CONFIG (318): all of it or nothing.

    Unlike Java's deny-list (CVE-2023-33246, CVE-2023-37582) this is an allow-list.

    :returns: key to (old, new) text of what really changed, for the audit line.
    :raises RequestRefused: NO_PERMISSION (16) unless ``configUpdateEnable`` is set and every key may change in a
        running process; SYSTEM_ERROR (1) for a bad value.
    """
    if not config.config_update_enable:
        raise RequestRefused(
            _NO_PERMISSION,
            "changing the configuration by request is off; set configUpdateEnable=true and restart to allow it",
        )
    changed: dict[str, tuple[str, str]] = {}
    for section, attribute, key, value in _changes(config, body):
        old = getattr(section, attribute)
        if old != value:
            setattr(section, attribute, value)
            changed[key] = (show(old), show(value))
    return changed


def _changes(config: Config, body: bytes) -> list[tuple[Section, str, str, Value]]:
    """What a request wants changed, each key allowed and each value good."""
    try:
        wanted = {entry.key: entry.value for entry in properties_file.parse(body, "request")}
    except ConfigError as error:
        raise RequestRefused(_SYSTEM_ERROR, str(error)) from None
    black_list = _NEVER | {word.strip() for word in config.config_black_list.split(";")}
    owners = {key: (section, *found) for section in sections(config) for key, found in section.declared().items()}
    changes: list[tuple[Section, str, str, Value]] = []
    for key, raw in wanted.items():
        if key in black_list:
            raise RequestRefused(_NO_PERMISSION, "Can not update config in black list.")
        if key not in owners or not owners[key][2].live:
            raise RequestRefused(_NO_PERMISSION, f"{clip(key)} can not be changed in a running process")
        section, attribute, declaration = owners[key]
        try:
            changes.append((section, attribute, key, declaration.parse(raw)))
        except ValueError as error:
            raise RequestRefused(_SYSTEM_ERROR, f"{key}={clip(raw)!r} is refused, allowed is {error}") from None
    return changes
