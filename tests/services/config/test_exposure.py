"""Which ports need identities."""

from __future__ import annotations

import unittest

from rocketha.errors import ConfigError
from rocketha.services.config.exposure import check_exposure, is_exposed
from rocketha.services.config.loading import load_broker, load_learner, load_namesrv, load_witness
from rocketha.services.config.tls import TlsConfig

HERE = (
    "tcp:1:interface=127.0.0.1",
    "tcp:1:interface=127.9.9.9:backlog=50",
    r"tcp6:1:interface=\:\:1",
    r"tcp6:1:backlog=5:interface=\:\:ffff\:127.0.0.1",
    "unix:/run/x",
    "tcp:1:interface=localhost",
)
ELSEWHERE = (
    "tcp:1",
    "tcp:1:interface=",
    "tcp:1:interface=0.0.0.0",
    "tcp:1:interface=10.0.0.1:backlog=5",
    r"tcp6:1:interface=\:\:",
    r"tcp6:1:interface=fd00\:\:1",
    "ssl:1:privateKey=k:certKey=c",
    "systemd:domain=INET:index=0",
    "tcp:1:interface=host.example",
    "tcp:1:interface=127.0.0.1:interface=0.0.0.0",
)


class ExposureTests(unittest.TestCase):
    """Endpoint strings."""

    def test_told_apart(self) -> None:
        for description in HERE:
            self.assertFalse(is_exposed(description), description)
            check_exposure(description, TlsConfig())
        for description in ELSEWHERE:
            self.assertTrue(is_exposed(description), description)
            with self.assertRaisesRegex(ConfigError, r"tls\.identities=required .* insecureNetwork=true"):
                check_exposure(description, TlsConfig())

    def test_behind_a_proxy(self) -> None:
        """Others reach the ports, wherever these listen."""
        listed = b"proxyProtocolNetworks=127.0.0.1\n"
        for load in (load_broker, load_namesrv):
            load(b"", environment={"HOME": "/home"})
            load(listed + b"insecureNetwork=true\n", environment={"HOME": "/home"})
            with self.assertRaisesRegex(ConfigError, r"proxyProtocolNetworks: .*identities=required .*insecureNetwork"):
                load(listed, environment={"HOME": "/home"})
            for everybody in (b"0.0.0.0/0", b"10.0.0.9,::/0"):
                with self.assertRaisesRegex(ConfigError, "proxyProtocolNetworks.* not all addresses"):
                    load(b"insecureNetwork=true\nproxyProtocolNetworks=" + everybody, environment={"HOME": "/home"})

    def test_who_reads_no_header(self) -> None:
        """A learner and a witness take the file of a broker behind a proxy."""
        listed = b"proxyProtocolNetworks=127.0.0.1\n"
        load_learner(listed, environment={"HOME": "/home"})
        group = (
            b"dLegerGroup=g\ndLegerPeers=n0-127.0.0.1:40911;n1-127.0.0.1:40912;n2-127.0.0.1:40913\ndLegerWitness=n2\n"
        )
        load_witness(listed + group, environment={"HOME": "/home"})

    def test_what_opens_them(self) -> None:
        for description in ELSEWHERE:
            check_exposure(description, TlsConfig(identities="required"))
            check_exposure(description, TlsConfig(insecure_network=True))
