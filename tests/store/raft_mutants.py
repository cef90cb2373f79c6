"""The rules of the Raft log, each taken out once: (name, module, text, text without the rule).

``test_raft_mutants.py`` runs the suite against each of them; every one has to fail.
"""

from __future__ import annotations

from tests.mutation import Mutant

MUTANTS = [
    Mutant(
        "new segment: directory not synced",
        "store/raft_segment.py",
        "        disk.sync_dir(directory)\n",
        "",
    ),
    Mutant(
        "new segment: header not synced",
        "store/raft_segment.py",
        "        file.write(0, [head])\n        file.sync()\n",
        "        file.write(0, [head])\n",
    ),
    Mutant(
        "roll: former segment not synced",
        "store/raft_log.py",
        "            self._sync_file(holder.file)\n",
        "            pass\n",
    ),
    Mutant(
        "vote written in place, unsynced",
        "store/raft_state.py",
        "        atomic_file.save(self._disk, self.path, raft_records.build_state(state), backup=False)",
        "        file = self._disk.create(self.path, 0) if not self.load() else self._disk.open(self.path)\n"
        "        file.truncate(0)\n        file.write(0, [raft_records.build_state(state)])",
    ),
    Mutant(
        "open does not rewrite",
        "store/raft_log.py",
        "            self._segments[-1].rewrite(found.synced + 1)\n",
        "            pass\n",
    ),
    Mutant(
        "open does not sync",
        "store/raft_log.py",
        "            self._segments[-1].file.sync()\n        self._durable",
        "            pass\n        self._durable",
    ),
    Mutant(
        "any bad record is a torn tail",
        "store/raft_recovery.py",
        "if max(synced, later) >= wanted:",
        "if False:",
    ),
    Mutant(
        "hint not believed",
        "store/raft_recovery.py",
        "if max(synced, later) >= wanted:",
        "if later >= wanted:",
    ),
    Mutant(
        "later records not searched",
        "store/raft_recovery.py",
        "if max(synced, later) >= wanted:",
        "if synced >= wanted:",
    ),
    Mutant(
        "any good record behind is damage",
        "store/raft_recovery.py",
        "synced = max(synced, record.synced)",
        "synced = max(synced, record.index)",
    ),
]
