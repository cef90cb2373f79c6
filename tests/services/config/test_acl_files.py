"""The files of ACL 1: where they are looked for, when they are read again, and what a bad one changes: nothing."""

from __future__ import annotations

import itertools
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from rocketha.access import plain_acl
from rocketha.access.policies import Policies
from rocketha.errors import ConfigError
from rocketha.services.config import acl_files
from rocketha.services.config.access import AccessConfig
from rocketha.services.config.acl_files import AclFiles
from rocketha.services.config.loading import describe, load_broker, load_learner, load_witness

FIRST, SECOND = ("account1", "secret-one"), ("account2", "secret-two")


def text(*accounts: tuple[str, str], more: str = "") -> str:
    rows = "".join(f"- accessKey: {name}\n  secretKey: {secret}\n" for name, secret in accounts)
    return f"{more}accounts:\n{rows}"


class FolderCase(unittest.TestCase):
    """With a folder that is rocketmqHome."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name).resolve()

    def write(self, name: str, content: str, mode: int = 0o600) -> pathlib.Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        other = path.with_name(f".{path.name}.new")
        other.write_text(content, encoding="utf-8")
        other.chmod(mode)
        other.rename(path)
        return path

    def found(self, named: str = "") -> AclFiles:
        return AclFiles(named, str(self.home))

    def names(self, files: AclFiles) -> list[str]:
        return list(files.acl.accounts.users)


class PlaceTests(FolderCase):
    """Which files count."""

    def test_as_in_java(self) -> None:
        """conf/acl comes first, its files by name; what is no file of ACL 1 is left out."""
        self.write("conf/plain_acl.yml", text(FIRST, ("account0", "in-plain")))
        self.assertEqual(self.names(self.found()), ["account1", "account0"])
        self.write(
            "conf/acl/b.yaml", text(("account3", "in-b"), ("account1", "in-bbbb")).replace("in-b\n", "in-bbbb\n")
        )
        self.write("conf/acl/a.yml", text(("account1", "in-aaaa")))
        self.write("conf/acl/deeper/c.yml", text(("account4", "in-cccc")))
        for name in ("tools.yml", ".hidden.yml", "a.yml.bak", "..data/a.yml"):
            self.write(f"conf/acl/{name}", "no: yaml: at: all")
        files = self.found()
        found = [os.path.relpath(path, self.home / "conf") for path in files.paths]
        self.assertEqual(found, ["acl/a.yml", "acl/b.yaml", "acl/deeper/c.yml", "plain_acl.yml"])
        self.assertEqual(self.names(files), ["account1", "account3", "account4", "account0"])
        self.assertEqual(files.acl.accounts.users["account1"].password, "in-aaaa")

    def test_named(self) -> None:
        """In the order in which they are named, from rocketmqHome on; each must be there."""
        one, two = self.write("x/one.yml", text(FIRST)), self.write("two.conf", text(SECOND))
        self.write("conf/plain_acl.yml", text(("account9", "not-used")))
        self.assertEqual(self.names(self.found(f"{two}, x")), ["account2", "account1"])
        self.assertEqual(self.found(f"{one},{one}, x").paths, [str(one)])
        with self.assertRaisesRegex(ConfigError, "missing.yml: cannot be read"):
            self.found(f"{one}, missing.yml")

    def test_none(self) -> None:
        with self.assertRaisesRegex(ConfigError, "there is no file of ACL 1: .*conf/acl and .*conf/plain_acl.yml"):
            self.found()
        with self.assertRaisesRegex(ConfigError, "ROCKETMQ_HOME"):
            AclFiles("", "")
        (self.home / "conf/acl").mkdir(parents=True)
        with self.assertRaisesRegex(ConfigError, "there is no file"):
            self.found()
        self.write("conf/plain_acl.yml", "")
        with self.assertRaisesRegex(ConfigError, r"plain_acl.yml: no accounts"):
            self.found()

    def test_what_is_no_file(self) -> None:
        os.mkfifo(self.home / "pipe.yml")
        with self.assertRaisesRegex(ConfigError, "is no plain file"):
            self.found("pipe.yml")
        self.write("big.yml", "#" * (acl_files.FILE_BYTES_MAX + 1))
        with self.assertRaisesRegex(ConfigError, "more than"):
            self.found("big.yml")
        for number in range(acl_files.FILES_MAX + 1):
            self.write(f"many/{number}.yml", "")
        with self.assertRaisesRegex(ConfigError, "101 files"):
            self.found("many")

    def test_a_folder_in_itself(self) -> None:
        self.write("acl/a.yml", text(FIRST))
        (self.home / "acl" / "again").symlink_to(self.home / "acl")
        self.assertEqual(len(self.found("acl").paths), 1)

    def test_without_the_extra(self) -> None:
        missing = mock.patch("importlib.util.find_spec", return_value=None)
        with missing, self.assertRaisesRegex(ConfigError, r"pip install 'rocketha\[acl\]'"):
            self.found()


class ReloadTests(FolderCase):
    """As certificates are: what cannot be used changes nothing, and says so once."""

    def look(self, files: AclFiles) -> bool:
        """Twice, as others must be found."""
        self.assertFalse(files.look())
        return files.look()

    def test_a_life(self) -> None:
        path = self.write("conf/plain_acl.yml", text(FIRST))
        files = self.found()
        self.assertFalse(files.look())
        before = files.acl
        self.write("conf/plain_acl.yml", text(SECOND))
        self.assertTrue(self.look(files))
        self.assertEqual((self.names(files), files.changes, files.problem), (["account2"], 1, ""))
        self.assertIsNot(files.acl.accounts, before.accounts)
        self.assertFalse(files.look())
        for number, content in enumerate(("x: [", "", text(("short", "s")), "accounts:\n- accessKey: account3\n"), 1):
            self.write("conf/plain_acl.yml", f"{content}\n# {number}")
            self.assertTrue(self.look(files))
            self.assertIn(str(path), files.problem)
            self.assertEqual((self.names(files), files.changes), (["account2"], 1))
            self.assertFalse(files.look())
        self.write("conf/plain_acl.yml", text(FIRST, SECOND))
        self.assertTrue(self.look(files))
        self.assertEqual((self.names(files), files.changes, files.problem), (["account1", "account2"], 2, ""))

    def test_files_that_come_and_go(self) -> None:
        self.write("conf/plain_acl.yml", text(FIRST))
        files = self.found()
        added = self.write("conf/acl/a.yml", text(SECOND))
        self.assertTrue(self.look(files))
        self.assertEqual(self.names(files), ["account2", "account1"])
        added.unlink()
        self.assertTrue(self.look(files))
        self.assertEqual(self.names(files), ["account1"])
        (self.home / "conf").rename(self.home / "away")
        self.assertTrue(files.look())
        self.assertIn("there is no file", files.problem)
        self.assertEqual(self.names(files), ["account1"])
        (self.home / "away").rename(self.home / "conf")
        self.assertTrue(self.look(files))
        self.assertEqual((files.problem, self.names(files)), ("", ["account1"]))

    def test_paths_are_those_in_use(self) -> None:
        self.write("conf/plain_acl.yml", text(FIRST))
        files = self.found()
        self.write("conf/acl/bad.yml", "[")
        self.assertTrue(self.look(files))
        self.assertEqual(files.paths, [str(self.home / "conf/plain_acl.yml")])

    def test_half_a_file(self) -> None:
        """Without what it denies further down it gives more: it counts when nobody writes to it any more."""
        path = self.write("conf/plain_acl.yml", text(FIRST))
        files = self.found()
        whole = text(FIRST) + "  defaultTopicPerm: PUB|SUB\n  topicPerms:\n  - bills=DENY\n"
        with open(path, "w", encoding="utf-8") as file:
            for part in (whole[:10], whole[10:-20], whole[-20:]):
                file.write(part)
                file.flush()
                self.assertFalse(files.look())
        self.assertEqual((files.acl.accounts.users["account1"].policies, files.problem), (self.policies(""), ""))
        self.assertTrue(files.look())
        self.assertEqual(files.acl.accounts.users["account1"].policies, self.policies(whole))

    def policies(self, content: str) -> Policies:
        data = (content or text(FIRST)).encode()
        return plain_acl.read([("f", data)]).accounts.users["account1"].policies

    def test_written_while_it_is_read(self) -> None:
        """Good or bad, what was read may be half of it."""
        path = self.write("conf/plain_acl.yml", text(FIRST))
        files = self.found()
        real = acl_files._bytes

        def read(name: str) -> bytes:
            data = real(name)
            with open(name, "a", encoding="utf-8") as file:
                file.write("# more\n")
            return data

        for content in (text(SECOND), "["):
            self.write("conf/plain_acl.yml", content)
            self.assertFalse(files.look())
            with mock.patch.object(acl_files, "_bytes", read):
                self.assertFalse(files.look())
            self.assertEqual((self.names(files), files.changes, files.problem), (["account1"], 0, ""))
        path.unlink()
        self.write("conf/plain_acl.yml", text(SECOND))
        self.assertTrue(self.look(files))
        self.assertEqual(self.names(files), ["account2"])


class KeyTests(FolderCase):
    """The keys of broker.conf."""

    def load(self, conf: str, home: bool = True) -> tuple[AclFiles | None, tuple[str, ...]]:
        environment = {"HOME": "/home"} | ({"ROCKETMQ_HOME": str(self.home)} if home else {})
        loaded = load_broker(conf.encode(), "b.conf", {}, environment, "h")
        self.assertNotIn(b"secret-one", describe(loaded.config))
        return loaded.config.access.plain_accounts, loaded.warnings

    def refused(self, conf: str, words: str) -> None:
        with self.assertRaisesRegex(ConfigError, words):
            self.load(conf)

    def acl_2(self, more: str = "authorizationEnabled=true\n") -> str:
        secret = self.write("secret", "a secret of the group")
        user = 'initAuthenticationUser={"username":"root","password":"x"}'
        return f"authenticationEnabled=true\nauthSecretFile={secret}\n{user}\n{more}"

    def test_acl_enable(self) -> None:
        self.assertEqual(self.load(""), (None, ()))
        self.refused("aclEnable=true", "aclEnable=true: there is no file of ACL 1")
        self.write("conf/plain_acl.yml", text(FIRST))
        files, warnings = self.load("aclEnable=true")
        assert files is not None
        self.assertEqual((self.names(files), warnings), (["account1"], ()))
        self.assertEqual(self.load("")[0], None)
        named = self.write("named.yml", text(SECOND))
        files, _ = self.load(f"aclEnable=true\naclFiles={named}", home=False)
        assert files is not None
        self.assertEqual(self.names(files), ["account2"])
        self.write("conf/plain_acl.yml", "[")
        self.refused(
            "aclEnable=true", "aclEnable=true: .*plain_acl.yml, line 2: no YAML|plain_acl.yml, line 1: no YAML"
        )

    def test_who_can_read_it(self) -> None:
        """RocketMQ's own file may be read by all, so that is a warning; it names the file and the mode."""
        path = self.write("conf/plain_acl.yml", text(FIRST), 0o644)
        _, warnings = self.load("aclEnable=true")
        (warning,) = warnings
        self.assertIn(str(path), warning)
        self.assertIn("0644", warning)
        path.chmod(0o600)
        self.assertEqual(self.load("aclEnable=true")[1], ())

    def test_beside_acl_2(self) -> None:
        """ACL 2 counts, loudly; half of it would give every account every right."""
        self.write("conf/plain_acl.yml", text(FIRST))
        files, warnings = self.load("aclEnable=true\n" + self.acl_2())
        self.assertIsNone(files)
        self.assertIn("aclEnable has no effect", warnings[0])
        self.refused("aclEnable=true\n" + self.acl_2(""), "without authorizationEnabled=true every account might do")

    def test_migration(self) -> None:
        self.refused("migrateAuthFromV1Enabled=true", "needs authenticationEnabled=true")
        conf = "migrateAuthFromV1Enabled=TRUE\n" + self.acl_2()
        self.refused(conf, "migrateAuthFromV1Enabled=true: there is no file of ACL 1")
        self.write("conf/plain_acl.yml", text(FIRST))
        loaded = load_broker(f"{conf}rocketmqHome={self.home}\n".encode(), "b.conf", {}, {"HOME": "/home"}, "h")
        access = loaded.config.access
        assert access.plain is not None
        self.assertEqual(self.names(access.plain), ["account1"])
        self.assertIsNone(access.plain_accounts)

    def test_who_judges(self) -> None:
        """Files that were read, for whatever reason, judge nobody unless aclEnable says so, and ACL 2 does not."""
        self.write("conf/plain_acl.yml", text(FIRST))
        for acl_1, acl_2 in itertools.product((False, True), repeat=2):
            config = AccessConfig(acl_enable=acl_1, authentication_enabled=acl_2, plain=self.found())
            self.assertEqual(config.plain_accounts is not None, acl_1 and not acl_2)
            self.assertEqual(config.authorizes, acl_1 and not acl_2)

    def test_who_answers_no_clients(self) -> None:
        """A witness and a learner need nothing for them; whom a learner signs as counts."""
        group = "dLegerGroup=g\ndLegerPeers=n0-127.0.0.1:1;n1-127.0.0.1:2;n2-127.0.0.1:3\ndLegerWitness=n2\n"
        for on in ("aclEnable=true", "authenticationEnabled=true\nmigrateAuthFromV1Enabled=true",
                   "authorizationEnabled=true"):  # fmt: skip
            self.refused(on, "true")
            for load in (load_witness, load_learner):
                with mock.patch("importlib.util.find_spec", return_value=None):
                    loaded = load(f"{group}{on}\nauthSecretFile=/nowhere\n".encode(), "b.conf", {}, {"HOME": "/home"})
                self.assertIsNone(loaded.config.access.plain_accounts)
        key = b"innerClientAuthenticationCredentials"
        self.assertIsNotNone(load_learner(key + b'={"accessKey":"a","secretKey":"s"}').config.access.credentials)
        with self.assertRaisesRegex(ConfigError, key.decode()):
            load_learner(key + b'={"accessKey":"a"}')

    def test_replicas(self) -> None:
        """They sign nothing: certificates say who they are."""
        self.write("conf/plain_acl.yml", text(FIRST))
        replicas = "enableControllerMode=true\ncontrollerAddr=127.0.0.1:9\n"
        self.refused(
            "aclEnable=true\n" + replicas, "aclEnable=true in a group of brokers needs tls.identities=required"
        )

    def test_white_lists_of_acl_2(self) -> None:
        """Codes that are free there are not here."""
        self.write("conf/plain_acl.yml", text(FIRST))
        free = "authenticationWhitelist=310\nauthorizationWhitelist=310\n"
        loaded = load_broker(f"aclEnable=true\n{free}".encode(), "b.conf", {},
                             {"HOME": "/home", "ROCKETMQ_HOME": str(self.home)}, "h")  # fmt: skip
        self.assertEqual(
            (loaded.config.access.unsigned_codes, loaded.config.access.free_codes), (frozenset(), frozenset())
        )
        self.assertTrue(loaded.config.access.authorizes)
        loaded = load_broker((free + self.acl_2()).encode(), "b.conf", {}, {"HOME": "/home"}, "h")
        self.assertEqual(loaded.config.access.unsigned_codes, {310})
