"""The accounts of ACL 1: what they may do is what ``PlainPermissionManager`` and ``PlainPermissionChecker`` say, and a
file that is none is refused by line and key, without a secret in the words."""

from __future__ import annotations

import itertools
import unittest

import attrs

from rocketha.access import plain_acl
from rocketha.access.accounts import USERS_MAX, Accounts, acl_info
from rocketha.access.plain_acl import DENY, PERMISSIONS, PERMISSIONS_MAX, PlainAcl
from rocketha.access.policies import Action, Decision, Kind, Need, decide
from rocketha.errors import ConfigError
from tests.seeds import SeededCase

SAMPLE = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
"""That of RocketMQ's distribution."""

PUB, SUB = (frozenset((each,)) for each in (Action.PUB, Action.SUB))


def read(*texts: str) -> PlainAcl:
    return plain_acl.read([(f"f{number}.yml", text.encode()) for number, text in enumerate(texts, 1)])


def account(rows: str = "", name: str = "account1", secret: str = "secret01") -> str:
    lines = "".join(f"    {row}\n" for row in rows.splitlines())
    return f"accounts:\n  - accessKey: {name}\n    secretKey: {secret}\n{lines}"


def may(acl: PlainAcl, name: str, kind: Kind, resource: str, actions: frozenset[Action]) -> bool:
    found = decide(acl.accounts.users[name].policies, Need(kind, resource, actions), "10.0.0.1")
    return found is Decision.ALLOW


class MeaningTests(SeededCase):
    """Accounts as users."""

    def test_the_sample(self) -> None:
        acl = read(SAMPLE)
        one, two = acl.accounts.users["RocketMQ"], acl.accounts.users["rocketmq2"]
        self.assertEqual((one.password, one.is_super, one.enabled), ("12345678", False, True))
        self.assertEqual((two.password, two.is_super, two.enabled), ("12345678", True, True))
        for kind, name, pub, sub in (
            (Kind.TOPIC, "topicA", False, False),
            (Kind.TOPIC, "topicB", True, True),
            (Kind.TOPIC, "topicC", False, True),
            (Kind.TOPIC, "other", False, False),
            (Kind.GROUP, "groupA", False, False),
            (Kind.GROUP, "groupB", True, True),
            (Kind.GROUP, "groupC", False, True),
            (Kind.GROUP, "other", False, True),
        ):
            self.assertEqual(may(acl, "RocketMQ", kind, name, PUB), pub, name)
            self.assertEqual(may(acl, "RocketMQ", kind, name, SUB), sub, name)
        self.assertEqual(acl.warnings, ())
        for name, host, free in (
            ("", "10.10.103.9", True),
            ("RocketMQ", "192.168.0.1", True),
            ("RocketMQ", "192.168.1.1", False),
            ("rocketmq2", "192.168.1.1", True),
            ("", "192.168.1.1", False),
            ("rocketmq2", "10.0.0.1", False),
        ):
            self.assertEqual(acl.lets_in(name, host), free, (name, host))

    def test_each_pair_of_permissions(self) -> None:
        """What is listed decides alone, as in Java: nothing of the default is added to it."""
        words = ("PUB", "SUB", "PUB|SUB", "SUB|PUB", "DENY", "", "pub", "PUB|", "ANY")
        for default, listed in itertools.product(words, ("", *filter(None, words))):
            rows = (f"defaultTopicPerm: {default}\ndefaultGroupPerm: {default}\n") if default else ""
            if listed:
                rows += f"topicPerms:\n- T={listed}\ngroupPerms:\n- G={listed}\n"
            acl = read(account(rows))
            counts = PERMISSIONS.get(listed or default, DENY)
            for kind, name in ((Kind.TOPIC, "T"), (Kind.GROUP, "G")):
                for action in (Action.PUB, Action.SUB):
                    allowed = may(acl, "account1", kind, name, frozenset((action,)))
                    self.assertEqual(allowed, action in counts, (default, listed, kind, action))
                self.assertEqual(may(acl, "account1", kind, name, SUB | {Action.GET}), Action.SUB in counts)
                for action in (Action.CREATE, Action.UPDATE, Action.DELETE, Action.GET, Action.LIST):
                    self.assertFalse(may(acl, "account1", kind, name, frozenset((action,))))
                    self.assertFalse(may(acl, "account1", Kind.CLUSTER, "c", frozenset((action,))))
            self.assertFalse(
                may(acl, "account1", Kind.TOPIC, "", PUB) and Action.PUB not in PERMISSIONS.get(default, DENY)
            )

    def test_traces(self) -> None:
        """Everybody may send them, whatever is listed; who may read them is decided as for any topic."""
        trace = "RMQ_SYS_TRACE_TOPIC"
        for default, listed, sub in (("", "", False), ("SUB", "", True), ("SUB", "DENY", False), ("", "SUB", True)):
            rows = f"defaultTopicPerm: {default}\n" + (f"topicPerms:\n- {trace}={listed}\n" if listed else "")
            acl = read(account(rows))
            self.assertTrue(may(acl, "account1", Kind.TOPIC, trace, PUB), (default, listed))
            self.assertEqual(may(acl, "account1", Kind.TOPIC, trace, SUB), sub, (default, listed))
            self.assertFalse(may(acl, "account1", Kind.TOPIC, "T", PUB))

    def test_a_group_by_its_retry_topic(self) -> None:
        acl = read(account("topicPerms:\n- '%RETRY%g=SUB'\n"))
        self.assertTrue(may(acl, "account1", Kind.GROUP, "g", SUB))
        self.assertFalse(may(acl, "account1", Kind.TOPIC, "%RETRY%g", SUB))

    def test_names_are_no_patterns(self) -> None:
        """An entry of ACL 2 with that name would be about all topics that begin so."""
        acl = read(account("topicPerms:\n- 'a*=PUB'\n- '*=PUB'\ngroupPerms:\n- 'g*=SUB'\n"))
        for kind, name in ((Kind.TOPIC, "ab"), (Kind.TOPIC, "a*"), (Kind.GROUP, "g1"), (Kind.TOPIC, "")):
            self.assertFalse(may(acl, "account1", kind, name, PUB))
            self.assertFalse(may(acl, "account1", kind, name, SUB))
        self.assertEqual(len(acl.warnings), 3)
        self.assertIn("f1.yml, line 5: accessKey account1: topicPerms: a* is about nothing", acl.warnings[0])

    def test_the_first_counts(self) -> None:
        acl = read(
            account(secret="first-one"), account(secret="second-one") + account(name="account2").split("\n", 1)[1]
        )
        self.assertEqual({name: user.password for name, user in acl.accounts.users.items()},
                         {"account1": "first-one", "account2": "secret01"})  # fmt: skip
        self.assertEqual(
            acl.warnings, ("f2.yml, line 2: accessKey account1 stands further up already, and that counts",)
        )

    def test_texts_as_they_stand(self) -> None:
        for secret, text in (
            ("12345678", "12345678"),
            ("'0123456'", "0123456"),
            ('"  padded "', "  padded "),
            ("a#b:c@d!", "a#b:c@d!"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("ünïcödé", "ünïcödé"),
            ("!!str 0123456", "0123456"),
        ):
            self.assertEqual(read(account(secret=secret)).accounts.users["account1"].password, text)

    def test_admin(self) -> None:
        for word, admin in (
            ("true", True),
            ("True", True),
            ("yes", True),
            ('"true"', True),
            ("false", False),
            ("", False),
        ):
            self.assertEqual(read(account(f"admin: {word}")).accounts.users["account1"].is_super, admin)
        acl = read(account("admin: true\ntopicPerms:\n- T=DENY"))
        self.assertIn("accessKey account1 is admin: it may do everything", acl.warnings[0])

    def test_what_people_are_told(self) -> None:
        acl = read(
            "globalWhiteRemoteAddresses:\n- '*'\n" + account("defaultTopicPrem: PUB\ndefaultGroupPerm: sub") + "x: 1"
        )
        self.assertEqual(len(acl.warnings), 4, acl.warnings)
        for part in (
            "'defaultTopicPrem' is no key",
            "defaultGroupPerm counts as DENY: it is none of DENY, ",
            "'x' is no key",
            "clients need no signature",
        ):
            self.assertTrue(any(part in warning for warning in acl.warnings), part)

    def test_not_too_much(self) -> None:
        """A file of something else is told of in some lines."""
        acl = read(account("topicPerms:\n" + "".join(f"- T{number}=pub\n" for number in range(1000))))
        self.assertEqual(len(acl.warnings), 51)
        self.assertIn("950 more", acl.warnings[-1])

    def test_only_white_addresses(self) -> None:
        acl = read("globalWhiteRemoteAddresses: [10.0.0.1]\n")
        self.assertTrue(acl.lets_in("", "10.0.0.1"))
        self.assertEqual(acl.accounts, Accounts())

    def test_as_users_of_acl_2(self) -> None:
        """What becomes of accounts can be stored and shown: nothing is lost or means something else then."""
        rows = ["PUB", "SUB", "PUB|SUB", "DENY"]
        for _ in range(50):
            chosen = self.chance.choices(rows, k=6)
            text = account(
                f"defaultTopicPerm: {chosen[0]}\ndefaultGroupPerm: {chosen[1]}\n"
                f"topicPerms:\n- T={chosen[2]}\n- 'n%U={chosen[3]}'\ngroupPerms:\n- G={chosen[4]}\n- G={chosen[5]}\n"
            )
            accounts = read(text).accounts
            self.assertEqual(Accounts.load(accounts.dump()), accounts)
            user = accounts.users["account1"]
            again = Accounts().create("account1", {"password": "p"}).grant("User:account1", acl_info(user)["policies"])
            self.assertEqual(again.users["account1"].policies, user.policies)


BAD = (
    ("", "no accounts"),
    ("# nothing", "no accounts"),
    ("accounts:", "no accounts"),
    ("accounts: []", "no accounts"),
    ("text", "line 1: keys and values are wanted"),
    ("- a\n- b", "line 1: keys and values are wanted"),
    ("accounts: text", "line 1: accounts: a list is wanted"),
    ("accounts:\n  a: b", "line 2: accounts: a list is wanted"),
    ("accounts:\n- text", "line 2: keys and values are wanted"),
    ("accounts:\n- [a]", "line 2: keys and values are wanted"),
    ("accounts:\n-", "line 2: an account without accessKey"),
    ("accounts:\n- secretKey: secret01", "line 2: an account without accessKey"),
    ("accounts:\n- accessKey: account1", "line 2: an account without secretKey"),
    ("accounts:\n- accessKey:\n  secretKey: secret01", "an account without accessKey"),
    (account(name="short"), "line 2: accessKey: 7 to 255 characters"),
    (account(name="x" * 256), "line 2: accessKey: 7 to 255 characters"),
    (account(name='"a\\tb c d e"'), "line 2: accessKey: 7 to 255 characters"),
    (account(name='"a\\0b c d e"'), "line 2: accessKey: 7 to 255 characters"),
    (account(name="[account1]"), "line 2: accessKey: one value is wanted"),
    (account(name="0123456"), "line 2: accessKey: put it in quotes"),
    (account(secret="short"), "line 3: secretKey: 7 to 255 characters"),
    (account(secret="0123456"), "line 3: secretKey: put it in quotes"),
    (account(secret="1_000_000"), "line 3: secretKey: put it in quotes"),
    (account(secret="0x1234567"), "line 3: secretKey: put it in quotes"),
    (account(secret="190:20:30"), "line 3: secretKey: put it in quotes"),
    (account(secret="1234567.5"), "line 3: secretKey: put it in quotes"),
    (account(secret="2001-12-14"), "line 3: secretKey: put it in quotes"),
    (account(secret="+1234567"), "line 3: secretKey: put it in quotes"),
    (account(secret="{a: b}"), "line 3: secretKey: one value is wanted"),
    (account("admin: maybe"), "line 4: accessKey account1: admin: true or false is wanted"),
    (account("admin: 1"), "line 4: accessKey account1: admin: true or false is wanted"),
    (account("admin: [true]"), "line 4: admin: one value is wanted"),
    (account("defaultTopicPerm: [PUB]"), "line 4: defaultTopicPerm: one value is wanted"),
    (account("topicPerms: T=PUB"), "line 4: topicPerms: a list is wanted"),
    (account("topicPerms:\n- T"), "line 5: accessKey account1: topicPerms: NAME=PERMISSION is wanted"),
    (account("topicPerms:\n- =PUB"), "line 5: accessKey account1: topicPerms: NAME=PERMISSION is wanted"),
    (account("topicPerms:\n- T="), "NAME=PERMISSION is wanted"),
    (account("topicPerms:\n-"), "NAME=PERMISSION is wanted"),
    (account("topicPerms:\n- A=PUB=SUB"), "NAME=PERMISSION is wanted"),
    (account("topicPerms:\n- T: PUB"), "line 5: accessKey account1: topicPerms: one value is wanted"),
    (account("groupPerms:\n- [a]"), "line 5: accessKey account1: groupPerms: one value is wanted"),
    (account(f"topicPerms:\n- {'x' * 256}=PUB"), "a name has up to 255 characters"),
    (account('topicPerms:\n- "a\\0b=PUB"'), "a name has up to 255 characters"),
    (account("topicPerms:\n" + "".join(f"- t{n}=PUB\n" for n in range(PERMISSIONS_MAX + 1))), "more than 2000 perm"),
    (account("whiteRemoteAddress: 10.0.0"), "accessKey account1: whiteRemoteAddress: '10.0.0' is no IP"),
    (account("whiteRemoteAddress: [10.0.0.1]"), "line 4: accessKey account1: whiteRemoteAddress: one value is wanted"),
    (account("whiteRemoteAddress: host"), "'host' is no IP address"),
    ("globalWhiteRemoteAddresses: 10.0.0.1", "line 1: globalWhiteRemoteAddresses: a list is wanted"),
    ("globalWhiteRemoteAddresses:\n- 10.0.0.300", "line 2: globalWhiteRemoteAddresses: '10.0.0.300'"),
    ("globalWhiteRemoteAddresses:\n- *", "line 2: no YAML"),
    (account("accessKey: account2"), "line 4: accessKey stands there twice"),
    (account() + account(name="account2"), "line 4: accounts stands there twice"),
    ("x: &x {a: b}\n" + account("<<: *x"), "only plain keys are read"),
    (account("? [a, b]\n: c"), "only plain keys are read"),
    (account("[: x"), "no YAML"),
    (account("\t x: y"), "no YAML"),
    ("accounts: [", "no YAML"),
    ("accounts: *missing", "line 1: no YAML"),
    ("a: b\n---\na: b", "no YAML"),
    ("accounts: 'open", "no YAML"),
    ("a\0b", "no YAML"),
    ("[" * 100_000, "no YAML"),
    ("- " * 100_000, "no YAML"),
    ("{a: " * 100_000, "no YAML"),
    ("&a [*a]", "keys and values are wanted"),
    ("accounts: &a [*a]", "keys and values are wanted"),
    ("a: &a [x, x]\nb: &b [*a, *a]\naccounts: [*b, *b]", "keys and values are wanted"),
    ("!!python/object/apply:os.system ['true']", "keys and values are wanted"),
)  # fmt: skip


class BadFileTests(SeededCase):
    """A ConfigError with file and line, whatever stands there."""

    def test_each_shape(self) -> None:
        for text, words in BAD:
            with self.assertRaises(ConfigError, msg=text[:100]) as caught:
                read(text)
            said = str(caught.exception)
            self.assertIn(words, said)
            self.assertIn("f1.yml", said)
            self.assertLess(len(said), 400)

    def test_no_secret_in_the_words(self) -> None:
        for secret in (
            "0777123",
            "0x77712a",
            "[s3cr3t-777]",
            "{s3cr3t-777: x}",
            "777:12:13",
            "'777\\n'",
            '"777',
            "777: x: y",
            "*s3cr3t-777",
            "!s3cr3t-777!x",
            "!s3cr3t-777",
            "&a777 *b777",
            "%777-secret",
            "@777-secret",
            "|777",
            "- 777-secret",
        ):
            with self.assertRaises(ConfigError) as caught:
                read(account(secret=secret))
            self.assertNotIn("777", str(caught.exception))
        warned = read(account("topicPerms:\n- T=x", secret="secret777")).warnings
        self.assertNotIn("777", str(warned))
        self.assertNotIn("secret777", repr(read(account(secret="secret777"))))

    def test_bytes(self) -> None:
        for data, words in (
            (b"\xff\xfe\xfd", "is not UTF-8"),
            (b"a: \xe4", "is not UTF-8"),
            (bytes(range(32)), "no YAML"),
        ):
            with self.assertRaisesRegex(ConfigError, f"f.yml: .*{words}"):
                plain_acl.read([("f.yml", data)])
        self.assertIn("account1", plain_acl.read([("f.yml", b"\xef\xbb\xbf" + account().encode())]).accounts.users)

    def test_one_bad_file_of_two(self) -> None:
        with self.assertRaisesRegex(ConfigError, "f2.yml, line 1"):
            read(account(), "text")
        self.assertEqual(list(read("", account()).accounts.users), ["account1"])

    def test_many_accounts(self) -> None:
        rows = "".join(f"- {{accessKey: account{number}, secretKey: secret01}}\n" for number in range(USERS_MAX + 1))
        with self.assertRaisesRegex(ConfigError, f"more than {USERS_MAX} accounts"):
            read("accounts:\n" + rows)

    def test_shaken(self) -> None:
        """Rules or a ConfigError; and never more rights than the whole file gives."""
        whole = read(SAMPLE)
        for _ in range(400):
            data = bytearray(SAMPLE.encode())
            for _ in range(self.chance.randint(1, 4)):
                at = self.chance.randrange(len(data))
                match self.chance.randrange(4):
                    case 0:
                        data[at : at + self.chance.randint(1, 30)] = b""
                    case 1:
                        data[at:at] = self.chance.choice(
                            (b"\n", b":", b"- ", b"  ", b"[", b"*", b"&a ", b"'", b"#", b"\t")
                        )
                    case 2:
                        data[at] = self.chance.randrange(256)
                    case _:
                        del data[at:]
                if not data:
                    break
            try:
                found = plain_acl.read([("f.yml", bytes(data))])
            except ConfigError as problem:
                self.assertIn("f.yml", str(problem))
                continue
            for name, user in found.accounts.users.items():
                self.assertTrue(user.password, name)
                if name in whole.accounts.users and user.is_super:
                    self.assertEqual(name, "rocketmq2")


class SecretTests(unittest.TestCase):
    """With a blank forgotten, the secret is part of a key."""

    def test_warnings(self) -> None:
        for key in ("secretKey:hunter2s", "secretKey hunter2s", "secretKey=hunter2s", "secretKey :hunter2s"):
            found = read(f"accounts:\n- {{accessKey: account1, secretKey: secret01, {key}}}\n")
            self.assertEqual(found.warnings, ("f1.yml, line 2: 'secretKey' is no key of ACL 1",))

    def test_errors(self) -> None:
        with self.assertRaisesRegex(ConfigError, "^f1.yml, line 2: secretKey stands there twice$"):
            read("accounts:\n- {secretKey:hunter2s, secretKey:hunter2s}\n")


class MigrationTests(unittest.TestCase):
    """:meth:`rocketha.access.accounts.Accounts.migrate`."""

    def test_once(self) -> None:
        users = read(SAMPLE).accounts.users
        present = Accounts().create("rocketmq2", {"password": "its own"})
        after, left_out = present.migrate(users.values())
        self.assertEqual(left_out, {})
        self.assertEqual(after.users["RocketMQ"], users["RocketMQ"])
        self.assertEqual(after.users["rocketmq2"].password, "its own")
        self.assertEqual(after.migrated, {"RocketMQ", "rocketmq2"})
        self.assertIs(after.migrate(users.values())[0], after)
        gone = after.delete("RocketMQ")
        self.assertIs(gone.migrate(users.values())[0], gone)
        loaded = Accounts.load(gone.dump())
        self.assertEqual(loaded, gone)
        self.assertIs(loaded.migrate(users.values())[0], loaded)
        for changed in (after.update("RocketMQ", {"password": "new"}), after.revoke("User:RocketMQ", None, None)):
            self.assertEqual(changed.migrated, {"RocketMQ", "rocketmq2"})

    def test_who_was_a_user_before(self) -> None:
        """Deleted later, he does not come back with the password of the file; that is kept though nobody is new."""
        users = read(SAMPLE).accounts.users
        present = Accounts().with_users({name: attrs.evolve(user, password="its own") for name, user in users.items()})
        after, _ = present.migrate(users.values())
        self.assertEqual((after.users, after.migrated), (present.users, set(users)))
        self.assertIs(after.migrate(users.values())[0], after)
        gone = Accounts.load(after.delete("rocketmq2").dump())
        self.assertNotIn("rocketmq2", gone.migrate(users.values())[0].users)

    def test_too_much(self) -> None:
        rows = "topicPerms:\n" + "".join(f"- t{number}=PUB\n" for number in range(1001))
        acl = read(account(rows, "many-topics") + account(name="account2").split("\n", 1)[1])
        after, left_out = Accounts().migrate(acl.accounts.users.values())
        self.assertEqual(left_out, {"many-topics": "more than 1000 entries"})
        self.assertEqual(list(after.users), ["account2"])
        full = Accounts({f"u{number}": acl.accounts.users["account2"] for number in range(USERS_MAX)})
        reason = f"there are {USERS_MAX} users"
        self.assertEqual(full.migrate(acl.accounts.users.values()), (full, dict.fromkeys(acl.accounts.users, reason)))
