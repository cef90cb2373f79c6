"""The address list for processes without certificates."""

from __future__ import annotations

import unittest

from rocketha.access.identity import EVERY, Identity, Part
from rocketha.access.trusted import check, parse
from rocketha.errors import ConfigError


class TrustedTests(unittest.TestCase):
    """``tls.trustedPeers``."""

    def test_list(self) -> None:
        broker, controller = Identity(EVERY, Part.BROKER, "broker-a", 1), Identity(EVERY, Part.CONTROLLER, "n1")
        found = parse(" broker/broker-a/1@10.0.0.3, 10.0.0.4;controller/n1@10.0.0.3;; ")
        self.assertEqual(found, {"10.0.0.3": [broker, controller], "10.0.0.4": [broker]})
        self.assertEqual(parse(""), {})
        self.assertEqual(list(parse("broker/a@::ffff:10.0.0.3;nameserver/x@fd00:0::1")), ["10.0.0.3", "fd00::1"])

    def test_what_is_none(self) -> None:
        for text in (
            "broker/a", "broker@10.0.0.1", "broker/a@", "broker/a@host", "broker/a@10.0.0.0/8", "king/a@10.0.0.1",
            "broker/a/b@10.0.0.1", "broker/a/1/2@10.0.0.1", "controller/n0/1@10.0.0.1", "broker/a@10.0.0.1,",
        ):  # fmt: skip
            with self.assertRaises(ConfigError, msg=text):
                parse(text)
            self.assertIsNotNone(check(text))
        self.assertIsNone(check("broker/a@10.0.0.1"))
