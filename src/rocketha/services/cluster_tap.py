"""``twistd rocketha-cluster``: options, and the nameserver and broker made of them.

``makeService`` opens and starts nothing; what is wrong with a flag or a file is a ``usage.UsageError`` with its place.
"""

from __future__ import annotations

import ipaddress
import os
import time

from twisted.application import service
from twisted.python import usage

from rocketha.errors import ConfigError
from rocketha.services import config, namesrv_metrics
from rocketha.services.broker import BrokerService
from rocketha.services.cluster import ClusterService, near_address
from rocketha.services.namesrv import NameServerService
from rocketha.services.status import STATUS_PARAMETERS, StatusService, install_process_metrics, use_log_level
from rocketha.services.steady import SteadyClock
from rocketha.services.tap_options import KeyOptions
from rocketha.store.posix_disk import PosixDisk

BROKER_NAME = "broker-a"


class Options(KeyOptions):
    """Flags override the file; those of ``--set`` are the broker's."""

    key_of_option = {"broker-port": "listenPort"}
    longdesc = """A whole small RocketMQ: a nameserver and a broker in one process, with all data in one directory."""
    optParameters = [
        ["data", "d", "data", "Directory of everything that is kept."],
        ["host", None, "127.0.0.1", "Address both listen on."],
        ["namesrv-port", None, "9876", "The nameserver's port."],
        ["broker-port", None, None, "The broker's port (listenPort, default 10911)."],
        ["config", "c", None, "RocketMQ property file for the broker (broker.conf)."],
        *STATUS_PARAMETERS,
    ]

    broker: config.Loaded[config.BrokerConfig] | None = None
    namesrv: config.Loaded[config.NamesrvConfig] | None = None

    def load(self) -> None:
        """Both configurations."""
        data, host = os.path.abspath(self["data"]), self["host"]
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise usage.UsageError(f"--host {host}: an IP address is wanted") from None
        names = {"bindAddress": host, "listenPort": self["namesrv-port"]}
        names["kvConfigPath"] = os.path.join(data, "namesrv", "kvConfig.json")
        try:
            self.namesrv = config.load_namesrv(b"", "namesrv.conf", names)
        except ConfigError as problem:
            raise usage.UsageError(f"--namesrv-port: {problem}") from None
        self.flags.setdefault("bindAddress", host)
        self.flags["storePathRootDir"] = os.path.join(data, "store")
        self.flags["namesrvAddr"] = near_address(host, self.namesrv.config.listen_port)
        self.broker = config.load_broker(*self.file("broker.conf"), self.flags, host_name=BROKER_NAME)


def makeService(options: Options) -> service.IService:
    """The cluster of these options."""
    if options.broker is None or options.namesrv is None:
        raise usage.UsageError("the options were not parsed")
    use_log_level(options)
    disk = PosixDisk()
    namesrv = NameServerService(options.namesrv.config, disk, warnings=options.namesrv.warnings, seconds=time.monotonic)
    broker = BrokerService(options.broker.config, disk, warnings=options.broker.warnings, wall=time.time)
    status = None
    if options.status is not None:
        install_process_metrics(broker.metrics)
        namesrv_metrics.install(broker.metrics, namesrv)
        status = StatusService(
            options.status,
            broker.metrics,
            broker.healthy,
            lambda: broker.ready() or namesrv_metrics.ready(namesrv),
        )
    whole = service.MultiService()
    SteadyClock().setServiceParent(whole)
    ClusterService(namesrv, broker, os.path.relpath(options["data"]), status).setServiceParent(whole)
    return whole
