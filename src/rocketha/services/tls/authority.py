"""A cluster's own certificate authority: a folder with its key, and what it issues.

Theory of operation.  ``ca.crt`` and ``ca.key`` are made once.  For each name there are ``NAME.crt`` (the certificate),
``NAME.key`` (PKCS#8, which Java reads too) and ``NAME.properties``, the ``tls.*`` keys that use them.  Files are
replaced whole, the key first: a server that looks in between finds a key that does not fit, and waits for the other.

Needs the extra ``rocketha[tls]``.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rocketha.access.identity import Identity
from rocketha.errors import ConfigError
from rocketha.services.process.secret_file import refuse_readable
from rocketha.services.tls.certificates import identities_in, read_certificates

CA = "ca"
_BOTH_ENDS = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_EARLIER = datetime.timedelta(hours=1)
"""Before the moment of issue: clocks differ."""


@attrs.frozen
class Issued:
    """A certificate, as people want to see it.

    :ivar path: of its file.
    """

    path: str
    subject: str
    hosts: Sequence[str]
    identities: Sequence[Identity]
    begins: datetime.datetime
    ends: datetime.datetime
    issuer: str
    serial: int
    is_ca: bool


class Authority:
    """Of one cluster.

    :param folder: where it keeps all of it.
    :raises ConfigError: there is none, or its files cannot be used.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        certificate, key = self.folder / f"{CA}.crt", self.folder / f"{CA}.key"
        if not certificate.exists():
            raise ConfigError(f"{certificate} is missing: `rocketha pki init {folder}` makes an authority")
        self._certificate = read_certificates(str(certificate))[0]
        refuse_readable(str(key))
        try:
            loaded = load_pem_private_key(key.read_bytes(), None)
        except (OSError, ValueError, TypeError) as problem:
            raise ConfigError(f"{key}: cannot be used: {problem}") from None
        if not isinstance(loaded, ec.EllipticCurvePrivateKey) or loaded.public_key() != self._certificate.public_key():
            raise ConfigError(f"{key}: is not the key of {certificate}")
        self._key = loaded

    @classmethod
    def make(cls, folder: str, name: str, now: datetime.datetime, days: int) -> Authority:
        """A new one.

        :raises ConfigError: there is one, or the folder cannot be written.
        """
        path = Path(folder)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{folder}: {error.strerror}") from None
        for each in (path / f"{CA}.crt", path / f"{CA}.key"):
            if each.exists():
                raise ConfigError(f"{each} is there: an authority is made once")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        certificate = (
            _builder(subject, subject, key.public_key(), now, days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(issues=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(path / f"{CA}.key", _private(key))
        _write(path / f"{CA}.crt", certificate.public_bytes(Encoding.PEM), 0o644)
        return cls(folder)

    def issue(
        self, name: str, hosts: Sequence[str], identities: Sequence[Identity], now: datetime.datetime, days: int
    ) -> Issued:
        """A new key and a certificate of it; the files of that name are replaced.

        :param name: of the files.
        :param hosts: host names and IP addresses at which it is reached.
        :raises ConfigError: a name that is no file's, hosts that are none, or more days than the authority has.
        """
        if name == CA or not name or name != os.path.basename(name) or name.startswith("."):
            raise ConfigError(f"{name!r}: a name for files is wanted, and not {CA!r}")
        if now + datetime.timedelta(days=days) > self._certificate.not_valid_after_utc:
            ends = self._certificate.not_valid_after_utc.date()
            raise ConfigError(f"{days} days: the authority itself ends on {ends}")
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key()
        names: list[x509.GeneralName] = [_general(host) for host in dict.fromkeys(hosts)]
        names += [x509.UniformResourceIdentifier(each.uri) for each in identities]
        builder = (
            _builder(_named(name), self._certificate.subject, public, now, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(issues=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage(_BOTH_ENDS),
                critical=False,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._certificate.public_key()),  # type: ignore[arg-type]
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        _write(self.folder / f"{name}.key", _private(key))
        _write(self.folder / f"{name}.crt", certificate.public_bytes(Encoding.PEM), 0o644)
        _write(self.folder / f"{name}.properties", self._properties(name, bool(identities)).encode(), 0o644)
        return look(str(self.folder / f"{name}.crt"))

    def renew(self, name: str, now: datetime.datetime, days: int) -> Issued:
        """A new key and a certificate with the same names in it.

        :raises ConfigError: there is none of that name.
        """
        before = look(str(self.folder / f"{name}.crt"))
        return self.issue(name, before.hosts, before.identities, now, days)

    def names(self) -> list[str]:
        """Of all that it issued."""
        return sorted(path.stem for path in self.folder.glob("*.crt") if path.stem != CA)

    def _properties(self, name: str, identified: bool) -> str:
        folder = self.folder.resolve()
        own = {"certPath": f"{name}.crt", "keyPath": f"{name}.key", "trustCertPath": f"{CA}.crt"}
        lines = ["tls.test.mode.enable=false", "tls.server.mode=enforcing", "tls.enable=true"]
        lines += ["tls.server.need.client.auth=optional", "tls.server.authClient=true", "tls.client.authServer=true"]
        lines += [f"tls.{side}.{key}={folder / value}" for side in ("server", "client") for key, value in own.items()]
        lines += ["tls.identities=required"] * identified
        return "\n".join(lines) + "\n"


def look(path: str) -> Issued:
    """What is in a certificate's file.

    :raises ConfigError: there is none in it.
    """
    found = read_certificates(path)[0]
    try:
        names = list(found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        names = []
    try:
        is_ca = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_ca = False
    return Issued(
        path,
        found.subject.rfc4514_string(),
        [str(each.value) for each in names if isinstance(each, x509.DNSName | x509.IPAddress)],
        identities_in(found),
        found.not_valid_before_utc,
        found.not_valid_after_utc,
        found.issuer.rfc4514_string(),
        found.serial_number,
        is_ca,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host.encode("idna").decode())
    except UnicodeError:
        raise ConfigError(f"{host!r} is no host name or IP address") from None


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _EARLIER).not_valid_after(now + datetime.timedelta(days=days))


def _usage(issues: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not issues,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=issues,
        crl_sign=issues,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, data: bytes, mode: int = 0o600) -> None:
    beside = path.with_name(path.name + ".new")
    try:
        beside.unlink(missing_ok=True)
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
