"""``rocketha metrics``: what Prometheus and Grafana are told about rocketha, to be written to their files.

The files are package data, ``observe/prometheus/``; docs/metrics.rst says what each metric and alert means.
"""

from __future__ import annotations

import sys
from importlib import resources

from rocketha.admin.commands import DONE, Given, actions

FILES = {"alerts": "alerts.yml", "dashboard": "grafana.json"}


def text_of(what: str) -> str:
    """What one of :data:`FILES` holds."""
    found = resources.files("rocketha.observe") / "prometheus" / FILES[what]
    return found.read_text(encoding="utf-8")


@actions("metrics")
def command() -> None:
    """Print rules for Prometheus, or a dashboard for Grafana."""


@command.command("alerts")
def alerts(args: Given) -> int:
    """Rules for Prometheus: alerts, in YAML."""
    sys.stdout.write(text_of("alerts"))
    return DONE


@command.command("dashboard")
def dashboard(args: Given) -> int:
    """A dashboard for Grafana, in its JSON."""
    sys.stdout.write(text_of("dashboard"))
    return DONE
