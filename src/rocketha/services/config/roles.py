"""Which keys of replication can be meant together: what does not fit stops the start, what has no effect is said.

Java: ``BrokerStartup``, which checks that a slave has an id and little else.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable

from rocketha.errors import ConfigError
from rocketha.protocols.endpoints import is_loopback
from rocketha.services.config.keys import BrokerConfig
from rocketha.services.config.peers import check_members
from rocketha.services.config.replication import (
    ASYNC_MASTER,
    ELECTED_AFTER_MS,
    LEASE_WITHOUT_ALL_MS,
    SLAVE,
    SYNC_MASTER,
    WIRE_JAVA,
    ReplicationConfig,
)

_CLASSIC_ONLY = ("brokerRole", "haMasterAddress")
_SETS_ONLY = (
    "allAckInSyncStateSet",
    "minInSyncReplicas",
    "haMaxTimeSlaveNotCatchup",
    "asyncLearner",
    "controllerAddr",
    "brokerHeartbeatInterval",
    "controllerHeartBeatTimeoutMills",
    "brokerElectionPriority",
    "syncControllerMetadataPeriod",
    "controllerRequestTimeout",
    "masterLease",
)
_CONTROLLER_MODE_ONLY = (*_SETS_ONLY, "handoverTimeout", "handoverLinger", "handoverLingerQuiet")
_DLEDGER = ("dLegerGroup", "dLegerPeers", "dLegerSelfId")
MESSAGE_BYTES_MAX = 6 << 20
"""In DLedger mode: a message travels in one frame between members, of 8 MiB at most."""


def complete_replication(
    config: BrokerConfig, keys: ReplicationConfig, given: Collection[str], name: str, warnings: list[str]
) -> None:
    """Fill in what follows from other keys, and check what must fit together.

    :param given: names of the keys that somebody set.
    :param name: of the file, for messages.
    :raises ConfigError: keys that contradict each other.
    """
    root = config.store.store_path_root_dir
    keys.store_path_epoch_file = keys.store_path_epoch_file or posixpath.join(root, "epochFileCheckpoint")
    keys.store_path_broker_identity = keys.store_path_broker_identity or posixpath.join(root, "brokerIdentity")
    keys.ha_listen_port = keys.ha_listen_port or config.listen_port + 1
    _check_port(config, keys.ha_listen_port, name)
    _fit_heartbeats(keys, given, name, warnings)
    _check_replicas(keys, name)
    if keys.enable_dleger_commit_log:
        _complete_dledger(config, keys, name, warnings)
    elif keys.enable_controller_mode:
        _complete_controller_mode(config, keys, given, name, warnings)
    else:
        _complete_classic(config, keys, given, name, warnings)
    identified = config.remoting.tls.identities == "required"  # then replicas show who they are
    if not (keys.alone or keys.ha_allowed_addresses or identified or is_loopback(config.bind_address)):
        warnings.append(
            f"whoever reaches the HA port {keys.ha_listen_port} may copy every message: haAllowedAddresses says who may"
        )


def _check_port(config: BrokerConfig, port: int, name: str) -> None:
    if port > 65_535:
        raise ConfigError(f"{name}: listenPort={config.listen_port} leaves no port above it for haListenPort: set that")
    if port == config.listen_port:
        raise ConfigError(f"{name}: haListenPort={port} is refused: it is listenPort")
    if config.fast_port_enable and port == config.listen_port - 2:
        raise ConfigError(f"{name}: haListenPort={port} is refused: it is the fast port, two below listenPort")


def _fit_heartbeats(keys: ReplicationConfig, given: Collection[str], name: str, warnings: list[str]) -> None:
    """An idle link hears something before it counts as dead: the key that nobody set follows the other."""
    silence, beat = keys.ha_housekeeping_interval, keys.ha_send_heartbeat_interval
    if silence >= 2 * beat:
        return
    if "haHousekeepingInterval" not in given:
        keys.ha_housekeeping_interval = 2 * beat
    elif "haSendHeartbeatInterval" not in given:
        keys.ha_send_heartbeat_interval = silence // 2
    else:
        warnings.append(
            f"haHousekeepingInterval={silence} is less than twice haSendHeartbeatInterval={beat}: idle links will be "
            "closed, and opened again"
        )


def _check_replicas(keys: ReplicationConfig, name: str) -> None:
    if keys.total_replicas == 1:  # Java's default, in files that say how many replicas must have a message
        return
    for key, value in (("inSyncReplicas", keys.in_sync_replicas), ("minInSyncReplicas", keys.min_in_sync_replicas)):
        if value > keys.total_replicas:
            raise ConfigError(
                f"{name}: {key}={value} is refused, allowed is up to totalReplicas={keys.total_replicas}: no message "
                "would be acknowledged"
            )


def _complete_controller_mode(
    config: BrokerConfig, keys: ReplicationConfig, given: Collection[str], name: str, warnings: list[str]
) -> None:
    if not keys.controllers:
        raise ConfigError(f"{name}: enableControllerMode=true is refused without controllerAddr")
    _fit_lease(keys, given, name)
    if not keys.all_ack_in_sync_state_set:
        warnings.append("allAckInSyncStateSet=false: acknowledged messages are lost when a master is replaced")
        if "masterLease" not in given:
            keys.master_lease = min(keys.master_lease, LEASE_WITHOUT_ALL_MS)
        if keys.master_lease + keys.broker_heartbeat_interval > ELECTED_AFTER_MS:
            warnings.append(
                f"masterLease={keys.master_lease} and brokerHeartbeatInterval={keys.broker_heartbeat_interval}: "
                f"together over {ELECTED_AFTER_MS} ms, so a master that is cut off may acknowledge while another one "
                "leads"
            )
    if config.broker_id > 0:
        warnings.append(f"brokerId={config.broker_id} has no effect: enableControllerMode is on, the controllers say")
    config.broker_id = 0
    warnings.extend(
        f"{key} has no effect: enableControllerMode is on, the controllers say" for key in _changed(keys, _CLASSIC_ONLY)
    )


def _complete_dledger(config: BrokerConfig, keys: ReplicationConfig, name: str, warnings: list[str]) -> None:
    if keys.enable_controller_mode:
        raise ConfigError(
            f"{name}: enableDLegerCommitLog=true is refused with enableControllerMode=true: one or the other"
        )
    missing = [key for key in _DLEDGER if not getattr(keys, keys.declared()[key][0])]
    if missing:
        raise ConfigError(f"{name}: enableDLegerCommitLog=true is refused without {', '.join(missing)}")
    own, peers = keys.d_leger_self_id, keys.dledger_peers
    if (refusal := check_members(peers)) is not None:
        raise ConfigError(f"{name}: dLegerPeers: {refusal}")
    _check_witness(keys, name)
    if own not in peers:
        raise ConfigError(f"{name}: dLegerSelfId={own} is refused, allowed is an id of dLegerPeers: {', '.join(peers)}")
    if config.store.max_message_size > MESSAGE_BYTES_MAX:
        raise ConfigError(
            f"{name}: maxMessageSize={config.store.max_message_size} is refused, allowed is up to {MESSAGE_BYTES_MAX} "
            "with enableDLegerCommitLog"
        )
    for each in keys.preferred_leaders:
        if each not in peers or each == keys.d_leger_witness:
            what = "which is not in dLegerPeers" if each not in peers else "a witness, which can not lead"
            warnings.append(f"preferredLeaderId names {each}, {what}")
    directory = posixpath.join(config.store.store_path_root_dir, f"dledger-{own}")
    keys.dledger_directory = directory
    keys.store_path_dledger_commit_log = keys.store_path_dledger_commit_log or posixpath.join(directory, "data")
    config.broker_id = 0
    why = "enableDLegerCommitLog is on, brokers elect their master"
    warnings.extend(f"{key} has no effect: {why}" for key in _changed(keys, (*_CLASSIC_ONLY, *_SETS_ONLY)))


def _check_witness(keys: ReplicationConfig, name: str) -> None:
    witness, peers = keys.d_leger_witness, keys.dledger_peers
    if not witness:
        return
    if witness not in peers:
        raise ConfigError(
            f"{name}: dLegerWitness={witness} is refused, allowed is an id of dLegerPeers: {', '.join(peers)}"
        )
    if len(peers) == 1:
        raise ConfigError(f"{name}: dLegerWitness={witness} is refused: nobody of dLegerPeers would keep messages")
    if keys.d_leger_wire == WIRE_JAVA:
        raise ConfigError(f"{name}: dLegerWitness={witness} is refused with dLegerWire=java: Java's know no witness")


def _fit_lease(keys: ReplicationConfig, given: Collection[str], name: str) -> None:
    """A broker is not dead between two heartbeats, and no master longer than controllers may believe it alive: what
    nobody set follows what was set."""
    if "controllerHeartBeatTimeoutMills" not in given:
        lease = keys.master_lease if "masterLease" in given else 0
        keys.controller_heart_beat_timeout_mills = max(
            keys.controller_heart_beat_timeout_mills, 2 * keys.broker_heartbeat_interval, lease
        )
    alive_ms = keys.controller_heart_beat_timeout_mills
    if "brokerHeartbeatInterval" not in given:
        keys.broker_heartbeat_interval = min(keys.broker_heartbeat_interval, alive_ms // 2)
    if "masterLease" not in given:
        keys.master_lease = min(keys.master_lease, alive_ms)
    if alive_ms < 2 * keys.broker_heartbeat_interval:
        raise ConfigError(
            f"{name}: controllerHeartBeatTimeoutMills={alive_ms} is refused, allowed is twice brokerHeartbeatInterval="
            f"{keys.broker_heartbeat_interval} or more: the broker would be dead between two heartbeats"
        )
    if keys.master_lease > alive_ms:
        raise ConfigError(
            f"{name}: masterLease={keys.master_lease} is refused, allowed is up to controllerHeartBeatTimeoutMills="
            f"{alive_ms}: after that there may be another master"
        )


def _complete_classic(
    config: BrokerConfig, keys: ReplicationConfig, given: Collection[str], name: str, warnings: list[str]
) -> None:
    role = keys.broker_role
    if role == SYNC_MASTER and "inSyncReplicas" not in given:
        keys.in_sync_replicas = 2
    if role == SLAVE:
        if config.broker_id <= 0:
            raise ConfigError(
                f"{name}: brokerRole=SLAVE is refused with brokerId={config.broker_id}, allowed is 1 or more: 0 is the "
                "master's"
            )
        if not keys.ha_master_address and not config.namesrv_addr:
            warnings.append(
                "neither namesrvAddr nor haMasterAddress is set: nothing says whose log this SLAVE is to copy"
            )
    elif config.broker_id:
        warnings.append(f"brokerId={config.broker_id} has no effect: a master's id is 0")
        config.broker_id = 0
    if role != SLAVE and keys.ha_master_address:
        warnings.append(f"haMasterAddress has no effect: brokerRole={role} has no master")
    if role == SYNC_MASTER and keys.in_sync_replicas == 1:
        warnings.append("inSyncReplicas=1: this SYNC_MASTER waits for nobody but itself, as Java's does where not told")
    if role == ASYNC_MASTER and keys.in_sync_replicas > 1:
        warnings.append(f"inSyncReplicas={keys.in_sync_replicas} has no effect: an ASYNC_MASTER waits for no replica")
    warnings.extend(
        f"{key} has no effect: enableControllerMode is off" for key in _changed(keys, _CONTROLLER_MODE_ONLY)
    )


def _changed(keys: ReplicationConfig, names: Iterable[str]) -> list[str]:
    """Those of the keys that have another value than the default."""
    declared = keys.declared()
    return [name for name in names if getattr(keys, declared[name][0]) != declared[name][1].default]
