"""The rules of DLedger mode, each taken out once.

``test_mutants.py`` runs tests against each of them; every one has to fail.
"""

from __future__ import annotations

from tests.mutation import Mutant

VOTING, LEADING, FOLLOWING = "dledger/voting.py", "dledger/leading.py", "dledger/following.py"
MEMBER, PORT, PEERS = "dledger/member.py", "services/raft/java_port.py", "protocols/raft_peers.py"
MODE, STORE, ROLE = (
    "services/replication/dledger.py",
    "services/replication/entry_store.py",
    "services/broker/raft_role.py",
)
LOG, MEMBERSHIPS = "store/entry_log.py", "store/memberships.py"
NEWEST, WITNESS_LOG = "services/replication/metadata_newest.py", "store/witness_log.py"

PURE = ("tests/dledger",)
WORDS = ("tests/services/replication/test_dledger_java_words.py",)
GROUP = ("tests/services/replication/test_dledger.py",)
CHANGED = ("tests/services/replication/test_dledger_members.py",)
MEMBERS = ("tests/store/test_memberships.py",)
TABLES = ("tests/services/replication/test_dledger_tables.py",)
WITNESS = ("tests/services/witness",)
WITNESSED = ("tests/store/test_witness_log.py",)
STORED = ("tests/store/test_entry_log.py",)

MUTANTS: tuple[tuple[Mutant, tuple[str, ...]], ...] = (
    (
        Mutant(
            "each run of entries leaves in a push of its own",
            LEADING,
            "        if bundle and size + len(run[1]) > PUSH_BYTES:",
            "        if bundle:",
        ),
        PURE,
    ),
    (
        Mutant(
            "an answer to what was asked before a loss counts as an acknowledgement",
            LEADING,
            "            if life == self._life:\n                answered(",
            "            if True:\n                answered(",
        ),
        PURE,
    ),
    (
        Mutant(
            "a follower's log is cut where it was compared, not where it differs",
            LEADING,
            "            low, high, equal = index, search.high, True",
            "            low, high, equal = index, index, True",
        ),
        PURE,
    ),
    (
        Mutant(
            "what is behind the end of the leader's log stays",
            LEADING,
            "        elif end > low:\n            self._truncate(low)",
            "        elif False:\n            self._truncate(low)",
        ),
        PURE,
    ),
    (
        Mutant(
            "a commit is told of what the follower is not known to have",
            LEADING,
            "        commit = min(commit, self._acked)\n",
            "",
        ),
        PURE,
    ),
    (
        Mutant(
            "a candidate of Java's is asked to compare",
            LEADING,
            "self._phase is Phase.LOST and self._follows and",
            "self._phase is Phase.LOST and",
        ),
        PURE,
    ),
    (
        Mutant(
            "the acknowledgements of the term before count",
            LEADING,
            "self._term, self._follows, self._acked = message.term, False, 0",
            "self._term, self._follows = message.term, False",
        ),
        PURE,
    ),
    (
        Mutant(
            "a push is taken though nothing was compared",
            FOLLOWING,
            "        self._equal = None\n        owed",
            "        owed",
        ),
        PURE,
    ),
    (
        Mutant(
            "a COMPARE is acknowledged before the entry is safe",
            FOLLOWING,
            "        self._owe(request, reply, index)\n        self._tell(Kind.APPEND, index, term, commit",
            "        reply(self._answer(request))\n        self._tell(Kind.APPEND, index, term, commit",
        ),
        PURE,
    ),
    (
        Mutant(
            "a push is acknowledged before its last entry is safe",
            FOLLOWING,
            "                if each.last <= message.index:",
            "                if (each.answer.entry_index or 0) < message.index:",
        ),
        PURE,
    ),
    (
        Mutant(
            "an entry may stand anywhere",
            FOLLOWING,
            "not fits or not (entry.position == end or jumps) or not",
            "not fits or not",
        ),
        PURE,
    ),
    (
        Mutant(
            "an entry is taken for equal by its term alone",
            FOLLOWING,
            "return bool(found) and here.storage.raw(found[0]) == values.raw_entries([entry])",
            "return bool(found)",
        ),
        PURE,
    ),
    (
        Mutant(
            "a leader's TRUNCATE begins a log anew that has committed entries there",
            FOLLOWING,
            "        if index <= commit or entry.position",
            "        if entry.position",
        ),
        PURE,
    ),
    (
        Mutant(
            "entries are acknowledged in whose place others are committed",
            FOLLOWING,
            "        elif self._contradicts(request.entries):",
            "        elif False:",
        ),
        PURE,
    ),
    (
        Mutant(
            "what a Java log has deleted is taken for different",
            LEADING,
            "            low = low if equal else max(low, answer.begin_index)\n",
            "",
        ),
        PURE,
    ),
    (
        Mutant(
            "a follower that is ready does not hear that the log begins later",
            LEADING,
            "            if self._phase is Phase.READY:  # what comes next is not in this log any more",
            "            if False:",
        ),
        PURE,
    ),
    (
        Mutant(
            "a gap waits for as long as it takes",
            FOLLOWING,
            "                self._lose()  # what is missing does not come",
            "                self._look_later()",
        ),
        PURE,
    ),
    (
        Mutant(
            "the vote of an empty disk counts for a Java candidate",
            VOTING,
            " and not message.reject and message.context != UNSURE",
            " and not message.reject",
        ),
        PURE,
    ),
    (
        Mutant(
            "a candidate whose term Java has yet to reach is not asked again",
            VOTING,
            "            if times < ASKED_MAX:",
            "            if False:",
        ),
        PURE,
    ),
    (
        Mutant(
            "the term is raised against a longer log",
            VOTING,
            "            granted = lives and (message.log_term, message.index) >= self._its_end",
            "            granted = lives",
        ),
        PURE,
    ),
    (
        Mutant(
            "a Java candidate waits for ever for who sticks to its leader",
            VOTING,
            "        here.later(SILENCE_S, lambda: self._silent(request))\n",
            "",
        ),
        PURE,
    ),
    (
        Mutant(
            "who was ordered to lead is refused for loyalty",
            VOTING,
            "            context=FORCED if ordered else 0,",
            "            context=0,",
        ),
        PURE,
    ),
    (
        Mutant(
            "a second leader of a term is obeyed",
            MEMBER,
            'elif term == node.term and node.leader_id not in ("", self.name):',
            "elif False:",
        ),
        PURE,
    ),
    (
        Mutant(
            "a successor campaigns before it has the leader's log",
            MEMBER,
            "                if not told and here.java_end >= request.take_leadership_ledger_index:",
            "                if not told:",
        ),
        PURE,
    ),
    (
        Mutant(
            "who lives elsewhere speaks for a member",
            PORT,
            "            or (self._check_addresses and not may_be_from(connection.proven_host, address))\n",
            "",
        ),
        WORDS,
    ),
    (
        Mutant(
            "Java's members speak where the members have changed",
            PORT,
            "            or not others.admitted\n",
            "",
        ),
        CHANGED,
    ),
    (
        Mutant(
            "a member is dialed in Java's protocol where the members have changed",
            PEERS,
            "self.java and others.admitted",
            "self.java",
        ),
        ("tests/protocols/test_raft_protocol.py",),
    ),
    (
        Mutant(
            "a membership entry that was cut is still in force",
            MEMBERSHIPS,
            "            self._save(self._rows[:place])\n",
            "            pass\n",
        ),
        MEMBERS,
    ),
    (
        Mutant(
            "a membership row without its entry is kept",
            MEMBERSHIPS,
            "[row for row in rows if has(row.index, row.term)]",
            "list(rows)",
        ),
        MEMBERS,
    ),
    (
        Mutant(
            "a log that begins anew forgets its members",
            MEMBERSHIPS,
            "            self._save([Membership(begin, 0, self._rows[-1].members)])\n",
            "            pass\n",
        ),
        MEMBERS,
    ),
    (
        Mutant(
            "a new member votes at once",
            "raft/leadership.py",
            "            if each not in self._core.members.learners:\n",
            "            if False:\n",
        ),
        CHANGED,
    ),
    (
        Mutant(
            "a new master serves with the tables that it has",
            ROLE,
            "        if replication.stamps_tables:  # where",
            "        if False:  # where",
        ),
        TABLES,
    ),
    (
        Mutant(
            "a new master believes whoever says first which tables are the newest",
            NEWEST,
            "    return present(members, those.__contains__)\n",
            "    return True\n",
        ),
        TABLES,
    ),
    (
        Mutant(
            "who leads no more takes tables all the same",
            ROLE,
            "        self._ordered = now\n        self._taking.cancel()\n",
            "        self._ordered = now\n",
        ),
        TABLES,
    ),
    (
        Mutant(
            "members are changed before a majority has the tables",
            MODE,
            "name in members.witnesses or self._has_tables(name)",
            "True",
        ),
        TABLES,
    ),
    (
        Mutant(
            "a change of topics waits for the witness",
            MODE,
            "(members.voters | members.outgoing) - members.witnesses",
            "members.voters | members.outgoing",
        ),
        WITNESS,
    ),
    (
        Mutant(
            "a witness acknowledges what its disk has yet to take",
            "services/witness/store.py",
            "        return self._work.run(lambda: self.log.write(number, image))\n",
            "        return defer.succeed(None)\n",
        ),
        WITNESS,
    ),
    (
        Mutant(
            "a witness takes the older of two slots",
            WITNESS_LOG,
            "return max(found",
            "return min(found",
        ),
        WITNESSED,
    ),
    (
        Mutant(
            "a witness whose file is gone begins anew by itself",
            WITNESS_LOG,
            "        if lacks and",
            "        if False and lacks and",
        ),
        WITNESSED,
    ),
    (
        Mutant(
            "a witness keeps terms that were cut",
            WITNESS_LOG,
            "        del self._spans[bisect_left(self._spans, index, key=_index) :]\n",
            "",
        ),
        WITNESSED,
    ),
    (
        Mutant(
            "a witness that starts writes over what it had synced",
            WITNESS_LOG,
            "            self._file.sync()  # what was read",
            "            pass  # what was read",
        ),
        WITNESSED,
    ),
    (
        Mutant(
            "a witness whose disk failed writes again",
            WITNESS_LOG,
            "        if self.failed is not None:\n            raise self.failed\n",
            "",
        ),
        WITNESSED,
    ),
    (
        Mutant(
            "a promotion under way is cancelled with the tables that were taken before it",
            ROLE,
            "            self._taking = defer.succeed(None)  # what follows",
            "            pass  # what follows",
        ),
        TABLES,
    ),
    (
        Mutant(
            "members are changed by a leader that is not the master yet",
            MODE,
            "        if self.raft.is_leader and self.role is not Role.MASTER:\n            raise Busy",
            "        if False:\n            raise Busy",
        ),
        TABLES,
    ),
    (
        Mutant(
            "a witness writes over the slot that it synced last",
            WITNESS_LOG,
            "number % SLOTS * WITNESS_SLOT_BYTES",
            "0",
        ),
        WITNESSED,
    ),
    (
        Mutant(
            "numbers that no log reaches are taken",
            PORT,
            "        elif _highest(request) > NUMBER_MAX:",
            "        elif False:",
        ),
        WORDS,
    ),
    (
        Mutant(
            "who does not know our protocol is never dialed in Java's",
            PEERS,
            "            self.java = not self.java or self.owner.others.all  # whoever",
            "            self.java = self.owner.others.all  # whoever",
        ),
        ("tests/protocols/test_raft_protocol.py",),
    ),
    (
        Mutant(
            "a master acknowledges what only it has",
            MODE,
            "context.waiting.replicas = Waited.MAJORITY",
            "context.waiting.replicas = Waited.NOT_ASKED",
        ),
        GROUP,
    ),
    (
        Mutant(
            "a master shows what is committed though another one may lead",
            MODE,
            "        return None if self.raft.lease_holds else NOT_AVAILABLE",
            "        return None",
        ),
        GROUP,
    ),
    (
        Mutant(
            "a follower acknowledges what its disk has yet to take",
            STORE,
            "        if not self._is_synced:\n            return None\n",
            "        return None\n",
        ),
        GROUP,
    ),
    (
        Mutant(
            "a master with a full disk stays the master",
            ROLE,
            "        self._raft.reluctant(why)",
            "        pass",
        ),
        GROUP,
    ),
    (
        Mutant(
            "a member forgets whom it voted for",
            LOG,
            "            self.voted = (vote.term + 1, vote.leader)",
            '            self.voted = (vote.term + 1, "")',
        ),
        STORED,
    ),
)
