"""``proxyProtocolNetworks``: whose configuration has it, and what it may be."""

from __future__ import annotations

import unittest

from rocketha.errors import ConfigError
from rocketha.services.config.loading import describe, load_broker, load_controller, load_namesrv

HOME = {"HOME": "/home"}


class ProxiesTests(unittest.TestCase):
    """Of each server."""

    def test_off_by_default(self) -> None:
        for load in (load_broker, load_namesrv):
            self.assertFalse(load(environment=HOME).config.proxies.networks)

    def test_brokers_and_nameservers(self) -> None:
        text = b"proxyProtocolNetworks = 10.0.0.0/8, fd00::1\ninsecureNetwork = true\n"
        for load in (load_broker, load_namesrv):
            loaded = load(text, environment=HOME)
            self.assertEqual(loaded.warnings, ())
            self.assertIn("10.9.9.9", loaded.config.proxies.networks)
            self.assertIn("fd00::1", loaded.config.proxies.networks)
            self.assertIn(b"proxyProtocolNetworks=10.0.0.0/8, fd00::1\n", describe(loaded.config))

    def test_not_controllers(self) -> None:
        (warning,) = load_controller(b"proxyProtocolNetworks = 10.0.0.0/8\n", environment=HOME).warnings
        self.assertIn("line 1: proxyProtocolNetworks has no effect: it is a key of another service", warning)
        text = b"enableControllerInNamesrv = true\nproxyProtocolNetworks = 10.0.0.0/8\n"
        self.assertEqual(load_controller(text, embedded=True, environment=HOME).warnings, ())

    def test_what_is_none(self) -> None:
        for value in ("host", "10.0.0.1/8", "10.0.0.0/33", "*", ",".join(f"10.0.{each}.0/24" for each in range(257))):
            with self.assertRaisesRegex(ConfigError, r"namesrv.conf, line 1: proxyProtocolNetworks=.* is refused"):
                load_namesrv(f"proxyProtocolNetworks = {value}\n".encode(), environment=HOME)
