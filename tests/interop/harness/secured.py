"""A whole RocketMQ of ours with everything that guards it on: identities demanded, users on, each process by itself.

Every port takes plain connections and TLS, so that one set of processes shows what both let in.  One group of a
broker lives under a controller, another one in DLedger mode; each process has a status port.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from rocketha.access.identity import Identity, Part
from rocketha.access.signature import sign, signed
from rocketha.services.tls.authority import Authority

from . import ports, remoting
from .controllers import OurReplicaBroker, ReplicaGroup
from .leaks import Secret
from .learners import OurWitness
from .ledgers import GROUP, LedgerGroup
from .roles import OurNamesrv, Role

CLUSTER = "DefaultCluster"
HOSTS = ("127.0.0.1", "localhost")
KEPT = "Kept"
"""A topic that nobody but Super users has a right to."""
CREATE_TOPIC, CREATE_USER, CREATE_ACL, SEND = 17, 3001, 3006, 310

RIGHTS: Mapping[str, str] = {
    "publisher": "Pub",
    "subscriber": "Sub",
    "creator": "Create",
    "updater": "Update",
    "deleter": "Delete",
    "reader": "Get",
}
"""Users with one right each, on names that the fuzzer uses; one more, the victim, has none, and is guessed at."""
RESOURCES = ("Topic:fuzz*", "Topic:TBW102", "Topic:TopicTest", "Group:fuzz*", f"Cluster:{CLUSTER}")


class Secured:
    """See the module; :meth:`start` returns when all serve and the users are made.

    :ivar passwords: of every user.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pki = folder / "pki"
        now = datetime.datetime.now(datetime.UTC)
        authority = Authority.make(str(self.pki), "ours", now, 10)
        broker = [Identity(CLUSTER, Part.BROKER, GROUP)]
        for name, who in {
            "namesrv": [Identity(CLUSTER, Part.NAMESERVER, "ns1")],
            "controller": [Identity(CLUSTER, Part.CONTROLLER, "n0")],
            "broker": broker,
            "operator": [Identity(CLUSTER, Part.OPERATOR, "ann")],
            "client": [Identity(CLUSTER, Part.CLIENT, "shop")],
            "other": [Identity(CLUSTER, Part.BROKER, "fuzz-broker")],
        }.items():
            authority.issue(name, HOSTS, who, now, 5)
        self.passwords = {name: secrets.token_urlsafe(24) for name in ("root", "inner", "victim", *RIGHTS)}
        self._accounts = self._file("accounts-secret", os.urandom(32))
        self._raft = self._file("raft-secret", secrets.token_urlsafe(32).encode())
        self.controlled = ReplicaGroup(
            "ours",
            folder / "controlled",
            count=1,
            controllers=1,
            kinds=("ours",),
            namesrv="ours",
            extra=self._users() | self._tls("broker"),
            controller_extra=self._tls("controller") | {"raftSecretFile": self._raft},
        )
        assert self.controlled.namesrv is not None
        self.namesrv, self.controller = self.controlled.namesrv, self.controlled.controllers.nodes[0]
        self.broker = self.controlled.brokers[0]
        assert isinstance(self.broker, OurReplicaBroker)
        self.namesrv.extra |= self._tls("namesrv")
        other = OurNamesrv("namesrv-2", folder / "ledgers", self._tls("namesrv"))
        self.peers = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(ports.free_ports(3)))
        self.ledgers = LedgerGroup(
            ("ours", "ours"),
            folder / "ledgers",
            other,
            self._users() | self._tls("broker") | {"dLegerWitness": "n2"},
            peers=self.peers,
        )
        self.witness = OurWitness(folder / "ledgers" / "witness", GROUP, self.peers, "n2")
        self.witness.extra |= self._tls("broker") | {"raftJoinExisting": False, "brokerName": GROUP}
        self._statuses: dict[str, str] = {"witness": self.witness.address}
        for name, role in self.roles().items():
            if role is not self.witness:
                self._statuses[name] = f"127.0.0.1:{ports.free_ports(1)[0]}"
                role.more = ("--http", self._statuses[name])

    def _file(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    def _tls(self, name: str) -> dict[str, object]:
        return {"tls.config.file": self.pki / f"{name}.properties", "tls.server.mode": "permissive"}

    def _users(self) -> dict[str, object]:
        def pair(name: str, key: str, secret: str) -> str:
            return json.dumps({key: name, secret: self.passwords[name]})

        return {
            "authenticationEnabled": True,
            "authorizationEnabled": True,
            "authSecretFile": self._accounts,
            "initAuthenticationUser": pair("root", "username", "password"),
            "innerClientAuthenticationCredentials": pair("inner", "accessKey", "secretKey"),
        }

    # ---- what there is

    def roles(self) -> dict[str, Role]:
        """Every process, by what it is."""
        return {
            "namesrv": self.namesrv,
            "controller": self.controller,
            "broker": self.broker,
            "namesrv-2": self.ledgers.namesrv,
            "ledger-0": self.ledgers.brokers[0],
            "ledger-1": self.ledgers.brokers[1],
            "witness": self.witness,
        }

    def status(self, name: str) -> str:
        """The address of a process's status port."""
        return self._statuses[name]

    def peer(self, number: int) -> str:
        """The address of a member's DLedger port."""
        return self.peers.split(";")[number].split("-", 1)[1]

    def context(self, name: str | None = None) -> ssl.SSLContext:
        """How somebody speaks who has these files; None: a stranger."""
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        if name is not None:
            context.load_cert_chain(self.pki / f"{name}.crt", self.pki / f"{name}.key")
        return context

    @contextlib.contextmanager
    def speaking(self, name: str | None = None) -> Iterator[None]:
        """The test bed's requests go under TLS, with these files."""
        before, remoting.tls = remoting.tls, self.context(name)
        try:
            yield
        finally:
            remoting.tls = before

    def secrets(self) -> Iterator[Secret]:
        """All of them."""
        for name, password in self.passwords.items():
            yield Secret(f"password of {name}", password.encode())
        yield Secret("authSecretFile", self._accounts.read_bytes())
        yield Secret("raftSecretFile", self._raft.read_bytes())
        for path in self.key_files():
            key = load_pem_private_key(path.read_bytes(), None)
            assert isinstance(key, EllipticCurvePrivateKey)
            yield Secret(path.name, key.private_numbers().private_value.to_bytes(32))

    def key_files(self) -> list[Path]:
        """Of the authority, and of all that it issued."""
        return sorted(self.pki.glob("*.key"))

    def places(self) -> list[Path]:
        """The files where secrets belong."""
        configured = [role.folder / f"{role.name}.conf" for role in self.roles().values()]
        return [self._accounts, self._raft, *self.key_files(), *configured]

    # ---- its life

    def start(self) -> Secured:
        """Everything, and its users and topics."""
        with self.speaking("operator"):
            self.controlled.start()
            self.ledgers.namesrv.start()
            self.witness.spawn()
            self.ledgers.start()
            self.witness.await_ready()
            for address in (self.broker.address, self.ledgers.await_master().address):
                self._populate(address)
        return self

    def stop(self) -> None:
        """Kill what runs."""
        for role in self.roles().values():
            role.kill()

    def ask(
        self, address: str, code: int, fields: Mapping[str, str], user: str | None = "root", body: bytes = b""
    ) -> remoting.Reply:
        """One request, signed by a user."""
        given = dict(fields)
        if user is not None:
            given["AccessKey"] = user
            given["Signature"] = sign(self.passwords[user], signed(given, body))
        return remoting.call(address, code, given, body)

    def _populate(self, address: str) -> None:
        topic = {"topic": KEPT, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        topic |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        send = {"a": "p", "b": KEPT, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
        send |= {"j": "0", "k": "false", "m": "false"}
        rows: list[tuple[int, Mapping[str, str], bytes]] = [(CREATE_TOPIC, topic, b""), (SEND, send, b"kept")]
        victim = json.dumps({"password": self.passwords["victim"]}).encode()
        rows.append((CREATE_USER, {"username": "victim"}, victim))
        for name, action in RIGHTS.items():
            entries = [{"resource": each, "actions": [action], "decision": "Allow"} for each in RESOURCES]
            user = {"password": self.passwords[name], "userType": "Normal"}
            rows.append((CREATE_USER, {"username": name}, json.dumps(user).encode()))
            acl = json.dumps({"policies": [{"entries": entries}]}).encode()
            rows.append((CREATE_ACL, {"subject": f"User:{name}"}, acl))
        for code, fields, body in rows:
            reply = self.ask(address, code, fields, body=body)
            if reply.code != 0:
                raise AssertionError(f"request {code} at {address}: {reply}")
