"""``twistd rocketha-namesrv``: options, and the service made of them.

With ``enableControllerInNamesrv=true`` a controller is in the same process, on the port of its own peer, as Java has
it; its keys stand in the same file.

``makeService`` opens and starts nothing; what is wrong with a flag or a file is a ``usage.UsageError`` with its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from twisted.application import service
from twisted.python import usage

from rocketha.access.identity import Part
from rocketha.observe import refusals
from rocketha.observe.http import Check
from rocketha.observe.metrics import Registry
from rocketha.observe.overview import Shows, together
from rocketha.services.config import loading
from rocketha.services.config.tap_options import ListenOptions
from rocketha.services.namesrv import metrics as namesrv_metrics
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.notify import Notify
from rocketha.services.process.platform import Platform
from rocketha.services.process.server import server_process
from rocketha.services.process.status import STATUS_PARAMETERS, StatusService, install_process_metrics, target_of
from rocketha.services.tls.network import TlsNetwork
from rocketha.store.posix_disk import PosixDisk


class Options(ListenOptions):
    """Flags override the file."""

    key_of_option = {"port": "listenPort", "bind": "bindAddress"}
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

    loaded: loading.Loaded[loading.NamesrvConfig] | None = None
    controller: loading.Loaded[loading.ControllerConfig] | None = None
    network: TlsNetwork | None = None

    def load(self) -> None:
        """The name server's configuration, and the controller's where it lives in the same process."""
        if self["data"] is not None:
            self.flags["kvConfigPath"] = os.path.join(self["data"], "kvConfig.json")
        data, name = self.file("namesrv.conf")
        theirs = loading.CONTROLLER_ONLY
        flags = {key: value for key, value in self.flags.items() if key not in theirs}
        self.loaded = loading.load_namesrv(data, name, flags)
        self.tls = self.loaded.config.remoting.tls
        self.network = TlsNetwork(self.tls)
        self.network.must_be(Part.NAMESERVER)
        if not self.loaded.config.enable_controller_in_namesrv:
            loading.load_namesrv(data, name, self.flags)  # a flag for the controller is an error
            return
        sections = loading.ControllerConfig, loading.RemotingConfig, loading.TlsConfig
        known = {key for section in sections for key in section.declared()}
        flags = {key: value for key, value in self.flags.items() if key in known and key != "listenPort"}
        self.controller = loading.load_controller(data, name, flags, embedded=True)
        # Here, because a name server alone does without all of it.
        from rocketha.services.controller.tap import check_controller

        check_controller(self.controller.config, self.network)

    def bound(self) -> Iterable[str]:
        return (each.config.bind_address for each in (self.loaded, self.controller) if each is not None)


def makeService(options: Options) -> service.IService:
    """The name server of these options, with its status port if there is to be one."""
    loaded, network = options.loaded, options.network
    if loaded is None or network is None:
        raise usage.UsageError("the options were not parsed")
    platform = Platform(disk=PosixDisk(), network=network)
    namesrv = NameServerService(loaded.config, platform, options.listen, loaded.warnings)
    whole = server_process(options)
    network.setServiceParent(whole)
    metrics = Registry()
    namesrv_metrics.install(metrics, namesrv)
    servers = [namesrv.refusals]
    inner: list[service.Service] = [namesrv]
    shows: list[Shows] = [namesrv.overview]
    checks: list[Check] = [lambda: namesrv_metrics.ready(namesrv)]
    if options.controller is not None:
        # Here, because a name server alone does without all of it.
        from rocketha.services.controller import metrics as controller_metrics
        from rocketha.services.controller import tap as controller_tap

        controller = controller_tap.make_controller(options.controller, platform, [])
        controller_metrics.install(metrics, controller)
        controller_tap.tell(controller, metrics, network, whole)
        inner.append(controller)
        checks.append(controller.ready)
        shows.insert(0, controller.overview)  # it knows more of a group
        servers.append(controller.refusals)
    else:
        install_process_metrics(metrics, target_of("namesrv", "", ""))
        network.install(metrics)
    refusals.install(metrics, *servers)
    if options.status is not None:
        healthy, ready = lambda: None, lambda: next(filter(None, (check() for check in checks)), None)
        StatusService(
            options.status, metrics, healthy, ready, refusals=servers[0], notice=network.notice, shows=together(*shows)
        ).setServiceParent(whole)
    Notify(lambda: all(each.running for each in inner)).setServiceParent(whole)
    for each in inner:
        each.setServiceParent(whole)
    return whole
