"""Where a registered broker may be asked whether it lives."""

from __future__ import annotations

import unittest

from rocketha.namesrv.own_port import own_port


class OwnPortTests(unittest.TestCase):
    """A registered address, and where the registration came from."""

    def test_only_the_host_that_it_came_from(self) -> None:
        """Whatever was named."""
        for registered, host, wanted in (
            ("10.0.0.1:10911", "10.0.0.1", ("10.0.0.1:10911", True)),
            ("10.0.0.1:10911", "::ffff:10.0.0.1", ("[::ffff:10.0.0.1]:10911", True)),
            ("[fe80::1]:10911", "fe80::1%eth0", ("[fe80::1%eth0]:10911", True)),
            ("10.0.0.1:22", "10.6.6.6", None),
            ("127.0.0.1:22", "10.6.6.6", None),
            ("broker.example:10911", "10.0.0.1", ("10.0.0.1:10911", False)),
            ("10.0.0.1:10911", "127.0.0.1", ("127.0.0.1:10911", False)),
            ("[::1]:10911", "127.0.0.1", ("127.0.0.1:10911", False)),
            ("10.0.0.1:10911", "unknown", None),
        ):
            with self.subTest(registered=registered, host=host):
                self.assertEqual(own_port(registered, host), wanted)
