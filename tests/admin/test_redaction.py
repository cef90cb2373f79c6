"""Secrets in texts: by name, by form, by value."""

from __future__ import annotations

import base64
import json
import unittest

from rocketha.admin.redaction import Redactor, is_secret, secrets_in

SECRET = "hunter2-and-more"

PEM = f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{SECRET}\nline\n-----END ENCRYPTED PRIVATE KEY-----"

PLANTED = (
    f"tls.server.keyPassword={SECRET}",
    f"tls.server.keyPassword = {SECRET} with blanks",
    f"secretKey: {SECRET}",
    f"accounts:\n  - accessKey: {SECRET}\n    secretKey: {SECRET}",
    f'innerClientAuthenticationCredentials={{"accessKey":"a","secretKey":"{SECRET}"}}',
    f"tls.client.keyPassword=first\\\n    {SECRET}",
    f'{{"level":"info","password":"{SECRET}"}}',
    f'{{"level":"info","nested":{{"credentials":["{SECRET}"]}}}}',
    f"12:00:00 info  logged in with password={SECRET}, from 10.0.0.1",
    json.dumps({"message": json.dumps({"secretKey": SECRET})}),
    f"Authorization: Basic {SECRET}",
    f"header authorization=Bearer {SECRET} rest",
    f"jdbc://user:{SECRET}@10.0.0.1/db",
    PEM,
    json.dumps({"log": PEM}),
    f"signature='{SECRET}'",
    f'told {{\\"username\\":\\"a\\",\\"password\\":\\"{SECRET} with blanks\\"}} by it',
    repr(json.dumps({"a": json.dumps({"secretKey": SECRET})})),
    f"https://user:p@{SECRET}@10.0.0.1:443/path",
    f"https://10.0.0.1/?access_token={SECRET}&next=1",
    f"tls.client.keyPassphrase={SECRET}",
    f"12:00:00 info  sent Authorization: Bearer {SECRET}",
)


class RedactionTests(unittest.TestCase):
    """What is planted is gone, and what helps stays."""

    def test_by_name_and_form(self) -> None:
        """In each of these places."""
        for text in PLANTED:
            with self.subTest(text):
                self.assertNotIn(SECRET, Redactor().text(text))
                self.assertNotIn(SECRET, Redactor().text(f"before\n{text}\nafter\n"))
                self.assertIn("after", Redactor().text(f"before\n{text}\nafter\n"))

    def test_nested_too_deep(self) -> None:
        """A log has what strangers sent: it is a text like others, and nothing fails."""
        deep = '{"a":' * 100_000
        self.assertNotIn(SECRET, Redactor().text(f'{deep}{{"password":"{SECRET}"}}\n'))
        nested = '{"a":' * 900 + f'{{"password":"{SECRET}"}}' + "}" * 900
        self.assertNotIn(SECRET, Redactor().text(f"{nested}\n"))
        self.assertNotIn(SECRET, Redactor().text(f"{nested}\nanother line\n"))

    def test_by_value(self) -> None:
        """What is known to be secret goes wherever it stands, also in base64."""
        coded = base64.b64encode(SECRET.encode()).decode()
        text = Redactor([SECRET]).text(f"the word {SECRET}, or {coded}\n")
        self.assertEqual(text, "the word ***, or ***\n")

    def test_short_words(self) -> None:
        """A password like "a" would take every text apart."""
        self.assertEqual(Redactor(["a", "", "******"]).text("a cat *******\n"), "a cat *******\n")

    def test_what_stays(self) -> None:
        """Paths of secrets, and all that is none."""
        for text in (
            "raftSecretFile=/etc/rocketha/secret\n",
            "brokerName=broker-a\n",
            "12:00:00 info  10.0.0.7:1 asks UPDATE_BROKER_CONFIG: 3 rows\n",
            "epoch 3: master 2, in sync [1, 2]\n",
        ):
            self.assertEqual(Redactor(["hidden-word"]).text(text), text)

    def test_json_stays_json(self) -> None:
        """Whole files, and lines of logs."""
        whole = Redactor().text(json.dumps({"a": {"password": SECRET}, "b": [1, None, True]}))
        self.assertEqual(json.loads(whole), {"a": {"password": "***"}, "b": [1, None, True]})
        lines = Redactor().text('{"a":1}\n{"secret":"x","n":2}\n')
        self.assertEqual([json.loads(line) for line in lines.splitlines()], [{"a": 1}, {"secret": "***", "n": 2}])

    def test_secrets_of_a_configuration(self) -> None:
        """Values of keys that are secret, and what is inside of such a value."""
        config = {
            "brokerName": "broker-a",
            "tls.server.keyPassword": SECRET,
            "innerClientAuthenticationCredentials": '{"accessKey":"operator","secretKey":"inner-secret"}',
            "raftSecretFile": "/etc/secret",
        }
        found = set(secrets_in(config))
        self.assertLessEqual({SECRET, "inner-secret"}, found)
        self.assertNotIn("/etc/secret", found)
        self.assertNotIn("broker-a", found)

    def test_names(self) -> None:
        """Those of secrets, not those of their places."""
        for name in ("password", "tls.client.keyPassword", "secretKey", "SecurityToken", "Signature"):
            self.assertTrue(is_secret(name), name)
        for name in ("raftSecretFile", "tls.server.keyPath", "brokerName", "keyword"):
            self.assertFalse(is_secret(name), name)
