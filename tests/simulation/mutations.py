"""Raft and the controller, broken on purpose: each of these the simulator must catch.

``python -m tests.simulation.mutations`` runs all of them (``NAME`` runs one), each in a process of its own, over seeds
until one run is violated; it prints which seed and which invariant, and fails if a mutation got away.  A mutation is a
monkeypatch of one rule, the kinds of fault it is about, and how many seeds it may take.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import attrs
from twisted.logger import globalLogBeginner

from rocketha.controller import elections, registration, sync_state
from rocketha.controller.group import BrokerGroup, Elected
from rocketha.raft import elections as raft_elections
from rocketha.raft import leadership, quorum
from rocketha.raft.following import Following
from rocketha.raft.leadership import Leadership
from rocketha.raft.log import Log
from rocketha.raft.messages import HardState, Kind, Message
from rocketha.raft.replication import Replication
from rocketha.services.raft.journal import RaftJournal
from rocketha.services.raft.service import RaftService
from rocketha.services.raft.waiting import ResultUnknown
from rocketha.simulation.faults import ALL_KINDS
from rocketha.simulation.scenarios import outcome
from rocketha.store.raft_log import RaftLog
from rocketha.store.raft_state import VoteFile
from tests.simulation import hunting

SECONDS = 36.0
CUTS = ("halves", "single", "one-way", "deaf", "bridge", "flapping", "majority-ring", "kill")
POWER = ("power", "power-all", "kill", "kill-majority", "single", "halves")


@attrs.frozen
class Mutation:
    """One way to break it.

    :ivar seeds: how many it may take until it is caught.
    """

    scenario: str
    what: str
    kinds: tuple[str, ...]
    seeds: int
    apply: Callable[[], None]


MUTATIONS: dict[str, Mutation] = {}

UNPROVEN = frozenset(
    {
        "reads-before-first-commit",
        "joint-with-one-majority",
        "no-own-term-check",
        "alter-ignores-master-epoch",
        "answers-without-barrier",
    }
)
"""Not yet seen to be caught within some dozens of seeds: they need rarer schedules, or a better mutation."""


def mutation(
    scenario: str, what: str, kinds: tuple[str, ...] = ALL_KINDS, seeds: int = 40
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register one; its name is the function's, with dashes."""

    def register(apply: Callable[[], None]) -> Callable[[], None]:
        MUTATIONS[apply.__name__.replace("_", "-")] = Mutation(scenario, what, kinds, seeds, apply)
        return apply

    return register


def patch(owner: Any, name: str, made: Any) -> None:
    """Replace a rule; what is replaced must be there, or the mutation tests nothing."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner.__name__}.{name} is gone: this mutation must be written anew")
    setattr(owner, name, made)


# -- Raft: elections


@mutation("raft", "a vote is forgotten by a restart", POWER)
def vote_not_saved() -> None:
    save = RaftLog.save

    def forgetful(self: RaftLog, hard_state: HardState | None, entries: Any) -> None:
        save(self, None if hard_state is None else hard_state._replace(vote=""), entries)

    patch(RaftLog, "save", forgetful)


@mutation("raft", "term and vote are written and not synced", POWER)
def vote_not_synced() -> None:
    save = VoteFile.save

    def unsynced(self: VoteFile, state: Any) -> None:
        disk = self._disk
        kept = disk.create
        try:
            disk.create = lambda *args, **more: _Unsynced(kept(*args, **more))  # type: ignore[method-assign]
            synced, disk.sync_dir = disk.sync_dir, lambda path: None  # type: ignore[method-assign]
            save(self, state)
        finally:
            disk.create, disk.sync_dir = kept, synced  # type: ignore[method-assign]

    patch(VoteFile, "save", unsynced)


class _Unsynced:
    """A file whose sync does nothing."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return (lambda: None) if name == "sync" else getattr(self._file, name)


@mutation("raft", "a node votes for everybody who asks", CUTS)
def votes_twice() -> None:
    asked = raft_elections.Elections.asked

    def generous(self: raft_elections.Elections, message: Message) -> None:
        if message.kind == Kind.VOTE:
            self._core.vote = ""
            self._core.leader_id = ""
        asked(self, message)

    patch(raft_elections.Elections, "asked", generous)


@mutation("raft", "who votes does not look at the candidate's log", (*POWER, *CUTS))
def votes_for_the_empty_log() -> None:
    asked = raft_elections.Elections.asked
    patch(raft_elections.Elections, "asked", lambda self, message: asked(self, message._replace(log_term=1 << 40)))


@mutation("raft", "who votes compares lengths only, not terms (A17)", (*POWER, *CUTS), 120)
def votes_for_the_longer_log() -> None:
    asked = raft_elections.Elections.asked

    def by_length(self: raft_elections.Elections, message: Message) -> None:
        better = message.index >= self._core.log.last_index
        asked(self, message._replace(log_term=1 << 40 if better else 0))

    patch(raft_elections.Elections, "asked", by_length)


@mutation("raft", "no pre-vote: who is cut off raises its term (D7)", ("single", "halves", "one-way"))
def no_pre_vote() -> None:
    campaign = raft_elections.Elections.campaign
    patch(raft_elections.Elections, "campaign", lambda self, forced: campaign(self, True))


# -- Raft: replication and commit


@mutation("raft", "entries of older terms are committed by counting (A14)", (*CUTS, "power-all", "freeze"), 400)
def no_own_term_check() -> None:
    def commit(self: Leadership) -> None:
        core, log = self._core, self._core.log
        index = quorum.agreed(core.members, self._replication.match)
        if index <= log.commit:
            return
        before = log.commit
        log.commit_to(index)
        if before < self.term_start:
            self._reads.commit_known(log.commit)
        if core.membership.index <= log.commit and before < max(core.membership.index, self.term_start):
            self._membership_committed()

    patch(Leadership, "_commit", commit)


@mutation("raft", "one node is a majority", CUTS)
def commit_without_majority() -> None:
    agreed = quorum._agreed
    patch(quorum, "_agreed", lambda voters, reached: max(map(reached, voters)) if voters else agreed(voters, reached))


@mutation("raft", "the leader counts its own entries before they are synced", ("power-all", "power", "slow-disk"), 80)
def leader_counts_unsynced() -> None:
    match = Replication.match

    def eager(self: Replication, member: str) -> int:
        return self._core.log.last_index if member == self._core.id else match(self, member)

    patch(Replication, "match", eager)


@mutation("raft", "a follower acknowledges before its sync (A16)", ("power-all", "power", "slow-disk"), 80)
def answers_before_sync() -> None:
    kick = RaftJournal.kick

    def early(self: RaftJournal, tick: int) -> None:
        unsynced, index = self._unsynced and self.syncing_since is None, self.log.last_index()
        kick(self, tick)
        if unsynced:
            self._synced(index, self.log.term(index), [])

    patch(RaftJournal, "kick", early)


@mutation("raft", "syncs of the log do nothing", ("power-all", "power"))
def log_not_synced() -> None:
    def sync(self: RaftLog) -> None:
        self._durable = self._mark

    patch(RaftLog, "sync", sync)


@mutation("raft", "a follower cuts its log at every append, not at a conflict", (*CUTS, "slow-link", "loss"), 800)
def cuts_without_conflict() -> None:
    merge = Log.merge

    def cutting(self: Log, entries: Any) -> int:
        first = entries[0].index
        if self.commit < first <= self.last_index:
            self._cut(first)
        return merge(self, entries)

    patch(Log, "merge", cutting)


@mutation("raft", "a follower takes what it got for committed", CUTS)
def commits_what_arrives() -> None:
    append = Following.append
    patch(Following, "append", lambda self, message: append(self, message._replace(commit=1 << 40)))


@mutation("raft", "conflicting entries are kept", CUTS, 80)
def keeps_conflicts() -> None:
    merge = Log.merge

    def keeping(self: Log, entries: Any) -> int:
        fresh = [entry for entry in entries if entry.index > self.last_index]
        return merge(self, fresh) if fresh else 0

    patch(Log, "merge", keeping)


@mutation("raft", "the term before an append is not compared", CUTS, 160)
def no_consistency_check() -> None:
    patch(Log, "matches", lambda self, index, term: index <= self.last_index)


# -- Raft: reads, membership, snapshots, driver


@mutation("raft", "reads are answered without asking a majority", CUTS, 400)
def reads_without_quorum() -> None:
    def read(self: Leadership, origin: str, context: int) -> None:
        self._answer_read(leadership.WaitingRead(origin, context, self._core.log.commit))

    patch(Leadership, "read", read)


@mutation("raft", "a new leader reads before its first entry is committed", CUTS, 200)
def reads_before_first_commit() -> None:
    def read(self: Leadership, origin: str, context: int) -> None:
        self._reads.ask(origin, context, self._core.log.commit)

    patch(Leadership, "read", read)


@mutation("raft", "a joint configuration needs the new majority only", (*CUTS, "power"), 400)
def joint_with_one_majority() -> None:
    agreed, election = quorum.agreed, quorum.election
    new_only = attrs.evolve
    patch(quorum, "agreed", lambda members, reached: agreed(new_only(members, outgoing=frozenset()), reached))
    made = lambda members, cast: election(new_only(members, outgoing=frozenset()), cast)  # noqa: E731
    patch(quorum, "election", made)
    patch(raft_elections, "election", made)


@mutation("raft", "a received snapshot does not replace the machine's state", ("kill", "freeze", "single", "power"))
def snapshot_not_restored() -> None:
    from rocketha.services.raft.snapshots import RaftSnapshots

    install = RaftSnapshots.install

    def skipping(self: RaftSnapshots, meta: Any, data: bytes) -> Any:
        restore = self._machine.restore
        self._machine.restore = lambda data: None  # type: ignore[method-assign]

        def back(result: Any) -> Any:
            self._machine.restore = restore  # type: ignore[method-assign]
            return result

        return install(self, meta, data).addBoth(back)

    patch(RaftSnapshots, "install", skipping)


@mutation("raft", "a proposal whose outcome is unknown is said to be void", (*CUTS, "freeze"))
def unknown_is_void() -> None:
    patch(ResultUnknown, "maybe_applied", False)


# -- the controller


@mutation("controller", "any epoch of a set may be replaced", CUTS)
def alter_ignores_set_epoch() -> None:
    alter = sync_state.alter

    def stale(group: Any, event: Any) -> Any:
        return alter(group, attrs.evolve(event, set_epoch=group.set_epoch) if group is not None else event)

    patch(sync_state, "alter", stale)


@mutation("controller", "a master of any epoch may change the set", CUTS)
def alter_ignores_master_epoch() -> None:
    alter = sync_state.alter

    def stale(group: Any, event: Any) -> Any:
        if group is None:
            return alter(group, event)
        return alter(group, attrs.evolve(event, master_id=group.master, master_epoch=group.master_epoch))

    patch(sync_state, "alter", stale)


@mutation("controller", "elections do not look at the SyncStateSet", ("kill", "power", "single", "halves", "freeze"))
def elects_outside_the_set() -> None:
    elect = elections.elect

    def unclean(group: Any, event: Any) -> Any:
        return elect(group, attrs.evolve(event, evidence=attrs.evolve(event.evidence, unclean=True)))

    patch(elections, "elect", unclean)


@mutation("controller", "an election does not raise the epoch", ("kill", "power"))
def epoch_not_raised() -> None:
    take = BrokerGroup.take

    def flat(self: BrokerGroup, change: Any, index: int) -> None:
        epoch = self.master_epoch
        take(self, change, index)
        if isinstance(change, Elected) and epoch:
            self.master_epoch = epoch

    patch(BrokerGroup, "take", flat)


@mutation("controller", "an id is given again after its broker was cleaned out", ("kill", "power", "clients-cut"), 120)
def id_reused_after_clean() -> None:
    take = BrokerGroup.take

    def reusing(self: BrokerGroup, change: Any, index: int) -> None:
        take(self, change, index)
        self.next_id = max(self.members, default=0) + 1

    patch(BrokerGroup, "take", reusing)


@mutation("controller", "two brokers may apply for one id", ("slow-link", "loss", "clients-cut"))
def id_given_twice() -> None:
    apply_id = registration.apply_id

    def generous(group: Any, event: Any) -> Any:
        member = group.members.get(event.broker_id) if group is not None else None
        return apply_id(group, attrs.evolve(event, check_code=member.check_code) if member is not None else event)

    patch(registration, "apply_id", generous)


@mutation("controller", "answers without a barrier", CUTS, 80)
def answers_without_barrier() -> None:
    from twisted.internet import defer

    patch(RaftService, "barrier", lambda self: defer.succeed(None))


@mutation("controller", "a set may hold brokers that are not registered", ("kill",))
def set_loses_its_master() -> None:
    take = BrokerGroup.take

    def losing(self: BrokerGroup, change: Any, index: int) -> None:
        take(self, change, index)
        if len(self.in_sync) > 1:
            self.in_sync = tuple(each for each in self.in_sync if each != self.master)

    patch(BrokerGroup, "take", losing)


# -- running them


def hunt(name: str, first: int = 1, seeds: int | None = None) -> tuple[int, str] | None:
    """Apply a mutation to this process, and the first seed that catches it with what it found."""
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    chosen = MUTATIONS[name]
    chosen.apply()
    for seed in range(first, first + (seeds or chosen.seeds)):
        came = outcome(chosen.scenario, seed, SECONDS, chosen.kinds)
        if came.violations:
            return seed, str(came.violations[0]).splitlines()[0][:200]
    return None


MODULE = "tests.simulation.mutations"


def in_a_process(name: str, first: int = 1) -> tuple[bool, str]:
    """Hunt in a process of its own."""
    return hunting.in_a_process(MODULE, name, first)


if __name__ == "__main__":
    sys.exit(hunting.main(MODULE, MUTATIONS, hunt, "Break Raft and the controller on purpose; each must be caught."))
