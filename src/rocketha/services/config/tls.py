"""RocketMQ's ``tls.*`` properties: what they mean, and which of them go together.

Java takes them as system properties (``-Dtls.server.mode=...``) and, all but ``tls.server.mode`` and ``tls.enable``,
from the file ``tls.config.file``, whose values win.  Here they may stand in the server's own file, too, and ``--set``
wins over both.  Those two count in a file that somebody named, where nothing else says them.

Half a configuration protects nothing and looks as if it did, so it is refused: a certificate beside the test mode, a
client certificate that is wanted and not checked.  Java serves with both.  Nothing is opened here.

Java: ``TlsSystemConfig``, ``TlsHelper``.
"""

from __future__ import annotations

import attrs

from rocketha.access.trusted import check as check_trusted
from rocketha.errors import ConfigError
from rocketha.services.config.checks import check_plain_path
from rocketha.services.config.settings import Section, choice, flag, show, text

DEFAULT_FILE = "/etc/rocketmq/tls.properties"
ENVIRONMENT = "ROCKETHA_TLS"
"""Names the file of the ``rocketha`` command's own connections."""
PROTOCOLS = ("TLSv1.2", "TLSv1.3")
FILE_IS_WEAKEST = frozenset(("tls.server.mode", "tls.enable"))
"""Keys that Java does not read from ``tls.config.file``."""


def words(value: str) -> list[str]:
    """A comma separated list."""
    return [word.strip() for word in value.split(",") if word.strip()]


def _check_protocols(value: str) -> str | None:
    return None if all(word in PROTOCOLS for word in words(value)) else "TLSv1.2, TLSv1.3 or both, comma separated"


@attrs.define(slots=True)
class TlsConfig(Section):
    """See the module."""

    config_file: str = text(
        DEFAULT_FILE,
        "File with tls.* properties, read where it is there.",
        name="tls.config.file",
        check=check_plain_path,
    )
    server_mode: str = choice(
        "permissive",
        ("disabled", "permissive", "enforcing"),
        "Whether a port refuses TLS, takes TLS and plain connections, or refuses plain ones.",
        name="tls.server.mode",
    )
    enable: bool = flag(False, "Whether this process's own connections to other servers use TLS.", name="tls.enable")
    test_mode: str = choice(
        "",
        ("", "true", "false"),
        "With true a port has a certificate of its own making; empty is true where tls.server.certPath is not given.",
        name="tls.test.mode.enable",
        java_default="true",
    )
    server_cert_path: str = text(
        "", "PEM file of the ports' certificate and those above it.", name="tls.server.certPath", check=check_plain_path
    )
    server_key_path: str = text("", "PEM file of its private key.", name="tls.server.keyPath", check=check_plain_path)
    server_key_password: str = text("", "Password of that file.", name="tls.server.keyPassword", secret=True)
    server_need_client_auth: str = choice(
        "none",
        ("none", "optional", "require"),
        "Whether a client may or must show a certificate.",
        name="tls.server.need.client.auth",
    )
    server_auth_client: bool = flag(
        False, "Whether that certificate is checked against tls.server.trustCertPath.", name="tls.server.authClient"
    )
    server_trust_cert_path: str = text(
        "", "PEM file of the CAs that clients are believed by.", name="tls.server.trustCertPath", check=check_plain_path
    )
    client_cert_path: str = text(
        "", "PEM file of the certificate shown to servers.", name="tls.client.certPath", check=check_plain_path
    )
    client_key_path: str = text("", "PEM file of its private key.", name="tls.client.keyPath", check=check_plain_path)
    client_key_password: str = text("", "Password of that file.", name="tls.client.keyPassword", secret=True)
    client_auth_server: bool = flag(
        False,
        "Whether a server's certificate is checked against tls.client.trustCertPath.",
        name="tls.client.authServer",
    )
    client_trust_cert_path: str = text(
        "", "PEM file of the CAs that servers are believed by.", name="tls.client.trustCertPath", check=check_plain_path
    )
    client_check_host: bool = flag(
        True,
        "Whether a server's certificate must also name the host that was dialed.",
        name="tls.client.checkHost",
        ours=True,
    )
    identities: str = choice(
        "off",
        ("off", "required"),
        "Whether what brokers, controllers, nameservers and operators ask is answered only to who shows a certificate "
        "with that identity.",
        name="tls.identities",
        ours=True,
    )
    trusted_peers: str = text(
        "",
        "IP addresses of Java's processes, which have no identity: broker/NAME/ID@ADDRESS,ADDRESS; "
        "controller/ID@ADDRESS.",
        name="tls.trustedPeers",
        check=check_trusted,
        ours=True,
    )
    insecure_network: bool = flag(
        False,
        "Whether ports that other machines reach are opened without tls.identities: the network keeps all others away.",
        name="insecureNetwork",
        ours=True,
    )
    ciphers: str = text("", "Cipher suites, comma separated; empty is OpenSSL's own choice.", name="tls.ciphers")
    protocols: str = text(
        "", "TLSv1.2, TLSv1.3 or both, comma separated; empty is both.", name="tls.protocols", check=_check_protocols
    )

    @property
    def test_server(self) -> bool:
        """Whether the ports have a certificate of their own making."""
        return self.test_mode == "true" or (not self.test_mode and not self.server_cert_path)


def check_tls(config: TlsConfig) -> None:
    """Refuse what looks like protection and is none.

    :raises ConfigError: two keys do not go together.
    """
    if config.test_mode == "true":
        for key in ("tls.server.certPath", "tls.server.authClient", "tls.client.authServer"):
            if getattr(config, TlsConfig.declared()[key][0]):
                raise ConfigError(f"{key} has no effect with tls.test.mode.enable=true: remove one of them")
    if config.test_mode == "false" and not config.server_cert_path and config.server_mode == "enforcing":
        raise ConfigError(
            "tls.server.mode=enforcing without tls.test.mode.enable needs tls.server.certPath and keyPath"
        )
    _check_pair("tls.server", config.server_cert_path, config.server_key_path)
    _check_pair("tls.client", config.client_cert_path, config.client_key_path)
    wants = config.server_need_client_auth
    if wants != "none" and not config.server_auth_client:
        raise ConfigError(
            f"tls.server.need.client.auth={wants} checks nothing without tls.server.authClient=true: any certificate, "
            "also one of a client's own making, would do"
        )
    if config.client_auth_server and not config.enable:
        raise ConfigError("tls.client.authServer=true has no effect without tls.enable=true")
    if config.server_auth_client and wants == "none":
        raise ConfigError("tls.server.authClient=true has no effect with tls.server.need.client.auth=none")
    if config.server_auth_client and not config.server_cert_path:
        raise ConfigError("tls.server.authClient=true needs tls.server.certPath and keyPath")
    for side, checked, trust in (
        ("tls.server.authClient", config.server_auth_client, config.server_trust_cert_path),
        ("tls.client.authServer", config.client_auth_server, config.client_trust_cert_path),
    ):
        if checked and not trust:
            raise ConfigError(f"{side}=true needs {side.rpartition('.')[0]}.trustCertPath")
        if trust and not checked:
            raise ConfigError(f"{side.rpartition('.')[0]}.trustCertPath has no effect without {side}=true")
    _check_identities(config)
    if wants == "require" and config.server_mode != "enforcing":
        raise ConfigError(
            "tls.server.need.client.auth=require needs tls.server.mode=enforcing: "
            f"with {config.server_mode} who connects in the clear shows none"
        )


def _check_identities(config: TlsConfig) -> None:
    if config.identities == "off":
        if config.trusted_peers:
            raise ConfigError("tls.trustedPeers has no effect with tls.identities=off")
        return
    for key, holds in (
        ("tls.enable=true", config.enable),
        ("tls.server.authClient=true", config.server_auth_client),
        ("tls.client.authServer=true", config.client_auth_server),
        ("tls.client.certPath", config.client_cert_path),
    ):
        if not holds:
            raise ConfigError(f"tls.identities=required needs {key}: without it a certificate is not shown or checked")


def _check_pair(side: str, certificate: str, key: str) -> None:
    if bool(certificate) != bool(key):
        given, missing = ("certPath", "keyPath") if certificate else ("keyPath", "certPath")
        raise ConfigError(f"{side}.{given} needs {side}.{missing}")


def given(config: TlsConfig) -> dict[str, str]:
    """Key to text of what differs from its default, for another process of the same machine.

    :raises ConfigError: a password, which is no argument of a process, stands elsewhere than in ``tls.config.file``.
    """
    default, texts = TlsConfig(), {}
    for name, (attribute, key) in TlsConfig.declared().items():
        value = getattr(config, attribute)
        if value == getattr(default, attribute):
            continue
        if not key.secret:
            texts[name] = show(value)
        elif config.config_file == DEFAULT_FILE:
            raise ConfigError(f"{name}: let it stand in the file that tls.config.file names")
    return texts
