"""The rules of the controller, each taken out once: (name, module, text, text without the rule).

``test_mutants.py`` runs the suite against each of them; every one has to fail.
"""

from __future__ import annotations

from tests.mutation import Mutant

MUTANTS = [
    Mutant(
        "nothing works: proves that it is the copy that runs",
        "controller/state.py",
        "class ControllerState:",
        "raise SystemExit\n\n\nclass ControllerState:",
    ),
    Mutant(
        "equal-set check removed",
        "controller/sync_state.py",
        "if event.new_set == group.in_sync:",
        "if False:",
    ),
    Mutant(
        "master check removed",
        "controller/sync_state.py",
        "if not group.master or event.master_id != group.master:",
        "if False:",
    ),
    Mutant(
        "stale master epoch accepted",
        "controller/sync_state.py",
        'if event.master_epoch != group.master_epoch:\n        remark = f"{_REJECTED}',
        'if event.master_epoch > group.master_epoch:\n        remark = f"{_REJECTED}',
    ),
    Mutant(
        "stale set epoch accepted",
        "controller/sync_state.py",
        "if event.set_epoch != group.set_epoch:",
        "if event.set_epoch > group.set_epoch:",
    ),
    Mutant(
        "dead member accepted",
        "controller/sync_state.py",
        "if broker_id not in alive:",
        "if False:",
    ),
    Mutant(
        "set without master accepted",
        "controller/sync_state.py",
        "if group.master not in event.new_set:",
        "if False:",
    ),
    Mutant(
        "refused report does not confirm",
        "controller/sync_state.py",
        "heard = Confirmed() if knows and group.unconfirmed is not None else None",
        "heard = None",
    ),
    Mutant(
        "check code not compared",
        "controller/registration.py",
        "member.check_code == event.check_code:",
        "member.address == event.check_code.split(';')[0]:",
    ),
    Mutant(
        "id reuse after clean",
        "controller/registration.py",
        "if not group.next_id <= event.broker_id < group.next_id + ID_GAP_MAX:",
        "if member is not None or not 1 <= event.broker_id < group.next_id + ID_GAP_MAX:",
    ),
    Mutant(
        "ids restart after forget",
        "controller/group.py",
        "        self.retired = ()  # next_id",
        "        self.next_id = 1\n        self.retired = ()  # next_id",
    ),
    Mutant(
        "next id counts applications",
        "controller/group.py",
        "self.next_id = max(self.next_id, change.broker_id + 1)",
        "self.next_id += 1",
    ),
    Mutant(
        "clean keeps set epoch",
        "controller/group.py",
        "            self.in_sync = kept\n            self.set_epoch += 1",
        "            self.in_sync = kept",
    ),
    Mutant(
        "stale suspicion elects",
        "controller/elections.py",
        "if expected != (0, 0) and expected",
        "if False and expected",
    ),
    Mutant(
        "unclean always",
        "controller/elections.py",
        "if winner == NOBODY and (evidence.unclean or (event.designate and group.adopted and group.never_elected)):",
        "if winner == NOBODY:",
    ),
    Mutant(
        "offset ascending",
        "controller/elections.py",
        "-replica.max_offset",
        "replica.max_offset",
    ),
    Mutant(
        "priority descending",
        "controller/elections.py",
        "replica.priority, replica.broker_id",
        "-replica.priority, replica.broker_id",
    ),
    Mutant(
        "tie highest id",
        "controller/elections.py",
        "replica.priority, replica.broker_id)",
        "replica.priority, -replica.broker_id)",
    ),
    Mutant(
        "unseated each time",
        "controller/elections.py",
        "Unseated() if group.master else None",
        "Unseated()",
    ),
    Mutant(
        "designated falls back to others",
        "controller/elections.py",
        "return preferred if preferred in ids else NOBODY",
        "return preferred if preferred in ids else best(candidates)",
    ),
    Mutant(
        "take back without vouching",
        "controller/elections.py",
        "if not void.confirms and event.evidence.never_told != void.log_index:",
        "if False:",
    ),
    Mutant(
        "take back forgets the set before",
        "controller/elections.py",
        "        before = group.unconfirmed.before",
        "        before = group.in_sync",
    ),
    Mutant(
        "asker's election unconfirmed",
        "controller/elections.py",
        "asked_itself = event.broker_id == winner and not event.designate",
        "asked_itself = False",
    ),
    Mutant(
        "notices only to living / new first",
        "controller/notices.py",
        "for broker_id in (old_master, group.master)",
        "for broker_id in (group.master, old_master)",
    ),
    Mutant(
        "elect does not raise set epoch",
        "controller/group.py",
        "        self.in_sync = (change.winner,)\n        self.set_epoch += 1",
        "        self.in_sync = (change.winner,)",
    ),
    Mutant(
        "keyed by name only",
        "controller/state.py",
        "return self._groups.get(GroupKey(cluster, broker_name))\n        return self.find",
        "return self.find('', broker_name)\n        return self.find",
    ),
    Mutant(
        "snapshot loses unconfirmed",
        "controller/group.py",
        "if row.elected_id:",
        "if False:",
    ),
    Mutant(
        "snapshot loses forgotten",
        "controller/group.py",
        "group.forgotten = bool(row.flags & 4)",
        "group.forgotten = False",
    ),
    Mutant(
        "snapshot CRC unchecked",
        "wire/controller_log.py",
        "if written != found:",
        "if False:",
    ),
    Mutant(
        "groups in the order of a set",
        "controller/state.py",
        "self._order = sorted(self._groups)",
        "self._order = list({*self._groups})",
    ),
    Mutant(
        "the trail holds refusals",
        "controller/state.py",
        "        if change is None:\n            return",
        "        if change is None:\n            group and self._remember(group, Did.NOTHING, b'')\n            return",
    ),
    Mutant(
        "2011 for anybody alive",
        "controller/elections.py",
        "if old_master in ids and preferred in (NOBODY, old_master):",
        "if old_master in ids:",
    ),
    Mutant(
        "adopt cleaned id",
        "controller/registration.py",
        "if group.adopted and event.broker_id not in group.retired:",
        "if group.adopted:",
    ),
    Mutant(
        "adopted first asker elected",
        "controller/elections.py",
        "if group.never_elected and not group.adopted and asker != CONTROLLER:",
        "if group.never_elected and asker != CONTROLLER:",
    ),
    Mutant(
        "1003 names dead master",
        "controller/answers.py",
        "fields = _master(group) if master_alive else {}",
        "fields = _master(group)",
    ),
    Mutant(
        "a notice goes where its receiver lived once",
        "controller/notices.py",
        "if group.address(notice.receiver_id) != notice.receiver_address:",
        "if False:",
    ),
    Mutant(
        "a second process with the master's id ends the first",
        "controller/suspicion.py",
        "self._liveness.unheard(key, self._times.silence, now_ms)",
        "True",
    ),
    Mutant(
        "who came back with an empty disk is elected",
        "controller/suspicion_effects.py",
        "0 <= self.max_offset < last.max_offset",
        "False",
    ),
    Mutant(
        "who says that it is another answers for the dead",
        "controller/suspicion.py",
        "reading.is_of_another(key) or ",
        "",
    ),
    Mutant(
        "another's port answers for the dead",
        "controller/suspicion.py",
        "self._liveness.taken(self._address(key), key, now_ms)",
        "False",
    ),
    Mutant(
        "1001 without a cluster means any",
        "controller/state.py",
        "return self._groups[keys[0]] if len(keys) == 1 else None",
        "return self._groups[keys[0]] if keys else None",
    ),
    Mutant(
        "a follower answers",
        "controller/requests.py",
        "return found if leading or isinstance(found, Answer) else answers.NOT_LEADER",
        "return found",
    ),
    Mutant(
        "who is dead counts as alive",
        "controller/requests.py",
        "            if replica is not None:\n                found.append(replica)",
        "            found.append(replica or Alive(broker_id))",
    ),
    Mutant(
        "a log entry loses its evidence",
        "controller/events.py",
        "row.never_told, row.alive, row.seen,",
        "row.never_told, (), row.seen,",
    ),
    Mutant(
        "entries out of order are applied",
        "controller/state.py",
        'ensure(index > self.index, f"log entry {index} was applied after {self.index}")',
        "pass",
    ),
    Mutant(
        "a snapshot is written later than it was frozen",
        "controller/state.py",
        "[self._groups[key].row() for key in self._keys()]",
        "(self._groups[key].row() for key in self._keys())",
    ),
]
