"""What the nameserver tells Prometheus: values that it keeps anyway, asked when they are read."""

from __future__ import annotations

from collections.abc import Callable

from rocketha.namesrv.requests import NameServer
from rocketha.observe.metrics import Registry
from rocketha.protocols.remoting import RemotingFactory
from rocketha.services.namesrv.service import NameServerService


def install(metrics: Registry, namesrv: NameServerService) -> None:
    """Register the metrics of a nameserver. They are 0 while it does not run."""

    def of_state(value: Callable[[NameServer], int]) -> Callable[[], int]:
        return lambda: value(namesrv.server) if namesrv.running else 0

    def of_port(value: Callable[[RemotingFactory], int]) -> Callable[[], int]:
        return lambda: value(namesrv.factory) if namesrv.factory is not None else 0

    for name, text, ask, kind in (
        ("brokers", "Registered broker addresses.", of_state(lambda server: len(server.table.live)), "gauge"),
        ("topics", "Topics with a route.", of_state(lambda server: len(server.table.topics)), "gauge"),
        (
            "suspects",
            "Brokers whose connection broke and whose port is being probed.",
            of_state(lambda server: server.liveness.suspects),
            "gauge",
        ),
        ("connections", "Open connections.", of_port(lambda port: len(port.connections)), "gauge"),
        ("frames_in_total", "Frames received.", of_port(lambda port: port.frames_in), "counter"),
        ("bytes_received_total", "Bytes received.", of_port(lambda port: port.bytes_in), "counter"),
        ("bytes_sent_total", "Bytes sent.", of_port(lambda port: port.bytes_out), "counter"),
    ):
        metrics.ask(f"rocketha_namesrv_{name}", text, ask, kind)


def ready(namesrv: NameServerService) -> str | None:
    """None, or why routes are not answered now."""
    if namesrv.ready:
        return None
    return "waiting for brokers to register (needWaitForService)" if namesrv.running else "stopped"
