"""``rocketha metrics``: what Prometheus and Grafana are told about rocketha, to be written to their files.

The files are package data, ``observe/prometheus/``; docs/metrics.rst says what each metric and alert means.
"""

from __future__ import annotations

import sys
from importlib import resources

import click

from rocketha.admin.commands import DONE, Given
from rocketha.admin.commands import command as declared

FILES = {"alerts": "alerts.yml", "dashboard": "grafana.json"}


def text_of(what: str) -> str:
    """What one of :data:`FILES` holds."""
    found = resources.files("rocketha.observe") / "prometheus" / FILES[what]
    return found.read_text(encoding="utf-8")


@declared("metrics")
@click.argument("what", type=click.Choice(sorted(FILES)))
def command(args: Given) -> int:
    """Print rules for Prometheus (alerts, YAML), or a dashboard for Grafana (dashboard, JSON)."""
    sys.stdout.write(text_of(args.what))
    return DONE
