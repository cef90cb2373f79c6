"""Addresses in one form, lists of networks, and whoever compares addresses: one function serves all."""

from __future__ import annotations

import unittest

from rocketha.access.askers import Askers
from rocketha.access.identity import EVERY, Identity, Part
from rocketha.access.policies import Entry, Need
from rocketha.access.policies import Kind as Resource
from rocketha.access.trusted import parse
from rocketha.addresses import NOBODY, Networks, address_of, plain
from rocketha.broker.send import host_bytes
from rocketha.namesrv.own_port import own_port
from rocketha.protocols.endpoints import is_loopback
from rocketha.protocols.raft_port import may_be_from
from rocketha.services.config.replication import ReplicationConfig


class AddressTests(unittest.TestCase):
    """One at a time."""

    def test_one_form_of_an_address(self) -> None:
        for host, form in (
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("fe80::1%eth0", "fe80::1"),
            ("FD00:0:0::1", "fd00::1"),
            ("unknown", "unknown"),
            ("", ""),
        ):
            self.assertEqual(plain(host), form)

    def test_what_is_none(self) -> None:
        for text in ("", "host", "10.0.0.1:80", "10.0.0", "behind fe80::1%eth0:1: 10.0.0.1:2"):
            with self.assertRaises(ValueError, msg=text):
                address_of(text)


class NetworksTests(unittest.TestCase):
    """Lists."""

    def test_list(self) -> None:
        found = Networks.parse(" 10.0.0.0/8, 192.0.2.7;fd00::/16 ,,")
        self.assertEqual(len(found), 3)
        for host in ("10.9.9.9", "::ffff:10.9.9.9", "192.0.2.7", "fd00:0::1"):
            self.assertIn(host, found)
        for host in ("11.0.0.1", "192.0.2.8", "::ffff:11.0.0.1", "fe80::1", "localhost", "", "unknown"):
            self.assertNotIn(host, found)
        self.assertTrue(found)
        self.assertFalse(NOBODY)
        self.assertNotIn("10.0.0.1", NOBODY)

    def test_ipv4_in_the_clothes_of_ipv6(self) -> None:
        found = Networks.parse("::ffff:10.0.0.0/104,::ffff:192.0.2.7")
        for host in ("10.1.1.1", "::ffff:10.1.1.1", "192.0.2.7"):
            self.assertIn(host, found)
        self.assertNotIn("192.0.2.8", found)
        self.assertIn("::1", Networks.parse("::/0"))
        self.assertNotIn("10.0.0.1", Networks.parse("::/0"))

    def test_what_is_none(self) -> None:
        for text in ("host", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.1 10.0.0.2", "*"):
            with self.assertRaises(ValueError, msg=text):
                Networks.parse(text)


class EverybodyTests(unittest.TestCase):
    """Each place that compares addresses takes both forms of one, and a zone."""

    def test_both_forms(self) -> None:
        own = Identity("c", Part.BROKER, "a", 0)
        askers = Askers(lambda transport: (), (own,), parse("broker/a/1@10.0.0.1"))
        entry = Entry.of("Topic:*", ["Pub"], ["10.0.0.0/24"], "Allow")
        need = Need(Resource.TOPIC, "t", entry.actions)
        replicas = ReplicationConfig(ha_allowed_addresses="10.0.0.0/24")
        for host in ("10.0.0.1", "::ffff:10.0.0.1"):
            self.assertEqual(askers.at(None, host), [Identity(EVERY, Part.BROKER, "a", 1)])
            self.assertTrue(entry.matches(need, host))
            self.assertTrue(replicas.may_replicate(host))
            self.assertTrue(may_be_from(host, "10.0.0.1:9878"))
            self.assertTrue(may_be_from(host, "[::ffff:10.0.0.1]:9878"))
            self.assertEqual(host_bytes(host), bytes((10, 0, 0, 1)))
            self.assertTrue(own_port("10.0.0.1:10911", host).proves_death)  # type: ignore[union-attr]
            self.assertFalse(is_loopback(host))
        for host in ("10.0.1.1", "::ffff:10.0.1.1"):
            self.assertEqual(askers.at(None, host), ())
            self.assertFalse(entry.matches(need, host))
            self.assertFalse(replicas.may_replicate(host))
            self.assertFalse(may_be_from(host, "10.0.0.1:9878"))
            self.assertIsNone(own_port("10.0.0.1:10911", host))

    def test_loopback(self) -> None:
        for host in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost"):
            self.assertTrue(is_loopback(host), host)
        for host in ("10.0.0.1", "fe80::1%lo", "::ffff:10.0.0.1", "", "unknown", "127.0.0.1.example"):
            self.assertFalse(is_loopback(host), host)

    def test_no_address(self) -> None:
        """A UNIX socket has none: it is in no list, and where there is none it may."""
        self.assertTrue(ReplicationConfig().may_replicate("unknown"))
        self.assertFalse(ReplicationConfig(ha_allowed_addresses="0.0.0.0/0").may_replicate("unknown"))
