"""One way between two hosts of the virtual network, and what it does to packets."""

from __future__ import annotations

import random

import attrs


@attrs.define
class Quality:
    """What a link does to packets, and how TCP of these hosts is set.

    :ivar delay_s: one way, at least.
    :ivar jitter_s: added at random, up to this.
    :ivar loss: share of segments that have to be sent again.
    :ivar bytes_per_s: bandwidth.
    :ivar split: share of segments that arrive in several reads.
    :ivar give_up_s: how long a sender goes on without an answer (TCP_USER_TIMEOUT, or what retries add up to).
    """

    delay_s: float = 0.0005
    jitter_s: float = 0.0005
    loss: float = 0.0
    bytes_per_s: float = 125_000_000.0
    split: float = 0.0
    give_up_s: float = 900.0


@attrs.define(eq=False)
class Link:
    """One way from one host to another.

    :ivar blocks: reasons why nothing passes; empty when it is open.
    :ivar slow: extra delay in seconds, by reason.
    :ivar loss: extra loss, by reason.
    :ivar corrupt: share of segments in which a bit is flipped, by reason.
    """

    quality: Quality
    blocks: set[str] = attrs.Factory(set)
    slow: dict[str, float] = attrs.Factory(dict)
    loss: dict[str, float] = attrs.Factory(dict)
    corrupt: dict[str, float] = attrs.Factory(dict)

    def delay_s(self, chance: random.Random) -> float:
        """How long a segment is under way, with what is lost sent again."""
        quality = self.quality
        delay = quality.delay_s + chance.random() * quality.jitter_s
        if self.slow:
            delay += sum(self.slow.values())
        lost = quality.loss + sum(self.loss.values()) if self.loss else quality.loss
        if lost:
            again = 0.2
            while again < 10 and chance.random() < lost:
                delay += again
                again *= 2
        return delay
