"""A broker with accounts of ACL 1: who is let in, by signature or from a white address; rules that change with their
file; and accounts that become users of ACL 2."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any

from twisted.internet import defer
from twisted.logger import globalLogPublisher

from rocketha.access.accounts import TOPIC, Accounts
from rocketha.access.policies import Refused
from rocketha.access.routes import Asker
from rocketha.access.signature import sign, signed
from rocketha.broker.routes import ROUTES
from rocketha.services.access.acl_1 import AGAIN_S, LOOK_S, Migration
from rocketha.services.config.loading import describe
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.services.access.test_proxies import Through, header
from tests.services.broker_case import BrokerCase, Client, heartbeat, pull_fields, send_fields

ADMIN, SHOP, FREE = ("admin-1", "admin-secret"), ("shop-01", "shop-secret"), ("free-01", "free-secret")
SECRETS = tuple(secret.encode() for _, secret in (ADMIN, SHOP, FREE))
RULES = """
globalWhiteRemoteAddresses:
- 10.7.*.*
- fd00::5
accounts:
- {accessKey: admin-1, secretKey: admin-secret, admin: true}
- accessKey: shop-01
  secretKey: shop-secret
  defaultTopicPerm: SUB
  topicPerms: [orders=PUB|SUB, audit=PUB, bills=DENY]
  groupPerms: [shop=SUB]
- {accessKey: free-01, secretKey: free-secret, whiteRemoteAddress: "10.8.0.{1,2}"}
"""


class FilesCase(BrokerCase):
    """With a plain_acl.yml."""

    keys = "aclEnable=true\n"
    rules = RULES

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "plain_acl.yml")
        self.write(self.rules)
        self.config = f"{self.keys}aclFiles={self.path}\n"
        self.logged: list[Any] = []
        globalLogPublisher.addObserver(self.logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.logged.append)
        super().setUp()
        self.advance(1.5)

    def write(self, text: str) -> None:
        other = self.path.with_name("new")
        other.write_text(text)
        other.chmod(0o600)
        other.rename(self.path)

    def said(self, *levels: str) -> list[str]:
        """Lines of the log about ACL 1."""
        return [
            each["log_format"].format(**each)
            for each in self.logged
            if each["log_level"].name in levels and "ACL 1" in each.get("log_format", "")
        ]

    def ask(
        self, code: int, fields: dict[str, str], who: tuple[str, str] | None = SHOP, host: str = "10.0.0.9",
        body: bytes = b"", client: Client | None = None,
    ) -> Command:  # fmt: skip
        given = dict(fields)
        if who is not None:
            given["AccessKey"] = who[0]
            if who[1]:
                given["Signature"] = sign(who[1], signed(given, body))
        client = client or self.connect(host=host)
        client.say(client.command(code, given, body))
        self.advance(0.2)
        (answer,) = [said for said in client.heard() if said.is_response]
        return answer

    def send_code(self, topic: str, who: tuple[str, str] | None = SHOP, host: str = "10.0.0.9") -> int:
        return self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(topic), who, host, b"body").code

    def pull_code(self, topic: str, group: str, who: tuple[str, str] | None = SHOP, host: str = "10.0.0.9") -> int:
        return self.ask(RequestCode.PULL_MESSAGE, pull_fields(topic, consumerGroup=group), who, host).code


TAKEN_S = 2 * LOOK_S + 1
"""Two looks have found a change."""
NO, OK = ResponseCode.NO_PERMISSION, 0


class LoginTests(FilesCase):
    """By signature."""

    def test_who_may_what(self) -> None:
        for topic, code in (("orders", OK), ("audit", OK), ("bills", NO), ("other", NO)):
            self.assertEqual(self.send_code(topic), code, topic)
            self.assertEqual(self.send_code(topic, ADMIN), OK, topic)
        for topic, group, code in (
            ("orders", "shop", OK), ("audit", "shop", NO), ("bills", "shop", NO), ("other", "shop", OK),
            ("orders", "g", NO), ("%RETRY%shop", "shop", OK),
        ):  # fmt: skip
            self.assertEqual(self.pull_code(topic, group) == NO, code == NO, (topic, group))
        beat = heartbeat("c", "shop", "orders")
        self.assertEqual(self.ask(RequestCode.HEART_BEAT, {}, body=beat).code, OK)
        self.assertEqual(self.ask(RequestCode.HEART_BEAT, {}, body=heartbeat("c", "g", "orders")).code, NO)
        self.assertEqual(self.send_code("RMQ_SYS_TRACE_TOPIC", FREE), OK)

    def test_strangers(self) -> None:
        for who, words in (
            (None, "username cannot be null."),
            (("nobody1", "x"), "User:nobody1 is not found."),
            (("shop-01", "admin-secret"), "check signature failed."),
            (("admin-1", ""), "check signature failed."),
            (("free-01", ""), "check signature failed."),
        ):
            said = self.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), who)
            self.assertEqual((said.code, said.remark), (NO, words))

    def test_every_code(self) -> None:
        """Unsigned, none is let in; of an account that is no admin, none that is an operator's or another server's."""
        for code in self.broker.dispatcher.table:
            self.assertEqual(self.ask(code, send_fields("orders"), None, body=b"{}").code, NO, code)
            if ROUTES[code].asker is not Asker.CLIENT:
                fields = {"topic": "other", "group": "other", "consumerGroup": "other", "groupName": "other"}
                self.assertEqual(self.ask(code, fields, body=b"{}").code, NO, code)

    def test_no_secret_is_shown(self) -> None:
        answers = [
            self.ask(code, send_fields("orders"), ADMIN, body=b"{}")
            for code in (RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.AUTH_LIST_USER)
        ]
        said = b"".join(each.body + (each.remark or "").encode() + repr(each.fields).encode() for each in answers)
        said += describe(self.broker.core.config) + repr(self.broker.core.config).encode() + repr(self.logged).encode()
        for secret in SECRETS:
            self.assertNotIn(secret, said)

    def test_requests_of_acl_1_and_2_about_accounts(self) -> None:
        """The file alone says who is there; 50 to 54, which showed every secret, are not served."""
        for code in range(50, 55):
            self.assertEqual(self.ask(code, {}, ADMIN).code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        said = self.ask(RequestCode.AUTH_CREATE_USER, {"username": "x"}, ADMIN, body=b'{"password":"x"}')
        self.assertEqual(said.code, ResponseCode.SYSTEM_ERROR)


class WhiteAddressTests(FilesCase):
    """Without a signature."""

    def test_clients(self) -> None:
        """From a white address they may send and consume whatever they like; the address is the connection's own."""
        for who, host, code in (
            (None, "10.7.1.2", OK),
            (("nobody1", "x"), "10.7.1.2", OK),
            (None, "fd00::5", OK),
            (None, "::ffff:10.7.1.2", OK),
            (None, "fd00::6", NO),
            (None, "10.6.1.2", NO),
            (("free-01", ""), "10.8.0.2", OK),
            (("free-01", "wrong"), "10.8.0.1", OK),
            (("free-01", ""), "10.8.0.3", NO),
            (("shop-01", ""), "10.8.0.2", NO),
            (None, "10.8.0.2", NO),
        ):
            self.assertEqual(self.send_code("bills", who, host), code, (who, host))
            self.assertEqual(self.pull_code("bills", "any", who, host) == NO, code == NO, (who, host))
        for fields in ({"bornHost": "10.7.1.2"}, {"AccessKey": "10.7.1.2"}, {"whiteRemoteAddress": "10.7.1.2"}):
            client = self.connect(host="10.6.1.2")
            self.assertEqual(client.ask(RequestCode.SEND_MESSAGE_V2, {**send_fields("bills"), **fields}).code, NO)

    def test_the_topic_of_users(self) -> None:
        """Nobody sends there, wherever he is."""
        for who, host in ((None, "10.7.1.2"), (ADMIN, "10.0.0.9")):
            said = self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(TOPIC), who, host, b"body")
            self.assertEqual((said.code, said.remark), (NO, f"the topic[{TOPIC}] is the broker's own"))

    def test_nobody_else(self) -> None:
        """What operators, other servers and plug-ins' clients ask needs a signature from everywhere."""
        free = 0
        for code in self.broker.dispatcher.table:
            route, unsigned = ROUTES[code], self.ask(code, {}, None, "10.7.1.2", b"{}")
            free += route.clients_alone
            if route.asker is not Asker.CLIENT:
                self.assertFalse(route.clients_alone)
            self.assertEqual(unsigned.code == NO and unsigned.remark == "username cannot be null.",
                             not route.clients_alone, (code, unsigned.code, unsigned.remark))  # fmt: skip
            named = self.ask(code, {}, ("free-01", ""), "10.8.0.1", b"{}")
            self.assertEqual(named.remark == "check signature failed.", not route.clients_alone, code)
        self.assertGreater(free, 15)
        fields = {"topic": "new", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
                  "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}  # fmt: skip
        self.assertEqual(self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, ADMIN, "10.7.1.2").code, OK)
        self.assertEqual(self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, SHOP, "10.7.1.2").code, NO)


class ProxyTests(FilesCase):
    """A proxy at a white address."""

    keys = "aclEnable=true\nproxyProtocolNetworks=10.7.0.9\ninsecureNetwork=true\n"

    def test_nobody_behind_it(self) -> None:
        """It only says where he is: no address counts, neither that nor its own; signatures do."""
        (factory,) = (each[1] for each in self.clock.tcpServers if each[0] == 10911)
        for host, begin, topic, who, code in (
            ("10.7.0.9", header("10.7.1.2"), "bills", None, NO),
            ("10.7.0.9", header(""), "bills", None, NO),
            ("10.7.0.9", header("10.8.0.1"), "bills", ("free-01", ""), NO),
            ("10.7.0.9", header("10.7.1.2"), "orders", SHOP, OK),
            ("10.7.1.2", b"", "bills", None, OK),
        ):
            client = Through(factory, host, begin)
            said = self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(topic), who, body=b"body", client=client)
            self.assertEqual(said.code, code, (begin, topic))


class ReloadTests(FilesCase):
    """While it runs."""

    def metric(self, name: str) -> float:
        (line,) = [line for line in self.broker.core.metrics.exposition().splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[1])

    def test_a_change(self) -> None:
        """Counts within 10 s, on open connections too."""
        self.assertEqual(self.send_code("bills"), NO)
        self.write(RULES.replace("bills=DENY", "bills=PUB"))
        self.assertEqual(self.send_code("bills"), NO)
        self.advance(TAKEN_S)
        self.assertEqual(self.send_code("bills"), OK)
        self.write(RULES.replace("shop-secret", "other-secret").replace("10.7.*.*", "10.9.*.*"))
        self.assertEqual(self.send_code("bills", None, "10.7.1.2"), OK)
        self.advance(TAKEN_S)
        self.assertEqual(self.send_code("orders"), NO)
        self.assertEqual(self.send_code("orders", ("shop-01", "other-secret")), OK)
        self.assertEqual(self.send_code("bills", None, "10.7.1.2"), NO)
        self.assertEqual(self.send_code("bills", None, "10.9.1.2"), OK)
        self.assertEqual(self.metric("rocketha_acl_file_reloads_total"), 2)
        self.assertEqual(len([line for line in self.said("info") if "3 accounts are in use" in line]), 3)

    def test_half_a_file(self) -> None:
        """Somebody writes it where it is, and needs a while."""
        new = RULES.replace("audit=PUB, bills=DENY]", "audit=PUB,\n   bills=DENY]").replace(
            "TopicPerm: SUB", "TopicPerm: PUB"
        )
        with self.path.open("w") as file:
            for line in new.splitlines(keepends=True):
                file.write(line)
                file.flush()
                self.advance(4)
                self.assertEqual((self.send_code("orders"), self.send_code("bills")), (OK, NO))
        self.advance(TAKEN_S)
        self.assertEqual((self.send_code("orders"), self.send_code("bills"), self.send_code("other")), (OK, NO, OK))
        self.assertEqual(self.metric("rocketha_acl_file_reloads_total"), 1)
        self.assertEqual(self.said("error"), [])

    def test_a_bad_file(self) -> None:
        """The old rules stay; the log says it once, the metric as long as it is so."""
        for text in (RULES + "[", "", RULES.replace("10.7.*.*", "10.7.*")):
            self.write(text)
            self.advance(3 * LOOK_S)
            self.assertEqual((self.send_code("orders"), self.send_code("bills")), (OK, NO))
            self.assertEqual(self.metric("rocketha_acl_files_broken"), 1)
        self.path.unlink()
        self.advance(2 * LOOK_S)
        self.assertEqual((self.send_code("orders"), self.send_code("bills")), (OK, NO))
        errors = self.said("error")
        self.assertEqual(len(errors), 4, errors)
        for error in errors:
            self.assertIn(f"ACL 1: the old rules stay in use: {self.path}", error)
        self.assertIsNone(self.service.healthy())
        self.write(RULES)
        self.advance(TAKEN_S)
        self.assertEqual(self.metric("rocketha_acl_files_broken"), 0)
        self.assertEqual(self.metric("rocketha_acl_file_reloads_total"), 1)

    def test_warnings_come_again(self) -> None:
        self.write(RULES + "more: 1\n")
        self.path.chmod(0o604)
        self.advance(TAKEN_S)
        warned = [each["what"] for each in self.logged if each.get("log_format") == "{what}"]
        self.assertEqual(len(warned), 2)
        self.assertIn("others can read or write this secret (mode 0604)", warned[0])

    def test_slowly(self) -> None:
        """Files are read on another thread, one look at a time."""
        self.write(RULES.replace("bills=DENY", "bills=PUB"))
        for work in self.works:
            work.held = True
        self.advance(3 * LOOK_S)
        waiting = [work for work in self.works if any("look" in repr(call) for call, _ in work.waiting)]
        self.assertEqual([work.name for work in waiting], ["rocketha-files"])
        self.assertEqual(sum("look" in repr(call) for call, _ in waiting[0].waiting), 1)
        for work in self.works:
            work.held = False
            work.let_go()
        self.advance(TAKEN_S)
        self.assertEqual(self.send_code("bills"), OK)


class MigrationTests(FilesCase):
    """``migrateAuthFromV1Enabled``."""

    keys = "migrateAuthFromV1Enabled=true\nauthenticationEnabled=true\nauthorizationEnabled=true\n"

    def setUp(self) -> None:
        handle, secret = tempfile.mkstemp()
        os.write(handle, b"a secret of the group")
        os.close(handle)
        self.addCleanup(os.remove, secret)
        user = json.dumps({"username": "root", "password": "root-secret"})
        self.keys = f"{type(self).keys}authSecretFile={secret}\ninitAuthenticationUser={user}\n"
        super().setUp()
        self.advance(2)

    ROOT = ("root", "root-secret")

    @property
    def users(self) -> Accounts:
        return self.broker.accounts_log.accounts  # type: ignore[union-attr]

    def restart(self) -> None:
        self.stop()
        self.service = self.start()
        self.advance(3)

    def test_accounts_become_users(self) -> None:
        rows = json.loads(self.ask(RequestCode.AUTH_LIST_USER, {}, self.ROOT).body)
        self.assertEqual({row["username"]: row["userType"] for row in rows},
                         {"admin-1": "Super", "free-01": "Normal", "root": "Super", "shop-01": "Normal"})  # fmt: skip
        acl = json.loads(self.ask(RequestCode.AUTH_GET_ACL, {"subject": "User:shop-01"}, self.ROOT).body)
        shown = {(policy["policyType"], entry["resource"], *entry["actions"], entry["decision"])
                 for policy in acl["policies"] for entry in policy["entries"]}  # fmt: skip
        self.assertEqual(shown, {
            ("Custom", "Topic:orders", "Pub", "Sub", "Allow"), ("Custom", "Topic:audit", "Pub", "Allow"),
            ("Custom", "Topic:bills", "All", "Deny"), ("Custom", "Group:shop", "Sub", "Allow"),
            ("Custom", "Topic:RMQ_SYS_TRACE_TOPIC", "Pub", "Allow"), ("Default", "Topic:*", "Sub", "Allow"),
            ("Default", "Topic:audit", "Sub", "Deny"),
        })  # fmt: skip
        for topic, code in (("orders", OK), ("audit", OK), ("bills", NO), ("other", NO)):
            self.assertEqual(self.send_code(topic), code, topic)
        for topic, code in (("orders", OK), ("audit", NO), ("bills", NO), ("other", OK)):
            self.assertEqual(self.pull_code(topic, "shop") == NO, code == NO, topic)

    def test_white_addresses_are_gone(self) -> None:
        """And the log says so, name by name."""
        self.assertEqual(self.send_code("orders", None, "10.7.1.2"), NO)
        self.assertEqual(self.send_code("orders", ("free-01", ""), "10.8.0.1"), NO)
        self.assertEqual(self.said("warn"), [
            "ACL 1: whiteRemoteAddress of free-01 is left out: users sign from everywhere",
            "ACL 1: globalWhiteRemoteAddresses are left out: users sign from everywhere",
        ])  # fmt: skip
        (line,) = self.said("info")
        self.assertEqual(
            line, "ACL 1: of its accounts 0 are or were users already, new are 3: admin-1, free-01, shop-01"
        )

    def test_once(self) -> None:
        """What changed since stays as it is, and who was deleted stays deleted; new accounts of the file come."""
        body = b'{"password":"new-secret"}'
        self.assertEqual(self.ask(RequestCode.AUTH_UPDATE_USER, {"username": "shop-01"}, self.ROOT, body=body).code, OK)
        self.assertEqual(self.ask(RequestCode.AUTH_DELETE_USER, {"username": "free-01"}, self.ROOT).code, OK)
        before, version = self.users, self.broker.accounts_log._kept.version  # type: ignore[union-attr]
        self.restart()
        self.assertEqual(self.users, before)
        self.assertEqual(self.broker.accounts_log._kept.version, version)  # type: ignore[union-attr]
        self.assertEqual(self.send_code("orders"), NO)
        self.assertEqual(self.send_code("orders", ("shop-01", "new-secret")), OK)
        self.assertNotIn("free-01", self.users.users)
        self.write(RULES + "- {accessKey: later-1, secretKey: later-secret, defaultTopicPerm: PUB}\n")
        self.restart()
        self.assertEqual(set(self.users.users), {"root", "admin-1", "shop-01", "later-1"})
        self.assertEqual(self.send_code("orders", ("later-1", "later-secret")), OK)

    def test_secrets(self) -> None:
        """Sealed like those of all users."""
        said = describe(self.broker.core.config) + repr(self.logged).encode()
        self.stop()
        for name in self.disk.list("/store/config"):
            said += self.disk.read_all(f"/store/config/{name}", 1 << 30)
        for secret in SECRETS:
            self.assertNotIn(secret, said)

    def test_again(self) -> None:
        """The log takes nothing for a while."""
        self.write(RULES + "- {accessKey: later-1, secretKey: later-secret}\n")
        self.stop()
        real = type(self.broker.accounts_log).change
        self.patch(type(self.broker.accounts_log), "change", lambda log, make: defer.fail(Refused("not now")))
        self.service = self.start()
        self.advance(3)
        self.assertNotIn("later-1", self.users.users)
        self.assertIn("the accounts of ACL 1 are no users yet: not now", str(self.broker.unready()))
        self.patch(type(self.broker.accounts_log), "change", real)
        self.advance(AGAIN_S + 1)
        self.assertIn("later-1", self.users.users)
        self.assertNotIn("no users yet", str(self.broker.unready()))

    def test_only_who_leads(self) -> None:
        """Other replicas change nothing; whoever leads next has its own file."""

        class _Log:
            leads = False
            accounts = Accounts()
            asked: list[Any] = []

            def change(self, make: Any) -> defer.Deferred[None]:
                self.asked.append(make(self.accounts))
                return defer.succeed(None)

        log: Any = _Log()
        files = self.broker.core.config.access.plain
        assert files is not None
        migration = Migration(files, log)
        for _ in range(30):
            migration.second()
        self.assertEqual(log.asked, [])
        log.leads = True
        for _ in range(3):
            migration.second()
        (made,) = log.asked
        self.assertEqual(set(made.users), {"admin-1", "free-01", "shop-01"})
