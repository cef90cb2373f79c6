"""What the failure detector wants asked, done or known: values that cross to the service.

Frozen and comparable, so that a test is an equality of lists.  Must not know how any of it is carried out.
"""

from __future__ import annotations

from enum import Enum

import attrs

from rocketha.controller.events import Seen, Why
from rocketha.controller.liveness import Heartbeat, ReplicaKey


class Verdict(Enum):
    """What came of a request to a broker's own port."""

    ANSWERED = "answered"  # by the broker, whatever it said
    REFUSED = "refused"  # nobody listens
    CLOSED = "closed"  # taken, and closed without an answer
    SILENT = "silent"  # no answer in time, or no way there


@attrs.frozen(slots=True)
class Reading:
    """What a broker says of its replication (request 907).  Two readings of a slave tell whether its link moves.

    :ivar leads: whether it takes itself for the master; None where it did not say.
    :ivar read_ms: when a slave last read from its master, by its own clock.
    :ivar max_offset: end of a slave's commit log, bytes.
    :ivar group: cluster and broker name of who answered, empty ones of who is no broker of any group; None where it
        did not say.
    """

    leads: bool | None = None
    read_ms: int = -1
    max_offset: int = -1
    group: tuple[str, str] | None = None

    def is_of_another(self, replica: ReplicaKey) -> bool:
        """Whether who answered is no broker of this one's group: it was given the address, as containers are."""
        return self.group not in (None, replica[:2])

    def lacks(self, last: Heartbeat | None) -> bool:
        """Whether this slave's log is shorter than its last heartbeat said: it came back without a part of it."""
        return last is not None and self.leads is False and 0 <= self.max_offset < last.max_offset

    def moved(self, before: Reading) -> bool:
        """Whether something came over the link between the two readings."""
        return self.read_ms > before.read_ms or self.max_offset > before.max_offset


@attrs.frozen(slots=True)
class Probe:
    """Ask a broker's own port (907, and 1007 for who answers), and report to ``FailureDetector.port_answered``.

    :ivar anew: on a connection of its own, which shows whether anybody listens; else an open one will do.
    """

    question: int  # hand it back: an answer to an older question is void
    replica: ReplicaKey
    address: str
    timeout_ms: int
    anew: bool = True


@attrs.frozen(slots=True)
class AskControllers:
    """Ask every other controller whether it hears a broker, and report to ``FailureDetector.controller_answered``."""

    question: int
    replica: ReplicaKey


@attrs.frozen(slots=True)
class Elect:
    """Propose an election.  Void if the state's master epoch is another by then.

    :ivar dead_id: the master that is dead; None where the set has none.
    :ivar alive: the members that answered; nobody else may be chosen.
    """

    cluster: str
    broker_name: str
    dead_id: int | None
    master_epoch: int
    alive: tuple[int, ...]
    kind: Why
    why: str
    seen: tuple[Seen, ...] = ()


@attrs.frozen(slots=True)
class Suspected:
    """To log: a suspicion began."""

    replica: ReplicaKey
    why: str


@attrs.frozen(slots=True)
class Held:
    """To log: a round ended without a death."""

    replica: ReplicaKey
    why: str


@attrs.frozen(slots=True)
class Died:
    """To log: it is dead."""

    replica: ReplicaKey
    why: str


@attrs.frozen(slots=True)
class Cleared:
    """To log: it is heard again."""

    replica: ReplicaKey
    was_dead: bool


Effect = Probe | AskControllers | Elect | Suspected | Held | Died | Cleared
