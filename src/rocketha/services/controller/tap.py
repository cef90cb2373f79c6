"""``twistd rocketha-controller``: options, and the service made of them.

``makeService`` opens and starts nothing; what is wrong with a flag or a file is a ``usage.UsageError`` with its place.
"""

from __future__ import annotations

import random

import attrs
from twisted.application import service
from twisted.python import usage

from rocketha.access.identity import Part
from rocketha.errors import ConfigError
from rocketha.observe import refusals
from rocketha.observe.metrics import Registry
from rocketha.protocols.endpoints import is_loopback
from rocketha.services.config import loading
from rocketha.services.config.tap_options import ListenOptions
from rocketha.services.controller import metrics as controller_metrics
from rocketha.services.controller.service import ControllerService
from rocketha.services.process.notify import Notify
from rocketha.services.process.platform import Platform
from rocketha.services.process.server import server_process
from rocketha.services.process.status import STATUS_PARAMETERS, StatusService, install_process_metrics, target_of
from rocketha.services.tls.exporter import Told
from rocketha.services.tls.network import TlsNetwork
from rocketha.store.posix_disk import PosixDisk


class Options(ListenOptions):
    """Flags override the file."""

    key_of_option = {
        "peers": "controllerDLegerPeers",
        "id": "controllerDLegerSelfId",
        "group": "controllerDLegerGroup",
        "data": "controllerStorePath",
        "bind": "bindAddress",
    }
    longdesc = (
        "Apache RocketMQ controller: elects the masters of broker sets.  Reads RocketMQ's controller.conf; every key "
        "can also be given with --set."
    )
    optParameters = [
        ["config", "c", None, "RocketMQ property file (controller.conf)."],
        ["peers", None, None, "The controllers, id-host:port;... (controllerDLegerPeers, default n0-127.0.0.1:9878)."],
        ["id", "i", None, "Which of them this is (controllerDLegerSelfId, default n0)."],
        ["group", "g", None, "Their group's name (controllerDLegerGroup, default group1)."],
        ["data", "d", None, "Directory of the log (controllerStorePath, default ~/DLedgerController)."],
        ["bind", "b", None, "Address to listen on (bindAddress, default that of the own peer)."],
        *STATUS_PARAMETERS,
    ]

    loaded: loading.Loaded[loading.ControllerConfig] | None = None
    network: TlsNetwork | None = None

    def load(self) -> None:
        self.loaded = loading.load_controller(*self.file("controller.conf"), self.flags)
        self.tls = self.loaded.config.remoting.tls
        self.network = TlsNetwork(self.tls)
        check_controller(self.loaded.config, self.network)


def check_controller(config: loading.ControllerConfig, network: TlsNetwork) -> None:
    """See that nobody else can pass for one of the controllers.

    :raises ConfigError: whoever reaches the port can.
    """
    network.must_be(Part.CONTROLLER, config.controller_dleger_self_id)
    if len(config.peers) > 1 and not config.raft_secret and not network.askers.known:
        if not is_loopback(config.bind_address):
            raise ConfigError(
                f"bindAddress={config.bind_address}: other machines reach this port, and nothing shows which of them "
                "are controllers: set raftSecretFile, or tls.identities=required"
            )


def make_controller(
    loaded: loading.Loaded[loading.ControllerConfig], platform: Platform, listen: list[str]
) -> ControllerService:
    """The controller of a configuration, whose elections nobody can foretell."""
    unforeseen = attrs.evolve(platform, chance=random.SystemRandom())
    return ControllerService(loaded.config, unforeseen, listen, loaded.warnings)


def tell(controller: ControllerService, metrics: Registry, network: TlsNetwork, parent: service.MultiService) -> None:
    """Register what a controller's process has to tell, and who is told without asking the status port."""
    config, exported = controller.config, controller.exported
    target = target_of("controller", config.controller_dleger_group, config.controller_dleger_self_id)
    install_process_metrics(metrics, target)
    network.install(metrics)
    told = Told(
        keys=config.metrics,
        metrics=metrics,
        exported=None if exported is None else exported.registry,
        target=target,
        checks=(controller.healthy, controller.ready),
        refusals=controller.refusals,
        wall=controller.platform.wall,
    )
    told.begin(network, parent)


def makeService(options: Options) -> service.IService:
    """The controller of these options, with its status port if there is to be one."""
    network = options.network
    if options.loaded is None or network is None:
        raise usage.UsageError("the options were not parsed")
    whole = server_process(options)
    network.setServiceParent(whole)
    controller = make_controller(options.loaded, Platform(disk=PosixDisk(), network=network), options.listen)
    metrics = Registry()
    controller_metrics.install(metrics, controller)
    refusals.install(metrics, controller.refusals)
    tell(controller, metrics, network, whole)
    if options.status is not None:
        StatusService(
            options.status,
            metrics,
            controller.healthy,
            controller.ready,
            refusals=controller.refusals,
            notice=network.notice,
            shows=controller.overview,
        ).setServiceParent(whole)
    Notify(lambda: controller.running).setServiceParent(whole)
    controller.setServiceParent(whole)
    return whole
