"""The rules of a broker's life under controllers, each taken out once; ``test_role_mutants.py`` tries them."""

from __future__ import annotations

from tests.mutation import Mutant


def _life(name: str, old: str, new: str) -> Mutant:
    return Mutant(name, "broker/role_life.py", old, new)


def _assignment(name: str, old: str, new: str) -> Mutant:
    return Mutant(name, "broker/role_assignment.py", old, new)


def _identity(name: str, old: str, new: str) -> Mutant:
    return Mutant(name, "broker/controller_identity.py", old, new)


MUTANTS = [
    _life(
        "an application that was not answered is given up, and with it an id",
        "if question is not Question.ALTER:\n            self._questions",
        "if question is Question.APPLY:\n            self._out.append(wanted.GiveUp())\n        elif question is not "
        "Question.ALTER:\n            self._questions",
    ),
    _life(
        "an id that another one has is applied for again and again",
        "if question is Question.APPLY and code == Code.CONTROLLER_BROKER_ID_INVALID:",
        "if False:",
    ),
    _life(
        "a learner asks to be elected",
        "assignment.told is None and not self._learner:",
        "assignment.told is None:",
    ),
    _life(
        "a notice is believed",
        "        self._new_notices.append((notice, info.master_epoch))\n        return self",
        "        self._take(info)\n        self._new_notices.append((notice, info.master_epoch))\n        return self",
    ),
    _life(
        "the answer that was on its way when the notice came is waited for",
        "self._questions.disregard(Question.INFO)",
        "pass",
    ),
    _life(
        "a notice is answered before the master is fenced",
        "            self._make_way(now_ms)\n",
        "            self._make_way(now_ms)\n            self._answer(self._notices)\n",
    ),
    _life(
        "replicas are waited for without end",
        "        if self._retire_until is not None and now_ms >= self._retire_until:",
        "        if False:",
    ),
    _life(
        "the controller's word is acted on while replicas are waited for",
        "if self._heeds and self._retire_until is None:",
        "if self._heeds:",
    ),
    _life(
        "each notice is asked about at once",
        "max(now_ms, self._notice_asked_ms + NOTICE_GAP_MS)",
        "now_ms",
    ),
    _life(
        "a notice is taken for answered by an older question",
        "            self._notices += self._new_notices\n            self._new_notices.clear()\n",
        "",
    ),
    _life("a notice suspends nothing", "        self._out.append(wanted.Suspend(from_ms))\n", ""),
    _life(
        "a notice joins others that suspended nobody",
        "bool(self._new_notices) and doubted and",
        "bool(self._new_notices) and",
    ),
    _life("an old notice joins others", "doubted and self._is_news(info)", "doubted"),
    _life("a notice joins a question that may be older", "bool(self._new_notices) and doubted", "doubted"),
    _life("a notice suspends at once, whatever was just said", "max(now_ms, self._fresh_until)", "now_ms"),
    _life("an answer stands for ever", "self._fresh_until = asked_ms + FRESH_MS", "self._fresh_until = 1 << 60"),
    _life(
        "an answer stands in the next term",
        "self._suspended_until, self._fresh_until = None, False, None, 0",
        "self._suspended_until = None, False, None",
    ),
    _life("one that proves wrong suspends for ever", "        self._out.append(wanted.Resume())\n", ""),
    _life("a newer notice is forgotten", "            self._suspend(self._fresh_until)\n", "            pass\n"),
    _life(
        "what waits waits for the last of them",
        "if self._new_notices and now_ms >= self._fresh_until:",
        "if self._new_notices:",
    ),
    _life("an old answer lets a request through", "if self._new_notices and now_ms >= self._fresh_until:", "if False:"),
    _life(
        "an answer of another epoch keeps the lease, and resumes a master",
        "return info.master_id == self.number and self.assignment.leads_in(info.master_epoch)",
        "return info.master_id == self.number",
    ),
    _life(
        "the lease counts from when the answer was read",
        "wanted.LeaseConfirmed(info.master_epoch, asked_ms)",
        "wanted.LeaseConfirmed(info.master_epoch, now_ms)",
    ),
    _life(
        "the lease is asked for when it is over",
        "asked_ms + self._timing.lease // 3)",
        "asked_ms + self._timing.lease)",
    ),
    _life(
        "a lease question may take as long as any",
        "min(request, self._timing.lease // 3) if",
        "request if",
    ),
    _life(
        "Java's controllers are asked 11006 for ever",
        "            self.ours = False\n",
        "",
    ),
    _life(
        "controllers that took Java's place are asked as Java's for ever",
        "self.registered, self.ours = True, None",
        "self.registered = True",
    ),
    _life(
        "refusals of Java's controllers are taken to be in order",
        "wanted.SetRefused(change.number, code, self.ours is True)",
        "wanted.SetRefused(change.number, code, True)",
    ),
    _life(
        "a master is confirmed before it is promoted",
        "            for question in _MASTERS:\n                self._questions.drop(question)\n\n    def _timeout",
        "            self._questions.at(Question.CONFIRM, now_ms)\n\n    def _timeout",
    ),
    _life(
        "another order's end is taken for this one's",
        "        if order == self.assignment.order:\n            self.assignment.order = None",
        "        if True:\n            self.assignment.order = None",
    ),
    _life(
        "an epoch that cannot be led is tried again",
        "told.master_epoch <= self.assignment.unfit_epoch:",
        "False:",
    ),
    _life(
        "a broker that resigns keeps its connections",
        "        self._out.append(wanted.HangUp())\n        self._questions.clear()",
        "        self._questions.clear()",
    ),
    _life(
        "a broker that the controllers do not know does not register again",
        "            self.registered = False\n            questions.at(Question.REGISTER",
        "            questions.at(Question.INFO",
    ),
    _life(
        "without a master nobody is fenced",
        '        if self.assignment.leads:\n            self._fence(f"the controllers know no master',
        '        if False:\n            self._fence(f"the controllers know no master',
    ),
    _life(
        "a designated replica that is refused is asked for again",
        "        elif question is Question.HAND_OVER:\n            self._next_candidate(now_ms)",
        "        elif question is Question.HAND_OVER:\n            questions.at(question, now_ms)",
    ),
    _life(
        "a master that leaves does not wait for its replicas",
        "        self._out += assignment.retire(why)\n",
        "        self._hand_over(now_ms)\n",
    ),
    _life(
        "an unfit master does not stay",
        "            self.departure.stays = why\n",
        '            self.departure.stays = ""\n',
    ),
    _life(
        "an unfit master that nobody replaces goes on as if nothing were",
        "            if self.assignment.leads:\n                self._resign(why, now_ms)\n",
        "",
    ),
    _life(
        "an unfit master forgets that it is to stop",
        '        self.departure.stays = ""\n        if self.departure.stage is Leaving.NO and not',
        "        if self.departure.stage is Leaving.NO and not",
    ),
    _life(
        "a master leaves unfenced",
        '        if self.assignment.leads:\n            self._fence("the broker stops")',
        '        if False:\n            self._fence("the broker stops")',
    ),
    _life(
        "it is gone before the new master serves",
        "if self.departure.stage is Leaving.FOLLOWING and epoch == self.assignment.ordered.epoch:",
        "if self.departure.stage is Leaving.FOLLOWING:",
    ),
    _assignment(
        "an older epoch is believed",
        "        if epoch < self.epoch:\n            return (",
        "        if False:\n            return (",
    ),
    _assignment("two masters of one epoch", "if info.master_id != told.master_id:", "if False:"),
    _assignment("an older set is believed", "if info.in_sync.epoch < told.in_sync.epoch:", "if False:"),
    _assignment(
        "it leads a set without itself",
        "if info.master_id == self.number and self.number not in info.in_sync.members:",
        "if False:",
    ),
    _assignment(
        "no master in an epoch that had one",
        "if epoch < self.epoch or (self.told is not None and self.told.master_epoch == epoch):",
        "if epoch < self.epoch:",
    ),
    _assignment("an older absence of a master is believed", "if epoch < self.epoch or (self.told", "if (self.told"),
    _assignment("a set is known again, or backwards", "if in_sync.epoch <= self.in_sync.epoch or", "if"),
    _assignment(
        "a set is told while the order to lead is out", "not self.leads or self._being_promoted", "not self.leads"
    ),
    _assignment(
        "elected again although its set does not rise", "+ 1 and told.in_sync.epoch > self.in_sync.epoch", "+ 1"
    ),
    _assignment("elected again after another may have led", "told.master_epoch == self.ordered.epoch + 1 and ", ""),
    _assignment(
        "elected again while it is still being promoted", "self.leads and self.order is None and", "self.leads and"
    ),
    _assignment("the log's own epoch is forgotten", "self.epoch = max(0, last_epoch)", "self.epoch = 0"),
    _identity("all check codes of a millisecond are equal", ".{chance.getrandbits(64):016x}", ""),
    _identity(
        "a torn final file is as good as none",
        "        if final is not None:\n            raise",
        "        if False:\n            raise",
    ),
    _identity(
        "temp goes first", "        if isinstance(final, list):", "        if isinstance(final, list) and temp is None:"
    ),
    _identity("another broker's file is used", "if (found[0], found[1]) != self._names:", "if False:"),
    _identity(
        "temp is left behind",
        "        self._write(self.path, str(number))\n        self._remove_temp()",
        "        self._write(self.path, str(number))",
    ),
    _identity(
        "temp is removed before the final file is there",
        "        self._write(self.path, str(number))\n        self._remove_temp()",
        "        self._remove_temp()\n        self._write(self.path, str(number))",
    ),
    Mutant(
        "what is due while the controllers do not know the broker is forgotten",
        "broker/role_questions.py",
        "question not in self._open and (registered or question in _JOINING)",
        "question not in self._open",
    ),
]
