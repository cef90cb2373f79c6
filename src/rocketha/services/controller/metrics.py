"""What the controller tells Prometheus: values that it keeps anyway, asked when they are read."""

from __future__ import annotations

from collections.abc import Callable

from rocketha.observe.metrics import Registry
from rocketha.protocols.shared_port import SharedPort
from rocketha.services.controller.service import ControllerService, Counts
from rocketha.services.raft.options import RaftView


def install(metrics: Registry, controller: ControllerService) -> None:
    """Register the metrics of a controller. They are 0 while it does not run."""

    def of_raft(value: Callable[[RaftView], int]) -> Callable[[], int]:
        def ask() -> int:
            view = controller.raft_view()
            return 0 if view is None else value(view)

        return ask

    def of_port(value: Callable[[SharedPort], int]) -> Callable[[], int]:
        return lambda: value(controller.factory) if controller.factory is not None else 0

    def of_own(value: Callable[[ControllerService], int]) -> Callable[[], int]:
        return lambda: value(controller) if controller.running else 0

    def counted(value: Callable[[Counts], int]) -> Callable[[], int]:
        return of_own(lambda own: value(own.counts()))

    for name, text, ask, kind in (
        ("leading", "1 where this controller leads.", of_own(lambda own: int(own.leading)), "gauge"),
        ("term", "The Raft term.", of_raft(lambda view: view.node.term), "gauge"),
        ("committed_index", "The last committed entry.", of_raft(lambda view: view.node.commit), "gauge"),
        ("applied_entries_total", "Entries applied.", of_raft(lambda view: view.entries_applied), "counter"),
        ("log_syncs_total", "Syncs of the log.", of_raft(lambda view: view.syncs), "counter"),
        ("proposals_waiting", "Requests before their entry.", of_raft(lambda view: view.proposals_waiting), "gauge"),
        ("reads_waiting", "Requests before a barrier.", of_raft(lambda view: view.reads_waiting), "gauge"),
        ("controllers_heard", "Other controllers connected here.", of_raft(lambda view: len(view.hears)), "gauge"),
        ("broker_sets", "Broker sets.", counted(lambda each: each.sets), "gauge"),
        ("broker_sets_without_master", "Broker sets without a master.", counted(lambda each: each.headless), "gauge"),
        ("broker_sets_behind", "Broker sets with lost elections.", counted(lambda each: each.behind), "gauge"),
        ("brokers_heard", "Brokers heard lately.", counted(lambda each: each.heard), "gauge"),
        ("heartbeats_total", "Heartbeats.", counted(lambda each: each.heartbeats), "counter"),
        ("suspicions", "Brokers suspected to be dead, or dead.", counted(lambda each: each.open), "gauge"),
        ("suspicions_total", "Suspicions begun.", counted(lambda each: each.suspected), "counter"),
        ("deaths_total", "Suspicions confirmed.", counted(lambda each: each.deaths), "counter"),
        ("elections_total", "Elections of masters applied here.", counted(lambda each: each.elections), "counter"),
        ("notices_pending", "Brokers not yet told of an election.", counted(lambda each: each.notices), "gauge"),
        ("connections", "Open connections.", of_port(lambda port: len(port.connections)), "gauge"),
        ("frames_in_total", "Frames received.", of_port(lambda port: port.frames_in), "counter"),
        ("bytes_received_total", "Bytes received.", of_port(lambda port: port.bytes_in), "counter"),
        ("bytes_sent_total", "Bytes sent.", of_port(lambda port: port.bytes_out), "counter"),
    ):
        metrics.ask(f"rocketha_controller_{name}", text, ask, kind)
