"""The users of a broker group, kept in its log: whoever is elected has what was acknowledged, as with messages.

Theory of operation.  Each change is a message in a system topic of one queue: all users and what they may do, sealed
(:mod:`rocketha.services.access.vault`), with the queue offset of the state that it changes.  It goes the way of any
send, so it is acknowledged when the group has it.  Whoever judges a request looks first whether the queue, as consumers
see it, has grown, and reads what is new: one comparison where nothing has.  A change of another state than the last
one counts for nobody: the one before it came first, and its administrator is told to try again.

What was read is also kept in ``config/rockethaAccounts`` (sealed), for messages expire.  A master whose queue has none
left puts the present state there again, for replicas that come later.

Only the master changes users; others say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import defer

from rocketha.access.accounts import Accounts
from rocketha.access.policies import Refused
from rocketha.broker.role import Role
from rocketha.errors import CorruptStore, RemoteProtocolError, RockethaError
from rocketha.interfaces import Placed
from rocketha.observe.logging import make_logger
from rocketha.services.access.vault import Vault
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.features.messages import Messages
from rocketha.wire import json_dialect, json_members, record
from rocketha.wire.remoting import Answer, Command

TOPIC = "rmq_sys_rocketha_accounts"
QUEUE = 0
FILE = "rockethaAccounts"
NOTHING = -1
BATCH, BATCH_BYTES = 32, 16 << 20
NOT_HERE = "Can't modify users from slave broker, please execute it from master broker."
LATER = "the users were changed meanwhile: try again"


class _Kept:
    """What was read, as one of the broker's files.

    :ivar next: queue offset of what is to be read next.
    :ivar last: of the state that counts, -1 for none.
    """

    def __init__(self, vault: Vault) -> None:
        self.dirty = False
        self.accounts = Accounts()
        self.next, self.last = 0, NOTHING
        self._vault = vault

    def took(self, accounts: Accounts, offset: int) -> None:
        self.accounts, self.last, self.dirty = accounts, offset, True

    def sealed(self, base: int, next_: int, accounts: Accounts) -> bytes:
        """As a message, or as the file, has it."""
        head = json_dialect.dumps({"base": base, "next": next_})
        return self._vault.seal(len(head).to_bytes(4) + head + accounts.dump())

    def opened(self, data: bytes) -> tuple[dict[str, Any], Accounts]:
        """The other way.

        :raises RemoteProtocolError: it is none of ours.
        """
        plain = self._vault.open(data)
        size = int.from_bytes(plain[:4])
        try:
            return json_members.json_object(plain[4 : 4 + size], "a head"), Accounts.load(plain[4 + size :])
        except Refused as problem:
            raise RemoteProtocolError(str(problem)) from None

    def dump_later(self) -> Callable[[], bytes]:
        last, next_, accounts = self.last, self.next, self.accounts
        return lambda: self.sealed(last, next_, accounts)

    def load(self, data: bytes, path: str = FILE) -> None:
        try:
            head, self.accounts = self.opened(data)
            self.last = json_members.long(head, "base", NOTHING)
            self.next = json_members.long(head, "next", 0)
        except RemoteProtocolError as problem:
            raise CorruptStore(path, 0, str(problem)) from None


class AccountsLog(BrokerFeature):
    """Of one broker; made before its files are read.

    :param request: answers a request as the broker's ports do.
    :param serving: whether the broker serves.
    """

    def __init__(
        self,
        core: BrokerCore,
        request: Callable[[Any, Command], Answer | None],
        serving: Callable[[], bool],
    ) -> None:
        keys = core.config.access
        self._built_in = keys.users
        self._kept = _Kept(Vault(keys.secret))
        self._of: Accounts | None = None  # what the next one is of
        self._all = Accounts()
        self._state, self._store, self._effects, self._files = core.state, core.store, core.effects, core.parts.files
        self._files.add("accounts", FILE, self._kept)
        self._log = make_logger()
        self._messages = Messages("accounts", core, request, serving, self._failed)
        self._changing = defer.DeferredLock()
        self._master = self._putting = False

    def _failed(self, failure: Any) -> None:
        self._log.failure("accounts: {log_failure.value}", failure=failure)

    # --- what is

    @property
    def accounts(self) -> Accounts:
        """As of now: with everything that was acknowledged; the same object while nothing changes."""
        kept = self._kept
        end = self._store.max_offset(TOPIC, QUEUE)
        if end != kept.next:
            self._read(end)
        if self._of is not kept.accounts:
            self._of, self._all = kept.accounts, Accounts({**self._built_in, **kept.accounts.users})
        return self._all

    def _read(self, end: int) -> None:
        kept, begin = self._kept, self._store.min_offset(TOPIC, QUEUE)
        if end < kept.next:  # another log: what was read from there is not in it
            kept.next, kept.last = begin, NOTHING
        while kept.next < end:
            first = max(kept.next, begin)
            expired = first > kept.next
            found = self._store.get(TOPIC, QUEUE, first, BATCH, BATCH_BYTES)
            for offset, data in enumerate(found.buffers, first):
                self._take(offset, bytes(data), expired)
                kept.next, expired = offset + 1, False
            if not found.buffers:
                kept.next = end
        if kept.dirty:
            self._files["accounts"].begin()

    def _take(self, offset: int, data: bytes, expired: bool) -> None:
        kept = self._kept
        try:
            head, accounts = kept.opened(bytes(record.decode(data).body))
        except RockethaError as problem:
            self._log.error("users at {offset} can not be read: {why}", offset=offset, why=str(problem))
            return
        if expired or json_members.long(head, "base", NOTHING) == kept.last or kept.last == NOTHING:
            kept.took(accounts, offset)

    # --- changes

    def role_changed(self, role: Role) -> None:
        self._master = role is Role.MASTER

    def second(self) -> None:
        """A state that has expired from the queue is put there again."""
        accounts, kept = self.accounts, self._kept
        gone = self._store.min_offset(TOPIC, QUEUE) >= self._store.max_offset(TOPIC, QUEUE)
        if self._master and gone and kept.accounts.users and not self._putting:
            self._putting = True
            self.change(lambda present: accounts).addErrback(self._failed).addBoth(self._put_again)

    def _put_again(self, _: Any) -> None:
        self._putting = False

    def change(self, make: Callable[[Accounts], Accounts]) -> defer.Deferred[None]:
        """Make another state of the present one; fires when the group has it.

        :param make: raises Refused where it is none.
        """
        return self._changing.run(self._change, make)

    def _change(self, make: Callable[[Accounts], Accounts]) -> defer.Deferred[None]:
        if not self._master:
            raise Refused(NOT_HERE)
        wanted = make(self.accounts)
        if TOPIC not in self._state.topics.table:
            self._state.topic_for_group(TOPIC, 1)
            self._effects.carry_out()
        sent = self._messages.put(TOPIC, self._kept.sealed(self._kept.last, self._kept.next, wanted), queue_id=QUEUE)
        return sent.addCallback(self._placed)

    def _placed(self, placed: Placed) -> None:
        if placed.status:
            raise Refused(f"the change is stored here, and maybe not at enough replicas (code {placed.status})")
        assert self.accounts is not None
        if self._kept.last != placed.offset:
            raise Refused(LATER)

    def stop(self) -> None:
        self._messages.stop()
