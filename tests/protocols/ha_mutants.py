"""What ``protocols/ha_*`` must do, each taken out once; ``test_ha_mutants.py`` runs the tests against each of them."""

from __future__ import annotations

import attrs

from tests.mutation import Mutant


@attrs.frozen
class Rule:
    """One rule, and the test file that misses it: tests/protocols/test_ha_<test>.py."""

    test: str
    name: str
    module: str
    old: str
    new: str

    def change(self) -> Mutant:
        """As the machinery of all mutants wants it."""
        return Mutant(self.name, f"protocols/ha_{self.module}.py", self.old, self.new)


BOTH, MASTER, SLAVE = "connection", "master", "slave"

HA_MUTANTS = [
    # both ends
    Rule(
        "links", "news from within a callback are nested", BOTH, "        if self._telling:\n            return\n", ""
    ),
    Rule("links", "what follows the end of a link is carried out", BOTH, "        self._effects.clear()\n", ""),
    Rule(
        "links",
        "a link that is over is told of more",
        BOTH,
        "        if not self.over:\n            self._events.append(event)\n",
        "        self._events.append(event)\n",
    ),
    Rule(
        "links",
        "an owner hears of the end twice",
        BOTH,
        "        if self.over:\n            return\n        self.over = reason",
        "        self.over = reason",
    ),
    Rule(
        "links",
        "the last frame has for ever",
        BOTH,
        "            self._timer = self._clock.callLater(CLOSE_S, self._cut)\n",
        "",
    ),
    Rule(
        "links",
        "what was written is thrown away",
        BOTH,
        "            self.transport.loseConnection()\n",
        "            self.transport.abortConnection()\n",
    ),
    Rule(
        "links",
        "a fence says what waits",
        BOTH,
        "        self._end(reason, None)\n        self.transport.abortConnection()\n",
        "        self._end(reason, None)\n",
    ),
    Rule(
        "links",
        "a timer outlives its link",
        BOTH,
        "        self._end(reason.getErrorMessage(), None)\n        self._stop_timer()\n",
        "        self._end(reason.getErrorMessage(), None)\n",
    ),
    Rule(
        "links",
        "each read moves the timer",
        BOTH,
        "(self._timer is not None and self._timer_ms <= due_ms)",
        "(due_ms < 0)",
    ),
    Rule(
        "links",
        "a later time is kept, an earlier one not set",
        BOTH,
        "self._timer is not None and self._timer_ms <= due_ms",
        "self._timer is not None",
    ),
    Rule(
        "links",
        "no timer after the first",
        BOTH,
        "        finally:\n            self._telling = False\n        self._arm()\n",
        "        finally:\n            self._telling = False\n",
    ),
    Rule(
        "links",
        "a connection that is not wanted stays",
        BOTH,
        "            self.over = opened\n            self.transport.abortConnection()\n",
        "            self.over = opened\n",
    ),
    # effects that have to be waited for
    Rule("links", "bytes overtake their epoch", BOTH, "        self._waiting = True\n", ""),
    Rule(
        "links",
        "more is read while an epoch is written",
        BOTH,
        "            self.transport.pauseProducing()\n",
        "            pass\n",
    ),
    Rule(
        "links",
        "nothing is read after an epoch was written",
        BOTH,
        "                self.transport.resumeProducing()\n",
        "                pass\n",
    ),
    Rule(
        "links",
        "a turn whose bytes waited has no end",
        BOTH,
        "            self._caught_up()\n            if",
        "            if",
    ),
    Rule(
        "links",
        "nobody hears where the log was cut",
        BOTH,
        "            self._events.appendleft(news)\n",
        "            pass\n",
    ),
    Rule(
        "links",
        "what came meanwhile is told before the end of the cut",
        BOTH,
        "            self._events.appendleft(news)\n",
        "            self._events.append(news)\n",
    ),
    Rule(
        "links",
        "the end of a cut is told to a link that is over",
        BOTH,
        "        if news is not None and not self.over:",
        "        if news is not None:",
    ),
    Rule(
        "links",
        "a link that waits is told of the time",
        BOTH,
        "        due_ms = None if self.over or self._waiting else",
        "        due_ms = None if self.over else",
    ),
    # blocks that have to be waited for
    Rule(
        "slow_reads",
        "a transport that drained has a block that is being read",
        MASTER,
        "        if not self._reading:  # the block comes yet",
        "        if True:",
    ),
    Rule(
        "slow_reads",
        "a block is sent after the end",
        MASTER,
        "        self._reading = False\n        if not self.over:\n            self._send_block",
        "        self._reading = False\n        if True:\n            self._send_block",
    ),
    Rule(
        "slow_reads",
        "a failure concerns a link that is over",
        MASTER,
        "        if not self.over:\n            self._unreadable",
        "        if True:\n            self._unreadable",
    ),
    Rule(
        "slow_reads",
        "one read is waited for for ever",
        MASTER,
        "    def _read(self, body: bytes, block: SendLog) -> None:\n        self._reading = False\n",
        "    def _read(self, body: bytes, block: SendLog) -> None:\n",
    ),
    Rule("slow_reads", "a bug is swallowed", MASTER, "        failure.trap(DiskFailure, CorruptStore)\n", ""),
    Rule(
        "links",
        "a link whose effects failed goes on",
        BOTH,
        '            self.abort("effects of the link could not be carried out")',
        "            pass",
    ),
    # the master
    Rule(
        "links",
        "the next block does not wait for the slave",
        MASTER,
        "        if self._paused:\n            return\n        if self._turn_left > 0:",
        "        if self._turn_left > 0:",
    ),
    Rule(
        "links",
        "the next block never leaves",
        MASTER,
        "            self.tell(self.machine.drained)\n\n    def stop",
        "            pass\n\n    def stop",
    ),
    Rule("links", "one slave has all of a turn", MASTER, "        self._turn_left -= size\n", ""),
    Rule(
        "links",
        "a slave that took its turn is forgotten",
        MASTER,
        "            self._later = self._clock.callLater(0, self._go_on)\n",
        "            pass\n",
    ),
    Rule("links", "a link that is over goes on with its block", MASTER, "            self._later.cancel()\n", ""),
    Rule(
        "links",
        "heartbeats pile up",
        MASTER,
        "            if self._unread > UNREAD_BYTES_MAX:",
        "            if self._unread < 0:",
    ),
    Rule(
        "links",
        "a block that cannot be read is nobody's business",
        MASTER,
        "        self.factory.owner.disk_failed(self, error)\n",
        "",
    ),
    Rule(
        "links",
        "a block that cannot be read is left out",
        MASTER,
        '        self._end(f"the log cannot be read: {error}", None)\n',
        "",
    ),
    Rule(
        "links",
        "a damaged log is a bug",
        MASTER,
        "except (DiskFailure, CorruptStore) as error:",
        "except DiskFailure as error:",
    ),
    Rule(
        "links",
        "an owner cannot refuse",
        MASTER,
        "        except RemoteProtocolError as error:\n            self._refuse(error)\n",
        "        except RemoteProtocolError:\n            pass\n",
    ),
    Rule("links", "readers stay open", MASTER, "                reader.close()\n", "                pass\n"),
    Rule(
        "links", "links that ended are told of the log", MASTER, "        factory.connections.pop(self.id, None)\n", ""
    ),
    Rule(
        "links",
        "nobody hears of a confirm offset",
        MASTER,
        "                connection.tell(connection.machine.confirm_moved)\n",
        "                pass\n",
    ),
    Rule(
        "limits",
        "anybody has a place",
        MASTER,
        "Ended.NO_PLACE, factory.admission.admit(self)\n",
        "Ended.NO_PLACE, None\n",
    ),
    Rule(
        "limits", "places are not given back", MASTER, "        self.factory.admission.leave(self)\n", "        pass\n"
    ),
    Rule(
        "limits",
        "slaves are strangers for ever",
        MASTER,
        "            self.greeted = self.factory.owner.is_replica(self)\n",
        "            pass\n",
    ),
    Rule("limits", "whoever reports has a place for good", MASTER, "self.factory.owner.is_replica(self)\n", "True\n"),
    Rule("limits", "who only greets is no stranger", MASTER, " and self.machine.position != NOWHERE:", ":"),
    Rule("limits", "strangers who lost their place stay", MASTER, "        self.abort(why)\n", "        pass\n"),
    Rule("limits", "nobody sees who lost his place", MASTER, "        self._ended(cause, why)\n", "        pass\n"),
    Rule("limits", "nobody sees who gets no link", MASTER, "        self._ended(cause, refusal)\n", "        pass\n"),
    Rule(
        "limits",
        "nobody sees which links were given up",
        BOTH,
        "            self._ended(ENDED.get(cause, Ended.LOGS_DIFFER), self.over)\n",
        "            pass\n",
    ),
    Rule(
        "limits",
        "strangers fill the log of the service",
        MASTER,
        "        if self._notes <= NOTES_MAX:\n            self.log.info(text, **values)\n",
        "        self.log.info(text, **values)\n",
    ),
    Rule(
        "limits",
        "a second of silence for ever",
        MASTER,
        "            self._notes_s, self._notes = second, 0\n",
        "            self._notes_s = second\n",
    ),
    # the slave
    Rule(
        "links",
        "a report while the log is cut",
        SLAVE,
        "        if self.machine.transfers:\n            self.tell(",
        "        if True:\n            self.tell(",
    ),
    Rule(
        "links",
        "a cut is not waited for",
        SLAVE,
        "            self._wait(aligned, lambda why:",
        "            str(lambda why:",
    ),
    Rule(
        "links",
        "a comparison is not waited for",
        SLAVE,
        "            self._wait(done, lambda why:",
        "            str(lambda why:",
    ),
    Rule(
        "links",
        "a failed cut is nobody's business",
        SLAVE,
        "            self._disk_failed(error)\n        elif",
        "            pass\n        elif",
    ),
    Rule(
        "links",
        "a failed append is nobody's business",
        SLAVE,
        "            self._follower.disk_failed(self, error)\n",
        "",
    ),
    Rule(
        "links",
        "a failed append does not end the link",
        SLAVE,
        '            self._end(f"the log cannot be written: {error}", None)\n',
        "",
    ),
    Rule(
        "links",
        "a cut that is a bug is not logged",
        SLAVE,
        "                self._log.failure(",
        "                str(",
    ),
    Rule(
        "links",
        "reports pile up",
        SLAVE,
        '        self._end("the master does not read", Cause.UNREAD)\n',
        "        pass\n",
    ),
    Rule("links", "a turn has no end", SLAVE, "        self._follower.turn_ended(self)\n", "        pass\n"),
    Rule(
        "links",
        "epochs are not kept",
        SLAVE,
        "self._wait(follower.save_epochs(effect.epochs), lambda why:",
        "str(lambda why:",
    ),
    Rule(
        "links",
        "confirm offsets are not kept",
        SLAVE,
        "            follower.confirm(effect.offset)\n",
        "            pass\n",
    ),
]
