"""How long a master may believe that it is one.

Must not know the controller: who asks it says when it asked.

Theory of operation.  The controller's word that this broker is master of an epoch holds for ``lease_ms`` from when it
was *asked*, not from when the answer was read: a process that was frozen in between, or whose answer lay in a socket,
must not believe it for longer (regressions A5, A21).  Once it ran out, nothing is acknowledged and nothing read until a
question that was asked later has been answered; bytes already written wait.  It is also *suspended* while somebody
says that there is another master and the controller has not been asked about that; from a time on, which may be to
come: the clock is looked at, no timer is waited for.

``now_ms`` is of a clock that also runs while the process, or the machine, stands still.

Java has none.
"""

from __future__ import annotations

from rocketha.replication.epochs import NO_EPOCH


class Lease:
    """A master's, over all its epochs.

    :param lease_ms: shorter than the controller takes to elect another while this broker may still be alive.
    :ivar epoch: of which it is master, NO_EPOCH if of none.
    :ivar suspended_ms: see the module; None: it is not.
    """

    __slots__ = ("_asked_ms", "epoch", "lease_ms", "suspended_ms")

    def __init__(self, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self.epoch = NO_EPOCH
        self.suspended_ms: int | None = None
        self._asked_ms: int | None = None

    def begin(self, epoch: int) -> None:
        """The broker was told that it is master of an epoch; it has to confirm that first."""
        self.suspended_ms = None
        self.epoch = epoch
        self._asked_ms = None

    def end(self) -> None:
        """It is master no more, or does not know."""
        self.begin(NO_EPOCH)

    def confirmed(self, epoch: int, asked_ms: int) -> bool:
        """The controller said that it is master of ``epoch``, to a question of ``asked_ms``; whether that counts.

        An answer of another epoch, or to an older question, does not.
        """
        if epoch != self.epoch or epoch == NO_EPOCH:
            return False
        if self._asked_ms is not None and asked_ms <= self._asked_ms:
            return False
        self._asked_ms = asked_ms
        return True

    def holds(self, now_ms: int) -> bool:
        """Whether this broker may act as master: acknowledge, move the confirm offset, let consumers read."""
        return self._runs(now_ms) and not self._suspended(now_ms)

    def undecided(self, now_ms: int) -> bool:
        """Whether it would hold, but for being suspended."""
        return self._runs(now_ms) and self._suspended(now_ms)

    def _runs(self, now_ms: int) -> bool:
        return self._asked_ms is not None and now_ms < self._asked_ms + self.lease_ms

    def _suspended(self, now_ms: int) -> bool:
        return self.suspended_ms is not None and now_ms >= self.suspended_ms

    def ask_at_ms(self, now_ms: int) -> int | None:
        """When to ask the controller: at a third of the lease, so that two answers may be lost; None if no master."""
        if self.epoch == NO_EPOCH:
            return None
        return now_ms if self._asked_ms is None else self._asked_ms + self.lease_ms // 3
