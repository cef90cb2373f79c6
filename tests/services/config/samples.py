"""The configurations that RocketMQ 5.5.0 brings along in ``distribution/conf``, and those of its quick-start pages, as
lists of ``key=value``: what an operator who comes from there has in hand."""

from __future__ import annotations

_DEFAULT = "brokerClusterName=DefaultCluster deleteWhen=04 fileReservedTime=48"
_ASYNC = f"{_DEFAULT} flushDiskType=ASYNC_FLUSH"


def _pair(name: str, role: str) -> dict[str, str]:
    return {
        f"broker-{name}.properties": f"{_ASYNC} brokerName=broker-{name} brokerId=0 brokerRole={role}",
        f"broker-{name}-s.properties": f"{_ASYNC} brokerName=broker-{name} brokerId=1 brokerRole=SLAVE",
    }


def _container(name: str, number: int, role: str, port: int) -> str:
    store = f"/root/broker-{name}/store"
    return (
        f"brokerClusterName=DefaultCluster brokerName=broker-{name} brokerId={number} brokerRole={role} "
        f"flushDiskType=ASYNC_FLUSH storePathRootDir={store} storePathCommitLog={store}/commitlog listenPort={port} "
        f"haListenPort={port + 1} totalReplicas=2 inSyncReplicas=2 minInSyncReplicas=1 enableAutoInSyncReplicas=true "
        "slaveReadEnable=true brokerHeartbeatInterval=1000 brokerNotActiveTimeoutMillis=5000 "
        "sendHeartbeatTimeoutMillis=1000 enableSlaveActingMaster=true"
    )


def _dledger(number: int) -> str:
    store = f"/tmp/rmqstore/node{number:02d}"
    return (
        f"brokerClusterName=RaftCluster brokerName=RaftNode00 listenPort={30911 + 10 * number} "
        f"namesrvAddr=127.0.0.1:9876 storePathRootDir={store} storePathCommitLog={store}/commitlog "
        "enableDLegerCommitLog=true dLegerGroup=RaftNode00 "
        "dLegerPeers=n0-127.0.0.1:40911;n1-127.0.0.1:40912;n2-127.0.0.1:40913 "
        f"dLegerSelfId=n{number} sendMessageThreadPoolNums=16"
    )


def _quick(number: int) -> str:
    store = f"/tmp/rmqstore/node{number:02d}"
    return (
        f"{_DEFAULT} brokerName=broker-a brokerId=-1 brokerRole=SLAVE enableControllerMode=true "
        "controllerAddr=127.0.0.1:9878 namesrvAddr=127.0.0.1:9876 allAckInSyncStateSet=true "
        f"listenPort={30911 + 10 * number} storePathRootDir={store} storePathCommitLog={store}/commitlog"
    )


_PEERS = "controllerDLegerPeers=n0-127.0.0.1:9878;n1-127.0.0.1:9868;n2-127.0.0.1:9858"

BROKERS: dict[str, str] = {
    **{f"2m-2s-async/{name}": text for each in "ab" for name, text in _pair(each, "ASYNC_MASTER").items()},
    **{f"2m-2s-sync/{name}": text for each in "ab" for name, text in _pair(each, "SYNC_MASTER").items()},
    **{
        f"2m-noslave/broker-{each}.properties": f"{_ASYNC} brokerName=broker-{each} brokerId=0 brokerRole=ASYNC_MASTER"
        for each in ("a", "b", "trace")
    },
    "broker.conf": f"{_ASYNC} brokerName=broker-a brokerId=0 brokerRole=ASYNC_MASTER",
    "container/2container-2m-2s/broker-a-in-container1.conf": _container("a", 0, "SYNC_MASTER", 10911),
    "container/2container-2m-2s/broker-a-in-container2.conf": _container("a", 1, "SLAVE", 10911),
    "container/2container-2m-2s/broker-b-in-container1.conf": _container("b", 1, "SLAVE", 20911),
    "container/2container-2m-2s/broker-b-in-container2.conf": _container("b", 0, "SYNC_MASTER", 20911),
    "controller/quick-start/broker-n0.conf": _quick(0),
    "controller/quick-start/broker-n1.conf": _quick(1),
    **{
        f"container/2container-2m-2s/broker-container{number}.conf": (
            "listenPort=10811 namesrvAddr=172.22.144.49:9876 fetchNamesrvAddrByAddressServer=false "
            f"brokerConfigPaths=/root/2container-2m-2s/broker-a-in-container{number}.conf:"
            f"/root/2container-2m-2s/broker-b-in-container{number}.conf"
        )
        for number in (1, 2)
    },
    **{f"dledger/broker-n{number}.conf": _dledger(number) for number in range(3)},
    "docs: message trace": (
        f"{_ASYNC} brokerName=broker-a brokerId=0 brokerRole=ASYNC_MASTER storePathRootDir=/data/rocketmq/rootdir-a-m "
        "storePathCommitLog=/data/rocketmq/commitlog-a-m autoCreateSubscriptionGroup=true traceTopicEnable=true "
        "listenPort=10911 brokerIP1=10.0.0.7 namesrvAddr=10.0.0.7:9876"
    ),
    "docs: debug in an IDE": (
        f"{_ASYNC} brokerName=broker-a brokerId=0 brokerRole=ASYNC_MASTER namesrvAddr=127.0.0.1:9876"
    ),
    "docs: access control": (
        f"{_ASYNC} brokerName=broker-a brokerId=0 brokerRole=ASYNC_MASTER storePathRootDir=/data/rocketmq/rootdir-a-m "
        "storePathCommitLog=/data/rocketmq/commitlog-a-m autoCreateSubscriptionGroup=true aclEnable=true "
        "listenPort=10911 brokerIP1=10.0.0.7 namesrvAddr=10.0.0.7:9876"
    ),
    "docs: light queues": "enableLmq=true enableMultiDispatch=true",
}
"""Of brokers."""

NAMESERVERS: dict[str, str] = {
    "container/2container-2m-2s/nameserver.conf": "supportActingMaster=true",
    "controller/quick-start/namesrv.conf": (
        "enableControllerInNamesrv=true controllerDLegerGroup=group1 controllerDLegerPeers=n0-127.0.0.1:9878 "
        "controllerDLegerSelfId=n0"
    ),
    **{
        f"controller/cluster-3n-namesrv-plugin/namesrv-n{number}.conf": (
            f"listenPort={9876 + 10 * number} enableControllerInNamesrv=true controllerDLegerGroup=group1 {_PEERS} "
            f"controllerDLegerSelfId=n{number}"
        )
        for number in range(3)
    },
    "docs: controller in the nameserver": (
        "enableControllerInNamesrv=true controllerDLegerGroup=group1 controllerDLegerPeers=n0-127.0.0.1:9877;"
        "n1-127.0.0.1:9878;n2-127.0.0.1:9879 controllerDLegerSelfId=n0 "
        "controllerStorePath=/home/admin/DledgerController enableElectUncleanMaster=false notifyBrokerRoleChanged=true"
    ),
}
"""Of nameservers, some with a controller."""

CONTROLLERS: dict[str, str] = {
    "controller/controller-standalone.conf": (
        "controllerDLegerGroup=group1 controllerDLegerPeers=n0-127.0.0.1:9878 controllerDLegerSelfId=n0"
    ),
    **{
        f"controller/cluster-3n-independent/controller-n{number}.conf": (
            f"controllerDLegerGroup=group1 {_PEERS} controllerDLegerSelfId=n{number}"
        )
        for number in range(3)
    },
    "docs: controllers on jRaft": (
        "controllerType=jRaft jRaftGroupId=jRaft-Controller jRaftServerId=localhost:9880 "
        "jRaftInitConf=localhost:9880,localhost:9881,localhost:9882 "
        "jRaftControllerRPCAddr=localhost:9770,localhost:9771,localhost:9772 jRaftSnapshotIntervalSecs=3600"
    ),
}
"""Of controllers."""

NOT_SUPPORTED = {
    "container/2container-2m-2s/broker-container": "brokerConfigPaths",
    "container/2container-2m-2s/broker-": "enableSlaveActingMaster",
    "docs: controllers on jRaft": "controllerType",
}
"""Beginnings of names, and the one key of theirs that keeps the process from starting."""

LICENSE = "<!--\n  Licensed to the Apache Software Foundation (ASF)\n      http://www.apache.org/licenses/\n  -->\n"
"""What stands at the top of the files of cluster-3n-namesrv-plugin: a comment of another language."""


def text_of(sample: str) -> bytes:
    """A sample as a property file, a key a line."""
    return "\n".join(sample.split(" ")).encode()
