"""Identities: texts and back, and what is none."""

from __future__ import annotations

import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.access.identity import ID_MAX, Identity, Part, make, parse_uri
from rocketha.errors import ConfigError

NAMES = st.text(min_size=1, max_size=255).filter(str.isprintable)


class IdentityTests(unittest.TestCase):
    """URIs."""

    def test_texts(self) -> None:
        for uri, identity in (
            ("rocketha://c/broker/broker-a/2", Identity("c", Part.BROKER, "broker-a", 2)),
            ("rocketha://c/broker/broker-a", Identity("c", Part.BROKER, "broker-a")),
            ("rocketha://c/controller/n0", Identity("c", Part.CONTROLLER, "n0")),
            ("rocketha://a%2Fb/operator/ann%20b", Identity("a/b", Part.OPERATOR, "ann b")),
        ):
            self.assertEqual(parse_uri(uri), identity)
            self.assertEqual(identity.uri, uri)

    def test_what_is_none(self) -> None:
        for uri in ("", "https://x/y", "spiffe://c/broker/a", "rocketha:/c/broker/a"):
            self.assertIsNone(parse_uri(uri), uri)
        for uri in (
            "rocketha://", "rocketha://c", "rocketha://c/broker", "rocketha://c/broker/a/1/2", "rocketha:///broker/a",
            "rocketha://c/king/a", "rocketha://c/broker/a/", "rocketha://c/broker/a/-1", "rocketha://c/broker/a/01",
            "rocketha://c/broker/a/\u0663", f"rocketha://c/broker/a/{ID_MAX + 1}", "rocketha://c/controller/a/1",
            "rocketha://c/broker/a%00", "rocketha://c/BROKER/a", "rocketha://c/broker/" + "a" * 256,
        ):  # fmt: skip
            with self.assertRaises(ConfigError, msg=uri):
                parse_uri(uri)

    @given(NAMES, st.sampled_from(Part), NAMES, st.integers(0, ID_MAX))
    def test_there_and_back(self, cluster: str, part: Part, name: str, number: int) -> None:
        identity = make(cluster, part.value, name, str(number) if part is Part.BROKER else None)
        self.assertEqual(parse_uri(identity.uri), identity)
