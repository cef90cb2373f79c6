"""The status port as a service, the values every process has, and the flags for both.

What it must not know: which service it watches; it is given a registry and two functions. The pages are
:mod:`rocketha.observe.http`'s.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from typing import Any

from twisted.application import service, strports
from twisted.internet.endpoints import serverFromString
from twisted.internet.testing import MemoryReactor
from twisted.python import usage

import rocketha
from rocketha.errors import ConfigError
from rocketha.observe.events import StatusServerStarted
from rocketha.observe.http import Check, StatusFactory
from rocketha.observe.logging import LEVELS, emit, make_logger, unwatch, watch
from rocketha.observe.metrics import Registry
from rocketha.observe.overview import Overview, Shows
from rocketha.observe.page import Feed
from rocketha.observe.refusals import Refusals
from rocketha.observe.timeline import Timeline
from rocketha.protocols.endpoints import split_address
from rocketha.services.process.secret_file import refuse_readable_key

STATUS_PARAMETERS = [
    [
        "http",
        None,
        None,
        "Port (on 127.0.0.1), HOST:PORT or endpoint string of the status page, /metrics, /healthz, /readyz.",
    ],
    ["log-level", None, "info", f"Log this and what is worse: {', '.join(LEVELS)}."],
    ["log-file", None, None, "Also log to this file, as JSON lines; it is rotated."],
]
"""``optParameters`` of every service's ``Options``; :func:`check_status_options` belongs to them."""


def check_status_options(options: Any) -> str | None:
    """Check the flags of :data:`STATUS_PARAMETERS`.

    :return: the endpoint string of the status port, None without one.
    :raises usage.UsageError: a flag is wrong.
    """
    if options["log-level"] not in LEVELS:
        raise usage.UsageError(f"--log-level {options['log-level']}: one of {', '.join(LEVELS)} is wanted")
    given = options["http"]
    if given is None:
        return None
    try:
        return status_endpoint(given)
    except ConfigError as problem:
        raise usage.UsageError(f"--http {given}: {problem}") from None


def status_endpoint(text: str) -> str:
    """A port, HOST:PORT or an endpoint string, as an endpoint string.

    :raises ConfigError: it is none of them.
    """
    description = text
    if re.fullmatch(r"[0-9]+", text):
        text = f"127.0.0.1:{text}"
    if not re.match(r"[a-z0-9]+:.*=|(tcp6?|ssl|unix|systemd|haproxy):", text):
        host, port = split_address(text)
        kind, colon = ("tcp6", r"\:") if ":" in host else ("tcp", ":")
        description = f"{kind}:{port}:interface={host.replace(':', colon)}"
    try:
        serverFromString(MemoryReactor(), description)
    except Exception as problem:
        raise ConfigError(f"not an endpoint: {problem}") from None
    refuse_readable_key(description)
    return description


class StatusService(service.MultiService):
    """Opens the status port when started.

    :param description: endpoint string.
    :param refusals: told of the connections that the port ends.
    :param notice: shown with readiness.
    :param shows: what the page shows beside health and events.
    """

    def __init__(
        self,
        description: str,
        metrics: Registry,
        healthy: Check,
        ready: Check,
        reactor: Any = None,
        refusals: Refusals | None = None,
        notice: str = "",
        shows: Shows = Overview,
    ) -> None:
        super().__init__()
        self.setName("status")
        self._description = description
        self._timeline = Timeline(time.time)
        self._timeline.install(metrics)
        feed = Feed(shows, (healthy, ready), self._timeline, time.time, time.monotonic)
        self._factory = StatusFactory(metrics, healthy, ready, refusals=refusals, notice=notice, document=feed.document)
        self._reactor = reactor

    def startService(self) -> None:
        """Twisted: listen.  A port that is taken is an error."""
        watch(self._timeline.happened)
        if not list(self):
            strports.service(self._description, self._factory, self._reactor).setServiceParent(self)
        super().startService()
        found = re.match(r"tcp6?:([0-9]+):interface=(.*)$", self._description)
        address = f"{found[2]}:{found[1]}" if found else self._description
        emit(make_logger(), StatusServerStarted(address))

    def stopService(self) -> Any:
        """Twisted: fires when the port is closed."""
        if self.running:
            unwatch(self._timeline.happened)
        return super().stopService()


def target_of(kind: str, cluster: str, node: str) -> dict[str, str]:
    """What a process is, as the labels of ``target_info``.

    :param kind: broker, controller ...
    :param node: which one it is.
    """
    return {
        "service_name": f"rocketha-{kind}",
        "service_version": rocketha.__version__,
        "cluster": cluster,
        "node_type": kind,
        "node_id": node,
    }


def install_process_metrics(metrics: Registry, target: dict[str, str] | None = None) -> None:
    """What Prometheus's own client libraries tell of a process, under the same names; and what the process is."""
    metrics.set_target_info(target)
    started_s = time.time()

    def cpu_seconds() -> float:
        usage_now = resource.getrusage(resource.RUSAGE_SELF)
        return usage_now.ru_utime + usage_now.ru_stime

    metrics.ask("process_cpu_seconds_total", "CPU time, user and system.", cpu_seconds, "counter")
    metrics.ask("process_start_time_seconds", "When this process began to serve, since 1970.", lambda: started_s)
    metrics.ask("process_resident_memory_bytes", "Memory in RAM.", resident_bytes)
    metrics.ask("process_open_fds", "Open files and sockets.", open_files)


def resident_bytes() -> int:
    """Memory of this process in RAM; its peak where the system does not tell (macOS)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def open_files() -> int:
    """Open descriptors; 0 where the system does not tell."""
    for directory in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(directory))
        except OSError:
            continue
    return 0
