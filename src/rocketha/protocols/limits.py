"""What one listening port allows its peers (security.md)."""

from __future__ import annotations

import attrs

from rocketha.wire.framing import FRAME_LIMIT
from rocketha.wire.remoting import HEADER_LIMIT


def reserve_of(places: int) -> int:
    """How many places more there are for replicas, other brokers, controllers and operators."""
    return max(4, places // 16)


@attrs.frozen
class Limits:
    """What one listening port allows; seconds and bytes.  Loopback is exempt from ``connections_per_address``: there
    every client of this machine has the same address.
    """

    frame_bytes: int = FRAME_LIMIT
    header_bytes: int = HEADER_LIMIT
    first_frame_s: int = 10
    whole_frame_s: int = 30
    idle_s: int = 120
    connections: int = 1024
    connections_per_address: int = 64
    unfinished_bytes: int = 256 * 1024 * 1024
    queued_bytes: int = 64 * 1024 * 1024
    queued_bytes_all: int = 256 * 1024 * 1024
