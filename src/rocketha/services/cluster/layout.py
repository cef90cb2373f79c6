"""A group of brokers and controllers on one machine: who has which port, which directory, and which flags.

Decides what a directory that was used before may be used for; starts nothing.  The layout under ``--data``::

    namesrv/                    the nameserver's, in either kind
    store/                      a broker alone (--brokers 1 --controllers 0)
    broker-1/, broker-2/ ...    the replicas of a group
    controller-1/ ...           its controllers
    log/                        what each process logs; the parent's, or a broker alone's, is log/cluster

A broker alone knows nothing of epochs, so its directory and a group's are never mixed: what it kept becomes the first
replica's, once and for all, and a group's directory is refused to a broker alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import attrs

from rocketha.errors import ConfigError
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.config.tls import given
from rocketha.store.disk import Disk
from rocketha.store.posix_disk import PosixDisk

BROKERS_MAX = 9
CONTROLLERS_MAX = 9
LOG_DIRECTORY = "log"
DECIDED = (
    "brokerClusterName",
    "brokerName",
    "controllerAddr",
    "dLegerGroup",
    "dLegerPeers",
    "dLegerSelfId",
    "enableControllerMode",
    "enableDLegerCommitLog",
    "haListenPort",
    "listenPort",
    "namesrvAddr",
    "storePathRootDir",
)
"""Keys that are the same for all brokers of a group, or that the group sets for each."""
BROKER_PORTS = 10
"""From one broker's port to the next: each has a fast port 2 below, and an HA or Raft port 1 above."""


@attrs.frozen
class Plan:
    """One process of a group.

    :ivar name: ``broker-1``.
    :ivar port: the one that tells it from the others.
    :ivar directory: its own, absolute.
    :ivar arguments: what ``twistd`` is called with, from the name of the command on.
    """

    name: str
    port: int
    address: str
    directory: str
    arguments: tuple[str, ...]


@attrs.frozen
class Layout:
    """Where everything of a group is.

    :ivar data: directory of everything, absolute.
    :ivar host: the address that all are reached at from this machine, IPv6 in brackets.
    :ivar broker: the configuration of the first replica; all share it but for what is their own.
    :ivar flags: what every broker is given, key to value.
    :ivar own: the same for one of them, by its number.
    :ivar common: flags of twistd's commands that every process is given.
    :ivar pki: directory of ``rocketha pki cluster``; None: controllers have the brokers' ``tls.*`` keys.
    :ivar dledger: brokers elect their master themselves (enableDLegerCommitLog); there are no controllers.
    """

    data: str
    host: str
    namesrv_port: int
    controller_port: int
    brokers: int
    controllers: int
    broker: BrokerConfig
    flags: Mapping[str, str]
    own: Mapping[int, Mapping[str, str]] = attrs.field(factory=dict)
    config_file: str | None = None
    common: tuple[str, ...] = ()
    dledger: bool = False
    pki: str | None = None

    def check_ports(self) -> None:
        """See that all ports exist and differ.

        :raises ConfigError: two are the same, or one is no port.
        """
        ports = [(self.namesrv_port, "the nameserver")]
        ports += [(self.controller_port + number, f"controller-{number + 1}") for number in range(self.controllers)]
        for number in range(self.brokers):
            port = self.broker.listen_port + BROKER_PORTS * number
            offsets = (
                [(0, "")]
                + [(-2, "'s fast port")] * self.broker.fast_port_enable
                + [(1, "'s Raft port" if self.dledger else "'s HA port")]
            )
            ports += [(port + offset, f"broker-{number + 1}{what}") for offset, what in offsets]
        taken: dict[int, str] = {}
        for port, whose in ports:
            if not 0 < port < 65536:
                raise ConfigError(f"{whose} would have port {port}, which does not exist")
            if port in taken:
                raise ConfigError(f"{taken[port]} and {whose} would both have port {port}")
            taken[port] = whose

    @property
    def namesrv_address(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.namesrv_port}"

    @property
    def log_directory(self) -> str:
        """Where each process has a file of its name."""
        return os.path.join(self.data, LOG_DIRECTORY)

    def broker_plans(self) -> list[Plan]:
        """The replicas."""
        plans = []
        for number in range(self.brokers):
            name, port = f"broker-{number + 1}", self.broker.listen_port + BROKER_PORTS * number
            directory = os.path.join(self.data, name)
            keys = {
                **self.flags,
                **self.own.get(number + 1, {}),
                "brokerName": self.broker.broker_name,
                "listenPort": str(port),
                "storePathRootDir": directory,
                **self._mode_keys(number),
            }
            file = ("--config", self.config_file) if self.config_file is not None else ()
            arguments = ("rocketha-broker", *self.common, *file, *_set(keys))
            plans.append(Plan(name, port, f"{self.host}:{port}", directory, arguments))
        return plans

    def _mode_keys(self, number: int) -> dict[str, str]:
        """What the mode needs of broker ``number + 1``."""
        ports = [self.broker.listen_port + BROKER_PORTS * each + 1 for each in range(self.brokers)]
        if not self.dledger:
            addresses = ";".join(plan.address for plan in self.controller_plans())
            return {"haListenPort": str(ports[number]), "enableControllerMode": "true", "controllerAddr": addresses}
        return {
            "enableDLegerCommitLog": "true",
            "dLegerGroup": self.broker.broker_name,
            "dLegerPeers": ";".join(f"n{each}-{self.host}:{port}" for each, port in enumerate(ports, 1)),
            "dLegerSelfId": f"n{number + 1}",
        }

    def controller_plans(self) -> list[Plan]:
        """The controllers; their ids are n1, n2 and so on."""
        addresses = [f"{self.host}:{self.controller_port + number}" for number in range(self.controllers)]
        peers = ";".join(f"n{number}-{address}" for number, address in enumerate(addresses, 1))
        plans = []
        for number, address in enumerate(addresses, 1):
            directory = os.path.join(self.data, f"controller-{number}")
            keys = {
                "controllerDLegerPeers": peers,
                "controllerDLegerSelfId": f"n{number}",
                "controllerStorePath": directory,
            }
            port = self.controller_port + number - 1
            name, pki = f"controller-{number}", self.pki
            tls = given(self.broker.remoting.tls) if pki is None else {"tls.config.file": tls_file(pki, name)}
            arguments = ("rocketha-controller", *self.common, *_set({**keys, **tls}))
            plans.append(Plan(name, port, address, directory, arguments))
        return plans


def tls_file(pki: str, name: str) -> str:
    """The ``tls.*`` keys of a process."""
    return os.path.join(pki, f"{name}.properties")


def _set(keys: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for key, value in keys.items() for part in ("--set", f"{key}={value}"))


def _present(data: str, kind: str) -> int:
    """The highest number of ``broker-1``, ``broker-2`` ... that is there; 0 without any."""
    try:
        names = os.listdir(data)
    except OSError:
        return 0
    return max((int(name[len(kind) + 1 :]) for name in names if re.fullmatch(f"{kind}-[1-9]", name)), default=0)


def check_ledgers(data: str, brokers: int) -> None:
    """See whether what is under ``data`` may be used by so many brokers that elect their master themselves.

    :raises ConfigError: messages might be lost, or not be found again.
    """
    had, shown = _present(data, "broker"), os.path.relpath(data)
    if os.path.isdir(os.path.join(data, "store")) or _present(data, "controller"):
        raise ConfigError(
            f"{shown} holds the messages of ordinary brokers, which do not become DLedger's: choose another --data"
        )
    if had and had != brokers:
        raise ConfigError(
            f"{shown} holds {had} brokers, who decide together: start as many (--brokers {had}), or choose another "
            "--data"
        )


def _has_ledgers(data: str) -> bool:
    """Whether the brokers there elected their master themselves."""
    first = os.path.join(data, "broker-1")
    return os.path.isdir(first) and any(name.startswith("dledger-") for name in os.listdir(first))


def check_directory(data: str, brokers: int, controllers: int) -> None:
    """See whether what is under ``data`` may be used by so many; 0 controllers is a broker alone.

    :raises ConfigError: messages might be lost, or not be found again.
    """
    if _has_ledgers(data):
        raise ConfigError(
            f"{os.path.relpath(data)} holds brokers that elect their master themselves: start it with --mode dledger, "
            "or choose another --data"
        )
    had_brokers, had_controllers = _present(data, "broker"), _present(data, "controller")
    alone = os.path.isdir(os.path.join(data, "store"))
    shown = os.path.relpath(data)
    if had_brokers and alone:
        raise ConfigError(
            f"{shown} holds store and broker-1: which of them has the messages must be said by removing one"
        )
    if controllers == 0:
        if had_brokers or had_controllers:
            raise ConfigError(
                f"{shown} is the directory of a group: start it with --brokers {max(1, had_brokers)} --controllers "
                f"{max(1, had_controllers)}, or choose another --data"
            )
        return
    if had_brokers > brokers:
        raise ConfigError(
            f"{shown} holds {had_brokers} brokers, of which each may be the one with all messages: start all of them "
            f"(--brokers {had_brokers}), or choose another --data"
        )
    if had_controllers and had_controllers != controllers:
        raise ConfigError(
            f"{shown} holds {had_controllers} controllers, who decide together: start as many "
            f"(--controllers {had_controllers}), or choose another --data"
        )


def adopt(data: str, disk: Disk | None = None) -> bool:
    """Make the store of a broker alone that of ``broker-1``; whether there was one.

    :raises DiskFailure: it cannot be moved, or another process uses it.
    """
    disk = disk or PosixDisk()
    store = os.path.join(data, "store")
    if not os.path.isdir(store):
        return False
    lock = disk.lock(os.path.join(store, "lock"))
    try:
        disk.rename(store, os.path.join(data, "broker-1"))
        disk.sync_dir(data)
    finally:
        lock.release()
    return True


def begin_first(data: str, plans: list[Plan]) -> list[Plan]:
    """Those of a group's brokers that may be started before there is a master.

    Where the first replica was there before the others, only it has the messages.  An empty one must not be elected
    first: it could not be followed by one with messages of no epoch.
    """
    if not os.path.isdir(os.path.join(data, "broker-1")):
        return plans
    return [plan for plan in plans if os.path.isdir(plan.directory)]
