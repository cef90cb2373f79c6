"""The rules of replication, each taken out once: (name, module, text, text without the rule).

``test_mutants.py`` runs the tests against each of them; every one has to fail.  Each names the test file that must miss
it, so that a mutant is not caught by chance somewhere else.
"""

from __future__ import annotations

import attrs

from tests.mutation import Mutant


@attrs.frozen
class Rule:
    """One rule, and the test file that misses it: tests/replication/test_<test>.py."""

    test: str
    name: str
    module: str
    old: str
    new: str

    def change(self) -> Mutant:
        """As the machinery of all mutants wants it."""
        return Mutant(self.name, f"replication/{self.module}.py", self.old, self.new)


MUTANTS = [
    # epochs
    Rule(
        "epochs",
        "a void epoch is kept and the new one refused, as in Java (C2)",
        "epochs",
        "        self._keep(bisect_left(self._starts, log_end))\n        if len(self._epochs) >= EPOCHS_MAX:",
        "        if log_end in self._starts:\n            return False\n        if len(self._epochs) >= EPOCHS_MAX:",
    ),
    Rule(
        "epochs",
        "only the epoch is compared, not its start",
        "epochs",
        "        if theirs.get(entry.epoch) == entry:",
        "        if theirs.get(entry.epoch) is not None:",
    ),
    Rule(
        "epochs",
        "oldest equal epoch instead of the newest",
        "epochs",
        "for entry in reversed(own.entries):",
        "for entry in own.entries:",
    ),
    Rule(
        "epochs",
        "the own end of the epoch is not looked at",
        "epochs",
        "min(own.end_of(entry.epoch), own_end, theirs",
        "min(own_end, theirs",
    ),
    Rule(
        "epochs",
        "the master's end of the epoch is not looked at",
        "epochs",
        "theirs.end_of(entry.epoch), master_end)",
        "master_end)",
    ),
    Rule(
        "epochs",
        "a slave ahead keeps what its master lacks (A12)",
        "epochs",
        "theirs.end_of(entry.epoch), master_end)",
        "theirs.end_of(entry.epoch))",
    ),
    Rule(
        "epochs",
        "epochs beyond the master's end prove something",
        "epochs",
        "    theirs.truncate_suffix(max(0, master_end) + 1)\n",
        "",
    ),
    Rule(
        "epochs",
        "a point before the own log's beginning",
        "epochs",
        "return point if point >= own_begin else None",
        "return point",
    ),
    Rule(
        "epochs",
        "the beginning of all is common to any two logs",
        "epochs",
        "whole = own_begin == 0 and own.first is not None and own.first.start_offset == 0",
        "whole = True",
    ),
    Rule(
        "epochs",
        "who has nothing in common is cut to nothing, whatever was confirmed",
        "epochs",
        "    if confirmed > 0:\n        return None\n",
        "",
    ),
    Rule(
        "epochs",
        "the last epoch stays closed after a cut (C6)",
        "epochs",
        "        return self._keep(bisect_left(self._starts, offset))",
        "        self._starts = [min(start, offset) for start in self._starts]\n        return True",
    ),
    Rule(
        "epochs",
        "a slave keeps its own newer epochs",
        "epochs",
        "older = min(bisect_left(self._epochs, first.epoch), bisect_left(self._starts, first.start_offset))",
        "older = len(self._epochs)",
    ),
    Rule(
        "epochs",
        "a slave takes epochs that it has no byte of",
        "epochs",
        "count = bisect_right(masters._starts, log_end) or",
        "count = len(masters._starts) or",
    ),
    Rule(
        "epochs",
        "an epoch at the very end is not taken over (C2)",
        "epochs",
        "count = bisect_right(masters._starts, log_end) or",
        "count = bisect_left(masters._starts, log_end) or",
    ),
    Rule(
        "epochs",
        "an old master epoch is begun again",
        "epochs",
        "        if epoch <= self.last_epoch:\n            raise",
        "        if epoch < self.last_epoch:\n            raise",
    ),
    Rule(
        "epochs",
        "a log without the beginning of its epoch goes on in it",
        "epochs",
        "        if not intact or log_end < last.start_offset:",
        "        if not intact:",
    ),
    Rule(
        "epochs",
        "a master that may have lost bytes goes on in its epoch (A6)",
        "epochs",
        "        if not intact or log_end < last.start_offset:",
        "        if log_end < last.start_offset:",
    ),
    Rule(
        "epochs",
        "a stamp may contradict the handshake",
        "epochs",
        "            if known.start_offset != start_offset:",
        "            if False:",
    ),
    Rule(
        "epochs",
        "the prefix goes with the newest epoch (C7)",
        "epochs",
        "gone = max(0, bisect_left(self._starts, log_begin) - 1)",
        "gone = bisect_left(self._starts, log_begin)",
    ),
    # acknowledgements
    Rule(
        "acks",
        "an acknowledgement beyond the log counts (A11)",
        "acks",
        "        elif offset > log_end:",
        "        elif False:",
    ),
    Rule(
        "acks",
        "an acknowledgement may fall",
        "acks",
        "        elif offset < link.offset:",
        "        elif False:",
    ),
    Rule(
        "acks",
        "each connection counts (A13)",
        "acks",
        "            del self._links[displaced]\n",
        "            pass\n",
    ),
    Rule(
        "acks",
        "unregistered readers count (A13)",
        "acks",
        "and (among is None or link.replica in among)",
        "",
    ),
    Rule(
        "acks",
        "acknowledgements of other epochs count",
        "acks",
        "return link.offset if link.epoch == epoch else NO_ACK",
        "return link.offset",
    ),
    Rule(
        "acks",
        "one replica too few",
        "acks",
        "return min(log_end, offsets[need - 2])",
        "return min(log_end, offsets[max(0, need - 3)])",
    ),
    # confirm offset and set
    Rule(
        "sync_state",
        "the master's own disk does not count (A7)",
        "sync_state",
        "        offset = self.own_offset\n",
        "        offset = self.log_end\n",
    ),
    Rule(
        "lease",
        "confirmed beyond the own log (A8)",
        "confirm",
        "        offset = min(offset, log_end)\n",
        "",
    ),
    Rule(
        "lease",
        "the stored confirm offset is believed (A8)",
        "confirm",
        "self.offset = max(0, min(stored, log_end))",
        "self.offset = max(0, stored)",
    ),
    Rule(
        "lease",
        "confirm goes back with the master's",
        "confirm",
        "        if offset <= self.offset:",
        "        if offset == self.offset:",
    ),
    Rule(
        "sync_state",
        "a member without an acknowledgement is skipped (A4)",
        "sync_state",
        "            if acked < offset:",
        "            if 0 < acked < offset:",
    ),
    Rule(
        "sync_state",
        "nobody but the known set counts (A2)",
        "sync_state",
        "self.members.union(self._joining, *asked) - {self.own_id}",
        "self.members.union(self._joining) - {self.own_id}",
    ),
    Rule(
        "sync_state",
        "a smaller set counts when it is asked for (A21)",
        "sync_state",
        "        self._asked = change.number\n        self._count_needed()",
        "        self._asked = change.number\n        self.needed = frozenset(wanted) - {self.own_id}",
    ),
    Rule(
        "sync_state",
        "what is not answered did not happen (A2)",
        "sync_state",
        "        self._settle(number, now_ms)\n\n    def next_due_ms",
        "        self.refused(number, 2007, now_ms)\n\n    def next_due_ms",
    ),
    Rule(
        "sync_state",
        "every error is a refusal (A2)",
        "sync_state",
        "        if code not in REFUSALS:",
        "        if False:",
    ),
    Rule(
        "acks",
        "elected again, acknowledgements of any epoch count",
        "acks",
        "            if link.epoch == before:",
        "            if True:",
    ),
    Rule(
        "sync_state",
        "strangers are waited for (A13)",
        "sync_state",
        "        if replica in self._known and replica not in self.members and",
        "        if replica not in self.members and",
    ),
    Rule(
        "sync_state",
        "strangers are remembered (G7)",
        "sync_state",
        "            self._seen.pop(replica, None)",
        "            self._look(replica).away_ms = now_ms",
    ),
    Rule(
        "sync_state",
        "to be registered still is to be heard of (S0.58)",
        "sync_state",
        "sorted(self._known - before):",
        "sorted(self._known):",
    ),
    Rule(
        "sync_state",
        "who is no longer registered is waited for",
        "sync_state",
        "sorted(self._joining - self._known)",
        "sorted(())",
    ),
    Rule(
        "sync_state",
        "what is confirmed beyond the log is acknowledged",
        "sync_state",
        "        return min(self.confirm.offset, self.log_end)",
        "        return self.confirm.offset",
    ),
    Rule(
        "sync_state",
        "a log below the confirm offset is no matter",
        "sync_state",
        "        ensure(offset <= log_end,",
        "        ensure(True,",
    ),
    Rule(
        "sync_state",
        "one whom the controller refuses keeps the others out",
        "sync_state",
        "return ready.difference(suspects) or frozenset(suspects[:1])",
        "return ready",
    ),
    Rule(
        "sync_state",
        "who is refused alone is asked for at once again",
        "sync_state",
        "            if len(refused) == 1:",
        "            if False:",
    ),
    Rule(
        "sync_state",
        "any refusal is of the replica",
        "sync_state",
        "        if change is not None and code in UNFIT:",
        "        if change is not None:",
    ),
    Rule(
        "sync_state",
        "once a suspect, always one",
        "sync_state",
        "            self._seen[replica].suspect = False",
        "            pass",
    ),
    Rule(
        "sync_state",
        "what is in doubt is not asked again",
        "sync_state",
        "            wanted = self._doubted()",
        "            wanted = self.members",
    ),
    Rule(
        "sync_state",
        "a refusal of Java's controllers settles what was asked before it",
        "sync_state",
        "        if in_order and code in UNFIT and",
        "        if code in UNFIT and",
    ),
    Rule(
        "sync_state",
        "whoever is in doubt is asked for, whatever it lacks",
        "sync_state",
        "        if any(self.acks.present(each) and",
        "        if False and any(",
    ),
    Rule(
        "sync_state",
        "an old refusal settles a newer change",
        "sync_state",
        "code in UNFIT and self._asked == number:",
        "code in UNFIT:",
    ),
    Rule(
        "sync_state",
        "any set settles what is in doubt (A2)",
        "sync_state",
        "        if set_epoch <= self.set_epoch:\n            return False\n        found",
        "        self._doubtful.clear()\n        self._count_needed()\n"
        "        if set_epoch <= self.set_epoch:\n            return False\n        found",
    ),
    Rule(
        "sync_state",
        "an older set is taken",
        "sync_state",
        "        if set_epoch <= self.set_epoch:\n            return False\n        found",
        "        if set_epoch == self.set_epoch:\n            return False\n        found",
    ),
    Rule(
        "sync_state",
        "confirms without a lease (A3, A5)",
        "sync_state",
        "        if not self.lease.holds(now_ms):\n            return False",
        "        if False:\n            return False",
    ),
    Rule(
        "sync_state",
        "acknowledges without a lease (A21)",
        "sync_state",
        "        if not self.lease.holds(now_ms) or len",
        "        if len",
    ),
    Rule(
        "sync_state",
        "confirm follows the own log (A7)",
        "sync_state",
        "        return self.confirm.advance(offset, self.log_end)",
        "        return self.confirm.advance(self.log_end, self.log_end)",
    ),
    Rule(
        "sync_state",
        "joins although it lacks confirmed bytes (S0.61)",
        "sync_state",
        "if self.acks.offset(each, self.epoch) >= self._floor())",
        "if True)",
    ),
    Rule(
        "sync_state",
        "joins below the epoch's beginning",
        "sync_state",
        "return max(self.confirm.offset, self.epoch_start)",
        "return self.confirm.offset",
    ),
    Rule(
        "sync_state",
        "nobody waits for who joins",
        "sync_state",
        "self.members.union(self._joining, *asked) - {self.own_id}",
        "self.members.union(*asked) - {self.own_id}",
    ),
    Rule(
        "sync_state",
        "drops leave one by one (G3)",
        "sync_state",
        "if now_ms >= self._leave_ms(each) or not self.acks.present(each))",
        "if now_ms >= self._leave_ms(each))",
    ),
    Rule(
        "sync_state",
        "a member that lost confirmed bytes stays",
        "sync_state",
        "if seen.learner or NO_ACK < acked < self.confirm.offset:",
        "if seen.learner:",
    ),
    Rule(
        "sync_state",
        "learners join (S0.42)",
        "sync_state",
        "if near and not seen.learner and",
        "if near and",
    ),
    Rule(
        "sync_state",
        "hearing of a member is enough (S0.58)",
        "sync_state",
        "had_ms = now_ms if offset == self.log_end else self._growth.had_ms(offset)",
        "had_ms = now_ms",
    ),
    Rule(
        "sync_state",
        "the log is remembered as shorter than it was",
        "sync_state",
        "        samples.append((now_ms, before))",
        "        samples.append((now_ms, before - 1_000_000))",
    ),
    # lease, throttle
    Rule(
        "lease",
        "the lease counts from the answer's epoch on, whichever (A21)",
        "lease",
        "        if epoch != self.epoch or epoch == NO_EPOCH:",
        "        if False:",
    ),
    Rule(
        "lease",
        "a new epoch inherits the lease (A9)",
        "lease",
        "        self.epoch = epoch\n        self._asked_ms = None",
        "        self.epoch = epoch",
    ),
    Rule(
        "lease",
        "a suspended lease holds",
        "lease",
        " and not self._suspended(now_ms)",
        "",
    ),
    Rule(
        "lease",
        "a new epoch is suspended",
        "lease",
        "        self.suspended_ms = None\n        self.epoch = epoch",
        "        self.epoch = epoch",
    ),
    Rule(
        "lease",
        "an older question shortens the lease",
        "lease",
        "        if self._asked_ms is not None and asked_ms <= self._asked_ms:",
        "        if False:",
    ),
    Rule(
        "lease",
        "holds a millisecond longer",
        "lease",
        "now_ms < self._asked_ms + self.lease_ms",
        "now_ms <= self._asked_ms + self.lease_ms",
    ),
    Rule(
        "throttle",
        "sleeps to the next second (G4)",
        "throttle",
        "return max(0, -(self._level // self.rate))",
        "return 0 if self._level >= 0 else 1000 - now_ms % 1000",
    ),
    Rule(
        "throttle",
        "quiet time is saved without end",
        "throttle",
        "self._level = min(self.burst * _MS, self._level + (now_ms - self._read_ms) * self.rate)",
        "self._level += (now_ms - self._read_ms) * self.rate",
    ),
    Rule(
        "sync_state",
        "who greeted before an election of the same master and reports after it never counts",
        "sync_state",
        "if epoch is None or self._first_epoch <= epoch < self.epoch:",
        "if epoch is None:",
    ),
    Rule(
        "sync_state",
        "a handshake of an older master's epoch counts",
        "sync_state",
        "if epoch is None or self._first_epoch <= epoch < self.epoch:",
        "if epoch is None or epoch < self.epoch:",
    ),
]
