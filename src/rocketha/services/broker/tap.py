"""``twistd rocketha-broker``: options, and the service made of them.

``makeService`` opens and starts nothing; what is wrong with a flag or a file is a ``usage.UsageError`` with its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.application import service
from twisted.python import usage

from rocketha.access.identity import Part
from rocketha.observe import refusals
from rocketha.services.broker.service import BrokerService
from rocketha.services.config import loading
from rocketha.services.config.tap_options import ListenOptions
from rocketha.services.features.finding import Enabled, needed
from rocketha.services.process.notify import Notify
from rocketha.services.process.platform import Platform
from rocketha.services.process.second_signal import SecondSignal
from rocketha.services.process.server import server_process
from rocketha.services.process.status import STATUS_PARAMETERS, StatusService, install_process_metrics, target_of
from rocketha.services.tls.exporter import Told
from rocketha.services.tls.network import TlsNetwork
from rocketha.store.posix_disk import PosixDisk


class Options(ListenOptions):
    """Flags override the file."""

    key_of_option = {
        "port": "listenPort",
        "bind": "bindAddress",
        "data": "storePathRootDir",
        "name": "brokerName",
        "namesrv": "namesrvAddr",
    }
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

    loaded: loading.Loaded[loading.BrokerConfig] | None = None
    plugins: Sequence[Enabled] = ()
    network: TlsNetwork | None = None

    def load(self) -> None:
        self.loaded = loading.load_broker(*self.file("broker.conf"), self.flags)
        config = self.loaded.config
        self.tls = config.remoting.tls
        self.network = TlsNetwork(self.tls)
        self.network.must_be(Part.BROKER, config.broker_name, config.broker_cluster_name)
        self.plugins = needed(self.loaded.config.plugins, self.loaded.config.plugin_keys)


def tell(broker: BrokerService, network: TlsNetwork, parent: service.MultiService) -> None:
    """Register what a broker's process has to tell, and who is told without asking the status port."""
    config = broker.config
    target = target_of("broker", config.broker_cluster_name, config.broker_name)
    install_process_metrics(broker.metrics, target)
    network.install(broker.metrics)
    told = Told(
        keys=config.metrics,
        metrics=broker.metrics,
        exported=broker.exported,
        target=target,
        checks=(broker.healthy, broker.ready),
        refusals=broker.refusals,
        wall=broker.platform.wall,
    )
    told.begin(network, parent)


def makeService(options: Options) -> service.IService:
    """The broker of these options, with its status port if there is to be one."""
    loaded, network = options.loaded, options.network
    if loaded is None or network is None:
        raise usage.UsageError("the options were not parsed")
    platform = Platform(disk=PosixDisk(), network=network, credentials=loaded.config.access.credentials)
    broker = BrokerService(loaded.config, platform, options.listen, loaded.warnings, plugins=options.plugins)
    whole = server_process(options)
    network.setServiceParent(whole)
    Notify(lambda: broker.serving).setServiceParent(whole)
    SecondSignal(broker.hurry).setServiceParent(whole)
    tell(broker, network, whole)
    refusals.install(broker.metrics, broker.refusals)
    if options.status is not None:
        StatusService(
            options.status,
            broker.metrics,
            broker.healthy,
            broker.ready,
            refusals=broker.refusals,
            notice=network.notice,
            shows=broker.overview,
        ).setServiceParent(whole)
    broker.setServiceParent(whole)
    return whole
