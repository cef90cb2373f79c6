"""The safety rules of the core, each taken out once.

``test_mutants.py`` runs a file of the suite against each of them; every one has to fail.
"""

from __future__ import annotations

import attrs

from tests import mutation


@attrs.frozen
class Mutant:
    """One rule taken out.

    :ivar name: what is broken.
    :ivar module: in src/rocketha/raft.
    :ivar test: the file that misses it: tests/raft/test_<test>.py.
    :ivar old: the text that keeps the rule; stands there exactly once.
    :ivar new: what stands there instead.
    """

    name: str
    module: str
    test: str
    old: str
    new: str

    def change(self) -> mutation.Mutant:
        """What it does to the source."""
        return mutation.Mutant(self.name, f"raft/{self.module}", self.old, self.new)


MUTANTS = [
    Mutant(
        "commit by counting entries of older terms (A14)",
        "leadership.py",
        "replication",
        "if index <= log.commit or log.term(index) != core.term:",
        "if index <= log.commit:",
    ),
    Mutant(
        "no NO_OP at the start of a term (D8)",
        "leadership.py",
        "replication",
        "self._append(EntryKind.NO_OP, self._core.config.first_entry())",
        "pass",
    ),
    Mutant(
        "the leader counts what it has not synced (A16)",
        "replication.py",
        "replication",
        "return self._core.log.persisted\n",
        "return self._core.log.last_index\n",
    ),
    Mutant(
        "a follower answers before it has synced (A16)",
        "following.py",
        "replication",
        "index = min(core.matched, log.persisted)",
        "index = core.matched",
    ),
    Mutant(
        "entries are applied before they are synced here (A16)",
        "log.py",
        "replication",
        "return self.released < min(self.commit, self.persisted) and self._pending is None",
        "return self.released < self.commit and self._pending is None",
    ),
    Mutant(
        "a sync of replaced entries counts for their successors",
        "log.py",
        "replication",
        "if self.term(index) != term or (index, term) in self._replaced:",
        "if False:",
    ),
    Mutant(
        "a sync of entries that were replaced and came back counts",
        "log.py",
        "replication",
        " or (index, term) in self._replaced:",
        ":",
    ),
    Mutant(
        "two votes in a term (A15)",
        "elections.py",
        "elections",
        'free = core.vote == message.sender or (core.vote == "" and core.leader_id == "")',
        "free = True",
    ),
    Mutant(
        "a leader's order is passed on to who is reached late",
        "elections.py",
        "elections",
        "self._request(peer, 0)",
        "self._request(peer, FORCED)",
    ),
    Mutant(
        "messages of a term leave before it is saved (A15)",
        "node.py",
        "elections",
        "        if voted:  # nothing is said in a term that might be forgotten\n",
        "        if False:\n",
    ),
    Mutant(
        "the vote is not saved (A15)",
        "node.py",
        "elections",
        "hard_state = HardState(core.term, core.vote, self._kept_commit)",
        'hard_state = HardState(core.term, "", self._kept_commit)',
    ),
    Mutant(
        "a candidate with an older last term is elected (A17)",
        "elections.py",
        "elections",
        "granted = free and (message.log_term, message.index) >= (log.last_term, log.last_index)",
        "granted = free and message.index >= log.last_index",
    ),
    Mutant(
        "a candidate with a shorter log is elected (A17)",
        "elections.py",
        "elections",
        "granted = free and (message.log_term, message.index) >= (log.last_term, log.last_index)",
        "granted = free and message.log_term >= log.last_term",
    ),
    Mutant(
        "a voter with an empty disk elects whom it may have contradicted",
        "elections.py",
        "elections",
        "unsure = UNSURE if granted and core.is_unsure(message.index) else 0",
        "unsure = 0",
    ),
    Mutant(
        "empty disks elect an empty one though another has entries",
        "core.py",
        "elections",
        "return self.unsure and (index > 0 or self.late)",
        "return self.unsure and index > 0",
    ),
    Mutant(
        "the entry before is not compared",
        "following.py",
        "replication",
        "elif not log.matches(index, log_term):",
        "elif index > log.last_index:",
    ),
    Mutant(
        "conflicting entries are kept",
        "log.py",
        "replication",
        "            if cut:\n",
        "            if False:\n",
    ),
    Mutant(
        "a longer log is cut",
        "log.py",
        "replication",
        "                if same == entry.last:\n",
        "                if same == entry.last and position < len(entries) - 1:\n",
    ),
    Mutant(
        "a run that conflicts within is taken for equal",
        "log.py",
        "runs",
        "same = last if self.term(last) == entry.term else self.last_with_term_at_most(last, entry.term)",
        "same = last",
    ),
    Mutant(
        "a run is cut whole",
        "log.py",
        "runs",
        "            if run.index < index:\n",
        "            if False:\n",
    ),
    Mutant(
        "a run is sent beyond what was asked for",
        "log.py",
        "runs",
        "if entries and entries[-1].count > 1 and entries[-1].last >= high:",
        "if False:",
    ),
    Mutant(
        "a run that is half committed is taken whole",
        "following.py",
        "runs",
        "            entries = log.behind(entries, index)\n",
        "            pass\n",
    ),
    Mutant(
        "what the leader stored itself is to be saved again",
        "leadership.py",
        "runs",
        "        log.saved = log.last_index\n",
        "        pass\n",
    ),
    Mutant(
        "committed entries may be cut",
        "log.py",
        "log",
        'ensure(index > self.commit, f"a leader replaces',
        'ensure(True, f"a leader replaces',
    ),
    Mutant(
        "a follower believes any commit index",
        "following.py",
        "replication",
        "core.log.commit_to(min(message.commit, core.matched))",
        "core.log.commit_to(message.commit)",
    ),
    Mutant(
        "an APPEND's commit index reaches beyond its entries",
        "following.py",
        "replication",
        "log.commit_to(min(message.commit, last))",
        "log.commit_to(message.commit)",
    ),
    Mutant(
        "matched survives the term",
        "elections.py",
        "replication",
        "        core.vote = vote\n        core.matched = 0\n",
        "        core.vote = vote\n",
    ),
    Mutant(
        "a read without a round of the majority",
        "leadership.py",
        "reads",
        "            reads.ask(origin, context, core.log.commit)\n",
        "            self._answer_read(WaitingRead(origin, context, core.log.commit))\n",
    ),
    Mutant(
        "a read rides on a round that began before it",
        "read_index.py",
        "reads",
        "self._rounds.append(self.round + 1)",
        "self._rounds.append(self.round)",
    ),
    Mutant(
        "a new leader reads before it knows what is committed",
        "leadership.py",
        "reads",
        "if core.log.commit < self.term_start:\n            reads.ask_early",
        "if False:\n            reads.ask_early",
    ),
    Mutant(
        "a lease counts from the answer",
        "leadership.py",
        "reads",
        "reads.promised(promised, ticks - 2 - ticks // 10)",
        "reads.promised(promised, 2 * ticks)",
    ),
    Mutant(
        "leases come back after a transfer that was given up",
        "leadership.py",
        "reads",
        "self._reads.end_leases()",
        "self._reads.void_lease()",
    ),
    Mutant(
        "a lease from followers that promised nothing",
        "replication.py",
        "reads",
        "if message.log_term >= self._core.config.election_ticks:",
        "if True:",
    ),
    Mutant(
        "a lease that is longer than what was promised",
        "replication.py",
        "reads",
        "if message.log_term >= self._core.config.election_ticks:",
        "if message.log_term:",
    ),
    Mutant(
        "an old promise counts for a newer round",
        "replication.py",
        "reads",
        "progress.promised_round = max(progress.promised_round, message.context)",
        "progress.promised_round = progress.round",
    ),
    Mutant(
        "a promise is forgotten with the term (lease reads)",
        "elections.py",
        "reads",
        "core.vote = vote\n        core.matched = 0",
        "core.vote = vote\n        core.promised_ticks = core.matched = 0",
    ),
    Mutant(
        "a restarted node votes for itself in spite of its promise (lease reads)",
        "elections.py",
        "reads",
        "if core.promised_ticks and not forced and",
        "if False and",
    ),
    Mutant(
        "a removed leader is forgotten before it knows of its removal (lease reads)",
        "membership.py",
        "reads",
        "            if since <= commit:\n                break\n        return True\n",
        "            break\n        return True\n",
    ),
    Mutant(
        "a promise does not hold in the own term (lease reads)",
        "node.py",
        "reads",
        "kind in (Kind.VOTE, Kind.PRE_VOTE) and message.term >= core.term",
        "kind in (Kind.VOTE, Kind.PRE_VOTE) and message.term > core.term",
    ),
    Mutant(
        "a lease lasts longer where ticks are late",
        "node.py",
        "reads",
        "self._core.clock = max(self._core.clock, clock)",
        "self._core.clock += 0",
    ),
    Mutant(
        "a restarted follower forgets that it sticks to its leader (lease reads)",
        "core.py",
        "reads",
        "config.election_ticks if config.lease_reads or had_leaders else 0",
        "0",
    ),
    Mutant(
        "no stickiness to a leader that is heard (D7, B3)",
        "elections.py",
        "elections",
        'return core.leader_id != "" and not core.leader_gone and self.elapsed < core.config.election_ticks',
        "return False",
    ),
    Mutant(
        "no pre-vote (D7)",
        "elections.py",
        "elections",
        "if core.config.pre_vote and not forced:",
        "if False:",
    ),
    Mutant(
        "no check-quorum",
        "leadership.py",
        "elections",
        "if config.check_quorum and not self._hears_majority():",
        "if False:",
    ),
    Mutant(
        "half of the voters are a majority",
        "quorum.py",
        "quorum",
        "majority = len(voters) // 2 + 1\n    others",
        "majority = (len(voters) + 1) // 2\n    others",
    ),
    Mutant(
        "half of the copies commit",
        "quorum.py",
        "quorum",
        "return values[(len(values) - 1) // 2] if values else 0",
        "return values[len(values) // 2] if values else 0",
    ),
    Mutant(
        "only the new voters of a joint configuration commit",
        "quorum.py",
        "members",
        "return min(_agreed(members.voters, reached), _agreed(members.outgoing, reached))",
        "return _agreed(members.voters, reached)",
    ),
    Mutant(
        "only the new voters of a joint configuration elect",
        "quorum.py",
        "members",
        "    if members.outgoing:\n        other =",
        "    if False:\n        other =",
    ),
    Mutant(
        "a change of voters is not joint",
        "membership.py",
        "members",
        "if voters == members.voters:",
        "if True:",
    ),
    Mutant(
        "a second membership change before the first is committed",
        "leadership.py",
        "members",
        "if core.log.commit < max(self.term_start, core.membership.index):",
        "if core.log.commit < self.term_start:",
    ),
    Mutant(
        "a membership change before the term's first entry is committed",
        "leadership.py",
        "members",
        "if core.log.commit < max(self.term_start, core.membership.index):",
        "if core.log.commit < core.membership.index:",
    ),
    Mutant(
        "a cut does not take a configuration back",
        "following.py",
        "members",
        "            core.membership.cut(cut)\n",
        "            pass\n",
    ),
    Mutant(
        "learners vote",
        "core.py",
        "members",
        "return self.membership.names_voter(self.id, self.log.commit)",
        "return True",
    ),
    Mutant(
        "a node that removes itself never stands again",
        "membership.py",
        "members",
        "        if self.index <= commit:\n            return False\n        for since",
        "        if True:\n            return False\n        for since",
    ),
    Mutant(
        "a snapshot is acknowledged before it is stored",
        "log.py",
        "snapshots",
        "self.persisted = min(self.persisted, self.commit)",
        "self.persisted = meta.index",
    ),
    Mutant(
        "parts of different snapshots mix",
        "snapshot_receipt.py",
        "snapshots",
        "if source != self._from:",
        "if self._from is None:",
    ),
    Mutant(
        "an unhealthy node is electable (D10)",
        "core.py",
        "leadership",
        "return may and not self.unhealthy and self.log.installing is None",
        "return may and self.log.installing is None",
    ),
    Mutant(
        "a witness stands for election",
        "core.py",
        "witness",
        "may = self.may_stand and self.id not in self.members.witnesses",
        "may = self.may_stand",
    ),
    Mutant(
        "leadership is handed to a witness",
        "leadership.py",
        "witness",
        "if to not in core.members.leaders:",
        "if to not in core.members.voters:",
    ),
    Mutant(
        "a witness is sent what it lacks",
        "replication.py",
        "witness",
        "if to in core.members.witnesses and log.commit - before > WITNESS_LAG:",
        "if False:",
    ),
    Mutant(
        "a follower that all wait for is filled slowly",
        "replication.py",
        "replication",
        " or progress.match >= log.commit:",
        ":",
    ),
    Mutant(
        "leadership is handed to an unhealthy node (D10)",
        "replication.py",
        "leadership",
        "progress.healthy = not message.reject",
        "progress.healthy = True",
    ),
    Mutant(
        "a majority of slow disks is none (D10)",
        "leadership.py",
        "leadership",
        "(each in peers and peers[each].active)",
        "(each in peers and peers[each].active and peers[each].healthy)",
    ),
    Mutant(
        "who may not stand sticks to a leader that is gone (D10)",
        "elections.py",
        "leadership",
        'self.become_follower(core.term, "")  # who may not stand sticks to a leader no longer than others',
        "pass",
    ),
    Mutant(
        "a candidate leaves each term as quickly as the first, however long votes take (D7)",
        "elections.py",
        "elections",
        " << self._stood)",
        ")",
    ),
    Mutant(
        "leadership is handed to a node that lags (D6)",
        "leadership.py",
        "leadership",
        "elif progress.match == core.log.last_index:",
        "else:",
    ),
    Mutant(
        "leadership that was handed over is handed on at once",
        "leadership.py",
        "leadership",
        "PREFERRED_PATIENCE if ordered else 1",
        "1",
    ),
    Mutant(
        "a snapshot that is too large is asked for at line speed",
        "following.py",
        "snapshots",
        "if message.offset + len(message.data) > core.config.max_snapshot_bytes:",
        "if False:",
    ),
    Mutant(
        "proposals are taken while leadership moves",
        "leadership.py",
        "leadership",
        "        if self.transfer_to:\n            raise Transferring(self.transfer_to)\n        waiting",
        "        waiting",
    ),
    Mutant(
        "a transfer without a deadline",
        "leadership.py",
        "leadership",
        "if self._transfer_ticks >= config.election_ticks:",
        "if False:",
    ),
    Mutant(
        "no limit to what is not committed",
        "leadership.py",
        "replication",
        "if waiting and waiting + size > config.max_uncommitted_bytes:",
        "if False:",
    ),
    Mutant(
        "no window of messages",
        "replication.py",
        "replication",
        "len(progress.inflight) < config.max_inflight_messages",
        "True",
    ),
]
