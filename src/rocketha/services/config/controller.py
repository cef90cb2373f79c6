"""The controller's configuration keys, and the list of controllers as an operator writes it.

Names and defaults are those of Java's ``ControllerConfig``; what is known and not acted on is in
:mod:`rocketha.services.config.unsupported`.  A controller is ``id-host:port``: the id ends at the first dash, so host
names may hold dashes; an IPv6 host stands in brackets.  Java's DLedger splits at every dash and colon.
"""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Collection

import attrs

from rocketha.errors import ConfigError
from rocketha.protocols.endpoints import is_loopback
from rocketha.services.config.checks import bind_address, check_bind, check_name, check_plain_path
from rocketha.services.config.keys import RemotingConfig
from rocketha.services.config.metrics import MetricsConfig
from rocketha.services.config.peers import check_node, check_peers, peers_of
from rocketha.services.config.settings import Section, choice, flag, number, text

SECRET_BYTES_MIN, SECRET_BYTES_MAX = 16, 4096

_NEVER = "silence is looked for many times a second"


def check_nodes(value: str) -> str | None:
    """Several ids, or none."""
    wrong = [part for part in filter(None, value.split(";")) if check_node(part.strip())]
    return "ids of controllers, several separated by ;" if wrong else None


@attrs.define(slots=True)
class ControllerConfig(Section):
    """Keys of ``ControllerConfig``; the ports' limits are in ``remoting``, those of metrics in ``metrics``."""

    remoting: RemotingConfig = attrs.field(factory=RemotingConfig)
    metrics: MetricsConfig = attrs.field(factory=MetricsConfig)
    raft_secret: bytes = attrs.field(default=b"", repr=False)  # what stands in the file; no key, so it is never shown

    controller_type: str = choice(
        "DLedger", ("DLedger",), "Which keys name the controllers; jRaft's are not read.  The Raft is rocketha's own."
    )
    controller_dleger_group: str = text(
        "group1",
        "Name of the group of controllers.",
        check=check_name,
        name="controllerDLegerGroup",
        java_default="none",
    )
    controller_dleger_peers: str = text(
        "n0-127.0.0.1:9878",
        "The controllers, the same at each of them: id-host:port;id-host:port.  Brokers are told these addresses.",
        check=check_peers,
        name="controllerDLegerPeers",
        java_default="none",
    )
    controller_dleger_self_id: str = text(
        "n0",
        "Which of controllerDLegerPeers this is; it listens on that port.",
        check=check_node,
        name="controllerDLegerSelfId",
        java_default="none",
    )
    controller_store_path: str = text(
        "",
        "Directory of the controller's log; empty is ~/DLedgerController, as in Java.  The log is in raft-<id> there.",
        check=check_plain_path,
    )
    bind_address: str = text(
        "",
        "Address to listen on; empty is that of the own peer, or all where that is a host name. In the name server's "
        "file it is the name server's, and the controller's only where its peer is a name or it says all addresses.",
        check=check_bind,
        java_default="all addresses",
    )
    listen_port: int = number(
        0, "Port.", high=65_535, no_effect="the port is that of the own peer in controllerDLegerPeers"
    )
    rocketmq_home: str = text("", "Shown to tools only.  Also from $ROCKETMQ_HOME.")
    config_store_path: str = text("", "Shown to tools only: changes made by request are not saved.")
    config_black_list: str = text("configBlackList;configStorePath", "Keys that no request may change.")
    config_update_enable: bool = flag(
        False, "Whether admin requests may change the keys marked live.", ours=True, java_default="true"
    )
    remote_admin_enable: bool = flag(
        False,
        "Whether leadership transfer, membership change and electMaster in a group without a SyncStateSet may be "
        "asked for from other machines; from this one always.",
        ours=True,
    )
    enable_elect_unclean_master: bool = flag(
        False,
        "Whether a broker outside the SyncStateSet may be elected when nobody in it is alive: messages are lost.",
        live=True,
    )
    notify_broker_role_changed: bool = flag(
        True, "Whether brokers are told of an election at once instead of at their next poll.", live=True
    )
    is_process_read_event: bool = flag(
        False,
        "Whether reads go through the log.",
        name="isProcessReadEvent",
        no_effect="every read asks a majority whether this controller still leads",
    )
    elect_master_max_retry_count: int = number(
        3,
        "How often an election is tried.",
        no_effect="it is tried until the set has a master or nobody is alive",
    )
    scan_not_active_broker_interval: int = number(
        5000, "How often brokers whose lease ran out are looked for.", low=1, unit="ms", no_effect=_NEVER
    )
    scan_inactive_master_interval: int = number(
        1000,
        "How often sets without a live master are looked for.",
        low=100,
        high=600_000,
        unit="ms",
        java_default="5000",
    )
    adopt_unknown_brokers: bool = flag(
        False,
        "Whether a broker may register under the id in its own file although this controller never gave it out: "
        "after all controllers lost their disks, see docs/disasters.rst.",
        ours=True,
        live=True,
    )
    broker_lease: int = number(
        0,
        "A heartbeat holds no longer than this, whatever the broker announces; 0 is no such limit.",
        high=3_600_000,
        unit="ms",
        ours=True,
    )
    broker_silence: int = number(
        1200,
        "A broker not heard for so long is suspected and asked; heartbeats come once a second. One whose heartbeats "
        "came late of late is given up to twice as long.",
        low=200,
        high=600_000,
        unit="ms",
        ours=True,
        java_default="its whole lease, 10000",
    )
    broker_probe_timeout: int = number(
        600,
        "How long a suspected broker, and whoever may hear it, are given to answer.",
        low=50,
        high=60_000,
        unit="ms",
        ours=True,
    )
    broker_probe_pause: int = number(
        500,
        "How long after a suspicion that was not confirmed the broker is asked again.",
        low=50,
        high=60_000,
        unit="ms",
        ours=True,
    )
    raft_election_timeout: int = number(
        1000,
        "Silence of the leading controller, at least, after which another stands for election; up to twice as long.",
        low=200,
        high=60_000,
        unit="ms",
        ours=True,
    )
    raft_heartbeat_interval: int = number(
        100, "How often the leading controller is heard by the others.", low=50, high=10_000, unit="ms", ours=True
    )
    raft_preferred_leaders: str = text(
        "",
        "Ids of the controllers that should lead when they are caught up; java: preferredLeaderId.",
        check=check_nodes,
        ours=True,
    )
    raft_cautious: bool = flag(
        True,
        "Whether a founding controller whose disk was empty gives votes that count only where all voters give theirs, "
        "until a leader has filled it.  False, for one start on the emptied ones, revives a group whose majority lost "
        "its disks; what only they had is gone.",
        ours=True,
    )
    raft_lease_reads: bool = flag(
        False,
        "Whether the leading controller answers reads without asking the others while a majority has promised to elect "
        "nobody else.  Stale answers are possible where clocks run at rates that differ by more than a tenth, or where "
        "a machine is paused with its clock.  A controller that dies is replaced after raftElectionTimeout.",
        ours=True,
    )
    raft_secret_file: str = text(
        "",
        "File with a secret that all controllers share, 16 bytes or more: Raft connections without it are refused.  "
        "Empty: whoever reaches the port may say that it is a controller.",
        check=check_plain_path,
        ours=True,
    )
    raft_join_existing: bool = flag(
        False,
        "Whether this controller waits to be added to a group that runs, instead of founding one with its peers.",
        ours=True,
    )

    @property
    def peers(self) -> dict[str, str]:
        """Id to ``host:port``."""
        return peers_of(self.controller_dleger_peers)

    @property
    def self_address(self) -> str:
        """``host:port`` of this controller, as brokers are told."""
        return self.peers[self.controller_dleger_self_id]

    @property
    def raft_directory(self) -> str:
        """Where this controller's log is."""
        return posixpath.join(self.controller_store_path, f"raft-{self.controller_dleger_self_id}")


def check_secret(path: str, secret: bytes) -> bytes:
    """The contents of ``raftSecretFile``, without the line end that editors add.

    :raises ConfigError: too short to be one, or something else.
    """
    secret = secret.strip()
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise ConfigError(
            f"raftSecretFile: {path} holds {len(secret)} bytes, allowed is {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}"
        )
    return secret


def complete_controller(config: ControllerConfig, given: Collection[str], name: str, warnings: list[str]) -> None:
    """Fill in what follows from the own peer, and check what must fit together.

    :param given: names of the keys that somebody set; what nobody set follows them.
    :raises ConfigError: keys that contradict each other.
    """
    peers, own = config.peers, config.controller_dleger_self_id
    if own not in peers:
        raise ConfigError(
            f"{name}: controllerDLegerSelfId={own} is refused, allowed is an id of controllerDLegerPeers: "
            + ", ".join(peers)
        )
    if "raftElectionTimeout" not in given:
        config.raft_election_timeout = max(config.raft_election_timeout, 3 * config.raft_heartbeat_interval)
    if "raftHeartbeatInterval" not in given:
        config.raft_heartbeat_interval = min(config.raft_heartbeat_interval, config.raft_election_timeout // 3)
    if config.raft_heartbeat_interval * 3 > config.raft_election_timeout:
        raise ConfigError(
            f"{name}: raftHeartbeatInterval={config.raft_heartbeat_interval} is refused, allowed is up to a third of "
            f"raftElectionTimeout={config.raft_election_timeout}"
        )
    for node in filter(None, config.raft_preferred_leaders.split(";")):
        if node.strip() not in peers:
            warnings.append(f"raftPreferredLeaders names {node.strip()}, which is not in controllerDLegerPeers")
    host, _, port = peers[own].rpartition(":")
    config.listen_port = int(port)
    if not config.bind_address:
        config.bind_address = _address_to_bind(host, own, warnings)
    warnings.extend(_address_warnings(peers, own))


def _address_to_bind(host: str, own: str, warnings: list[str]) -> str:
    try:
        return str(ipaddress.ip_address(bind_address(host.strip("[]"))))
    except ValueError:
        warnings.append(
            f"controller {own} listens on all addresses, since its own is the name {host}; "
            "bindAddress in the file narrows that"
        )
        return "0.0.0.0"  # noqa: S104 (a name says no interface; the warning says so)


def _address_warnings(peers: dict[str, str], own: str) -> list[str]:
    """Addresses that cannot work for brokers on other machines (regression E3)."""
    local = [node for node, address in peers.items() if is_loopback(address.rpartition(":")[0].strip("[]"))]
    problems = []
    if local and len(local) < len(peers):
        words = ", ".join(f"{node}-{peers[node]}" for node in local)
        problems.append(
            f"controllerDLegerPeers: {words} is loopback while others are not: controllers and brokers on other "
            "machines will be told an address that leads them to themselves"
        )
    for node, address in peers.items():
        try:
            unspecified = ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_unspecified
        except ValueError:
            continue
        if unspecified:
            problems.append(f"controllerDLegerPeers: {node}-{address} is no address that anybody can connect to")
    if len(peers) % 2 == 0:
        problems.append(
            f"{len(peers)} controllers survive the loss of {(len(peers) - 1) // 2}, as {len(peers) - 1} would: "
            "an odd number is better"
        )
    return problems
