"""``twistd rocketha-witness``: options, and the service made of them.

``makeService`` opens and starts nothing; what is wrong with a flag or a file is a ``usage.UsageError`` with its place.
"""

from __future__ import annotations

import random

from twisted.application import service
from twisted.python import usage

from rocketha.access.identity import Part
from rocketha.observe.metrics import Registry
from rocketha.services.config import loading
from rocketha.services.config.tap_options import ListenOptions
from rocketha.services.process.notify import Notify
from rocketha.services.process.platform import Platform
from rocketha.services.process.server import server_process
from rocketha.services.process.status import STATUS_PARAMETERS, StatusService, install_process_metrics, target_of
from rocketha.services.tls.network import TlsNetwork
from rocketha.services.witness.service import Witness
from rocketha.store.posix_disk import PosixDisk


class Options(ListenOptions):
    """Flags override the file."""

    key_of_option = {
        "group": "dLegerGroup",
        "peers": "dLegerPeers",
        "id": "dLegerWitness",
        "data": "storePathRootDir",
        "bind": "bindAddress",
    }
    longdesc = """Votes in a group of brokers in DLedger mode, and keeps no messages.  Reads the broker.conf of the
    group, in which dLegerWitness names it; every key can also be given with --set."""
    optParameters = [
        ["config", "c", None, "RocketMQ property file (broker.conf) of the group."],
        ["group", "g", None, "The group's name (dLegerGroup)."],
        ["peers", "p", None, "Its members, this one too, ID-HOST:PORT;... (dLegerPeers)."],
        ["id", "i", None, "Which of them this is (dLegerWitness)."],
        ["data", "d", None, "Directory for what it keeps (storePathRootDir)."],
        ["bind", "b", None, "Address to listen on (bindAddress)."],
        *STATUS_PARAMETERS,
    ]

    loaded: loading.Loaded[loading.BrokerConfig] | None = None
    network: TlsNetwork | None = None

    def load(self) -> None:
        self.loaded = loading.load_witness(*self.file("broker.conf"), self.flags)
        config = self.loaded.config
        self.tls = config.remoting.tls
        self.network = TlsNetwork(self.tls)
        self.network.must_be(Part.BROKER, config.broker_name, config.broker_cluster_name)


def makeService(options: Options) -> service.IService:
    """The witness of these options, with its status port if there is to be one."""
    network = options.network
    if options.loaded is None or network is None:
        raise usage.UsageError("the options were not parsed")
    platform = Platform(disk=PosixDisk(), network=network, chance=random.SystemRandom())
    config = options.loaded.config
    witness = Witness(config, platform, options.listen, options.loaded.warnings)
    whole = server_process(options)
    network.setServiceParent(whole)
    if options.status is not None:
        metrics = Registry()
        install_process_metrics(metrics, target_of("witness", config.broker_cluster_name, config.broker_name))
        network.install(metrics)
        witness.install(metrics)
        StatusService(
            options.status,
            metrics,
            witness.healthy,
            witness.ready,
            refusals=witness.refusals,
            notice=network.notice,
            shows=witness.overview,
        ).setServiceParent(whole)
    Notify(lambda: witness.view() is not None).setServiceParent(whole)
    witness.setServiceParent(whole)
    return whole
