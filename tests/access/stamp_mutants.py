"""The rules of stamped requests, each taken out."""

from __future__ import annotations

from tests.mutation import Mutant

STAMP, REPLAYS, SIGNER = "access/stamp.py", "access/replays.py", "access/signer.py"
USERS, GUARD = "services/access/users.py", "services/access/guard.py"
TESTS = (
    "tests/access/test_stamp.py",
    "tests/access/test_replays.py",
    "tests/services/access/test_users.py",
    "tests/services/access/test_guard.py",
    "tests/services/access/test_replayed.py",
    "tests/protocols/test_signing.py",
)

MUTANTS = (
    Mutant("the code is not bound", STAMP, "if self.code != code:", "if False:"),
    Mutant("the layout is not bound", STAMP, "if self.layout != layout(fields):", "if False:"),
    Mutant(
        "names are not in the layout", STAMP, 'parts.append(b"%d:%b%d;" % (len(text), text, ', "parts.append(b'%d;' % ("
    ),
    Mutant(
        "lengths are not in the layout",
        STAMP,
        'b"%d:%b%d;" % (len(text), text, len(fields[name].encode("utf-8", "replace")))',
        'b"%d:%b;" % (len(text), text)',
    ),
    Mutant("a stamp may have other digits", STAMP, "(0|[1-9][0-9]{0,9})", "([0-9]+)"),
    Mutant("its name is not the first", STAMP, 'FIELD = "0Stamp"', 'FIELD = "Stamp"'),
    Mutant("the nonce is not kept", REPLAYS, "        seen.add(key)\n", ""),
    Mutant("the nonce is not looked for", REPLAYS, "if key in seen.keys:", "if False:"),
    Mutant("what has waited is not looked at", "services/broker/dispatcher.py", "self._waited is not None", "False"),
    Mutant("the time is not checked", REPLAYS, "if not -AHEAD_MS <= late_ms <= self._window_ms:", "if False:"),
    Mutant("a time ahead is not checked", REPLAYS, "if not -AHEAD_MS <= late_ms <=", "if not late_ms <="),
    Mutant("a clock may be ahead as far as behind", REPLAYS, "if not -AHEAD_MS <=", "if not -self._window_ms <="),
    Mutant("what was before the start is served", REPLAYS, "self._began_ms = now_ms", "self._began_ms = 0"),
    Mutant(
        "what was in the moment of the start is served",
        REPLAYS,
        "if stamp.time_ms <= self._began_ms:",
        "if stamp.time_ms < self._began_ms:",
    ),
    Mutant("what was before a switch is served", REPLAYS, "self._began_ms = max(self._began_ms, now_ms)", "pass"),
    Mutant("a switch forgets the one before", REPLAYS, "max(self._began_ms, now_ms)", "now_ms"),
    Mutant("memory is not bounded", REPLAYS, "            self._make_room(before_ms)\n", "            pass\n"),
    Mutant("what was forgotten is served", REPLAYS, "            self.until_ms = key >> 8 * NONCE_BYTES\n", ""),
    Mutant(
        "what was forgotten of who is gone is served", REPLAYS, "max(seen.until_ms, self._until_ms)", "seen.until_ms"
    ),
    Mutant("too early forgotten", REPLAYS, "before_ms = now_ms - self._window_ms", "before_ms = now_ms"),
    Mutant("never forgotten", REPLAYS, "line[0] >> 8 * NONCE_BYTES < before_ms", "before_ms == float('inf')"),
    Mutant("all is forgotten at once", REPLAYS, "FORGOTTEN_AT_ONCE = 16", "FORGOTTEN_AT_ONCE = 1000"),
    Mutant(
        "users share a memory",
        REPLAYS,
        "seen = self._users.get(user)\n",
        "user = ''\n        seen = self._users.get(user)\n",
    ),
    Mutant("anybody loses what he sent", REPLAYS, "heapq.heapify(most)", "most.sort(reverse=True)"),
    Mutant("what one lost counts for all", REPLAYS, "not seen.line and seen.until_ms < before_ms]", "not seen.line]"),
    Mutant("room for one at a time", REPLAYS, "max(1, REMEMBERED_MAX // LOST_PART)", "0"),
    Mutant(
        "a stamp that nobody signed is remembered",
        USERS,
        "if user is not None and proven(user.password, fields, command.body, command.version) is not None:",
        "if user is not None:",
    ),
    Mutant(
        "the stamp is signed by nobody", SIGNER, "given[SIGNATURE] = sign(", "given.setdefault(SIGNATURE, '') or sign("
    ),
    Mutant(
        "a stamp is looked for in the field",
        USERS,
        "if not message.startswith(MARK):",
        "if FIELD not in command.fields:",
    ),
    Mutant("the request is not compared", USERS, "            stamp.check(command.code, command.fields)\n", ""),
    Mutant(
        "a served request is no failed login", USERS, "return str(problem)", "raise refused(str(problem)) from None"
    ),
    Mutant("nothing is demanded of super users", USERS, '(self._required == "super" and user.is_super)', "False"),
    Mutant("all is demanded of super users", USERS, 'self._required == "all" or', "False or"),
    Mutant("a new master remembers", USERS, "            self._replays.begin(self._wall_ms())\n", "            pass\n"),
    Mutant("every role begins anew", USERS, "if role is Role.MASTER:", "if True:"),
    Mutant(
        "what anybody may ask uses up nonces",
        USERS,
        "text is not None and command.code not in self._unsigned:",
        "text is not None:",
    ),
    Mutant(
        "what is passed on is not looked at",
        GUARD,
        "                    self._users.passed_on(command)\n",
        "                    pass\n",
    ),
    Mutant(
        "what is passed on is judged again",
        GUARD,
        "self._users.passed_on(command)\n",
        "self._users.judge(connection, command, route)\n",
    ),
    Mutant(
        "requests are not signed",
        "protocols/remoting.py",
        "return fields if signer is None else",
        "return fields if True else",
    ),
    Mutant("pools do not sign", "protocols/peer_connections.py", ", signer=dialer.signer", ""),
    Mutant("clients do not sign", "protocols/remoting_client.py", ", signer=dialer.signer", ""),
    Mutant(
        "what clients signed is signed anew",
        "services/broker/running.py",
        "platform.dialer.unsigned,",
        "platform.dialer,",
    ),
)
