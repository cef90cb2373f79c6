"""The keys of replication: roles, the HA link, acknowledgements of replicas, and the controllers of a broker.

Names and defaults are Java's (``MessageStoreConfig``, ``BrokerConfig``) where they are safe.  There are three ways to
run: *classic*, where the file says which role a broker has for good; *controller mode*, where the controllers give ids
and roles; and *DLedger mode*, where brokers elect their master themselves.  In the latter two ``brokerId`` and
``brokerRole`` of the file count for nothing.  What must fit together is in
:mod:`rocketha.services.config.roles`.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rocketha.addresses import Networks
from rocketha.services.config.checks import check_endpoints, check_name, check_networks, check_plain_path
from rocketha.services.config.peers import check_member, check_peers, member_number, peers_of
from rocketha.services.config.settings import INT_MAX, Section, choice, flag, number, text

WIRE_AUTO, WIRE_JAVA = "auto", "java"
ASYNC_MASTER, SYNC_MASTER, SLAVE = "ASYNC_MASTER", "SYNC_MASTER", "SLAVE"
CONTROLLERS_MAX = 32

_EVENTS = "it is looked at whenever something changes that it depends on"
_BEATS = "a heartbeat is written and forgotten"
ELECTED_AFTER_MS = 1800
"""Controllers of ours with the defaults of ``brokerSilence`` and ``brokerProbeTimeout`` elect no other master sooner
after a master's last heartbeat, unless its port refuses connections."""

LEASE_WITHOUT_ALL_MS = 750
"""The lease where fewer than all in-sync replicas acknowledge: over before there can be another master, though it was
confirmed up to a heartbeat's interval after the last heartbeat that was heard."""


def check_master(value: str) -> str | None:
    """``haMasterAddress``."""
    if ";" in value or check_endpoints(value) is not None:
        return "host:port of the master's HA port, or nothing"
    return None


def _or_nothing(check: Callable[[str], str | None]) -> Callable[[str], str | None]:
    return lambda value: check(value) if value else None


def check_controllers(value: str) -> str | None:
    """``controllerAddr``."""
    if len(value.split(";")) > CONTROLLERS_MAX:
        return f"up to {CONTROLLERS_MAX} of host:port, separated by ;"
    return check_endpoints(value)


@attrs.define(slots=True)
class ReplicationConfig(Section):
    """Keys of ``MessageStoreConfig`` and ``BrokerConfig`` that replication acts on."""

    broker_role: str = choice(
        ASYNC_MASTER,
        (ASYNC_MASTER, SYNC_MASTER, SLAVE),
        "SYNC_MASTER answers a sender once inSyncReplicas have its message; a SLAVE copies the master of its name. In "
        "controller mode the controllers give the role.",
    )
    ha_listen_port: int = number(0, "Port for replicas; 0 is listenPort + 1.", high=65_535, java_default="the same")
    ha_allowed_addresses: str = text(
        "",
        "Addresses and networks that may connect to the HA port, which knows no password; empty is everybody.",
        check=check_networks,
        ours=True,
    )
    ha_master_address: str = text(
        "", "The HA port that a SLAVE copies from; empty: the name servers say.", check=check_master
    )
    ha_send_heartbeat_interval: int = number(
        5000, "A link on which nothing was sent for so long gets a heartbeat.", low=10, high=3_600_000, unit="ms"
    )
    ha_housekeeping_interval: int = number(
        20_000, "A link that was silent for so long is closed.", low=20, high=3_600_000, unit="ms"
    )
    ha_transfer_batch_size: int = number(
        1 << 20,
        "Most bytes of the log in one frame.",
        low=1 << 10,
        high=(4 << 20) - 64,
        unit="bytes",
        java_default="32768",
    )
    ha_max_gap_not_in_sync: int = number(
        256 << 20, "A slave of a classic master is in sync while it is no further behind.", low=1, unit="bytes"
    )
    ha_flow_control_enable: bool = flag(False, "Whether maxHaTransferByteInSecond holds.")
    max_ha_transfer_byte_in_second: int = number(
        100 << 20, "Most bytes a second to one replica.", low=1 << 10, high=(1 << 40), unit="bytes"
    )
    in_sync_replicas: int = number(
        1,
        "How many replicas, the master being one, must have a message before its sender is answered; where not set, 2 "
        "of a SYNC_MASTER. In controller mode only where allAckInSyncStateSet is false.",
        low=1,
        high=256,
    )
    min_in_sync_replicas: int = number(
        1, "In controller mode, with fewer in the SyncStateSet messages are refused.", low=1, high=256
    )
    total_replicas: int = number(
        1, "How many replicas there are; where set, the two above may not be more.", low=1, high=256
    )
    all_ack_in_sync_state_set: bool = flag(
        True,
        "In controller mode: whether every member of the SyncStateSet must have a message before its sender is "
        "answered. Otherwise acknowledged messages are lost when a master is replaced.",
        java_default="false",
    )
    slave_timeout: int = number(
        3000, "How long a sender waits for replicas before FLUSH_SLAVE_TIMEOUT.", low=1, unit="ms", live=True
    )
    slave_read_enable: bool = flag(
        False,
        "Whether a SLAVE answers pulls, and a master sends a consumer there that is further behind than "
        "accessMessageInMemoryMaxRatio. It should be the same in all brokers of a group.",
        live=True,
    )
    offset_check_in_slave: bool = flag(
        False, "Whether a SLAVE corrects the offset of a pull that is out of its range.", live=True
    )
    ha_max_time_slave_not_catchup: int = number(
        15_000, "A replica behind for so long leaves the SyncStateSet.", low=100, high=3_600_000, unit="ms"
    )
    sync_from_last_file: bool = flag(
        False, "Whether an empty replica begins with the master's last commit log file instead of its first."
    )
    async_learner: bool = flag(False, "In controller mode: a replica that never joins the SyncStateSet.")
    store_path_epoch_file: str = text(
        "", "File of the epochs; empty is storePathRootDir/epochFileCheckpoint.", check=check_plain_path
    )

    enable_controller_mode: bool = flag(False, "Whether controllers give this broker its id and its role.")
    controller_addr: str = text("", "The controllers, host:port;host:port.", check=check_controllers)
    store_path_broker_identity: str = text(
        "",
        "File of the broker's id in controller mode; empty is storePathRootDir/brokerIdentity.",
        check=check_plain_path,
    )
    broker_heartbeat_interval: int = number(
        1000, "How often the controllers hear from the broker.", low=50, high=60_000, unit="ms"
    )
    controller_heart_beat_timeout_mills: int = number(
        10_000, "How long they may believe it alive after one.", low=200, high=3_600_000, unit="ms"
    )
    send_heartbeat_timeout_millis: int = number(
        1000, "How long sending one may take.", low=1, unit="ms", no_effect=_BEATS
    )
    broker_election_priority: int = number(
        INT_MAX, "Between equal replicas the smaller number is elected.", low=0, high=INT_MAX
    )
    sync_broker_metadata_period: int = number(
        5000,
        "How often the controllers are asked who the master is, where nothing else asks.",
        low=50,
        high=600_000,
        unit="ms",
    )
    sync_controller_metadata_period: int = number(
        10_000, "How often the controllers are asked who of them leads.", low=50, high=600_000, unit="ms"
    )
    check_sync_state_set_period: int = number(
        5000, "How often the SyncStateSet is looked at.", low=50, high=600_000, unit="ms", no_effect=_EVENTS
    )
    controller_request_timeout: int = number(
        2000,
        "How long a controller may take to answer.",
        low=100,
        high=60_000,
        unit="ms",
        ours=True,
        java_default="3000",
    )
    master_lease: int = number(
        3000,
        "How long a master acknowledges and serves without having heard from the controllers that it is one.  It asks "
        f"at a third of it.  With allAckInSyncStateSet=false it should be {LEASE_WITHOUT_ALL_MS} or less.",
        low=200,
        high=600_000,
        unit="ms",
        ours=True,
        java_default="for ever",
    )
    forward_sends: bool = flag(
        True,
        "Whether a broker that is not master passes sends, pulls, offset commits and queue locks of clients with a "
        "stale route on to the master.",
        ours=True,
        java_default="false",
    )
    metadata_ack_timeout_mills: int = number(
        1000,
        "How long the answer to a change of topics or groups waits until each replica in the SyncStateSet has it; then "
        "it is an error that names who lacks it. 0: it does not wait.",
        high=60_000,
        unit="ms",
        ours=True,
        java_default="0",
    )
    handover_timeout: int = number(
        3000,
        "How long a master that is told to stop tries to hand its role to a replica first; 0: it just stops.",
        high=60_000,
        unit="ms",
        ours=True,
        java_default="0",
    )
    handover_linger: int = number(
        35_000,
        "How long a broker that has handed its role over stays, at most, to pass on the requests of clients that have "
        "not learned of it; a Java client learns routes every 30 s. 0: it ends at once.",
        high=600_000,
        unit="ms",
        ours=True,
        java_default="0",
    )
    handover_linger_quiet: int = number(
        2000,
        "It ends sooner, once no such request has come for so long. Producers that send less often may find it gone.",
        low=1,
        high=600_000,
        unit="ms",
        ours=True,
    )

    enable_dleger_commit_log: bool = flag(
        False,
        "Whether the commit log is a Raft log: brokers of a group elect their master, and a message is acknowledged "
        "when a majority has it.",
        name="enableDLegerCommitLog",
    )
    d_leger_group: str = text(
        "", "Name of the group of brokers.", check=_or_nothing(check_name), name="dLegerGroup", java_default="none"
    )
    d_leger_peers: str = text(
        "",
        "The brokers of the group, the same at each of them: id-host:port;id-host:port. The port is for each other "
        "only.",
        check=_or_nothing(check_peers),
        name="dLegerPeers",
        java_default="none",
    )
    d_leger_self_id: str = text(
        "",
        "Which of dLegerPeers this is: a letter and a number. The broker's id is the number and one, 0 for the master.",
        check=check_member,
        name="dLegerSelfId",
        java_default="none",
    )
    d_leger_witness: str = text(
        "",
        "Which of dLegerPeers keeps no messages, and only votes (twistd rocketha-witness); the same at each of them.",
        check=check_member,
        name="dLegerWitness",
        ours=True,
    )
    d_leger_wire: str = choice(
        WIRE_AUTO,
        (WIRE_AUTO, WIRE_JAVA),
        "What this member speaks with the others: auto is DLedger's protocol with members of Java and rocketha's with "
        "others; java is DLedger's with all, as if this were Java's.",
        name="dLegerWire",
        ours=True,
    )
    raft_join_existing: bool = flag(
        False,
        "In DLedger mode, whether this member waits to be added to a group that runs (rocketha dledger add), instead "
        "of founding one with dLegerPeers.",
        ours=True,
    )
    remote_admin_enable: bool = flag(
        False,
        "In DLedger mode, whether the members may be changed from other machines than the broker's.",
        ours=True,
    )
    peer_push_quota: int = number(
        0,
        "In DLedger mode, what a master sends in a second to each follower that is far behind; 0: no limit.",
        low=0,
        high=1 << 40,
        unit="bytes",
        ours=True,
        java_default="20971520, in dledger",
    )
    peer_push_throttle_point: int = number(
        300 << 20,
        "How far behind, by over 1,000 messages, a follower has to be for peerPushQuota.",
        low=0,
        high=1 << 50,
        unit="bytes",
        ours=True,
        java_default="the same, in dledger",
    )
    preferred_leader_id: str = text(
        "",
        "Ids of dLegerPeers that should lead when they are caught up, with semicolons between them.",
        java_default="none",
    )
    store_path_dledger_commit_log: str = text(
        "",
        "Directory of the log's files in DLedger mode; empty is dledger-<dLegerSelfId>/data under storePathRootDir.",
        check=check_plain_path,
        name="storePathDLedgerCommitLog",
    )
    dledger_directory: str = ""  # dledger-<dLegerSelfId>, follows from other keys

    @property
    def dledger_peers(self) -> dict[str, str]:
        """Id to ``host:port`` of the members of the group."""
        return peers_of(self.d_leger_peers)

    @property
    def preferred_leaders(self) -> tuple[str, ...]:
        """Of the group, as ``preferredLeaderId`` says."""
        return tuple(filter(None, (each.strip() for each in self.preferred_leader_id.split(";"))))

    @staticmethod
    def dledger_id(member: str) -> int:
        """The broker id of a member that is not the master."""
        return member_number(member) + 1

    @property
    def controllers(self) -> tuple[str, ...]:
        """``host:port`` of each, in order, none twice."""
        return tuple(dict.fromkeys(each.strip() for each in self.controller_addr.split(";") if each.strip()))

    @property
    def alone(self) -> bool:
        """Whether no other broker need ever copy this one's log."""
        elected = self.enable_controller_mode or self.enable_dleger_commit_log
        return self.broker_role == ASYNC_MASTER and not elected

    def may_replicate(self, host: str) -> bool:
        """Whether ``haAllowedAddresses`` lets this IP address connect to the HA port."""
        allowed = Networks.parse(self.ha_allowed_addresses)
        return not allowed or host in allowed
