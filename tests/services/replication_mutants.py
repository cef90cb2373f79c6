"""The rules of replication in the broker, each taken out: ``python -m tests.services.replication_mutants [WORD]``."""

from __future__ import annotations

import sys

from tests.mutation import Mutant, outcome

TESTS = (
    "tests/services/replication/test_classic.py",
    "tests/services/replication/test_orders.py",
    "tests/services/broker/test_controller_mode.py",
    "tests/broker/test_acknowledgements.py",
    "-k",
    "not idle and not at_both_ends and not away_too_long",
)
LINKS, SLAVE = "services/replication/links.py", "services/replication/slave.py"
DISPATCHING = "services/replication/dispatching.py"
CLASSIC, ORDERS = "services/replication/classic.py", "services/replication/autoswitch.py"
SET = "services/replication/set_links.py"

MUTANTS = (
    Mutant(
        "a master without a slave waits for nobody",
        CLASSIC,
        "Waited.AWAITED if there >= self._need - 1 else Waited.MISSING",
        "Waited.NOT_ASKED",
    ),
    Mutant(
        "a slave far behind is waited for",
        CLASSIC,
        "acked != NO_ACK and self._log.end - acked < self._keys.ha_max_gap_not_in_sync",
        "acked != NO_ACK",
    ),
    Mutant(
        "one slave too few is enough",
        CLASSIC,
        "reached = self._acks.reached(self._need, self._log.end)",
        "reached = self._acks.reached(self._need - 1, self._log.end)",
    ),
    Mutant(
        "a demoted broker serves slaves (A22)",
        LINKS,
        "        if not self.serving:\n            return NoLink(",
        "        if False:\n            return NoLink(",
    ),
    Mutant(
        "sends kept for a master wait after its lease is confirmed",
        SET,
        "                self._broker.resumed()",
        "                pass",
    ),
    Mutant("strangers are not told of", SET, "            self._owner.stranger(hello.broker_id)", "            pass"),
    Mutant(
        "consumers see what is not confirmed (A7)",
        SET,
        "        if rose:\n            self._log.store.confirm_offset = sync.confirm_offset",
        "        self._log.store.confirm_offset = self._log.end\n        if rose:",
    ),
    Mutant(
        "puts are acknowledged at the end of the own log (A6)",
        SET,
        "reached = sync.reached(self._need, now_ms) if len(self._waiting) else NO_ACK",
        "reached = self._log.end",
    ),
    Mutant(
        "a slave reports what is not on its disk",
        "store/replica_log.py",
        "return min(self.store.flushed_offset, self.end) if self._synced_acks else self.end",
        "return self.end",
    ),
    Mutant(
        "a slave reports once only",
        SLAVE,
        "        self._report(self.connection)\n        if not self._log.ready:\n            self._flush()",
        "        pass",
    ),
    Mutant(
        "a classic slave takes the log of any master (A12)",
        CLASSIC,
        "timing, overlap_begin(log))",
        "timing)",
    ),
    Mutant(
        "a slave that compares says that it follows",
        SLAVE,
        "        if machine.transfers:  # there is nothing to compare",
        "        if True:",
    ),
    Mutant(
        "a slave follows while it compares",
        SLAVE,
        "connection is not None and self._equal and not",
        "connection is not None and not",
    ),
    Mutant(
        "what is found different is nobody's business",
        SLAVE,
        ".addCallback(self._found_different)",
        ".addCallback(lambda place: None)",
    ),
    Mutant(
        "damage is not cut",
        DISPATCHING,
        "            self._damaged(damage)",
        "            pass",
    ),
    Mutant(
        "confirmed records are cut off without a master to send them",
        SLAVE,
        "        if self._dialect.handshake and not self.transfers:",
        "        if False:",
    ),
    Mutant(
        "who has cut confirmed records is promoted before they are sent again",
        "store/replica_log.py",
        "        if self._lacks_confirmed:\n            raise CorruptStore",
        "        if False:\n            raise CorruptStore",
    ),
    Mutant(
        "what recovery cuts off is forgotten",
        "store/message_store.py",
        "                missing_file.raise_to(disk, epoch_path, fields.confirm_offset)",
        "                pass",
    ),
    Mutant(
        "a master sends what it could not sync",
        "store/commitlog.py",
        "        return self.flushed if self.sync_failed else self.end",
        "        return self.end",
    ),
    Mutant(
        "a master that could not sync acknowledges what slaves have",
        "broker/acknowledgements.py",
        "count + self._fail(self._replicated, self._told(ResponseCode.FLUSH_DISK_TIMEOUT))",
        "count",
    ),
    Mutant(
        "the confirm offset is forgotten in a restart",
        "store/message_store.py",
        "        return fields.confirm_offset\n",
        "        return 0\n",
    ),
    Mutant(
        "damage is cut for ever",
        SLAVE,
        "        if damage.offset in self._cut_at:",
        "        if False:",
    ),
    Mutant(
        "a replica does not start over",
        SLAVE,
        "if cause is Cause.MASTER_BEGINS_LATER and self._dialect.handshake:",
        "if False:",
    ),
    Mutant("held pulls of a slave are not woken", DISPATCHING, "            self._grown()", "            pass"),
    Mutant(
        "the confirm offset does not reach the store of a slave",
        ORDERS,
        "            self._log.confirm(self._confirm.offset)",
        "            pass",
    ),
    Mutant(
        "waiting puts are not told of a fence",
        "services/replication/service.py",
        "            self._context.as_turn(self._abandon)",
        "            pass",
    ),
    Mutant(
        "an order does not end the one before it",
        "services/replication/service.py",
        "        if order != self._order:",
        "        if False:",
    ),
    Mutant(
        "a log that may lack bytes resumes its epoch (A10)",
        ORDERS,
        "intact = self._context.intact or self._led == epoch",
        "intact = True",
    ),
    Mutant(
        "a fence forgets that the log is whole",
        ORDERS,
        "intact = self._context.intact or self._led == epoch",
        "intact = self._context.intact",
    ),
    Mutant(
        "a new epoch is not in the file",
        ORDERS,
        "                log.save_epochs(epochs.entries)",
        "                pass",
    ),
    Mutant(
        "no lease is needed (A5)",
        ORDERS,
        "return None if self.lease_holds and not self._replaced else NOT_AVAILABLE",
        "return None",
    ),
    Mutant(
        "too few members are enough",
        ORDERS,
        "        if len(sync.members) < self.keys.min_in_sync_replicas:",
        "        if False:",
    ),
    Mutant(
        "a retiring master takes messages",
        ORDERS,
        "        if self.retiring or sync is None:",
        "        if sync is None:",
    ),
    Mutant(
        "a replaced master shows what it has",
        ORDERS,
        "if self.lease_holds and not self._replaced else",
        "if self.lease_holds else",
    ),
    Mutant("a suspended master acknowledges", "replication/lease.py", " and not self._suspended(now_ms)", ""),
    Mutant(
        "no request waits for a suspended master",
        "replication/lease.py",
        "return self._runs(now_ms) and self._suspended(now_ms)",
        "return False",
    ),
    Mutant(
        "a held pull is told nothing new while that is undecided",
        "services/features/reading.py",
        "self._core.busy() or self._serving.undecided or",
        "self._core.busy() or",
    ),
    Mutant(
        "retire does not wait", ORDERS, "self.role is not Role.MASTER or self.confirm_offset >= self.log_end", "True"
    ),
    Mutant(
        "what was staged is stored after a fence",
        "services/broker/appending.py",
        "            self._sends.refuse(NOT_AVAILABLE)",
        "            pass",
    ),
    Mutant(
        "requests see a log that is being cut",
        "services/broker/dispatcher.py",
        "        if self._changes.busy:\n            return self._park(connection, command)",
        "        if False:\n            pass",
    ),
    Mutant(
        "pulls of unconfirmed messages wake too early",
        ORDERS,
        "self._context.wakeups.stored(arrived, self.log.store.max_physical_offset)",
        "self._context.wakeups.readable(arrived, self._context.now_ms())",
    ),
    Mutant(
        "a fenced broker shows messages (A9)",
        "broker/role.py",
        "    Kind.PULL: Gate.UNKNOWN_ROLE,\n    Kind.LOOK: Gate.UNKNOWN_ROLE,\n",
        "",
    ),
    Mutant(
        "a slave takes messages",
        "broker/role.py",
        "_SLAVE = {Kind.SEND: Gate.BUSY, ",
        "_SLAVE = {",
    ),
    Mutant(
        "a classic slave's log is judged as a master's",
        "store/message_store.py",
        "            if epoch_path is None and (replica or was_replica):",
        "            if False:",
    ),
    Mutant("a crash forgets that it was a slave's", "store/message_store.py", "(replica or was_replica)", "replica"),
    Mutant(
        "a slave stops within a record",
        "store/replica_log.py",
        "        if position < self.end and self.damage is None:",
        "        if False:",
    ),
    Mutant(
        "a slave connects to itself",
        "services/broker/role.py",
        "        if ha_address == self._identity.ha_address:",
        "        if False:",
    ),
)


def main(word: str) -> int:
    """Try them; how many nobody noticed.

    :param word: only those with it in their names.
    """
    if not any(word in mutant.name for mutant in MUTANTS):
        raise SystemExit(f"no mutant is called {word}; there are {', '.join(mutant.name for mutant in MUTANTS)}")
    passed, said = outcome(TESTS, None)
    if not passed:
        sys.stdout.write(said + "\n")
        return 1
    unnoticed = 0
    for mutant in MUTANTS:
        if word not in mutant.name:
            continue
        if mutant.problem():
            sys.stdout.write(f"{mutant.problem()}\n")
            unnoticed += 1
            continue
        passed, said = outcome(TESTS, mutant)
        unnoticed += passed
        sys.stdout.write(f"{'NOT NOTICED' if passed else 'noticed'}: {mutant.name}\n")
        sys.stdout.flush()
    return unnoticed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
