"""Every metric that our servers have, as they register them: what pages, rules and dashboards are compared with."""

from __future__ import annotations

import random
from typing import Any, cast

from rocketha.observe import refusals
from rocketha.observe.metrics import Registry, Shape
from rocketha.services.access.acl_1 import WatchedAcl
from rocketha.services.config.loading import load_broker, load_controller, load_namesrv
from rocketha.services.controller import metrics as controller_metrics
from rocketha.services.controller.service import ControllerService
from rocketha.services.learner.service import Learner
from rocketha.services.namesrv import metrics as namesrv_metrics
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.platform import Platform
from rocketha.services.process.status import install_process_metrics
from rocketha.services.tls.network import TlsNetwork
from rocketha.services.witness.service import Witness
from rocketha.store.memory_disk import MemoryDisk
from tests.services.broker_case import BrokerCase

PEERS = "dLegerGroup=g\ndLegerPeers=n0-10.0.0.1:1;n1-10.0.0.2:1;n2-10.0.0.3:1\ndLegerWitness=n2\n"
EXPORTED = "metricsExporterType=PROM\n"


def nothing() -> Any:
    """Whose metrics are registered and not asked."""
    return cast(Any, None)


class MetricsCase(BrokerCase):
    """A broker that exports Java's names, too."""

    config = EXPORTED

    def servers(self) -> dict[str, Registry]:
        """What each kind of server registers of its own, by name; and ``all``, what all of them do."""
        platform = Platform(disk=MemoryDisk(random.Random(1)), reactor=self.clock)
        made = {name: Registry() for name in ("all", "controller", "nameserver", "learner", "witness")}
        install_process_metrics(made["all"])
        TlsNetwork.install(nothing(), made["all"])
        refusals.install(made["all"], self.service.refusals)
        controller = ControllerService(load_controller(EXPORTED.encode()).config, platform)
        controller_metrics.install(made["controller"], controller)
        namesrv = NameServerService(load_namesrv().config, platform)
        namesrv_metrics.install(made["nameserver"], namesrv)
        Learner.install(cast(Any, type("Learner", (), {"refusals": self.service.refusals})()), made["learner"])
        Witness(load_broker(f"{PEERS}enableDLegerCommitLog=true".encode(), witness=True).config, platform).install(
            made["witness"]
        )
        WatchedAcl.install(nothing(), self.service.metrics)
        assert self.service.exported is not None and controller.exported is not None
        return {
            "broker": self.service.metrics,
            **made,
            "broker, Java's names": self.service.exported,
            "controller, Java's names": controller.exported.registry,
        }

    def shapes(self) -> dict[str, dict[str, Shape]]:
        """Those of each server's own metrics."""
        servers = self.servers()
        common = servers["all"].shapes
        return {
            kind: {name: shape for name, shape in made.shapes.items() if kind == "all" or name not in common}
            for kind, made in servers.items()
        }
