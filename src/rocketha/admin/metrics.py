"""``rocketha metrics``: what Prometheus and Grafana are told about rocketha, to be written to their files.

The files are package data, ``observe/prometheus/``; docs/metrics.rst says what each metric and alert means.
"""

from __future__ import annotations

import argparse
import sys
from importlib import resources

FILES = {"alerts": "alerts.yml", "dashboard": "grafana.json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags."""
    about = "alerts: rules for Prometheus (YAML); dashboard: a dashboard for Grafana (JSON)"
    parser.add_argument("what", choices=sorted(FILES), help=about)


def text_of(what: str) -> str:
    """What one of :data:`FILES` holds."""
    found = resources.files("rocketha.observe") / "prometheus" / FILES[what]
    return found.read_text(encoding="utf-8")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    sys.stdout.write(text_of(args.what))
    return 0
