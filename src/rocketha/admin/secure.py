"""How the commands connect to servers: in the clear, or under TLS where a file says so; and as whom, likewise."""

from __future__ import annotations

import time
from typing import Any

from rocketha.access.signer import Signer
from rocketha.admin.commands import Given
from rocketha.protocols.endpoints import Dialer, client_endpoint
from rocketha.services.config import credentials
from rocketha.services.config.loading import load_tls
from rocketha.services.process.platform import new_nonce
from rocketha.services.tls.network import ClientTls


def dialer_of(reactor: Any, given: Given) -> Dialer:
    """What makes a command's connections, by ``--tls`` and ``--credentials`` (:func:`.options.connection`).

    :raises ConfigError: a file, or one that it names, cannot be used.
    """
    connects = ClientTls(load_tls(given.tls)).endpoint if given.tls else client_endpoint
    signer = None
    if given.credentials:
        signer = Signer(credentials.load(given.credentials), lambda: time.time_ns() // 1_000_000, new_nonce)
    return Dialer(reactor, connects, signer)
