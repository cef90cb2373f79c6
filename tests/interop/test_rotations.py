"""A group of ours with identities and users, whose certificates are exchanged while messages flow and masters end.

Each process has a folder's ``NAME.crt``, ``NAME.key`` and the trust of all; they are exchanged as an operator would do
it.  The client is Java's, a default producer with the signature of a user, which believes all authorities from the
start.  No send of it may fail but while a killed master's successor is not known to it, and nothing acknowledged may be
lost.
"""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from rocketha.access.identity import Identity, Part
from rocketha.services.tls.authority import Authority
from tests.services.tls.authority import replace

from .harness import FULL, InteropCase, remoting
from .harness.controllers import CLUSTER, GROUP, ReplicaGroup
from .harness.ledger import Load
from .harness.links import peers
from .harness.pairs import await_equal, compare_at_rest
from .harness.processes import wait_until
from .harness.roles import Role
from .test_access import ROOT, flags_of, keys

TAKEN = "the files have changed and are in use"
ROTATIONS = 10 if FULL else 1
"""Of each kind."""
PLANNED = {ROTATIONS // 4, ROTATIONS - 1}
"""During these the master is stopped, and hands over."""
HOSTS = ("127.0.0.1", "localhost")
OPERATOR = "operator"
SEEN_S = 20
GET_BROKER_CLUSTER_INFO = 106


class Files:
    """What the processes and an operator show and believe, and the authorities that issue it, one after the other.

    :param who: the identity of each name.
    """

    def __init__(self, folder: Path, who: Mapping[str, Identity]) -> None:
        self.who = who
        self.live = folder / "live"
        self.live.mkdir(parents=True)
        self._now = datetime.datetime.now(datetime.UTC)
        self.authorities = [
            Authority.make(str(folder / f"ca{number}"), f"authority {number}", self._now, 100)
            for number in range(ROTATIONS + 1)
        ]
        self.present = self.authorities[0]
        self.trust = self.live / "ca.crt"
        self.every = folder / "every.crt"
        self.every.write_bytes(b"".join(map(self.root, self.authorities)))
        self.believe(self.present)
        for name in who:
            self.renew(name)
            text = (self.present.folder / f"{name}.properties").read_text()
            (self.live / f"{name}.properties").write_text(text.replace(str(self.present.folder), str(self.live)))

    @staticmethod
    def root(authority: Authority) -> bytes:
        return (authority.folder / "ca.crt").read_bytes()

    def believe(self, *authorities: Authority) -> None:
        replace(self.trust, b"".join(map(self.root, authorities)))

    def issue(self, name: str, who: Identity | None = None) -> tuple[bytes, bytes]:
        """A new key, and its certificate."""
        self.present.issue(name, HOSTS, [who or self.who[name]], self._now, 30)
        key, certificate = (self.present.folder / f"{name}.{kind}" for kind in ("key", "crt"))
        return key.read_bytes(), certificate.read_bytes()

    def renew(self, name: str, who: Identity | None = None) -> None:
        for kind, data in zip(("key", "crt"), self.issue(name, who), strict=True):
            replace(self.live / f"{name}.{kind}", data)

    def certificate_alone(self, name: str) -> None:
        """Another one of the same key, with the same words."""
        path = self.live / f"{name}.crt"
        old = x509.load_pem_x509_certificate(path.read_bytes())
        builder = x509.CertificateBuilder().subject_name(old.subject).issuer_name(old.issuer)
        builder = builder.public_key(old.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(old.not_valid_before_utc).not_valid_after(old.not_valid_after_utc)
        for each in old.extensions:
            builder = builder.add_extension(each.value, each.critical)
        key = load_pem_private_key((self.present.folder / "ca.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        replace(path, builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def shows(self, name: str) -> ssl.SSLContext:
        """How somebody speaks who has these files now."""
        context = ssl.create_default_context(cafile=str(self.every))
        context.load_cert_chain(self.live / f"{name}.crt", self.live / f"{name}.key")
        return context


class Rotations(InteropCase):
    """Three brokers, three controllers and a nameserver, each with files of its own."""

    def test_under_load(self) -> None:
        who = {
            "namesrv": Identity(CLUSTER, Part.NAMESERVER, "ns"),
            OPERATOR: Identity(CLUSTER, Part.OPERATOR, "ann"),
            **{f"n{number}": Identity(CLUSTER, Part.CONTROLLER, f"n{number}") for number in range(3)},
            **{f"replica{number}": Identity(CLUSTER, Part.BROKER, GROUP) for number in (1, 2, 3)},
        }
        files = self.files = Files(self.folder / "pki", who)
        remoting.tls = files.shows(OPERATOR)
        self.addCleanup(setattr, remoting, "tls", None)
        group = self.group = ReplicaGroup(
            "ours", self.folder, extra=keys(self.folder), kinds=("ours",) * 3, namesrv="ours"
        )
        for process in group.processes:
            process.extra["tls.config.file"] = files.live / f"{process.name}.properties"
        self.addCleanup(group.kill)
        group.start()
        flags = {"enable": "true", "test.mode.enable": "false", "client.authServer": "true"}
        flags["client.trustCertPath"] = str(files.every)
        load = self.load = self.use(
            Load(
                group.namesrv_addresses,
                self.folder / "load",
                flags=flags_of(ROOT, *(f"-Dtls.{key}={value}" for key, value in flags.items())),
            )
        )
        run = self.run_name = load.begin(rate=300, retries=2)
        load.await_more(run, 100)
        allowed: dict[str, int] = {}  # failed sends, while a killed master's successor is not known to the client
        if FULL:
            self.switch_by_kill()
            allowed = load.state(run)["errors"]
        alone = sum(allowed.values())
        done = dict.fromkeys(("certificate", "key and certificate", "each alone", "trust", "bad"), 0)
        for number in range(ROTATIONS):
            self.taken(files.certificate_alone)
            done["certificate"] += 1
            if number in PLANNED:
                self.taken(files.renew, during=self.switch_by_sigterm)
            else:
                self.taken(files.renew)
            done["key and certificate"] += 1
            self.each_alone()
            done["each alone"] += 1
            if FULL and number == ROTATIONS // 2:
                self.assertEqual(load.state(run)["errors"], allowed)
                self.taken(files.renew, during=self.switch_by_kill)
                allowed = load.state(run)["errors"]
            self.another_authority(files.authorities[number + 1])
            done["trust"] += 1
            self.bad_ones()
            done["bad"] += 1
            self.assertEqual(load.state(run)["errors"], allowed, f"in rotation {number}")
        state = load.state(run)
        acked = load.end(run)
        self.assertEqual(state["errors"], allowed, state)
        present = load.read(retried=True)
        self.assertEqual([each.key for each in acked if each.key not in present], [])
        end = await_equal(group.brokers)
        group.stop_brokers()
        size, entries = compare_at_rest(group.brokers)
        counts = ", ".join(f"{name} {count}" for name, count in done.items())
        killed = (
            f"failed sends: {alone} when a master was killed before all, {sum(allowed.values()) - alone} when one was "
            f"killed during a renewal ({'; '.join(allowed) or 'none'}), 0 else"
        )
        sys.stderr.write(
            f"\nrotations: {counts}; {len(acked)} acknowledged, none lost; longest gap {state['longest_gap_ms']} ms; "
            f"{killed if FULL else 'no send failed'}; logs end at {end}, {size} bytes and {entries} entries of queues "
            "are equal\n"
        )

    # -- what is exchanged

    def taken(self, change: Callable[[str], object], during: Callable[[], object] = lambda: None) -> None:
        """Change something of each process: both its sides say that they have it."""
        with self.said(TAKEN):
            for name in self.files.who:
                change(name)
            during()
        self.goes_on()

    def each_alone(self) -> None:
        """A key that fits no certificate, and then its certificate."""
        issued = {name: self.files.issue(name) for name in self.files.who}
        for number, (kind, says) in enumerate((("key", "the old files stay in use"), ("crt", TAKEN))):
            with self.said(says):
                for name, pair in issued.items():
                    replace(self.files.live / f"{name}.{kind}", pair[number])
            self.goes_on()

    def another_authority(self, new: Authority) -> None:
        """It is believed, too; all certificates are of it; the old one is believed no more, nor what it issued."""
        files, old = self.files, self.files.present
        before = files.shows(OPERATOR)
        with self.said(TAKEN):
            files.believe(old, new)
        self.goes_on()
        files.present = new
        self.taken(files.renew)
        now = remoting.tls = files.shows(OPERATOR)
        with contextlib.ExitStack() as stack:
            there = {each: stack.enter_context(self.connected(each, before)) for each in self.group.processes}
            sessions = {each: sock.session for each, sock in there.items()}
            with self.said(TAKEN):
                files.believe(new)
            for each, sock in there.items():
                self.assertTrue(self.ends(sock), f"an open connection to {each.name} outlived the trust in its CA")
        for each in self.group.processes:
            self.assertIsNotNone(sessions[each], each.name)
            self.assertFalse(self.let_in(each, before), each.name)
            self.assertFalse(self.let_in(each, before, sessions[each]), f"{each.name} takes up an old session")
            self.assertTrue(self.let_in(each, now), each.name)
        self.whole()
        self.goes_on()

    def bad_ones(self) -> None:
        """Junk, and somebody else's name: the old files stay in use, and the log says it."""
        with self.said("no certificate in PEM"):
            for path in self.files.live.glob("*.crt"):
                replace(path, b"junk")
        self.goes_on()
        self.files.believe(self.files.present)
        with self.said("is not that of"):
            for name in self.files.who:
                self.files.renew(name, Identity(CLUSTER, Part.CLIENT, "shop"))
        self.goes_on()
        self.whole()
        self.taken(self.files.renew)

    # -- who is master

    def switch_by_sigterm(self) -> None:
        master = self.group.master()
        master.stop()
        self.restart(master.name)

    def switch_by_kill(self) -> None:
        """What the killed one was to answer has failed when this returns, or has been answered by another."""
        master = self.group.master()
        master.kill()
        self.restart(master.name)
        self.load.await_ended(self.run_name)

    def restart(self, name: str) -> None:
        (before,) = (broker for broker in self.group.brokers if broker.name == name)
        self.group.await_master(lambda state: state.master_address != before.address)
        self.load.await_more(self.run_name, 1)
        before.start()
        self.whole()

    # -- what is seen

    def goes_on(self) -> None:
        self.load.await_more(self.run_name, 50)

    def whole(self) -> None:
        """All replicas follow, and the nameserver knows them."""
        self.group.await_whole()
        master = self.group.master()
        wait_until("two links", lambda: len(peers(master.port + 1)) == 2, SEEN_S)
        for broker in self.group.brokers:
            wait_until(f"{broker.name} to be registered", broker.ready, SEEN_S)

    @contextlib.contextmanager
    def said(self, text: str) -> Iterator[None]:
        """What is done makes each process say so of its ports and of its own connections, but those that start anew."""
        before = {each: (each.pid, each.log().count(text)) for each in self.group.processes}
        yield
        for each, (pid, count) in before.items():

            def heard(each: Role = each, pid: int = pid, count: int = count) -> bool:
                return each.pid != pid or each.log().count(text) >= count + 2

            wait_until(f"{each.name} to say twice: {text}", heard, SEEN_S)

    # -- somebody with a certificate

    @contextlib.contextmanager
    def connected(
        self, role: Role, context: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> Iterator[ssl.SSLSocket]:
        """To its port, where he has been answered."""
        host, port = role.address.rsplit(":", 1)
        with (
            socket.create_connection((host, int(port)), SEEN_S) as plain,
            context.wrap_socket(plain, server_hostname=host, session=session) as sock,
        ):
            sock.sendall(remoting.frame(GET_BROKER_CLUSTER_INFO))
            remoting.read_reply(sock)
            yield sock

    def let_in(self, role: Role, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> bool:
        try:
            with self.connected(role, context, session):
                return True
        except TimeoutError:
            raise
        except OSError:
            return False

    def ends(self, sock: ssl.SSLSocket) -> bool:
        try:
            return sock.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True
