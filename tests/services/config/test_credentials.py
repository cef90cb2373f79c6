"""Files with the user that a command signs as."""

from __future__ import annotations

import os
import pathlib
import tempfile
import unittest

from rocketha.access.signer import Credentials
from rocketha.errors import ConfigError
from rocketha.services.config import credentials


class CredentialsTests(unittest.TestCase):
    """As ``tools.yml`` has them."""

    def test_read(self) -> None:
        for text, user, password in (
            ("accessKey: rocketmq2\nsecretKey: 12345678\n", "rocketmq2", "12345678"),
            ("# tools\n---\nsecretKey:   s # old\r\naccessKey:a\r\nother:\n  - accessKey: x\n", "a", "s"),
            ("accessKey: 'it''s'  # quoted\nsecretKey: \"a # \\\"b\\\" \\u00fc\"", "it's", 'a # "b" \u00fc'),
            ("\ufeffaccessKey: u\nsecretKey: p:q#r", "u", "p:q#r"),
            ("accessKey: \u00fc\nsecretKey: '#'", "\u00fc", "#"),
        ):
            self.assertEqual(credentials.parse(text.encode(), "tools.yml"), Credentials(user, password))

    def test_refused(self) -> None:
        for text, why in (
            ("", "tools.yml: no accessKey: two lines are wanted, accessKey: NAME and secretKey: PASSWORD"),
            ("accessKey: a\n secretKey: b", "tools.yml: no secretKey"),
            ("accessKey: a\naccessKey: b\n", "tools.yml:2: accessKey is there twice"),
            ("\naccessKey:\n", "tools.yml:2: accessKey: a text is wanted"),
            ("accessKey: a\nsecretKey: #x", "tools.yml:2: secretKey: a text is wanted"),
            ("accessKey: a\nsecretKey: 'x", "tools.yml:2: secretKey: a text is wanted"),
            ('accessKey: a\nsecretKey: "\\x41"', "tools.yml:2: secretKey: a text is wanted"),
            ("accessKey: a\nsecretKey: ''", "tools.yml:2: secretKey: a text is wanted"),
            ("accessKey: a\nsecretKey: 'x' y", "tools.yml:2: secretKey: a text is wanted"),
        ):
            with self.assertRaises(ConfigError) as refusal:
                credentials.parse(text.encode(), "tools.yml")
            self.assertIn(why, str(refusal.exception))
        with self.assertRaisesRegex(ConfigError, r"tools\.yml: not UTF-8"):
            credentials.parse(b"accessKey: \xff\n", "tools.yml")

    def test_what_only_yaml_understands(self) -> None:
        """It is no password: a block, an anchor, null...; in quotes it is."""
        for value in ("|", ">-", "&a bcd", "*bcd", "!bcd", "~", "%bcd", "@bcd", "[bcd]", "{bcd}", "`bcd"):
            with self.assertRaisesRegex(ConfigError, r"tools\.yml:2: secretKey: .*put it in quotes") as refusal:
                credentials.parse(f"accessKey: a\nsecretKey: {value}\n".encode(), "tools.yml")
            self.assertNotIn("bcd", str(refusal.exception))
            self.assertEqual(credentials.parse(f"accessKey: a\nsecretKey: '{value}'".encode(), "f").password, value)

    def test_files(self) -> None:
        """Nobody else may read it."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tools.yml"
            with self.assertRaisesRegex(ConfigError, "cannot be read"):
                credentials.load(str(path))
            path.write_text("accessKey: a\nsecretKey: hidden\n")
            path.chmod(0o644)
            with self.assertRaisesRegex(ConfigError, "others can read or write this secret") as refusal:
                credentials.load(str(path))
            self.assertNotIn("hidden", str(refusal.exception))
            path.chmod(0o600)
            if os.geteuid() == path.stat().st_uid:
                self.assertEqual(credentials.load(str(path)), Credentials("a", "hidden"))
