"""Keys and certificates of a process: read from their files, checked, and made into OpenSSL contexts.

Theory of operation.  A :class:`Credentials` has one context for all connections made from it.  Files that changed are
read again (:meth:`Credentials.look`): the next connection has the new ones, and of one that is open can be asked
whether it would still be let in (:meth:`Credentials.believes`).  What cannot be used (a key that does not fit, a file
half written) leaves the old context in place, and says so until it can.

Needs the extra ``rocketha[tls]``: import it only where TLS is wanted.
Must not know what is configured but paths, nor any connection.
"""

from __future__ import annotations

import datetime
import re
import weakref
from collections.abc import Sequence
from typing import Any

import attrs
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto

from rocketha.access.identity import Identity, parse_uri
from rocketha.errors import ConfigError
from rocketha.services.process.bounded_file import file_stamp, read_bounded
from rocketha.services.process.secret_file import refuse_readable

FILE_BYTES_MAX = 1 << 20
_NEVER = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
_VERSIONS = {"TLSv1.2": SSL.TLS1_2_VERSION, "TLSv1.3": SSL.TLS1_3_VERSION}
_SIZE = re.compile(r"(AES|CAMELLIA|ARIA)-(\d+)")


@attrs.frozen
class Side:
    """What one side of a connection shows, and whom it believes.

    :ivar cert_path: PEM, the own certificate first, then those above it; empty: none is shown.
    :ivar trust_path: PEM, the CAs that the other end is believed by; empty: anybody is.
    :ivar demands: the other end must show a certificate; where it need not, and has one, that is checked all the same.
    :ivar self_made: without a ``cert_path`` one is made.
    """

    cert_path: str = ""
    key_path: str = ""
    key_password: str = attrs.field(default="", repr=False)
    trust_path: str = ""
    demands: bool = True
    self_made: bool = False
    protocols: Sequence[str] = ()
    ciphers: Sequence[str] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The files it is read from."""
        return tuple(filter(None, (self.cert_path, self.key_path, self.trust_path)))


class Credentials:
    """The context of one side, as its files are now.

    :param now: the present time, for the end of a certificate's life.
    :raises ConfigError: a file is missing or holds something else.
    :ivar context: for new connections.
    :ivar problem: why the files, which have changed, are not used; empty: they are.
    :ivar expires: when the own certificate, or the first of those above it, ends to be valid; None without one.
    :ivar identities: in the first own certificate; those of other files must have the same.
    :ivar changes: how often other files were taken.
    """

    def __init__(self, side: Side) -> None:
        self._side = side
        self.problem = ""
        self.changes = 0
        self._seen = self._stamps()
        self._trust = file_stamp(side.trust_path)
        self.context, self.expires, self.identities = _context(side)
        self._alike = weakref.WeakSet([self.context])  # contexts that believe what the present one does

    def look(self) -> bool:
        """Take the files again if they changed; whether something new is in use, or a new problem is to be told."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        before = self.problem
        try:
            context, expires, identities = _context(self._side)
            if self.identities not in ((), identities):
                raise ConfigError(f"{self._side.cert_path}: is not that of {' and '.join(map(str, self.identities))}")
            trust = stamps[-1] if self._side.trust_path else self._trust
            if trust != self._trust:
                self._trust = trust
                self._alike.clear()
            self._alike.add(context)
            self.context, self.expires = context, expires
        except ConfigError as problem:
            self.problem = str(problem)
            return self.problem != before
        self.problem = ""
        self.changes += 1
        return True

    def believes(self, connection: SSL.Connection) -> bool:
        """Whether what the other end of a connection showed would let it in with the present files."""
        if not self._side.trust_path or connection.get_context() in self._alike:
            return True
        shown = connection.get_peer_certificate()
        if shown is None:
            return True
        store = self.context.get_cert_store()
        assert store is not None
        try:
            # where a session was taken up those above it are not there: a whole handshake has to say, then
            crypto.X509StoreContext(store, shown, connection.get_peer_cert_chain()).verify_certificate()
        except crypto.X509StoreContextError:
            return False
        return True

    def _stamps(self) -> tuple[object, ...]:
        return tuple(map(file_stamp, self._side.paths))


def _read(path: str) -> bytes:
    data = read_bounded(path, FILE_BYTES_MAX)
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: more than {FILE_BYTES_MAX} bytes, so it holds no certificates")
    return data


def read_certificates(path: str) -> list[x509.Certificate]:
    """All certificates of a PEM file, at least one.

    :raises ConfigError: it holds none.
    """
    try:
        found = x509.load_pem_x509_certificates(_read(path))
    except ValueError as error:
        raise ConfigError(f"{path}: no certificate in PEM (BEGIN CERTIFICATE): {error}") from None
    return found


def _read_key(path: str, password: str) -> Any:
    refuse_readable(path)
    try:
        return load_pem_private_key(_read(path), password.encode() or None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: no private key in PEM, or another password than keyPassword: {error}") from None


def identities_in(certificate: x509.Certificate) -> tuple[Identity, ...]:
    """Whose it is; several where a process is several, none where it does not say.

    :raises ConfigError: it says it in a way that is none.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    found = map(parse_uri, names.get_values_for_type(x509.UniformResourceIdentifier))
    return tuple(each for each in found if each is not None)


_Loaded = tuple[SSL.Context, datetime.datetime | None, tuple[Identity, ...]]


def _context(side: Side) -> _Loaded:
    try:
        return _made(side)
    except (SSL.Error, crypto.Error) as error:
        said = "; ".join(str(each[-1]) for each in error.args[0]) if error.args else ""
        raise ConfigError(f"{side.cert_path or side.trust_path or 'TLS'}: OpenSSL refuses it: {said}") from None


def _made(side: Side) -> _Loaded:
    context = SSL.Context(SSL.TLS_METHOD)
    versions = [_VERSIONS[name] for name in side.protocols] or list(_VERSIONS.values())
    if side.ciphers:
        versions = _choose(context, side.ciphers, versions)
    context.set_min_proto_version(min(versions))
    context.set_max_proto_version(max(versions))
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_session_id(b"rocketha")  # without one a session with a client's certificate is not resumed
    expires: datetime.datetime | None = None
    identities: tuple[Identity, ...] = ()
    if side.cert_path:
        chain = read_certificates(side.cert_path)
        _show(context, chain, _read_key(side.key_path, side.key_password), side)
        expires, identities = min(each.not_valid_after_utc for each in chain), identities_in(chain[0])
    elif side.self_made:
        key = ec.generate_private_key(ec.SECP256R1())
        _show(context, [_self_signed(key)], key, side)
    if side.trust_path:
        store = context.get_cert_store()
        assert store is not None
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)  # as in Java each of them is believed, a root or not
        for each in read_certificates(side.trust_path):
            store.add_cert(crypto.X509.from_cryptography(each))
        flags = SSL.VERIFY_PEER | (SSL.VERIFY_FAIL_IF_NO_PEER_CERT if side.demands else 0)
        context.set_verify(flags, lambda connection, certificate, error, depth, good: bool(good))
    return context, expires, identities


def _show(context: SSL.Context, chain: Sequence[x509.Certificate], key: Any, side: Side) -> None:
    context.use_certificate(chain[0])
    for each in chain[1:]:
        context.add_extra_chain_cert(each)
    try:
        context.use_privatekey(key)
        context.check_privatekey()
    except SSL.Error:
        raise ConfigError(f"{side.key_path}: is not the key of the certificate in {side.cert_path}") from None


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """As Java's in test mode."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(_NEVER)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )


def _choose(context: SSL.Context, names: Sequence[str], versions: Sequence[int]) -> list[int]:
    """Allow only these suites, and only the versions that have one of them.

    :param names: OpenSSL's, or those of the standards, which Java uses.
    """
    newer = [name for name in names if name.startswith("TLS_") and "_WITH_" not in name]
    older = [_openssl_name(name) for name in names if name not in newer]
    try:
        if newer:
            context.set_tls13_ciphersuites(":".join(newer).encode())
        if older:
            context.set_cipher_list(":".join(older).encode())
    except SSL.Error:
        raise ConfigError(f"tls.ciphers={','.join(names)}: OpenSSL knows none of them") from None
    having = [SSL.TLS1_2_VERSION] * bool(older) + [SSL.TLS1_3_VERSION] * bool(newer)
    left = [version for version in versions if version in having]
    if not left:
        raise ConfigError(f"tls.ciphers={','.join(names)}: none of them is one of tls.protocols")
    return left


def _openssl_name(name: str) -> str:
    """``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is ``ECDHE-RSA-AES128-GCM-SHA256`` there."""
    if not name.startswith("TLS_"):
        return name
    found = _SIZE.sub(r"\1\2", name.removeprefix("TLS_").replace("_WITH_", "_").replace("_", "-"))
    return found.removesuffix("-SHA256") if "CHACHA20" in found else found.removeprefix("RSA-")
