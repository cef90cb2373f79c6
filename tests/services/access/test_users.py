"""Who is let in by user name and signature, and what is said to the others."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rocketha.access.accounts import TOPIC, Accounts
from rocketha.access.signature import ACCESS_KEY, SIGNATURE, sign, signed
from rocketha.access.signer import Credentials, Signer
from rocketha.access.stamp import FIELD, NONCE_BYTES
from rocketha.broker.forward_rules import EPOCH_MARK, MARK
from rocketha.broker.role import Role
from rocketha.broker.routes import ROUTES
from rocketha.errors import RequestRefused
from rocketha.services.access import users as users_module
from rocketha.services.access.users import FAILURES_AT_ONCE, FAILURES_EACH_MS, Users
from rocketha.services.config.access import AccessConfig
from rocketha.wire import remoting
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.known_sends import HeaderMemory, KnownSend
from rocketha.wire.remoting import Command

WALL_MS = 1_700_000_000_000


class _Connection:
    peer = "10.1.2.3:9"
    peer_host = socket_host = "10.1.2.3"


def entry(resource: str, actions: str, decision: str = "Allow", *sources: str) -> dict[str, Any]:
    row = {"resource": resource, "actions": actions.split(), "decision": decision, "sourceIps": list(sources)}
    return {"entries": [row]}


class _Book:
    """Of a test's accounts."""

    has_white = False

    def __init__(self, case: UsersCase) -> None:
        self._case = case

    @property
    def accounts(self) -> Accounts:
        return self._case.accounts

    def lets_in(self, name: str, host: str) -> bool:
        return False


class UsersCase(SynchronousTestCase):
    """Of a broker with users of each kind."""

    def setUp(self) -> None:
        accounts = Accounts().create("root", {"password": "rootsecret", "userType": "Super"})
        accounts = accounts.create("ann", {"password": "annsecret"}).create(
            "off", {"password": "x", "userStatus": "disable"}
        )
        policies = entry("Topic:a*", "Pub Sub"), entry("Group:g", "Sub"), entry("Topic:abc", "Pub", "Deny")
        policies += (entry("Cluster:c1", "Get", "Allow", "10.1.0.0/16"), entry("Cluster:c2", "Update"))
        self.accounts = accounts.grant("User:ann", policies)
        self.now_ms, self.wall_ms = 0, WALL_MS
        self.users = self.make()

    def make(self, **keys: Any) -> Users:
        config = AccessConfig(**{"authentication_enabled": True, "authorization_enabled": True, **keys})
        return Users(_Book(self), config, "c1", lambda: self.now_ms, lambda: self.wall_ms)

    def ask(self, code: int, user: str, secret: str, users: Users | None = None, **fields: str) -> str:
        """What is said; empty: it is let in."""
        given = {**fields, "AccessKey": user} if user else dict(fields)
        if secret:
            given["Signature"] = sign(secret, signed(given, b""))
        connection: Any = _Connection()
        try:
            (users or self.users).judge(connection, Command(code, fields=given), ROUTES[code])
        except RequestRefused as refusal:
            self.assertEqual(refusal.code, ResponseCode.NO_PERMISSION)
            return str(refusal.remark)
        return ""


class UsersTests(UsersCase):
    """Who signs as every client of RocketMQ does."""

    def test_logging_in(self) -> None:
        code = RequestCode.GET_MAX_OFFSET
        for user, secret, said in (
            ("root", "rootsecret", ""),
            ("ann", "annsecret", ""),
            ("", "", "username cannot be null."),
            ("", "annsecret", "username cannot be null."),
            ("bob", "annsecret", "User:bob is not found."),
            ("off", "x", "User:off is disabled."),
            ("ann", "rootsecret", "check signature failed."),
            ("ann", "", "check signature failed."),
        ):
            self.assertEqual(self.ask(code, user, secret, topic="a1"), said)

    def test_names_that_nothing_can_have(self) -> None:
        """They fill neither memory nor answers."""
        for number in range(20):
            said = self.ask(RequestCode.GET_MAX_OFFSET, "ann", "annsecret", topic=f"{number}" + 50_000 * "x")
            self.assertLess(len(said), 1000)
        self.assertEqual(self.users._decided, {})

    def test_what_users_may(self) -> None:
        here = "from 10.1.2.3"
        for code, fields, said in (
            (RequestCode.SEND_MESSAGE_V2, {"b": "a1"}, ""),
            (RequestCode.SEND_MESSAGE_V2, {"b": "abc"}, f"Topic:abc {here}, the decision is deny."),
            (RequestCode.SEND_MESSAGE_V2, {"b": "b1"}, f"Topic:b1 {here}, no matched policies."),
            (RequestCode.PULL_MESSAGE, {"topic": "a1", "consumerGroup": "g"}, ""),
            (RequestCode.PULL_MESSAGE, {"topic": "a1", "consumerGroup": "h"}, f"Group:h {here}, no matched policies."),
            (RequestCode.GET_BROKER_CONFIG, {}, ""),
            (RequestCode.UPDATE_BROKER_CONFIG, {}, f"Cluster:c1 {here}, no matched policies."),
            (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0", "topic": "a1"}, f"Topic:* {here}, no matched policies."),
        ):
            wanted = said and f"User:ann has no permission to access {said}"
            self.assertEqual(self.ask(code, "ann", "annsecret", **fields), wanted)
            self.assertEqual(self.ask(code, "root", "rootsecret", **fields), "")

    def test_a_change_counts_at_once(self) -> None:
        """No verdict is kept: neither of a signature nor of a policy (regression X8)."""
        fields = {"b": "a1"}
        self.assertEqual(self.ask(RequestCode.SEND_MESSAGE_V2, "ann", "annsecret", **fields), "")
        self.assertIn("check signature", self.ask(RequestCode.SEND_MESSAGE_V2, "ann", "other", **fields))
        self.accounts = self.accounts.update("ann", {"password": "new"})
        self.assertIn("check signature", self.ask(RequestCode.SEND_MESSAGE_V2, "ann", "annsecret", **fields))
        self.accounts = self.accounts.revoke("User:ann", None, None)
        self.assertIn("no matched", self.ask(RequestCode.SEND_MESSAGE_V2, "ann", "new", **fields))

    def test_without_authorization(self) -> None:
        users = self.make(authorization_enabled=False)
        self.assertEqual(self.ask(RequestCode.UPDATE_BROKER_CONFIG, "ann", "annsecret", users), "")
        self.assertIn("signature", self.ask(RequestCode.UPDATE_BROKER_CONFIG, "ann", "x", users))

    def test_whitelists(self) -> None:
        """Each is for its half: who is not known has no rights, and a listed code opens no other (regression X8)."""
        code = RequestCode.GET_MAX_OFFSET
        users = self.make(authentication_whitelist=str(int(code)))
        self.assertEqual(
            self.ask(code, "", "", users, topic="a1"),
            f"nobody has no permission to access Topic:a1 from {_Connection.peer_host}, no matched policies.",
        )
        self.assertIn("nobody", self.ask(code, "root", "forged", users, topic="a1"))
        users = self.make(authentication_whitelist=str(int(code)), authorization_whitelist=f"{int(code)}, 310")
        self.assertEqual(self.ask(code, "", "", users, topic="a1"), "")
        self.assertIn("username", self.ask(RequestCode.SEND_MESSAGE_V2, "", "", users, b="b1"))
        self.assertEqual(self.ask(RequestCode.SEND_MESSAGE_V2, "ann", "annsecret", users, b="b1"), "")

    def test_guessing(self) -> None:
        """After many failures of one user at one address in a moment no login of his from there is looked at, then one
        now and then; others there are served."""
        code, right = RequestCode.GET_MAX_OFFSET, ("ann", "annsecret")
        for _ in range(FAILURES_AT_ONCE):
            self.assertIn("signature", self.ask(code, "ann", "guess", topic="a1"))
        self.assertIn("too many logins", self.ask(code, *right, topic="a1"))
        self.assertEqual(self.ask(code, "root", "rootsecret", topic="a1"), "")
        self.now_ms += FAILURES_EACH_MS
        self.assertEqual(self.ask(code, *right, topic="a1"), "")
        self.assertIn("signature", self.ask(code, "ann", "guess", topic="a1"))
        self.assertIn("too many logins", self.ask(code, "ann", "guess", topic="a1"))

    def test_an_old_password_beside_a_new_one(self) -> None:
        """A client that tries once a second with what was changed locks nobody out."""
        for _ in range(5 * FAILURES_AT_ONCE):
            self.now_ms += 1000
            self.assertIn("signature", self.ask(RequestCode.GET_MAX_OFFSET, "ann", "old", topic="a1"))
            self.assertEqual(self.ask(RequestCode.GET_MAX_OFFSET, "ann", "annsecret", topic="a1"), "")

    def test_only_super_users_make_users(self) -> None:
        """Whoever may change the cluster does not become one by that."""
        self.accounts = self.accounts.grant("User:ann", [entry("*", "All")])
        changes = [code for code, route in ROUTES.items() if route.supers]
        self.assertEqual(len(changes), 6)
        for code in changes:
            self.assertIn("it is for Super users", self.ask(code, "ann", "annsecret", username="ann"))
            self.assertEqual(self.ask(code, "root", "rootsecret", username="ann"), "")
        self.assertEqual(self.ask(RequestCode.AUTH_LIST_USER, "ann", "annsecret"), "")

    def test_the_topic_of_users(self) -> None:
        """Nobody sends to it, whoever he is."""
        for users in (self.users, self.make(authorization_enabled=False)):
            for code, field in ((RequestCode.SEND_MESSAGE_V2, "b"), (RequestCode.SEND_MESSAGE, "topic")):
                self.assertIn("the broker's own", self.ask(code, "root", "rootsecret", users, **{field: TOPIC}))


class KnownSendsTests(UsersCase):
    """Sends whose headers are known: whoever may send one may send the next, as long as it is signed."""

    def setUp(self) -> None:
        super().setUp()
        self.memory = HeaderMemory()
        self.connection: Any = _Connection()

    def send(
        self, secret: str = "annsecret", body: bytes = b"body", signed_body: bytes | None = None, **more: str
    ) -> Any:
        """One of ann's, as the port gives it to its judge."""
        fields = dict.fromkeys("defhjkm", "0") | {"a": "p", "b": "a1", "c": "TBW102", "g": "1700000000000"}
        fields |= {"i": "KEYS\x01k1\x02", ACCESS_KEY: "ann", **more}
        fields[SIGNATURE] = sign(secret, signed(fields, body if signed_body is None else signed_body))
        frame = remoting.encode(Command(RequestCode.SEND_MESSAGE_V2, "GO", 400, 7, 0, None, fields, body))[4:]
        return self.memory.decode(frame)

    def judge(self, command: Command) -> str:
        """What is said; empty: it is let in."""
        try:
            self.users.judge(self.connection, command, ROUTES[command.code])
        except RequestRefused as refusal:
            return str(refusal.remark)
        return ""

    def known(self) -> None:
        """Let the third of the same header be known in full."""
        for _ in range(2):
            self.assertEqual(self.judge(self.send()), "")

    def test_only_the_signature_is_judged(self) -> None:
        self.known()
        self.patch(users_module, "proven", None)
        for more in ({}, {"e": "3"}, {"g": "1800000000000"}, {"i": "KEYS\x01k2\x02UNIQ_KEY\x01%b%%\x02"}, {"i": ""}):
            command = self.send(**more, body=b"100 %")
            self.assertIsInstance(command, KnownSend)
            self.assertEqual(self.judge(command), "")

    def test_not_signed(self) -> None:
        """By ann, over what is sent; as many fail as elsewhere."""
        self.known()
        wrong = self.send(body=b"other", signed_body=b"body")
        moved = self.send()
        moved._texts = b"1", *moved._texts[1:]
        for command in (self.send("rootsecret"), wrong, moved):
            self.assertIsInstance(command, KnownSend)
            self.assertEqual(self.judge(command), "check signature failed.")
        for _ in range(FAILURES_AT_ONCE - 3):
            self.judge(self.send("guess"))
        self.assertIn("too many logins", self.judge(self.send("guess")))
        self.assertEqual(self.judge(self.send()), "")

    def test_a_change_counts_at_once(self) -> None:
        for change, said in (
            (lambda: self.accounts.update("ann", {"password": "new"}), "check signature failed."),
            (lambda: self.accounts.update("ann", {"userStatus": "disable"}), "User:ann is disabled."),
            (lambda: self.accounts.grant("User:ann", [entry("Topic:a1", "Pub", "Deny")]), "the decision is deny"),
            (lambda: self.accounts.revoke("User:ann", None, None), "no matched policies"),
            (lambda: self.accounts.delete("ann"), "User:ann is not found."),
        ):
            with self.subTest(said=said):
                before = self.accounts
                self.known()
                self.accounts = change()
                self.assertIn(said, self.judge(self.send()))
                self.accounts = before

    def test_from_elsewhere(self) -> None:
        """A policy may be for some addresses."""
        policy = entry("Topic:a1", "Pub", "Allow", "10.1.0.0/16")
        self.accounts = self.accounts.revoke("User:ann", None, None).grant("User:ann", [policy])
        self.known()
        self.connection = _Connection()
        self.connection.peer_host = "10.2.0.1"
        self.assertIn("no matched policies", self.judge(self.send()))

    def test_a_stamp_that_comes_with_a_queue(self) -> None:
        """It may have been served before, so it is judged as others are."""
        self.accounts = Accounts().create("r", {"password": "s", "userType": "Super"})

        def cut(queue: str) -> Any:
            return self.send("s", **{ACCESS_KEY: "r", "a": "ocketha", "b": "/", "c": "", "d": "", "e": queue, "f": " "})

        for queue, said in (("2", ""), ("2", ""), ("3", ""), ("1", "the stamp cannot be read.")):
            self.assertEqual(self.judge(cut(queue)), said)


class StampedTests(UsersCase):
    """What these users' clients stamp; what they do not is as ever."""

    def stamped(self, number: int = 1, time_ms: int | None = None) -> Command:
        signer = Signer(
            Credentials("ann", "annsecret"),
            lambda: self.wall_ms if time_ms is None else time_ms,
            lambda: number.to_bytes(NONCE_BYTES),
        )
        code = RequestCode.GET_MAX_OFFSET
        return Command(code, fields=signer.sign(code, {"topic": "a1"}, b""))

    def judge(self, command: Command) -> str:
        connection: Any = _Connection()
        try:
            self.users.judge(connection, command, ROUTES[command.code])
        except RequestRefused as refusal:
            return f"{int(refusal.code)} {refusal.remark}"
        return ""

    def pass_on(self, command: Command) -> str:
        try:
            self.users.passed_on(command)
        except RequestRefused as refusal:
            return f"{int(refusal.code)} {refusal.remark}"
        return ""

    def test_a_new_master(self) -> None:
        """It does not know what the one before served, and says so in a way after which clients sign again."""
        self.wall_ms += 1000
        before = self.stamped()
        self.users.role_changed(Role.SLAVE)
        self.assertEqual(self.judge(before), "")
        self.users.role_changed(Role.MASTER)
        self.assertEqual(self.judge(self.stamped(2)), "2 signed before this broker began to serve: sign it again.")
        self.wall_ms += 1
        self.assertEqual(self.judge(self.stamped(2)), "")

    def test_passed_on(self) -> None:
        """Through another replica nothing is served a second time either, by whichever master."""
        self.wall_ms += 1000
        first, second = self.stamped(1), self.stamped(2)
        self.assertEqual(self.judge(first), "")
        self.assertEqual(self.pass_on(second), "")
        for again in (first, second):
            self.assertEqual(self.pass_on(again), "16 this request was sent before.")
        self.assertEqual(self.judge(second), "16 this request was sent before.")
        self.users.role_changed(Role.MASTER)
        self.assertEqual(self.pass_on(self.stamped(3)), "2 signed before this broker began to serve: sign it again.")
        self.assertEqual(self.pass_on(Command(RequestCode.GET_MAX_OFFSET, fields={"topic": "a1"})), "")
        bad = Command(RequestCode.GET_MAX_OFFSET, fields={FIELD: "\ud800"})
        self.assertEqual(self.pass_on(bad), "16 the stamp cannot be read.")

    def test_after_a_wait(self) -> None:
        """What was let in is let in again, as long as nobody else was master when it was signed."""

        def again(command: Command) -> str:
            try:
                self.users.after_wait(command)
            except RequestRefused as refusal:
                return f"{int(refusal.code)} {refusal.remark}"
            return ""

        self.wall_ms += 1000
        command, unstamped = self.stamped(), Command(RequestCode.GET_MAX_OFFSET, fields={"topic": "a1"})
        self.assertEqual(self.judge(command), "")
        for role, said in (
            (Role.SLAVE, ""),
            (Role.MASTER, "2 signed before this broker began to serve: sign it again."),
        ):
            self.users.role_changed(role)
            self.assertEqual(again(command), said)
            self.assertEqual(again(unstamped), "")
        self.assertEqual(
            again(Command(RequestCode.GET_MAX_OFFSET, fields={FIELD: "x"})), "16 the stamp cannot be read."
        )

    def test_passed_on_with_the_forwarders_fields(self) -> None:
        """They are not signed, and belong to no layout."""
        self.wall_ms += 1000
        command = self.stamped()
        command.fields.update({MARK: "10.0.0.1:10911", EPOCH_MARK: "3"})
        self.assertEqual(self.pass_on(command), "")
        self.assertEqual(self.pass_on(command), "16 this request was sent before.")

    def forged(self, name: str, number: int = 1) -> Command:
        fields = {**self.stamped(number).fields, ACCESS_KEY: name}
        return Command(RequestCode.GET_MAX_OFFSET, fields=fields)

    def test_passed_on_from_a_white_address(self) -> None:
        """A stamp that no user signed is not remembered: whoever is named there, known or not, feels nothing."""
        self.patch(_Book, "has_white", True)
        self.wall_ms += 1000
        for number in range(100):
            for name in ("root", f"nobody{number}"):
                self.assertEqual(self.pass_on(self.forged(name, number)), "")
        self.assertEqual((self.users._replays.count, len(self.users._replays._users)), (0, 0))
        self.assertEqual(self.pass_on(self.stamped()), "")
        self.assertEqual(self.pass_on(self.stamped()), "16 this request was sent before.")

    def test_passed_on_and_not_signed(self) -> None:
        """Without white addresses a replica lets none in, unless it has other users than the master."""
        self.wall_ms += 1000
        for name in ("root", "nobody"):
            self.assertEqual(self.pass_on(self.forged(name)), "16 check signature failed.")
        self.assertEqual(self.users._replays.count, 0)

    def test_passed_on_as_another_request(self) -> None:
        self.wall_ms += 1000
        other = Command(RequestCode.GET_MIN_OFFSET, fields=self.stamped().fields)
        self.assertEqual(self.pass_on(other), "16 signed as a request 30, sent as 31.")

    def test_passed_on_unsigned(self) -> None:
        """Of a code that everybody may ask no replica has seen who sent it: nobody uses up another's nonces by that."""
        self.wall_ms += 1000
        self.users = self.make(authentication_whitelist=str(int(RequestCode.GET_MAX_OFFSET)))
        for _ in range(2):
            self.assertEqual(self.pass_on(self.stamped()), "")

    def test_replaying_is_guessing(self) -> None:
        """It is limited as failed logins are."""
        self.wall_ms += 1000
        command = self.stamped()
        self.assertEqual(self.judge(command), "")
        for _ in range(FAILURES_AT_ONCE):
            self.assertEqual(self.judge(command), "16 this request was sent before.")
        self.assertIn("too many logins", self.judge(command))

    def test_a_failure_of_ours_is_none_of_theirs(self) -> None:
        """What is to be signed again does not count as a failed login."""
        for _ in range(2 * FAILURES_AT_ONCE):
            self.assertIn("2 signed before", self.judge(self.stamped()))
        self.wall_ms += 1
        self.assertEqual(self.judge(self.stamped()), "")
