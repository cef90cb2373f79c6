"""How the commands connect to servers: in the clear, or under TLS where a file says so; and as whom, likewise."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from rocketha.access.signer import Signer
from rocketha.protocols.endpoints import Dialer, client_endpoint
from rocketha.services.config import credentials
from rocketha.services.config.loading import load_tls
from rocketha.services.config.tls import ENVIRONMENT
from rocketha.services.process.platform import new_nonce
from rocketha.services.tls.network import ClientTls


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """``--tls`` and ``--credentials``."""
    parser.add_argument(
        "--tls",
        metavar="FILE",
        default=os.environ.get(ENVIRONMENT, ""),
        help=f"connect under TLS, by the tls.client.* keys of this file (default ${ENVIRONMENT})",
    )
    parser.add_argument(
        "--credentials",
        metavar="FILE",
        default=os.environ.get(credentials.ENVIRONMENT, ""),
        help="sign requests as the user of this file, which has lines accessKey: NAME and secretKey: PASSWORD as "
        f"RocketMQ's tools.yml (default ${credentials.ENVIRONMENT})",
    )


def dialer_of(reactor: Any, args: argparse.Namespace) -> Dialer:
    """What makes a command's connections.

    :raises ConfigError: a file, or one that it names, cannot be used.
    """
    connects = ClientTls(load_tls(args.tls)).endpoint if args.tls else client_endpoint
    signer = None
    if args.credentials:
        signer = Signer(credentials.load(args.credentials), lambda: time.time_ns() // 1_000_000, new_nonce)
    return Dialer(reactor, connects, signer)
