"""``twistd rocketha-cluster``: options, and the nameserver, brokers and controllers made of them.

One broker without controllers shares this process with the nameserver; a group has a process for each of its brokers
and controllers (:mod:`rocketha.services.cluster.group`).

``makeService`` opens and starts nothing; what is wrong with a flag or a file is a ``usage.UsageError`` with its place.
"""

from __future__ import annotations

import ipaddress
import os
import random
import re
from collections.abc import Iterable, Mapping, Sequence

import attrs
from twisted.application import service
from twisted.python import usage

from rocketha.access.identity import Part
from rocketha.errors import ConfigError
from rocketha.observe import refusals
from rocketha.observe.metrics import Registry
from rocketha.observe.overview import together
from rocketha.services.broker.service import BrokerService
from rocketha.services.broker.tap import tell
from rocketha.services.cluster.group import GroupService
from rocketha.services.cluster.layout import (
    BROKERS_MAX,
    CONTROLLERS_MAX,
    DECIDED,
    LOG_DIRECTORY,
    Layout,
    Plan,
    check_directory,
    check_ledgers,
    tls_file,
)
from rocketha.services.cluster.service import ClusterService, near_address
from rocketha.services.config import loading
from rocketha.services.config.checks import bind_address
from rocketha.services.config.tap_options import KeyOptions
from rocketha.services.features.finding import Enabled, needed
from rocketha.services.namesrv import metrics as namesrv_metrics
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.notify import Notify
from rocketha.services.process.platform import Platform
from rocketha.services.process.server import server_process
from rocketha.services.process.status import STATUS_PARAMETERS, StatusService, install_process_metrics, target_of
from rocketha.services.tls.network import TlsNetwork
from rocketha.services.waiting.blocking import AtOnce
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.posix_disk import PosixDisk

BROKER_NAME = "broker-a"
DLEDGER = "dledger"
MODES = ("controller", DLEDGER)
_OF_ONE = re.compile(r"broker-([1-9])\.(.+)")


class Options(KeyOptions):
    """Flags override the file; those of ``--set`` are for every broker, or for one: ``broker-2.KEY=VALUE``."""

    key_of_option = {"broker-port": "listenPort"}
    longdesc = (
        "A whole small RocketMQ with all data in one directory: a nameserver and a broker in one process, or a "
        "nameserver and a process for each of several replicas and controllers, which are started again when they "
        "end. --set broker-2.KEY=VALUE is for one of the brokers."
    )
    optParameters = [
        ["data", "d", "data", "Directory of everything that is kept."],
        ["host", None, "127.0.0.1", "Address both listen on."],
        ["namesrv-port", None, "9876", "The nameserver's port."],
        ["brokers", None, "1", "How many replicas of one broker; more than one need controllers."],
        [
            "mode",
            None,
            "controller",
            "Who elects the master of several: controller, or dledger, the brokers themselves.",
        ],
        ["controllers", None, None, "How many controllers; by default none for one broker, one for several."],
        ["broker-port", None, None, "The broker's port (listenPort, default 10911); the next replica's is 10 more."],
        ["controller-port", None, "9878", "The first controller's port; the next one's is 1 more."],
        ["tls", None, None, "Directory of rocketha pki cluster: all under TLS, each process with its identity."],
        ["config", "c", None, "RocketMQ property file for the brokers (broker.conf)."],
        *STATUS_PARAMETERS,
    ]

    optFlags = [["memory", None, "One broker that keeps all in memory: nothing is on a disk, or outlives the process."]]

    broker: loading.Loaded[loading.BrokerConfig] | None = None
    plugins: Sequence[Enabled] = ()
    namesrv: loading.Loaded[loading.NamesrvConfig] | None = None
    layout: Layout | None = None
    network: TlsNetwork | None = None

    def load(self) -> None:
        """The configurations, and the layout of a group."""
        data, host = os.path.abspath(self["data"]), bind_address(self["host"])
        self["host"] = host
        if self["log-file"] is None and not self["memory"]:
            self["log-file"] = os.path.join(data, LOG_DIRECTORY, "cluster")
        brokers = self._number("brokers", 1, BROKERS_MAX)
        if self["mode"] not in MODES:
            raise usage.UsageError(f"--mode {self['mode']}: {' or '.join(MODES)} is wanted")
        ledgers = self["mode"] == DLEDGER
        if self["controllers"] is None:
            self["controllers"] = "1" if brokers > 1 and not ledgers else "0"
        controllers = self._number("controllers", 0, CONTROLLERS_MAX)
        if ledgers and controllers:
            raise usage.UsageError(f"--controllers {controllers}: with --mode dledger there are none")
        if brokers > 1 and not controllers and not ledgers:
            raise usage.UsageError(f"--brokers {brokers} needs controllers, which elect one of them: --controllers 1")
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise usage.UsageError(f"--host {host}: an IP address is wanted") from None
        names = {"bindAddress": host, "listenPort": self["namesrv-port"]}
        names["kvConfigPath"] = os.path.join(data, "namesrv", "kvConfig.json")
        try:
            self.namesrv = loading.load_namesrv(b"", "namesrv.conf", names)
        except ConfigError as problem:
            raise usage.UsageError(f"--namesrv-port: {problem}") from None
        own = self._own_flags(brokers)
        self.flags.setdefault("bindAddress", host)
        self.flags["storePathRootDir"] = os.path.join(data, "store")
        self.flags["namesrvAddr"] = near_address(host, self.namesrv.config.listen_port)
        alone = brokers == 1 and not controllers and not ledgers
        if self["memory"] and not alone:
            raise usage.UsageError("--memory is for one broker without controllers: others are processes of their own")
        if self["tls"] is not None:
            self["tls"] = os.path.abspath(self["tls"])
            for number in range(1, brokers + 1):
                file = tls_file(self["tls"], "cluster" if alone else f"broker-{number}")
                own.setdefault(number, {})["tls.config.file"] = file
        self.broker, self.plugins = self._load_broker({**self.flags, **own.get(1, {})})
        config = self.broker.config
        tls = config.remoting.tls
        if self["tls"] is not None and not alone:
            tls = loading.load_tls(tls_file(self["tls"], "cluster"))
        self.tls, self.network = tls, TlsNetwork(tls)
        self.network.must_be(Part.NAMESERVER)
        if alone:
            self.network.must_be(Part.BROKER, config.broker_name, config.broker_cluster_name)
        if ledgers:
            check_ledgers(data, brokers)
        elif not self["memory"]:
            check_directory(data, brokers, controllers)
        if controllers or ledgers:
            self.layout = self._group(data, brokers, controllers, own)

    def bound(self) -> Iterable[str]:
        return [each.config.bind_address for each in (self.namesrv, self.broker) if each is not None]

    def _own_flags(self, brokers: int) -> dict[int, dict[str, str]]:
        """Take the flags of single brokers out of those of all; by the broker's number."""
        own: dict[int, dict[str, str]] = {}
        for flag in [*self.flags]:
            if found := _OF_ONE.fullmatch(flag):
                number, key = int(found[1]), found[2]
                if number > brokers:
                    raise usage.UsageError(f"--set {flag}: there is no broker-{number} with --brokers {brokers}")
                if key in DECIDED:
                    raise usage.UsageError(f"--set {flag}: one broker cannot have its own {key}")
                own.setdefault(number, {})[key] = self.flags.pop(flag)
        return own

    def _load_broker(self, flags: Mapping[str, str]) -> tuple[loading.Loaded[loading.BrokerConfig], Sequence[Enabled]]:
        loaded = loading.load_broker(*self.file("broker.conf"), flags, host_name=BROKER_NAME)
        return loaded, needed(loaded.config.plugins, loaded.config.plugin_keys)

    def _group(self, data: str, brokers: int, controllers: int, own: Mapping[int, Mapping[str, str]]) -> Layout:
        if self.broker is None or self.namesrv is None:
            raise usage.UsageError("the options were not parsed")
        near = near_address(self["host"], 1).rpartition(":")[0]
        ports = self.namesrv.config.listen_port, self._number("controller-port", 1, 65535)
        file = os.path.abspath(self["config"]) if self["config"] is not None else None
        common = ("--log-level", self["log-level"])
        config, ledgers = self.broker.config, self["mode"] == DLEDGER
        layout = Layout(
            data, near, *ports, brokers, controllers, config, self.flags, own, file, common, ledgers, self["tls"]
        )
        layout.check_ports()
        for number, plan in enumerate(layout.broker_plans(), 1):
            loaded = self.broker if number == 1 else self._load_broker({**self.flags, **own.get(number, {})})[0]
            self._check_paths(loaded.config, plan)
        return layout

    def _check_paths(self, config: loading.BrokerConfig, plan: Plan) -> None:
        """No two brokers of a group may write to one place."""
        alone = self.flags["storePathRootDir"]
        for line in loading.describe(config).decode().splitlines():
            key, _, value = line.partition("=")
            if key.startswith("storePath") and value and value != alone and not value.startswith(f"{alone}/"):
                raise usage.UsageError(f"{key}={value}: each broker of a group has its own, here {plan.directory}")

    def _number(self, option: str, low: int, high: int) -> int:
        text = self[option]
        if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
            raise usage.UsageError(f"--{option} {text}: a number from {low} to {high} is wanted")
        return int(text)


def make_group(options: Options, layout: Layout, network: TlsNetwork, namesrv: NameServerService) -> GroupService:
    """The group of a layout; its status port tells of the nameserver and of whether there is a master."""
    if options.status is None:
        return GroupService(namesrv, layout, network)
    metrics = Registry()
    install_process_metrics(metrics, target_of("cluster", layout.broker.broker_cluster_name, ""))
    namesrv_metrics.install(metrics, namesrv)
    refusals.install(metrics, namesrv.refusals)
    status = StatusService(
        options.status,
        metrics,
        lambda: None,
        lambda: group.ready(),
        refusals=namesrv.refusals,
        notice=network.notice,
        shows=lambda: group.overview(),
    )
    group = GroupService(namesrv, layout, network, status)
    return group


def make_platform(options: Options, network: TlsNetwork) -> Platform:
    """What the servers of this process run on."""
    if options["memory"]:  # nothing blocks there, and no two threads may use it
        return Platform(disk=MemoryDisk(random.Random()), network=network, work=AtOnce, sync_work=AtOnce)
    return Platform(disk=PosixDisk(), network=network)


def where_words(options: Options) -> tuple[str, str]:
    """Where the data and the log are, for a person."""
    log = "standard error" if options["log-file"] is None else os.path.relpath(options["log-file"])
    return "memory" if options["memory"] else os.path.join(os.path.relpath(options["data"]), ""), log


def makeService(options: Options) -> service.IService:
    """The cluster of these options."""
    if options.broker is None or options.namesrv is None or options.network is None:
        raise usage.UsageError("the options were not parsed")
    network = options.network
    platform = make_platform(options, network)
    namesrv = NameServerService(options.namesrv.config, platform, warnings=options.namesrv.warnings)
    whole = server_process(options)
    network.setServiceParent(whole)
    if options.layout is not None:
        group = make_group(options, options.layout, network, namesrv)
        Notify(lambda: group.served.called).setServiceParent(whole)
        group.setServiceParent(whole)
        return whole
    config, warnings = options.broker.config, options.broker.warnings
    signing = attrs.evolve(platform, credentials=config.access.credentials)
    broker = BrokerService(config, signing, warnings=warnings, plugins=options.plugins)
    tell(broker, network, whole)
    namesrv_metrics.install(broker.metrics, namesrv)
    refusals.install(broker.metrics, broker.refusals, namesrv.refusals)
    status = None
    if options.status is not None:
        status = StatusService(
            options.status,
            broker.metrics,
            broker.healthy,
            lambda: broker.ready() or namesrv_metrics.ready(namesrv),
            refusals=broker.refusals,
            notice=network.notice,
            shows=together(broker.overview, namesrv.overview),
        )
    cluster = ClusterService(namesrv, broker, *where_words(options), status)
    Notify(lambda: cluster.served.called).setServiceParent(whole)
    cluster.setServiceParent(whole)
    return whole
