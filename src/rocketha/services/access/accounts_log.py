"""The users of a broker group, kept in its log: whoever is elected has what was acknowledged, as with messages.

Theory of operation.  Each change is a message in a system topic of one queue: all users and what they may do, sealed
(:mod:`rocketha.services.access.vault`), with a version that is one more than that of the state that it changes.  It
goes the way of any send, so it is acknowledged when the group has it.  Whoever judges a request looks first whether the
queue, as consumers see it, has grown, and reads what is new: one comparison where nothing has.  The highest version
counts, in whatever order they are read and from wherever: all replicas come to the same.  Users that the configuration
names are not stored unless a change made them others.

What was read is also kept in ``config/rockethaAccounts`` (sealed), for messages expire.  A master whose queue has none
left puts the present state there again, for replicas that come later.

Only the master changes users; others say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet import defer

from rocketha.access.accounts import TOPIC, Accounts
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

QUEUE = 0
FILE = "rockethaAccounts"
NOWHERE = -1
LOOK_S, LOOKS = 0.02, 250
BATCH, BATCH_BYTES = 32, 16 << 20
NOT_HERE = "Can't modify users from slave broker, please execute it from master broker."
LATER = "the users were changed meanwhile: try again"


@attrs.frozen(order=True)
class Version:
    """Of a state: the higher counts.

    :ivar number: one more than that of the state that was changed.
    :ivar stamp_ms: when, for two that changed the same one.
    """

    number: int = 0
    stamp_ms: int = 0


class _Kept:
    """What was read, as one of the broker's files.

    :ivar version: of the state that counts.
    :ivar at: queue offset of its message.
    :ivar next: queue offset of what is to be read next.
    """

    def __init__(self, vault: Vault) -> None:
        self.dirty = False
        self.accounts = Accounts()
        self.version = Version()
        self.next, self.at = 0, NOWHERE
        self._vault = vault

    def took(self, version: Version, accounts: Accounts, at: int) -> None:
        self.version, self.accounts, self.at, self.dirty = version, accounts, at, True

    def sealed(self, version: Version, accounts: Accounts, next_: int = 0, at: int = NOWHERE) -> bytes:
        """As a message has it; as the file has it, with how far was read, and where it stands."""
        head = json_dialect.dumps({**attrs.asdict(version), "next": next_, "at": at})
        return self._vault.seal(len(head).to_bytes(4) + head + accounts.dump())

    def opened(self, data: bytes) -> tuple[dict[str, Any], Version, Accounts]:
        """The other way.

        :raises RemoteProtocolError: it is none of ours.
        """
        plain = self._vault.open(data)
        size = int.from_bytes(plain[:4])
        head = json_members.json_object(plain[4 : 4 + size], "a head")
        version = Version(json_members.long(head, "number", 0), json_members.long(head, "stamp_ms", 0))
        try:
            return head, version, Accounts.load(plain[4 + size :])
        except Refused as problem:
            raise RemoteProtocolError(str(problem)) from None

    def dump_later(self) -> Callable[[], bytes]:
        version, accounts, next_, at = self.version, self.accounts, self.next, self.at
        return lambda: self.sealed(version, accounts, next_, at)

    def load(self, data: bytes, path: str = FILE) -> None:
        try:
            head, self.version, self.accounts = self.opened(data)
            self.next, self.at = json_members.long(head, "next", 0), json_members.long(head, "at", NOWHERE)
        except RemoteProtocolError as problem:
            raise CorruptStore(path, 0, str(problem)) from None


class AccountsLog(BrokerFeature):
    """Of one broker; made before its files are read.

    :param request: answers a request as the broker's ports do.
    :param serving: whether the broker serves.
    :ivar messages: puts them into the log.
    """

    def __init__(
        self,
        core: BrokerCore,
        request: Callable[[Any, Command], Answer | None],
        serving: Callable[[], bool],
    ) -> None:
        keys = core.config.access
        self._built_in = keys.built_in.users
        self._kept = _Kept(Vault(keys.secret))
        self._of: Accounts | None = None  # what the next one is of
        self._all = Accounts()
        self._state, self._store, self._effects, self._files = core.state, core.store, core.effects, core.parts.files
        self._files.add("accounts", FILE, self._kept)
        self._changes, self._reactor = core.changes, core.platform.reactor
        self._wall_ms = core.platform.wall_ms
        self._log = make_logger()
        self.messages = Messages("accounts", core, request, serving, self._failed)
        self._changing = defer.DeferredLock()
        self._master = self._stopped = False
        self._problem = ""
        core.changes.when_over(self._log_changed)

    def _failed(self, failure: Any) -> None:
        self._log.failure("accounts: {log_failure.value}", failure=failure)

    # --- what is

    has_white = False

    def lets_in(self, name: str, host: str) -> bool:
        """In ACL 2 all sign."""
        return False

    @property
    def accounts(self) -> Accounts:
        """As of now: with everything that was acknowledged; the same object while nothing changes."""
        self._catch_up()
        kept = self._kept
        if self._of is not kept.accounts:
            self._of = kept.accounts
            self._all = kept.accounts.with_users({**self._built_in, **kept.accounts.users})
        return self._all

    def _catch_up(self) -> None:
        """Read what is new; while the log is being cut, nothing of it is served."""
        if not self._changes.busy:
            end = self._store.max_offset(TOPIC, QUEUE)
            if end != self._kept.next:
                self._read(end)

    def _log_changed(self) -> None:
        """Its end was cut: what is read next may stand where something else did."""
        self._kept.next = 0

    def _read(self, end: int) -> None:
        kept = self._kept
        if end < kept.next:
            kept.next = 0
        kept.next = max(kept.next, self._store.min_offset(TOPIC, QUEUE))
        while kept.next < end:
            found = self._store.get(TOPIC, QUEUE, kept.next, BATCH, BATCH_BYTES)
            for data in found.buffers:
                for _, _, each in record.walk(bytes(data)):
                    if isinstance(each, record.Record):
                        self._take(each)
            kept.next = max(found.next_offset, kept.next + 1)
        kept.next = end
        if kept.dirty:
            self._files["accounts"].begin()

    def _take(self, found: record.Record) -> None:
        """A newer state counts; what is older came late, or again, for it was sent by who did not know of this one."""
        kept = self._kept
        try:
            _, version, accounts = kept.opened(bytes(found.body))
        except RockethaError as problem:
            self._problem = f"users that the group has cannot be read: {problem}"
            self._log.error("{problem}", problem=self._problem)
            return
        if version > kept.version:
            kept.took(version, accounts, found.queue_offset)
            self._problem = ""

    def unready(self) -> str | None:
        return self._problem or None

    # --- changes

    def role_changed(self, role: Role) -> None:
        self._master = role is Role.MASTER

    @property
    def leads(self) -> bool:
        """Whether users can be changed here, now."""
        return self._master and not self._changes.busy

    def second(self) -> None:
        """A state whose message has expired is put there again."""
        if not self.leads or self._changing.locked:
            return
        self._catch_up()
        if 0 <= self._kept.at < self._store.min_offset(TOPIC, QUEUE):
            self.change(lambda present: present).addErrback(self._failed)

    def change(self, make: Callable[[Accounts], Accounts]) -> defer.Deferred[None]:
        """Make another state of the present one; fires when the group has it.

        :param make: raises Refused where it is none.
        """
        return self._changing.run(self._change, make)

    def _change(self, make: Callable[[Accounts], Accounts]) -> defer.Deferred[None]:
        if not self._master:
            raise Refused(NOT_HERE)
        wanted = make(self.accounts)
        for name in self._built_in.keys() - wanted.users.keys():
            raise Refused(f"User:{name} stands in the broker's configuration.")
        stored = wanted.with_users(
            {name: user for name, user in wanted.users.items() if self._built_in.get(name) != user}
        )
        if TOPIC not in self._state.topics.table:
            self._state.topic_for_group(TOPIC, 1)
            self._effects.carry_out()
        version = Version(self._kept.version.number + 1, self._wall_ms())
        sent = self.messages.put(TOPIC, self.sealed(version, stored), queue_id=QUEUE)
        return sent.addCallback(self._placed, version)

    def _placed(self, placed: Placed, version: Version) -> defer.Deferred[None]:
        if placed.status:
            raise Refused(f"the change is stored here, and maybe not at enough replicas (code {placed.status})")
        shown: defer.Deferred[None] = defer.Deferred()
        self._look(shown, placed.offset, version, LOOKS)
        return shown

    def _look(self, shown: defer.Deferred[None], offset: int, version: Version, looks: int) -> None:
        """A send may be acknowledged a moment before consumers see it (allAckInSyncStateSet=false)."""
        if not self._changes.busy and self._store.max_offset(TOPIC, QUEUE) > offset:
            self._catch_up()
            shown.callback(None) if self._kept.version == version else shown.errback(Refused(LATER))
        elif not looks or self._stopped:
            shown.errback(Refused("the change is stored, and not shown yet"))
        else:
            self._reactor.callLater(LOOK_S, self._look, shown, offset, version, looks - 1)

    def sealed(self, version: Version, accounts: Accounts) -> bytes:
        """As a message has a state."""
        return self._kept.sealed(version, accounts)

    def stop(self) -> None:
        self._stopped = True
        self.messages.stop()
