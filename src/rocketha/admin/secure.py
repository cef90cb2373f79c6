"""How the commands connect to servers: in the clear, or under TLS where a file says so."""

from __future__ import annotations

import argparse
import os
from typing import Any

from rocketha.protocols.endpoints import Dialer
from rocketha.services.config.loading import load_tls
from rocketha.services.config.tls import ENVIRONMENT
from rocketha.services.tls.network import ClientTls


def add_tls_argument(parser: argparse.ArgumentParser) -> None:
    """``--tls``."""
    parser.add_argument(
        "--tls",
        metavar="FILE",
        default=os.environ.get(ENVIRONMENT, ""),
        help=f"connect under TLS, by the tls.client.* keys of this file (default ${ENVIRONMENT})",
    )


def dialer_of(reactor: Any, args: argparse.Namespace) -> Dialer:
    """What makes a command's connections.

    :raises ConfigError: the file, or one that it names, cannot be used.
    """
    if not args.tls:
        return Dialer(reactor)
    return Dialer(reactor, ClientTls(load_tls(args.tls)).endpoint)
