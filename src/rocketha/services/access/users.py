"""Judges clients: who signed a request, whether it was served before, and whether he may do what it asks.

Theory of operation.  Where the users come from is all that tells ACL 2 from ACL 1: from the group's log, or from files
(:mod:`rocketha.access.plain_acl`).  In ACL 1 clients at some addresses need no signature, and may send and consume
whatever they like; what people and other servers ask needs one from everywhere.

A send whose header is known but for a few values (:mod:`rocketha.wire.known_sends`) asks what the one before it asked:
while no user and no policy changes, only its signature is judged.

Java: ``DefaultAuthenticationHandler``, ``UserAuthorizationHandler``, ``AclAuthorizationHandler``; the texts are theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from rocketha.access.accounts import TOPIC, WORD_CHARACTERS_MAX, Accounts, User
from rocketha.access.policies import NAME_CHARACTERS_MAX, Decision, Kind, Need, Refused, decide
from rocketha.access.replays import Forgotten, Replays
from rocketha.access.routes import Asker
from rocketha.access.signature import ACCESS_KEY, Alike, proven, signs
from rocketha.access.stamp import FIELD, MARK, Stamp
from rocketha.broker.forward_rules import FORWARDER_FIELDS
from rocketha.broker.role import Role
from rocketha.broker.routes import BrokerRoute
from rocketha.broker.routes import Kind as RequestKind
from rocketha.errors import RequestRefused
from rocketha.observe.events import OperatorAsked
from rocketha.observe.logging import emit, make_logger
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.rates import Rates
from rocketha.services.config.access import AccessConfig
from rocketha.wire.codes import ResponseCode
from rocketha.wire.known_sends import DIFFERING, KnownSend
from rocketha.wire.remoting import Command

FAILURES_AT_ONCE, FAILURES_EACH_MS = 100, 100
"""Logins of one user from one host that fail: so many at once, then one in so long; what comes between is not looked
at, but for sends like one that was let in.  A client with a password of yesterday stays below that, so others of its
user there are served."""
DECIDED_MAX = 10_000


class Book(Protocol):
    """Who may log in: of ACL 2 the group's log, of ACL 1 what stands in its files.

    :ivar has_white: whether clients at some addresses need no signature.
    """

    @property
    def has_white(self) -> bool: ...

    @property
    def accounts(self) -> Accounts:
        """The users; the same object while nothing changes."""

    def lets_in(self, name: str, host: str) -> bool:
        """Whether clients at an IP address that name this user, or nobody, need no signature.

        It changes only with the accounts.
        """


def _name_of(user: User | None) -> str:
    return "nobody" if user is None else f"User:{user.name}"


def refused(text: str) -> RequestRefused:
    """16, as Java answers."""
    return RequestRefused(ResponseCode.NO_PERMISSION, text)


def _busy(problem: Forgotten) -> RequestRefused:
    """2: signed again it may be let in."""
    return RequestRefused(ResponseCode.SYSTEM_BUSY, str(problem))


class LetIn(NamedTuple):
    """A known send that was let in; those alike are, if they are signed.

    :ivar edition: of all that was decided then.
    """

    edition: object
    host: str
    user: User
    alike: Alike


class Users:
    """Of one broker.

    :param cluster: this broker's.
    :param now_ms: of the steady clock.
    :param wall_ms: ms since 1970.
    """

    def __init__(
        self,
        book: Book,
        keys: AccessConfig,
        cluster: str,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._book = book
        self._cluster = cluster
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._replays = Replays(keys.signed_time_window * 1000, wall_ms())
        self._required = keys.signed_time_required
        self._authorizes = keys.authorizes
        self._unsigned, self._free = keys.unsigned_codes, keys.free_codes
        self._failures = Rates(FAILURES_AT_ONCE, FAILURES_EACH_MS)
        self._decided: dict[object, Decision | None] = {}
        self._white: dict[object, bool] = {}
        self._decided_of: Accounts | None = None
        self._edition = object()
        self._log = make_logger()

    def _decide(self, user: User, need: Need, source: str) -> Decision | None:
        """The same need comes with each message; a name that nothing can have is not remembered."""
        if len(need.name) > NAME_CHARACTERS_MAX:
            return decide(user.policies, need, source)
        asked = user.name, need.kind, need.name, need.actions, source
        if asked not in self._decided:
            self._decided[asked] = decide(user.policies, need, source)
        return self._decided[asked]

    def _is_white(self, book: Book, accounts: Accounts, connection: RemotingProtocol, command: Command) -> bool:
        """Likewise.  Nobody behind a proxy: it only says where he is."""
        if connection.proven_host != connection.socket_host:
            return False
        name = command.fields.get(ACCESS_KEY, "")
        asked = name if name in accounts.users else "", connection.proven_host
        if asked not in self._white:
            self._white[asked] = book.lets_in(*asked)
        return self._white[asked]

    def judge(self, connection: RemotingProtocol, command: Command, route: BrokerRoute) -> None:
        """Let a request in.

        :raises RequestRefused: it is not signed by a user who may ask it.
        """
        book, accounts = self._book, self._book.accounts
        if accounts is not self._decided_of or len(self._decided) + len(self._white) >= DECIDED_MAX:
            # what was decided holds as long as no user changes
            self._decided, self._white, self._decided_of = {}, {}, accounts
            self._edition = object()
        known = command if isinstance(command, KnownSend) else None
        if known is not None and self._is_as_before(connection, known):
            return
        if route.kind is RequestKind.SEND and TOPIC in (command.fields.get("topic"), command.fields.get("b")):
            raise refused(f"the topic[{TOPIC}] is the broker's own")
        if book.has_white and route.clients_alone and self._is_white(book, accounts, connection, command):
            return
        user = None if command.code in self._unsigned else self._signer(accounts, connection, command)
        if route.supers and self._authorizes and not (user is not None and user.is_super):
            raise refused(f"{_name_of(user)} has no permission to access {route.name}: it is for Super users.")
        if self._authorizes and command.code not in self._free and not (user is not None and user.is_super):
            self._authorize(connection, command, route, user)
        if route.asker is Asker.OPERATOR and user is not None:
            emit(self._log, OperatorAsked(f"User:{user.name}", connection.peer, route.name))
        if known is not None and user is not None:
            alike = Alike(known.fields, DIFFERING)
            known.shape.judged = LetIn(self._edition, connection.peer_host, user, alike)

    def _is_as_before(self, connection: RemotingProtocol, command: KnownSend) -> bool:
        """Whether it is signed, and a send alike was let in."""
        before: LetIn | None = command.shape.judged
        signature = command.signature
        if before is None or before[:2] != (self._edition, connection.peer_host) or signature is None:
            return False
        message = before.alike.signed(*command.differing, command.body)
        # one with a stamp is judged as usual: it may have been served before
        return not message.startswith(MARK) and signs(before.user.password, message, signature)

    def _signer(self, accounts: Accounts, connection: RemotingProtocol, command: Command) -> User:
        name, now_ms = command.fields.get(ACCESS_KEY, ""), self._now_ms()
        if not name:
            raise refused("username cannot be null.")
        who = connection.peer_host, name[:WORD_CHARACTERS_MAX]  # as a listed proxy says: else one shuts out all others
        if not self._failures.may(who, now_ms):
            raise refused("too many logins of this user from this address failed: later")
        user = accounts.users.get(name)
        if user is None:
            problem = f"User:{name[:255]} is not found."
        elif not user.enabled:
            problem = f"User:{name} is disabled."
        else:
            message = proven(user.password, command.fields, command.body, command.version)
            problem = "check signature failed." if message is None else self._stamped(user, command, message)
            if not problem:
                return user
        self._failures.take(who, now_ms)
        raise refused(problem)

    def _stamped(self, user: User, command: Command, message: bytes) -> str:
        """Why a request with a good signature is not let in; empty: it is.

        :param message: what was signed.
        :raises RequestRefused: 2, signed again it may be.
        """
        if not message.startswith(MARK):
            if self._required == "all" or (self._required == "super" and user.is_super):
                return f"User:{user.name} must sign the time of his requests, too (signedTimeRequired)."
            return ""
        try:
            stamp = Stamp.read(message)
            stamp.check(command.code, command.fields)
            self._take(user.name, stamp)
        except Refused as problem:
            return str(problem)
        return ""

    def _take(self, name: str, stamp: Stamp) -> None:
        try:
            self._replays.take(name, stamp, self._wall_ms())
        except Forgotten as problem:
            raise _busy(problem) from None

    def passed_on(self, command: Command) -> None:
        """A replica has judged this request; only the one that serves it knows whether it has served it before.

        A client at a white address may have stamped it with anything: only what is signed by a user is remembered.

        :raises RequestRefused: it was served before, or may have been, or one before it.
        """
        try:
            stamp = self._stamp_of(command)
            if stamp is None:
                return
            fields = {name: value for name, value in command.fields.items() if name not in FORWARDER_FIELDS}
            user = self._book.accounts.users.get(fields.get(ACCESS_KEY, ""))
            if user is not None and proven(user.password, fields, command.body, command.version) is not None:
                stamp.check(command.code, fields)
                self._take(user.name, stamp)
            elif not self._book.has_white:  # else it may have come without a signature
                raise Refused("check signature failed.")
        except Refused as problem:
            raise refused(str(problem)) from None

    def after_wait(self, command: Command) -> None:
        """A request that was let in has waited, maybe for this broker to become master: another one was when it came.

        It is remembered already.

        :raises RequestRefused: 2, that one may have served it.
        """
        try:
            stamp = self._stamp_of(command)
            if stamp is not None:
                self._replays.check_began(stamp, self._wall_ms())
        except Forgotten as problem:
            raise _busy(problem) from None
        except Refused as problem:
            raise refused(str(problem)) from None

    def _stamp_of(self, command: Command) -> Stamp | None:
        """That of a request which was judged, here or by a replica.

        :raises Refused: it cannot be read.
        """
        text = command.fields.get(FIELD)
        if text is not None and command.code not in self._unsigned:  # of these nobody has judged the signature
            return Stamp.read(text.encode("utf-8", "replace"))
        return None

    def role_changed(self, role: Role) -> None:
        """A new master does not know what the one before served."""
        if role is Role.MASTER:
            self._replays.begin(self._wall_ms())

    def _authorize(self, connection: RemotingProtocol, command: Command, route: BrokerRoute, user: User | None) -> None:
        for each in route.needs(command):
            need = each if each.kind is not Kind.CLUSTER else Need(Kind.CLUSTER, self._cluster, each.actions)
            found = None if user is None else self._decide(user, need, connection.peer_host)
            if found is not Decision.ALLOW:
                why = "no matched policies" if found is None else "the decision is deny"
                raise refused(self._said(user, need, connection, why))

    def _said(self, user: User | None, need: Need, connection: RemotingProtocol, why: str) -> str:
        return f"{_name_of(user)} has no permission to access {need} from {connection.peer_host}, {why}."
