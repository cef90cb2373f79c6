"""A master's SyncStateSet in one epoch: who is in it, who should be, and what it confirms.

Must not know a socket, the controller's wire or a clock; the caller carries :class:`SetChange` to the controller.

Theory of operation.

*Who counts.*  The set that the controller confirmed, every set that was asked for and may have come to be (regression
A2), and whoever is joining: their union is :attr:`needed`, and the confirm offset is the smallest acknowledgement among
them.  A member that has not acknowledged in this epoch holds it where it is (A4).  A smaller set counts only once the
controller has confirmed it (A21).  Without the lease nothing moves (A3, A5).

*Who leaves* (S0.57 to S0.60): a member was caught up at a time if it acknowledged all that the log had at that time.
When the last such time is ``behind_ms_max`` ago it is left out; one whose connection is gone after ``away_ms``; one
that came back without confirmed bytes at once.  With it go all that are away, in one change (G3).  Only what is
acknowledged counts: Java also counts "nothing left to send", and so keeps a slave that hangs.

*Who joins* (S0.61): a connected replica, no learner, that has what the log had ``join_lag_ms`` ago, becomes needed at
once, so that the confirm offset cannot run from it under load; when it has everything that is confirmed, and the
beginning of this epoch, the controller is asked.  If it stalls it is dropped and not tried again for a while.  So it is
if the controller refuses it; those that were refused together are asked for one by one, so that one whom the controller
does not know keeps nobody else out.  A replica that the controller has not registered is a stranger: it neither helps
nor delays an acknowledgement (A13), and is forgotten with its connection.

*Asking*: one change at a time, as a compare-and-set on the set's epoch.  An answer that is lost leaves the change in
doubt until the controller's set has a newer epoch than the one it was to replace.  If nothing else is wanted, it is
asked for again, also when its replica is gone: a grant settles it, and so does the refusal of a controller that judges
in the order of its log.

Java: ``AutoSwitchHAService``, ``ReplicasManager``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from rocketha.errors import RemoteProtocolError, ensure
from rocketha.replication.acks import ALL, NO_ACK, ReplicaAcks
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.lease import Lease
from rocketha.wire.codes import ResponseCode

UNFIT = frozenset((ResponseCode.CONTROLLER_INVALID_REPLICAS, ResponseCode.CONTROLLER_BROKER_NOT_ALIVE))
"""A replica of the new set is not registered, or not alive; the controller found the set's epoch as it was asked."""

REFUSALS = UNFIT | {
    ResponseCode.CONTROLLER_INVALID_MASTER,
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
    ResponseCode.CONTROLLER_NOT_LEADER,
}
"""The answers to 1001 after which the change did not happen and will not."""

SAMPLE_MS = 50
"""How finely the log's growth is remembered."""


@attrs.frozen
class SyncTiming:
    """When members come and go.

    :ivar behind_ms_max: ``haMaxTimeSlaveNotCatchup``.
    :ivar away_ms: a connection that broke may come back; sends wait as long.
    :ivar arrive_ms: at an epoch's beginning: for members to connect.
    :ivar join_lag_ms: how near a replica must be before sends wait for it.
    :ivar join_ms_max: how long one that joins may stall.
    :ivar join_pause_ms: for one that stalled, or was refused.
    :ivar retry_ms: after the controller refused or did not answer.
    :ivar min_in_sync: ``minInSyncReplicas``, the master being one: with fewer nothing is acknowledged.
    """

    behind_ms_max: int = 15_000
    away_ms: int = 200
    arrive_ms: int = 3_000
    join_lag_ms: int = 250
    join_ms_max: int = 1_000
    join_pause_ms: int = 5_000
    retry_ms: int = 500
    min_in_sync: int = 1


@attrs.frozen
class SetChange:
    """What the controller is to be asked (1001).

    :ivar number: to answer with.
    :ivar members: the whole new set, sorted.
    :ivar set_epoch: of the set that it replaces.
    """

    number: int
    members: tuple[int, ...]
    epoch: int
    set_epoch: int


class LogGrowth:
    """When the log had which end, for the last ``window_ms``."""

    __slots__ = ("_log_end", "_samples", "_window_ms")

    def __init__(self, window_ms: int, log_end: int, now_ms: int) -> None:
        self._window_ms = window_ms
        self._log_end = log_end
        self._samples = deque([(now_ms, log_end)])

    def grew(self, log_end: int, now_ms: int) -> None:
        """The log ends at ``log_end`` from now on."""
        samples = self._samples
        before, self._log_end = self._log_end, log_end
        if now_ms - samples[-1][0] < SAMPLE_MS:
            return
        samples.append((now_ms, before))
        while len(samples) > 1 and samples[1][0] < now_ms - self._window_ms:
            samples.popleft()

    def had_ms(self, offset: int) -> int | None:
        """A time at which the log had no more than ``offset``, the newest remembered; None if none is."""
        for at_ms, log_end in reversed(self._samples):
            if log_end <= offset:
                return at_ms
        return None


@attrs.define(slots=True)
class _Seen:
    """What is known of one replica in this epoch.

    :ivar caught_up_ms: when it last was.
    :ivar away_ms: since when it has no connection; None while it has one.
    :ivar pause_ms: may not join before.
    :ivar suspect: was refused by the controller, alone or with others.
    """

    caught_up_ms: int
    away_ms: int | None
    learner: bool = False
    pause_ms: int = 0
    suspect: bool = False


class SyncState:
    """See the module.

    Invariant: the master is in ``members``; ``members <= needed | {own_id}``.

    :param epoch_start: where this epoch began in the log.
    :param members: as the controller said, with ``set_epoch``.
    :param confirm: lives longer than this object.
    :ivar own_offset: what the master itself would acknowledge of its log, as a replica; it is one.
    """

    def __init__(
        self,
        own_id: int,
        epoch: int,
        epoch_start: int,
        members: Iterable[int],
        set_epoch: int,
        log_end: int,
        confirm: ConfirmOffset,
        lease: Lease,
        now_ms: int,
        timing: SyncTiming | None = None,
    ) -> None:
        self.own_id = own_id
        self.epoch = self._first_epoch = epoch
        self.epoch_start = epoch_start
        self.members = frozenset(members)
        self.set_epoch = set_epoch
        self.log_end = log_end
        self.own_offset = log_end
        self.confirm = confirm
        self.lease = lease
        self.timing = timing or SyncTiming()
        self.acks = ReplicaAcks()
        ensure(own_id in self.members, f"master {own_id} of a set without it: {sorted(self.members)}")
        self._ensure_within(log_end)
        self._began_ms = now_ms
        self._growth = LogGrowth(self.timing.behind_ms_max, log_end, now_ms)
        self._seen: dict[int, _Seen] = {}
        self._known = self.members
        self._joining: set[int] = set()
        self._doubtful: dict[int, SetChange] = {}
        self._asked: int | None = None
        self._numbers = 0
        self._retry_ms = now_ms
        self.needed: frozenset[int] = frozenset()
        self._count_needed()

    # -- what happens -------------------------------------------------------------------------------------------------

    def log_grew(self, log_end: int, now_ms: int) -> None:
        """The own log ends at ``log_end`` now.  Ask :meth:`advance` afterwards."""
        self._ensure_within(log_end)
        self.log_end = self.own_offset = log_end
        self._growth.grew(log_end, now_ms)

    def kept(self, own_offset: int) -> None:
        """The master's own log is as safe as it would have to be to acknowledge it, before ``own_offset`` only: under
        SYNC_FLUSH what it has synced.  Ask :meth:`advance` afterwards.
        """
        self.own_offset = min(own_offset, self.log_end)

    def connected(
        self, connection: int, replica: int, now_ms: int, learner: bool = False, epoch: int | None = None
    ) -> int | None:
        """A slave's handshake.

        :param epoch: of the handshake's answer, if not this one.  From one before this object's first, acknowledgements
            do not count; one that was answered before :meth:`reelected` is as good as one that reported before.
        :returns: an older connection of it, to be closed.
        :raises RemoteProtocolError: it says it is this broker itself, or no broker.
        """
        if replica == self.own_id or replica < 0:
            raise RemoteProtocolError(f"a slave with the id {replica}, and the master is {self.own_id}")
        if epoch is None or self._first_epoch <= epoch < self.epoch:
            epoch = self.epoch
        displaced = self.acks.connected(connection, replica, epoch)
        seen = self._look(replica)
        seen.away_ms, seen.learner = None, learner
        if learner:
            self._drop(replica)
        return displaced

    def acked(self, connection: int, offset: int, now_ms: int) -> bool:
        """An acknowledgement; whether it is higher than the one before.  Ask :meth:`advance` afterwards.

        :raises RemoteProtocolError: it cannot be true; close the connection, this has noted that.
        """
        replica = self.acks.replica(connection)
        try:
            rose = self.acks.acked(connection, offset, self.log_end)
        except RemoteProtocolError:
            self._gone(replica, now_ms)
            raise
        assert isinstance(replica, int)
        if self.acks.offset(replica, self.epoch) == NO_ACK:
            return False
        self._weigh(replica, offset, now_ms)
        return rose

    def disconnected(self, connection: int, now_ms: int) -> None:
        """A slave's connection is gone."""
        self._gone(self.acks.disconnected(connection), now_ms)

    def registered(self, replicas: Iterable[int], now_ms: int) -> None:
        """All replicas that the controller knows (1006); at first the members alone.  Who joins and is none is dropped.

        Without this no replica joins that was never a member.
        """
        before, self._known = self._known, self.members.union(replicas)
        for replica in sorted(self._joining - self._known):
            self._drop(replica)
        self._seen = {each: seen for each, seen in self._seen.items() if each in self._known or self.acks.present(each)}
        for replica in sorted(self._known - before):  # of the others nothing new was heard
            offset = self.acks.offset(replica, self.epoch)
            if offset != NO_ACK:
                self._weigh(replica, offset, now_ms)

    def reelected(self, epoch: int, epoch_start: int, members: Iterable[int], set_epoch: int, now_ms: int) -> None:
        """The controller made this master the next one too: its connections go on, and nothing moves without a lease.

        Nobody followed another master in between, so what was acknowledged still counts.

        :raises RemoteProtocolError: it is not the next epoch, and another broker may have been master of one between,
            or the set's does not rise (controllers that were wiped): begin with a new object.
        """
        if epoch != self.epoch + 1 or set_epoch <= self.set_epoch:
            raise RemoteProtocolError(
                f"elected again in epoch {epoch} with set epoch {set_epoch}, after {self.epoch} with {self.set_epoch}"
            )
        self.acks.carry_over(self.epoch, epoch)
        self.epoch, self.epoch_start = epoch, epoch_start
        self._doubtful.clear()  # the controller refuses what was asked in another epoch
        self._asked = None
        self._retry_ms = now_ms
        self.take_set(members, set_epoch, now_ms)

    # -- what is confirmed --------------------------------------------------------------------------------------------

    @property
    def confirm_offset(self) -> int:
        """Up to where every needed replica has the log; never beyond the own one."""
        return min(self.confirm.offset, self.log_end)

    def advance(self, now_ms: int) -> bool:
        """Move the confirm offset, if it may; whether it moved."""
        if not self.lease.holds(now_ms):
            return False
        offset = self.own_offset
        for replica in self.needed:
            acked = self.acks.offset(replica, self.epoch)
            if acked < offset:
                offset = acked
        return self.confirm.advance(offset, self.log_end)

    def reached(self, need: int, now_ms: int) -> int:
        """Up to where puts may be acknowledged; NO_ACK: none at all.

        :param need: ALL, or how many members must have it, the master being one (``inSyncReplicas``).
        """
        if not self.lease.holds(now_ms) or len(self.members) < self.timing.min_in_sync:
            return NO_ACK
        if need == ALL:
            return self.confirm_offset
        return self.acks.reached(need, self.log_end, self.epoch, self.members)

    # -- the set ------------------------------------------------------------------------------------------------------

    def request(self, now_ms: int) -> SetChange | None:
        """What to ask the controller now; answer with :meth:`take_set`, :meth:`refused` or :meth:`unanswered`."""
        for replica in sorted(self._joining):
            if self._stalled(replica, now_ms):
                self._pause(replica, now_ms)
        if self._asked is not None or now_ms < self._retry_ms:
            return None
        wanted = (self.members - self._leaving(now_ms)) | self._askable()
        if wanted == self.members:
            wanted = self._doubted()
        if wanted == self.members:
            return None
        self._numbers += 1
        change = SetChange(self._numbers, tuple(sorted(wanted)), self.epoch, self.set_epoch)
        self._doubtful[change.number] = change
        self._asked = change.number
        self._count_needed()
        return change

    def take_set(self, members: Iterable[int], set_epoch: int, now_ms: int) -> bool:
        """The controller's set, however it came to be known; whether it is newer than the one known.

        :raises RemoteProtocolError: the master is not in it.
        """
        if set_epoch <= self.set_epoch:
            return False
        found = frozenset(members)
        if self.own_id not in found:
            raise RemoteProtocolError(f"the controller's set {sorted(found)} is without its master {self.own_id}")
        self.members, self.set_epoch = found, set_epoch
        self._known |= found
        self._joining -= found
        for replica in found & self._seen.keys():
            self._seen[replica].suspect = False
        self._doubtful = {number: each for number, each in self._doubtful.items() if each.set_epoch >= set_epoch}
        if self._asked not in self._doubtful:
            self._asked = None
            self._retry_ms = now_ms
        self._count_needed()
        return True

    def refused(self, number: int, code: int, now_ms: int, in_order: bool = False) -> None:
        """The controller answered with an error.

        Only :data:`REFUSALS` settle anything, if the change was sent once.  Every other code is as good as no answer:
        SYSTEM_ERROR is also said of an entry that may yet be committed (Java's and ours, after a timeout or a lost
        leader), and FENCED_SYNC_STATE_SET_EPOCH and ALTER_SYNC_STATE_SET_FAILED ("equal") say that the set is another
        than the one known here, perhaps the one asked for: ask for it (1004) and call :meth:`take_set`.

        :param code: a ``ResponseCode``.
        :param in_order: it was judged when its entry was applied, as our controllers do and Java's do not, and no
            earlier change is still on its way (the connection of one that was not answered is closed).  Then a refusal
            for an unfit replica proves that the set had the epoch asked for, so nothing asked before it was made.
        """
        if code not in REFUSALS:
            self.unanswered(number, now_ms)
            return
        change = self._doubtful.pop(number, None)
        if change is not None and code in UNFIT:
            self._suspect(frozenset(change.members) - self.members, now_ms)
        if in_order and code in UNFIT and self._asked == number:
            self._doubtful.clear()
        self._count_needed()
        self._settle(number, now_ms)

    def unanswered(self, number: int, now_ms: int) -> None:
        """Whether the controller made this change is unknown: it stays in doubt, and another may be asked for.

        A timeout, a lost connection, an answer that cannot be read.
        """
        change = self._doubtful.pop(number, None)
        if change is not None:
            twin = attrs.evolve(change, number=0)
            if all(attrs.evolve(each, number=0) != twin for each in self._doubtful.values()):
                self._doubtful[number] = change
        self._settle(number, now_ms)

    def next_due_ms(self, now_ms: int) -> int | None:
        """When :meth:`request` may have something to say though nothing happens; None: never."""
        due = [self._stall_ms(replica) for replica in self._joining if self._lags(replica)]
        if self._asked is None:
            if self._ready() or self._doubted() != self.members:
                due.append(self._retry_ms)
            due += [max(self._retry_ms, self._leave_ms(each)) for each in self.members if each != self.own_id]
        return max(now_ms, min(due)) if due else None

    # -- within -------------------------------------------------------------------------------------------------------

    def _ensure_within(self, log_end: int) -> None:
        """Else puts up to there would be acknowledged that nobody has; ``ConfirmOffset.truncated`` goes with a cut."""
        offset = self.confirm.offset
        ensure(offset <= log_end, f"{offset} is confirmed and the log ends at {log_end}: a cut it was not told of")

    def _look(self, replica: int) -> _Seen:
        seen = self._seen.get(replica)
        if seen is None:
            seen = self._seen[replica] = _Seen(self._began_ms, self._began_ms)
        return seen

    def _gone(self, replica: object, now_ms: int) -> None:
        if not isinstance(replica, int):
            return
        if replica in self._known:
            self._look(replica).away_ms = now_ms
        else:
            self._seen.pop(replica, None)
        self._drop(replica)

    def _drop(self, replica: int) -> None:
        """It joins no more; what was asked for it stays in doubt."""
        self._joining.discard(replica)
        self._count_needed()

    def _pause(self, replica: int, now_ms: int) -> None:
        self._drop(replica)
        self._look(replica).pause_ms = now_ms + self.timing.join_pause_ms

    def _suspect(self, refused: frozenset[int], now_ms: int) -> None:
        for replica in sorted(refused & self._joining):
            self._look(replica).suspect = True
            if len(refused) == 1:
                self._pause(replica, now_ms)

    def _count_needed(self) -> None:
        asked = (change.members for change in self._doubtful.values())
        self.needed = self.members.union(self._joining, *asked) - {self.own_id}

    def _settle(self, number: int, now_ms: int) -> None:
        if self._asked == number:
            self._asked = None
            self._retry_ms = now_ms + self.timing.retry_ms

    def _weigh(self, replica: int, offset: int, now_ms: int) -> None:
        """It has acknowledged ``offset``: when it was caught up, and whether it joins."""
        seen = self._look(replica)
        had_ms = now_ms if offset == self.log_end else self._growth.had_ms(offset)
        if had_ms is not None:
            seen.caught_up_ms = max(seen.caught_up_ms, had_ms)
        if replica in self._known and replica not in self.members and replica not in self._joining:
            self._consider(replica, seen, had_ms, now_ms)

    def _consider(self, replica: int, seen: _Seen, had_ms: int | None, now_ms: int) -> None:
        near = had_ms is not None and now_ms - had_ms <= self.timing.join_lag_ms
        if near and not seen.learner and now_ms >= seen.pause_ms:
            self._joining.add(replica)
            self._count_needed()

    def _floor(self) -> int:
        """What a replica must have to become a member."""
        return max(self.confirm.offset, self.epoch_start)

    def _ready(self) -> frozenset[int]:
        return frozenset(each for each in self._joining if self.acks.offset(each, self.epoch) >= self._floor())

    def _askable(self) -> frozenset[int]:
        """Of the ready ones all that were never refused; of the others one."""
        ready = self._ready()
        suspects = sorted(each for each in ready if self._look(each).suspect)
        return ready.difference(suspects) or frozenset(suspects[:1])

    def _doubted(self) -> frozenset[int]:
        """The members and who may be one, to ask again; not while one that is connected lacks confirmed bytes."""
        beyond = frozenset().union(*(change.members for change in self._doubtful.values())) - self.members
        if any(self.acks.present(each) and self.acks.offset(each, self.epoch) < self._floor() for each in beyond):
            return self.members
        return self.members | beyond

    def _lags(self, replica: int) -> bool:
        return self.acks.offset(replica, self.epoch) < self.log_end

    def _stall_ms(self, replica: int) -> int:
        return self._look(replica).caught_up_ms + self.timing.join_ms_max

    def _stalled(self, replica: int, now_ms: int) -> bool:
        return self._lags(replica) and now_ms >= self._stall_ms(replica)

    def _leave_ms(self, member: int) -> int:
        """When a member is to be left out, if nothing is heard of it until then."""
        seen = self._seen.get(member)
        if seen is None:
            return self._began_ms + self.timing.arrive_ms
        acked = self.acks.offset(member, self.epoch)
        if seen.learner or NO_ACK < acked < self.confirm.offset:
            return self._began_ms  # long ago: at once
        late_ms = seen.caught_up_ms + self.timing.behind_ms_max
        return late_ms if seen.away_ms is None else min(late_ms, seen.away_ms + self.timing.away_ms)

    def _leaving(self, now_ms: int) -> frozenset[int]:
        others = self.members - {self.own_id}
        if not any(now_ms >= self._leave_ms(each) for each in others):
            return frozenset()
        return frozenset(each for each in others if now_ms >= self._leave_ms(each) or not self.acks.present(each))
