"""``twistd rocketha-namesrv``: options, and the service made of them.

With ``enableControllerInNamesrv=true`` a controller is in the same process, on the port of its own peer, as Java has
it; its keys stand in the same file.

``makeService`` opens and starts nothing; what is wrong with a flag or a file is a ``usage.UsageError`` with its place.
"""

from __future__ import annotations

import os
import time

from twisted.application import service
from twisted.internet.endpoints import serverFromString
from twisted.internet.testing import MemoryReactor
from twisted.python import usage

from rocketha.errors import ConfigError
from rocketha.observe.http import Check
from rocketha.observe.metrics import Registry
from rocketha.services import config, namesrv_metrics
from rocketha.services.namesrv import NameServerService
from rocketha.services.status import (
    STATUS_PARAMETERS,
    StatusService,
    check_status_options,
    install_process_metrics,
    use_log_level,
)
from rocketha.services.steady import SteadyClock
from rocketha.store.posix_disk import PosixDisk


class Options(usage.Options):
    """Flags override the file."""

    synopsis = "[options]"
    longdesc = (
        """Apache RocketMQ name server.  Reads RocketMQ's namesrv.conf; every key can also be given with --set."""
    )
    optParameters = [
        ["config", "c", None, "RocketMQ property file (namesrv.conf)."],
        ["port", "p", None, "Port to listen on (listenPort, default 9876)."],
        ["bind", "b", None, "Address to listen on (bindAddress, default 127.0.0.1)."],
        ["data", "d", None, "Directory of kvConfig.json (default ~/namesrv)."],
        *STATUS_PARAMETERS,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.listen: list[str] = []
        self.flags: dict[str, str] = {}
        self.loaded: config.Loaded[config.NamesrvConfig] | None = None
        self.controller: config.Loaded[config.ControllerConfig] | None = None
        self.status: str | None = None

    def opt_listen(self, description: str) -> None:
        """An endpoint string instead of --port and --bind, such as tcp:9876:interface=127.0.0.1; may be repeated."""
        self.listen.append(description)

    opt_l = opt_listen

    def opt_set(self, pair: str) -> None:
        """KEY=VALUE: one configuration key; may be repeated."""
        key, equals, value = pair.partition("=")
        if not equals:
            raise usage.UsageError(f"--set {pair}: KEY=VALUE is wanted")
        self.flags[key.strip()] = value

    opt_s = opt_set

    def postOptions(self) -> None:
        """Check everything that can be checked without opening anything but the file."""
        for option, key in (("port", "listenPort"), ("bind", "bindAddress")):
            if self[option] is not None:
                self.flags[key] = self[option]
        if self["data"] is not None:
            self.flags["kvConfigPath"] = os.path.join(self["data"], "kvConfig.json")
        try:
            data = config.read_file(self["config"]) if self["config"] is not None else b""
            self._load(data, self["config"] or "namesrv.conf")
        except ConfigError as problem:
            raise usage.UsageError(str(problem)) from None
        self.status = check_status_options(self)
        for description in self.listen:
            check_endpoint(description)

    def _load(self, data: bytes, name: str) -> None:
        """The name server's configuration, and the controller's where it lives in the same process."""
        theirs = config.CONTROLLER_ONLY
        flags = {key: value for key, value in self.flags.items() if key not in theirs}
        self.loaded = config.load_namesrv(data, name, flags)
        if not self.loaded.config.enable_controller_in_namesrv:
            config.load_namesrv(data, name, self.flags)  # a flag for the controller is an error
            return
        known = config.ControllerConfig.declared().keys() | config.RemotingConfig.declared().keys()
        flags = {key: value for key, value in self.flags.items() if key in known and key != "listenPort"}
        self.controller = config.load_controller(data, name, flags, embedded=True)


def check_endpoint(description: str) -> None:
    """Whether an endpoint string can be understood; nothing is opened.

    :raises usage.UsageError: it cannot.
    """
    try:
        serverFromString(MemoryReactor(), description)
    except Exception as problem:
        raise usage.UsageError(f"--listen {description}: {problem}") from None


def makeService(options: Options) -> service.IService:
    """The name server of these options, with its status port if there is to be one."""
    loaded = options.loaded
    if loaded is None:
        raise usage.UsageError("the options were not parsed")
    use_log_level(options)
    namesrv = NameServerService(
        loaded.config,
        PosixDisk(),
        listen=options.listen,
        warnings=loaded.warnings,
        seconds=time.monotonic,
    )
    whole = service.MultiService()
    SteadyClock().setServiceParent(whole)
    metrics = Registry()
    namesrv_metrics.install(metrics, namesrv)
    inner: list[service.Service] = [namesrv]
    checks: list[Check] = [lambda: namesrv_metrics.ready(namesrv)]
    if options.controller is not None:
        # Here, because a name server alone does without all of it.
        from rocketha.services import controller_metrics, controller_tap

        controller = controller_tap.make_controller(options.controller, [])
        controller_metrics.install(metrics, controller)
        inner.append(controller)
        checks.append(controller.ready)
    if options.status is not None:
        install_process_metrics(metrics)
        healthy, ready = lambda: None, lambda: next(filter(None, (check() for check in checks)), None)
        StatusService(options.status, metrics, healthy, ready).setServiceParent(whole)
    for each in inner:
        each.setServiceParent(whole)
    return whole
