"""What runs on the hosts of a simulated cluster: the real services, configured by the texts that an operator writes."""

from __future__ import annotations

from rocketha.services.broker.service import BrokerService
from rocketha.services.config.controller import ControllerConfig, complete_controller
from rocketha.services.config.loading import load_broker, load_namesrv, load_witness
from rocketha.services.controller.service import ControllerService
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.witness.service import Witness
from rocketha.simulation.cluster_setup import (
    BROKER_PORT,
    CONTROLLER,
    CONTROLLER_PORT,
    DLEDGER,
    MESSAGE_BYTES_MAX,
    NAMESERVER,
    NAMESERVER_PORT,
    RAFT_PORT,
    SEGMENT_BYTES,
    BrokerPlace,
    ClusterSetup,
)
from rocketha.simulation.host import Process
from rocketha.simulation.raft_scenario import raft_options

MEMORY_BYTES = 1 << 30
"""Of each host: with its small log no consumer is far behind."""

_BROKER = """
brokerClusterName=c
brokerName={group}
brokerIP1={address}
bindAddress={address}
listenPort={port}
fastPortEnable=false
namesrvAddr={nameserver}
storePathRootDir=/store
mappedFileSizeCommitLog={segment}
mappedFileSizeConsumeQueue=400
maxMessageSize={message}
maxHashSlotNum=50
maxIndexNum=200
registerNameServerPeriod=10000
registerBrokerTimeoutMills=8000
flushDiskType={flush}
slaveReadEnable={slave_reads}
"""
_CLASSIC = """
brokerId={number}
brokerRole={role}
"""
_CONTROLLED = """
enableControllerMode=true
controllerAddr={controllers}
minInSyncReplicas={replicas_min}
"""
_LEDGER = """
enableDLegerCommitLog=true
dLegerGroup={group}
dLegerPeers={peers}
dLegerSelfId={host}
dLegerWire={wire}
remoteAdminEnable=true
dLegerWitness={witness}
"""
_MODES = {CONTROLLER: _CONTROLLED, DLEDGER: _LEDGER}


def broker_text(setup: ClusterSetup, place: BrokerPlace) -> str:
    """A broker's ``broker.conf``."""
    text = _BROKER + _MODES.get(setup.mode, _CLASSIC)
    return text.format(
        group=place.group,
        host=place.host,
        wire="java" if place.host in setup.java_words else "auto",
        peers=";".join(f"{each.host}-{setup.address(each.host, RAFT_PORT)}" for each in setup.brokers),
        witness=setup.witness,
        number=place.number,
        role=place.role,
        port=BROKER_PORT,
        segment=SEGMENT_BYTES,
        address=setup.address(place.host, 0).removesuffix(":0"),
        message=MESSAGE_BYTES_MAX,
        nameserver=setup.address(NAMESERVER, NAMESERVER_PORT),
        replicas_min=setup.replicas_min,
        controllers=";".join(setup.address(name, CONTROLLER_PORT) for name in setup.controllers),
        flush="SYNC_FLUSH" if setup.sync_flush else "ASYNC_FLUSH",
        slave_reads="true" if setup.slave_reads else "false",
    )


def broker(setup: ClusterSetup, place: BrokerPlace, process: Process) -> BrokerService:
    """A broker, started."""
    text = broker_text(setup, place).encode()
    loaded = load_broker(text, "simulated broker.conf", {}, {}, place.host)
    service = BrokerService(
        loaded.config, process.platform(pid=lambda: 1000 + process.number, memory_bytes=lambda: MEMORY_BYTES)
    )
    service.startService()
    return service


def witness(setup: ClusterSetup, place: BrokerPlace, process: Process) -> Witness:
    """A witness, started."""
    loaded = load_witness(broker_text(setup, place).encode(), "simulated broker.conf", {}, {})
    service = Witness(loaded.config, process.platform(on_fatal=process.host.exited))
    service.privilegedStartService()
    service.startService()
    return service


def controller(setup: ClusterSetup, process: Process) -> ControllerService:
    """A controller, started."""
    peers = ";".join(f"{name}-{setup.address(name, CONTROLLER_PORT)}" for name in setup.controllers)
    config = ControllerConfig(
        controller_dleger_group="simulated",
        controller_dleger_peers=peers,
        controller_dleger_self_id=process.host.name,
        controller_store_path="/controller",
        raft_lease_reads=setup.lease_reads,
    )
    complete_controller(config, (), "simulation", [])
    service = ControllerService(
        config, process.platform(on_fatal=process.host.exited), raft_options=raft_options(setup)
    )
    service.privilegedStartService()
    service.startService()
    return service


def nameserver(process: Process) -> NameServerService:
    """A name server, started."""
    address = process.host.address
    text = f"listenPort={NAMESERVER_PORT}\nbindAddress={address}\nkvConfigPath=/namesrv/kvConfig.json\n"
    loaded = load_namesrv(text.encode(), "simulated namesrv.conf", {}, {})
    service = NameServerService(loaded.config, process.platform())
    service.startService()
    return service
