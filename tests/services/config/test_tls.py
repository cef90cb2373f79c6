"""The ``tls.*`` keys: where they may stand, which wins, what is half a configuration; passwords show nowhere."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from rocketha.errors import ConfigError
from rocketha.services.config import loading
from rocketha.services.config.settings import HIDDEN
from rocketha.services.config.tls import TlsConfig, check_tls, given

CERTIFIED = {"server_cert_path": "/c", "server_key_path": "/k"}
TRUST = {"server_auth_client": True, "server_trust_cert_path": "/t"}


class HalfTests(unittest.TestCase):
    """What looks like protection and is none."""

    def test_whole_ones_pass(self) -> None:
        for keys in (
            {},
            {"test_mode": "true"},
            CERTIFIED,
            {**CERTIFIED, "test_mode": "false", "server_mode": "enforcing"},
            {**CERTIFIED, **TRUST, "server_need_client_auth": "require", "server_mode": "enforcing"},
            {**CERTIFIED, **TRUST, "server_need_client_auth": "optional"},
            {"enable": True, "client_auth_server": True, "client_trust_cert_path": "/t"},
            {"enable": True, "client_cert_path": "/c", "client_key_path": "/k"},
        ):
            check_tls(TlsConfig(**keys))  # type: ignore[arg-type]

    def test_halves_do_not(self) -> None:
        for keys, named in (
            ({**CERTIFIED, "test_mode": "true"}, "tls.server.certPath"),
            ({"server_cert_path": "/c"}, "tls.server.keyPath"),
            ({"server_key_path": "/k"}, "tls.server.certPath"),
            ({"client_cert_path": "/c"}, "tls.client.keyPath"),
            ({**CERTIFIED, "server_need_client_auth": "require"}, "tls.server.authClient"),
            ({**CERTIFIED, **TRUST}, "need.client.auth"),
            ({**TRUST, "server_need_client_auth": "require"}, "tls.server.certPath"),
            (
                {**CERTIFIED, "server_auth_client": True, "server_need_client_auth": "require"},
                "tls.server.trustCertPath",
            ),
            ({"client_auth_server": True, "enable": True}, "tls.client.trustCertPath"),
            ({"client_auth_server": True, "client_trust_cert_path": "/t"}, "tls.enable"),
            ({**CERTIFIED, **TRUST, "server_need_client_auth": "require"}, "tls.server.mode=enforcing"),
            ({"client_trust_cert_path": "/t"}, "tls.client.authServer"),
            ({"test_mode": "false", "server_mode": "enforcing"}, "tls.server.certPath"),
            (
                {"test_mode": "true", "client_auth_server": True, "client_trust_cert_path": "/t"},
                "tls.client.authServer",
            ),
        ):
            with self.assertRaisesRegex(ConfigError, named, msg=str(keys)):
                check_tls(TlsConfig(**keys))  # type: ignore[arg-type]


class SourceTests(unittest.TestCase):
    """The server's file, the file for TLS, flags."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "tls.properties"
        self.file = f"tls.config.file={self.path}\ntls.server.mode=disabled\n".encode()

    def tls(self, flags: dict[str, str] | None = None) -> TlsConfig:
        loaded = loading.load_namesrv(self.file, flags=flags, environment={})
        self.warnings = loaded.warnings
        return loaded.config.remoting.tls

    def test_the_strongest_wins(self) -> None:
        self.file += b"tls.protocols=TLSv1.2\n"
        self.path.write_text("tls.protocols=TLSv1.3\n")
        self.assertEqual(self.tls().protocols, "TLSv1.3")
        self.assertEqual(self.tls({"tls.protocols": ""}).protocols, "")
        self.path.write_text("")
        self.assertEqual(self.tls().protocols, "TLSv1.2")

    def test_what_java_takes_from_no_file(self) -> None:
        """``tls.server.mode`` and ``tls.enable`` are weaker in a file, and count for nothing in a default one."""
        self.path.write_text("tls.server.mode=enforcing\ntls.enable=true\ntls.protocols=TLSv1.3\n")
        self.file = f"tls.config.file={self.path}\n".encode()
        self.assertEqual((self.tls().server_mode, self.tls().enable), ("enforcing", True))
        self.file += b"tls.server.mode=disabled\ntls.protocols=TLSv1.2\n"
        self.assertEqual((self.tls().server_mode, self.tls().protocols), ("disabled", "TLSv1.3"))
        with mock.patch.object(loading, "DEFAULT_TLS_FILE", str(self.path)):
            self.file = f"tls.config.file={self.path}\n".encode()
            found = self.tls()
        self.assertEqual((found.server_mode, found.enable, found.protocols), ("permissive", False, "TLSv1.3"))
        self.assertEqual(len([each for each in self.warnings if "no effect in the default" in each]), 2)

    def test_for_another_process_of_this_machine(self) -> None:
        """What differs from the defaults, and no password on a command line."""
        self.path.write_text("tls.protocols=TLSv1.3\ntls.client.keyPassword=opensesame\n")
        self.assertEqual(
            given(self.tls()),
            {"tls.config.file": str(self.path), "tls.server.mode": "disabled", "tls.protocols": "TLSv1.3"},
        )
        with self.assertRaisesRegex(ConfigError, "tls.client.keyPassword"):
            given(TlsConfig(client_key_password="opensesame"))

    def test_a_file_that_is_named_must_be_there(self) -> None:
        with self.assertRaisesRegex(ConfigError, "cannot be read"):
            self.tls()

    def test_errors_and_warnings_name_the_place(self) -> None:
        self.path.write_text("# TLS\ntls.protocols=SSLv3\n")
        with self.assertRaisesRegex(ConfigError, f"{self.path}, line 2: tls.protocols='SSLv3' is refused"):
            self.tls()
        self.path.write_text("tls.server.certpath=/x\n")
        self.tls()
        self.assertIn(f"{self.path}, line 1: tls.server.certpath is no key of TLS", self.warnings)

    def test_every_server_takes_them(self) -> None:
        for load in (loading.load_broker, loading.load_namesrv, loading.load_controller):
            with self.subTest(load.__name__):
                loaded = load(b"tls.server.mode=disabled\n", environment={"HOME": "/nowhere"})
                self.assertEqual(loaded.config.remoting.tls.server_mode, "disabled")
                self.assertEqual([each for each in loaded.warnings if "tls" in each], [])

    def test_a_password_is_in_no_answer(self) -> None:
        self.path.write_text("tls.client.keyPassword=opensesame\n")
        loaded = loading.load_namesrv(self.file, environment={})
        shown = loading.describe(loaded.config)
        self.assertNotIn(b"opensesame", shown)
        self.assertIn(f"tls.client.keyPassword={HIDDEN}\n".encode(), shown)
        self.assertNotIn("opensesame", repr(loaded))
        with self.assertRaises(ConfigError) as raised:
            loading.load_namesrv(b"tls.client.keyPassword=open\\u0001sesame\n", environment={})
        self.assertNotIn("sesame", str(raised.exception))
