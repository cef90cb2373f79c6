"""``twistd rocketha-learner``: options, and the service made of them.

``makeService`` opens and starts nothing; what is wrong with a flag or a file is a ``usage.UsageError`` with its place.
"""

from __future__ import annotations

import os

from twisted.application import service
from twisted.python import usage

from rocketha.errors import ConfigError
from rocketha.export.target import local_path, refuse_foreign
from rocketha.observe.metrics import Registry
from rocketha.protocols.endpoints import split_address
from rocketha.services.config import loading
from rocketha.services.config.tap_options import KeyOptions
from rocketha.services.learner.service import Learner, LearnerSettings
from rocketha.services.process.notify import Notify
from rocketha.services.process.platform import Platform
from rocketha.services.process.server import server_process
from rocketha.services.process.status import STATUS_PARAMETERS, StatusService, install_process_metrics, target_of
from rocketha.services.tls.network import TlsNetwork
from rocketha.store.posix_disk import PosixDisk
from rocketha.wire.crc import crc32

ID_FIRST = 1_000_000_000
"""Above the ids that controllers give."""
EVERY_S_MAX = 86_400


class Options(KeyOptions):
    """Flags override the file."""

    key_of_option = {"data": "storePathRootDir", "name": "brokerName", "namesrv": "namesrvAddr"}
    longdesc = """Copies a master's log without being one of its replicas, and keeps an export of it growing.  Reads
    the broker.conf of the group; every key can also be given with --set.  mappedFileSizeCommitLog must be the
    master's."""
    optParameters = [
        ["config", "c", None, "RocketMQ property file (broker.conf) of the group."],
        ["namesrv", "n", None, "Nameservers that know the master, HOST:PORT;HOST:PORT (namesrvAddr)."],
        ["master", "m", "", "The master's main port, HOST:PORT, instead of asking nameservers."],
        ["name", None, None, "The group's name (brokerName)."],
        ["data", "d", None, "Directory of the copied log (storePathRootDir)."],
        ["export", "e", None, "Directory of the export."],
        ["every", None, "10", "Seconds between two exports."],
        ["replica", None, None, "What this copy is called in tables (default NAME-learner)."],
        *STATUS_PARAMETERS,
    ]
    optFlags = [["controller-mode", None, "The group has controllers (enableControllerMode)."]]

    loaded: loading.Loaded[loading.BrokerConfig] | None = None
    settings: LearnerSettings | None = None
    network: TlsNetwork | None = None

    def load(self) -> None:
        if self["config"] is None and not self["master"] and "namesrvAddr" not in self.flags:
            raise ConfigError("--namesrv or --master is needed")
        flags = dict(self.flags)
        if self["master"]:
            split_address(self["master"])
            flags["haMasterAddress"] = self["master"]  # a slave must be told one; here the master is asked for it
        self.loaded = loading.load_learner(*self.file("broker.conf"), flags)
        self.network = TlsNetwork(self.loaded.config.remoting.tls, listens=False)
        keys = self.loaded.config.replication
        keys.async_learner = True
        if self["controller-mode"]:  # who leads is asked nameservers: controllers need not be known
            keys.enable_controller_mode = True
        self.settings = self._settings(self.loaded.config)

    def _settings(self, config: loading.BrokerConfig) -> LearnerSettings:
        if not self["export"]:
            raise ConfigError("--export DIRECTORY is needed")
        if not self["data"] and "storePathRootDir" not in self.flags and self["config"] is None:
            raise ConfigError("--data DIRECTORY is needed")
        directory, keys = os.path.abspath(local_path(self["export"])), config.store
        places = filter(None, (keys.store_path_root_dir, keys.store_path_commit_log))
        refuse_foreign(PosixDisk(), directory, map(os.path.abspath, places))
        try:
            every_s = float(self["every"])
        except ValueError:
            every_s = 0.0
        if not 0.1 <= every_s <= EVERY_S_MAX:
            raise ConfigError(f"--every {self['every']}: 0.1 to {EVERY_S_MAX} seconds")
        learner_id = ID_FIRST + crc32(directory.encode()) % ID_FIRST
        return LearnerSettings(
            directory, self["replica"] or f"{config.broker_name}-learner", learner_id, every_s, self["master"]
        )


def makeService(options: Options) -> service.IService:
    """The learner of these options, with its status port if there is to be one."""
    network = options.network
    if options.loaded is None or options.settings is None or network is None:
        raise usage.UsageError("the options were not parsed")
    config = options.loaded.config
    platform = Platform(disk=PosixDisk(), network=network, credentials=config.access.credentials)
    learner = Learner(config, options.settings, platform, options.loaded.warnings)
    whole = server_process(options)
    network.setServiceParent(whole)
    if options.status is not None:
        metrics = Registry()
        install_process_metrics(metrics, target_of("learner", config.broker_cluster_name, config.broker_name))
        network.install(metrics)
        learner.install(metrics)
        StatusService(
            options.status,
            metrics,
            learner.healthy,
            learner.ready,
            refusals=learner.refusals,
            notice=network.notice,
            shows=learner.overview,
        ).setServiceParent(whole)
    Notify(lambda: learner.following is not None).setServiceParent(whole)
    learner.setServiceParent(whole)
    return whole
