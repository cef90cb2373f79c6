"""Users of a broker: made by request, kept in its log and its files, judged by at once; and never shown."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import attrs

from rocketha.access.accounts import TOPIC, Accounts, User
from rocketha.access.signature import sign, signed
from rocketha.access.signer import Credentials
from rocketha.errors import ConfigError, RemoteProtocolError
from rocketha.services.access.accounts_log import FILE, Version
from rocketha.services.access.vault import MAGIC, Vault
from rocketha.services.broker.service import BrokerService
from rocketha.services.config.loading import describe, load_broker
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.services.broker_case import CONFIG, BrokerCase, Client, pull_fields, records, send_fields

ROOT = ("root", "root-secret")
ANN = ("ann", "ann-secret")
SECRETS = (b"root-secret", b"ann-secret", b"a secret of the group")


def secret_file(text: bytes = b"a secret of the group") -> str:
    handle, path = tempfile.mkstemp()
    with os.fdopen(handle, "wb") as file:
        file.write(text)
    return path


class AccountsCase(BrokerCase):
    """A broker with a Super user."""

    def setUp(self) -> None:
        path = secret_file()
        self.addCleanup(os.remove, path)
        user = json.dumps({"username": ROOT[0], "password": ROOT[1]})
        self.config = "authenticationEnabled=true\nauthorizationEnabled=true\n"
        self.config += f"authSecretFile={path}\ninitAuthenticationUser={user}\n"
        super().setUp()
        self.advance(1)

    def ask(
        self, code: int, fields: dict[str, str] | None = None, body: Any = None, who: tuple[str, str] = ROOT,
        client: Client | None = None,
    ) -> Command:  # fmt: skip
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {**(fields or {}), "AccessKey": who[0]}
        given["Signature"] = sign(who[1], signed(given, data))
        client = client or self.connect()
        client.say(client.command(code, given, data))
        self.advance(0.2)
        (answer,) = [said for said in client.heard() if said.is_response]
        return answer

    def ok(self, code: int, fields: dict[str, str], body: Any = None) -> Command:
        answer = self.ask(code, fields, body)
        self.assertEqual((answer.code, answer.remark), (0, None))
        return answer

    def make_ann(self) -> None:
        self.ok(RequestCode.AUTH_CREATE_USER, {"username": "ann"}, {"username": "ann", "password": ANN[1]})
        entries = [{"resource": "Topic:T*", "actions": ["Pub", "Sub"], "decision": "Allow"}]
        entries += [{"resource": "Group:*", "actions": ["Sub"], "decision": "Allow"}]
        self.ok(RequestCode.AUTH_CREATE_ACL, {"subject": "User:ann"}, {"policies": [{"entries": entries}]})

    def may_send(self, who: tuple[str, str], topic: str = "T1") -> int:
        return self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(topic), b"body", who).code


class RequestTests(AccountsCase):
    """3001 to 3010."""

    def test_a_life(self) -> None:
        self.assertEqual(self.may_send(ANN), ResponseCode.NO_PERMISSION)
        self.make_ann()
        self.assertEqual(self.may_send(ANN), 0)
        self.assertEqual(self.may_send(ANN, "U1"), ResponseCode.NO_PERMISSION)
        self.ok(RequestCode.AUTH_UPDATE_USER, {"username": "ann"}, {"userStatus": "disable"})
        self.assertEqual(self.may_send(ANN), ResponseCode.NO_PERMISSION)
        self.ok(RequestCode.AUTH_UPDATE_USER, {"username": "ann"}, {"userStatus": "enable"})
        self.assertEqual(self.may_send(ANN), 0)
        shown = json.loads(self.ok(RequestCode.AUTH_GET_USER, {"username": "ann"}).body)
        self.assertEqual(shown, {"username": "ann", "userType": "Normal", "userStatus": "enable"})
        names = [each["username"] for each in json.loads(self.ok(RequestCode.AUTH_LIST_USER, {}).body)]
        self.assertEqual(names, ["ann", "root"])
        (acl,) = json.loads(self.ok(RequestCode.AUTH_LIST_ACL, {}).body)
        self.assertEqual(json.loads(self.ok(RequestCode.AUTH_GET_ACL, {"subject": "User:ann"}).body), acl)
        self.ok(RequestCode.AUTH_DELETE_ACL, {"subject": "User:ann", "resource": "Topic:T*"})
        self.assertEqual(self.may_send(ANN), ResponseCode.NO_PERMISSION)
        self.ok(RequestCode.AUTH_DELETE_USER, {"username": "ann"})
        self.assertEqual(self.ok(RequestCode.AUTH_GET_USER, {"username": "ann"}).body, b"")
        self.assertEqual(self.ok(RequestCode.AUTH_GET_ACL, {"subject": "User:ann"}).body, b"")
        self.assertEqual(self.ok(RequestCode.AUTH_LIST_ACL, {}).body, b"")

    def test_refused(self) -> None:
        self.make_ann()
        denied, wrong, failed = ResponseCode.NO_PERMISSION, ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR
        for code, fields, body, answer, text in (
            (RequestCode.AUTH_CREATE_USER, {"username": "ann"}, {"password": "x"}, denied, "The user is existed"),
            (RequestCode.AUTH_CREATE_USER, {"username": "bob"}, {}, denied, "The password is blank"),
            (RequestCode.AUTH_CREATE_USER, {}, {"password": "x"}, wrong, "The username is blank"),
            (RequestCode.AUTH_CREATE_USER, {"username": "bob"}, b"[", failed, "body"),
            (RequestCode.AUTH_CREATE_USER, {"username": "bob"}, None, failed, "no body"),
            (RequestCode.AUTH_UPDATE_USER, {"username": "bob"}, {"password": "x"}, denied, "The user is not exist"),
            (RequestCode.AUTH_CREATE_ACL, {"subject": "User:bob"}, {"policies": []}, denied, "is not exist"),
            (RequestCode.AUTH_CREATE_ACL, {"subject": "User:ann"}, {"policies": [1]}, failed, "policies"),
            (RequestCode.AUTH_CREATE_ACL, {"subject": "User:ann"}, {"policies": [{}, {}, {}]}, failed, "policies"),
            (RequestCode.AUTH_CREATE_ACL, {"subject": "Role:x"}, {"policies": []}, failed, "system error"),
            (RequestCode.AUTH_CREATE_ACL, {"subject": "User:ann"}, {"policies": [{"entries": [{}]}]}, denied, "resou"),
        ):  # fmt: skip
            said = self.ask(code, fields, body)
            self.assertEqual(said.code, answer, text)
            self.assertIn(text, said.remark or "")

    def test_only_who_may(self) -> None:
        self.make_ann()
        for code in range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1):
            said = self.ask(code, {"username": "ann", "subject": "User:ann"}, {"userType": "Super"}, ANN)
            self.assertEqual(said.code, ResponseCode.NO_PERMISSION)
            self.assertIn("no permission to access", said.remark or "")

    def test_unsigned(self) -> None:
        """Every code that is served, on both ports."""
        for fast in (False, True):
            client = self.connect(fast)
            for code in self.broker.dispatcher.table:
                said = client.ask(code, send_fields())
                if not fast or code not in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
                    self.assertEqual(said.code, ResponseCode.NO_PERMISSION, code)

    def test_two_at_once(self) -> None:
        """One after the other: none is lost."""
        first, second = self.connect(), self.connect()
        for work in self.works:
            work.held = True
        for client, name in ((first, "a"), (second, "b")):
            body = json.dumps({"password": "x"}).encode()
            given = {"username": name, "AccessKey": ROOT[0]}
            given["Signature"] = sign(ROOT[1], signed(given, body))
            client.say(client.command(RequestCode.AUTH_CREATE_USER, given, body))
        for work in self.works:
            work.held = False
            work.let_go()
        self.advance(1)
        for work in self.works:
            work.let_go()
        self.assertEqual([each.code for client in (first, second) for each in client.heard()], [0, 0])
        names = [each["username"] for each in json.loads(self.ok(RequestCode.AUTH_LIST_USER, {}).body)]
        self.assertEqual(names, ["a", "b", "root"])


class BuiltInTests(AccountsCase):
    """Users that the configuration names."""

    def test_another_password_there(self) -> None:
        """It counts at the next start: the old one is not stored."""
        self.make_ann()
        self.stop()
        self.config = self.config.replace(ROOT[1], "another-secret")
        self.service = self.start()
        self.advance(1)
        self.assertEqual(self.may_send(ROOT), ResponseCode.NO_PERMISSION)
        self.assertEqual(self.may_send((ROOT[0], "another-secret")), 0)
        self.assertEqual(self.may_send(ANN), 0)

    def test_not_deleted(self) -> None:
        said = self.ask(RequestCode.AUTH_DELETE_USER, {"username": "root"})
        self.assertEqual((said.code, said.remark), (16, "User:root stands in the broker's configuration."))

    def test_changed(self) -> None:
        self.ok(RequestCode.AUTH_UPDATE_USER, {"username": "root"}, {"password": "changed"})
        self.assertEqual(self.may_send(ROOT), ResponseCode.NO_PERMISSION)
        self.assertEqual(self.may_send(("root", "changed")), 0)


class OtherMessagesTests(AccountsCase):
    """Requests that name a message by its place: it must be one of the topic that they name."""

    def test_sent_back(self) -> None:
        self.make_ann()
        secret = self.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Secret"), b"hidden")
        self.assertEqual(self.may_send(ANN), 0)
        offset = int((secret.fields or {})["msgId"][-16:], 16)
        fields = {"offset": str(offset), "group": "g", "delayLevel": "0", "unitMode": "false"}
        for more in ({}, {"originTopic": "T1"}, {"originTopic": "Secret"}):
            said = self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {**fields, **more}, b"", ANN)
            self.assertEqual(said.code, ResponseCode.NO_PERMISSION, more)
        said = self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {**fields, "originTopic": "Secret"})
        self.assertEqual(said.code, 0)

    def test_looked_at(self) -> None:
        self.make_ann()
        for more in ({}, {"topic": "T1"}, {"": "%RETRY%g"}):
            said = self.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0", **more}, b"", ANN)
            self.assertEqual(said.code, ResponseCode.NO_PERMISSION, more)


class KeptTests(AccountsCase):
    """Over starts and crashes; where the messages have expired, too."""

    def test_over_a_stop(self) -> None:
        self.make_ann()
        self.stop()
        self.service = self.start()
        self.advance(1)
        self.assertEqual(self.may_send(ANN), 0)

    def test_without_the_file(self) -> None:
        """As on a replica that has the log alone."""
        self.make_ann()
        self.stop()
        for name in (FILE, f"{FILE}.bak"):
            if self.disk.exists(f"/store/config/{name}"):
                self.disk.remove(f"/store/config/{name}")
        self.service = self.start()
        self.advance(1)
        self.assertEqual(self.may_send(ANN), 0)

    def test_the_messages_have_expired(self) -> None:
        """The file has it, and a master puts it into the log again."""
        self.make_ann()
        ends = self.broker.store.max_offset(TOPIC, 0)
        self.patch(self.broker.store, "min_offset", lambda topic, number: ends)
        self.advance(2)
        self.assertEqual(self.broker.store.max_offset(TOPIC, 0), ends + 1)
        self.assertEqual(self.may_send(ANN), 0)

    def test_another_secret(self) -> None:
        """It does not start: users would be lost."""
        self.make_ann()
        self.stop()
        other = secret_file(b"another secret of it")
        self.addCleanup(os.remove, other)
        path = self.config.partition("authSecretFile=")[2].partition("\n")[0]
        loaded = load_broker((CONFIG + self.config.replace(path, other)).encode(), environment={"HOME": "/home"})
        ends: list[str] = []
        broker = BrokerService(loaded.config, attrs.evolve(self.platform(), on_fatal=ends.append))
        broker.startService()
        self.assertIn("sealed with another authSecretFile", ends[0])
        self.successResultOf(broker.stopService())


class SecretTests(AccountsCase):
    """X2, X12, X13: in no answer, in no file as it is."""

    def test_no_secret_anywhere(self) -> None:
        self.make_ann()
        self.may_send(ANN)
        answers = []
        for code in self.broker.dispatcher.table:
            fields = {**send_fields("T1"), "topic": "T1", "consumerGroup": "g", "group": "g", "username": "ann"}
            fields |= {"subject": "User:ann", "queueId": "0", "offset": "0", "statsName": "x", "statsKey": "y"}
            client = self.connect()
            given = {**fields, "AccessKey": ROOT[0]}
            given["Signature"] = sign(ROOT[1], signed(given, b"{}"))
            client.say(client.command(code, given, b"{}"))
            answers += client.heard()
        self.assertGreater(len(answers), 50)
        said = b"".join(each.body + (each.remark or "").encode() + repr(each.fields).encode() for each in answers)
        for secret in SECRETS:
            self.assertNotIn(secret, said)
            self.assertNotIn(secret, describe(self.broker.core.config))
        self.advance(10)
        self.stop()
        files = list(self.files("/store"))
        self.assertIn(f"/store/config/{FILE}", files)
        for path in files:
            data = self.disk.read_all(path, 1 << 30)
            for secret in SECRETS:
                self.assertNotIn(secret, data, path)

    def files(self, folder: str) -> Iterator[str]:
        for name in self.disk.list(folder):
            path = f"{folder}/{name}"
            if self.disk.is_dir(path):
                yield from self.files(path)
            else:
                yield path

    def test_a_consumer_of_that_topic(self) -> None:
        """Who may read every topic sees sealed bytes."""
        self.make_ann()
        answer = self.ask(RequestCode.PULL_MESSAGE, pull_fields(TOPIC))
        found = records(answer)
        self.assertEqual(len(found), 2)
        for each in found:
            self.assertTrue(bytes(each.body).startswith(MAGIC))
            self.assertFalse(any(secret in bytes(each.body) for secret in (*SECRETS, b"ann")))

    def put(self, body: bytes) -> None:
        """A message in that topic, whoever sent it: by the broker's own way, since ports take none."""
        answer = self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(TOPIC), body)
        self.assertEqual(answer.code, ResponseCode.NO_PERMISSION)
        putting = self.log.messages.put(TOPIC, body, queue_id=0)
        self.advance(0.2)
        placed = self.successResultOf(putting)
        self.assertEqual(placed.status, 0)

    @property
    def log(self) -> Any:
        return self.broker.accounts_log

    def test_forged(self) -> None:
        """Nothing but the group's secret seals; and whoever looks at the broker hears of what cannot be read."""
        self.make_ann()
        self.assertIsNone(self.log.unready())
        self.put(Vault(b"some other secret").seal(b"\0\0\0\2{}{}"))
        self.assertEqual(self.may_send(ANN), 0)
        self.assertIn("another authSecretFile", self.log.unready())
        self.ok(RequestCode.AUTH_UPDATE_USER, {"username": "ann"}, {"userStatus": "disable"})
        self.assertEqual(self.may_send(ANN), ResponseCode.NO_PERMISSION)
        self.assertIsNone(self.log.unready())

    def test_sent_again(self) -> None:
        """An older state, sent again, is older than the present one."""
        self.make_ann()
        old = bytes(records(self.ask(RequestCode.PULL_MESSAGE, pull_fields(TOPIC)))[0].body)
        self.ok(RequestCode.AUTH_DELETE_USER, {"username": "ann"})
        self.put(old)
        self.assertEqual(self.may_send(ANN), ResponseCode.NO_PERMISSION)

    def test_any_order_comes_to_the_same(self) -> None:
        """Of two states that changed the same one, all replicas take the later, from wherever they begin to read."""
        states = [Accounts({name: User(name, "p")}) for name in ("a", "b", "c")]
        versions = [Version(1, 10), Version(2, 20), Version(2, 15)]
        sealed = [self.log.sealed(version, state) for version, state in zip(versions, states, strict=True)]
        for body in sealed:
            self.put(body)
        self.assertIn("b", self.log.accounts.users)
        self.assertNotIn("c", self.log.accounts.users)
        self.ok(RequestCode.AUTH_CREATE_USER, {"username": "d"}, {"password": "x"})
        self.assertEqual(sorted(self.log.accounts.users), ["b", "d", "root"])


class VaultTests(BrokerCase):
    """The seal."""

    def test_seal(self) -> None:
        vault = Vault(b"s" * 16)
        sealed = vault.seal(b"data")
        self.assertEqual(vault.open(sealed), b"data")
        self.assertNotEqual(sealed, vault.seal(b"data"))
        for wrong in (b"", MAGIC, sealed[:-1], sealed[:25] + b"x" + sealed[26:], b"x" + sealed, sealed + b"x"):
            with self.assertRaises(RemoteProtocolError):
                vault.open(wrong)
        with self.assertRaisesRegex(RemoteProtocolError, "another authSecretFile"):
            Vault(b"t" * 16).open(sealed)


class ConfigTests(BrokerCase):
    """X7, X15: whole or not at all."""

    def refused(self, text: str, words: str) -> None:
        with self.assertRaisesRegex(ConfigError, words):
            load_broker(text.encode(), environment={"HOME": "/home"})

    def test_halves(self) -> None:
        path = secret_file()
        self.addCleanup(os.remove, path)
        user = 'initAuthenticationUser={"username":"root","password":"x"}\n'
        on, whole = "authenticationEnabled=true\n", f"authSecretFile={path}\n"
        self.refused("authorizationEnabled=true", "needs authenticationEnabled=true")
        self.refused(on + user, "needs authSecretFile")
        self.refused(on + whole, "without initAuthenticationUser")
        self.refused(on + whole + "initAuthenticationUser={}", "initAuthenticationUser: .* is wanted")
        self.refused("innerClientAuthenticationCredentials=x", "innerClientAuthenticationCredentials: .* is wanted")
        self.refused(on + whole + user + "authenticationWhitelist=a", "request codes")
        replicas = "enableControllerMode=true\ncontrollerAddr=127.0.0.1:9\n"
        self.refused(on + whole + user + replicas, "needs tls.identities=required")
        self.refused("aclEnable=true", "ACL 1")
        self.refused("migrateAuthFromV1Enabled=true", "ACL 1")
        os.chmod(path, 0o644)
        self.refused(on + whole + user, path)
        os.chmod(path, 0o600)
        short = secret_file(b"short")
        self.addCleanup(os.remove, short)
        self.refused(f"{on}{user}authSecretFile={short}\n", "holds 5 bytes")
        for more in (
            "",
            "authorizationEnabled=true\n",
            'innerClientAuthenticationCredentials={"accessKey":"a","secretKey":"b"}\n',
        ):
            config = load_broker((on + whole + user + more).encode(), environment={"HOME": "/home"}).config
            self.assertNotIn(b"password", describe(config))
        self.assertEqual(config.access.credentials, Credentials("a", "b"))
        self.assertIsNone(load_broker(b"", environment={"HOME": "/home"}).config.access.credentials)
        self.refused("signedTimeRequired=some", "none or super or all")
        self.refused("signedTimeWindow=0", "1 to 3600")
