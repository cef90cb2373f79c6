"""``twistd rocketha-broker``: options, and the service made of them.

``makeService`` opens and starts nothing; what is wrong with a flag or a file is a ``usage.UsageError`` with its place.
"""

from __future__ import annotations

import time

from twisted.application import service
from twisted.python import usage

from rocketha.errors import ConfigError
from rocketha.services import config
from rocketha.services.broker import BrokerService
from rocketha.services.namesrv_tap import check_endpoint
from rocketha.services.status import (
    STATUS_PARAMETERS,
    StatusService,
    check_status_options,
    install_process_metrics,
    use_log_level,
)
from rocketha.services.steady import SteadyClock
from rocketha.store.posix_disk import PosixDisk

KEY_OF_OPTION = {
    "port": "listenPort",
    "bind": "bindAddress",
    "data": "storePathRootDir",
    "name": "brokerName",
    "namesrv": "namesrvAddr",
}


class Options(usage.Options):
    """Flags override the file."""

    synopsis = "[options]"
    longdesc = """Apache RocketMQ broker.  Reads RocketMQ's broker.conf; every key can also be given with --set."""
    optParameters = [
        ["config", "c", None, "RocketMQ property file (broker.conf)."],
        ["namesrv", "n", None, "Nameservers to register with, HOST:PORT;HOST:PORT (namesrvAddr)."],
        ["port", "p", None, "Port to listen on (listenPort, default 10911)."],
        ["bind", "b", None, "Address to listen on (bindAddress, default 127.0.0.1)."],
        ["data", "d", None, "Directory of the store (storePathRootDir, default ~/store)."],
        ["name", None, None, "The broker's name (brokerName, default the host's)."],
        *STATUS_PARAMETERS,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.listen: list[str] = []
        self.flags: dict[str, str] = {}
        self.loaded: config.Loaded[config.BrokerConfig] | None = None
        self.status: str | None = None

    def opt_listen(self, description: str) -> None:
        """An endpoint string instead of --port and --bind, such as tcp:10911:interface=127.0.0.1; may be repeated."""
        self.listen.append(description)

    opt_l = opt_listen

    def opt_set(self, pair: str) -> None:
        """KEY=VALUE: one configuration key; may be repeated."""
        add_pair(self.flags, pair)

    opt_s = opt_set

    def postOptions(self) -> None:
        """Check everything that can be checked without opening anything but the file."""
        for option, key in KEY_OF_OPTION.items():
            if self[option] is not None:
                self.flags[key] = self[option]
        self.loaded = load(self["config"], self.flags)
        self.status = check_status_options(self)
        for description in self.listen:
            check_endpoint(description)


def add_pair(flags: dict[str, str], pair: str) -> None:
    """The argument of ``--set`` into the flags.

    :raises usage.UsageError: it is not KEY=VALUE.
    """
    key, equals, value = pair.partition("=")
    if not equals or not key.strip():
        raise usage.UsageError(f"--set {pair}: KEY=VALUE is wanted")
    flags[key.strip()] = value


def load(path: str | None, flags: dict[str, str], host_name: str | None = None) -> config.Loaded[config.BrokerConfig]:
    """The broker's configuration of a file and flags.

    :raises usage.UsageError: something in it is wrong.
    """
    try:
        data = config.read_file(path) if path is not None else b""
        return config.load_broker(data, path or "broker.conf", flags, host_name=host_name)
    except ConfigError as problem:
        raise usage.UsageError(str(problem)) from None


def makeService(options: Options) -> service.IService:
    """The broker of these options, with its status port if there is to be one."""
    loaded = options.loaded
    if loaded is None:
        raise usage.UsageError("the options were not parsed")
    use_log_level(options)
    broker = BrokerService(loaded.config, PosixDisk(), options.listen, loaded.warnings, wall=time.time)
    whole = service.MultiService()
    SteadyClock().setServiceParent(whole)
    if options.status is not None:
        install_process_metrics(broker.metrics)
        StatusService(options.status, broker.metrics, broker.healthy, broker.ready).setServiceParent(whole)
    broker.setServiceParent(whole)
    return whole
