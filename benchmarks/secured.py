"""TLS and users for a broker that is measured, ours or Java's: the same certificate, the same user, the same rights."""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from tests.interop.harness import remoting
from tests.interop.harness.roles import JavaBroker, Role, _Broker
from tests.services.tls.authority import Authority

ROOT, LOAD = ("root", "root-secret"), ("load", "load-secret")
CREATE_USER, CREATE_ACL = 3001, 3006
PROVIDERS = "org.apache.rocketmq.auth"
OPTIONS = "JAVA_TOOL_OPTIONS"


def apply(side: str, folder: Path, namesrv: Role, broker: _Broker) -> None:
    """Let both take nothing but TLS, and the broker signed requests alone; clients that begin from now on do so."""
    pki = folder / "pki"
    pki.mkdir()
    authority = Authority(pki)
    certificate, key = authority.issue("server")
    pkcs8 = pki / "server.pkcs8"  # Java reads no other form
    loaded = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pkcs8.write_bytes(loaded.private_bytes(encoding, form, serialization.NoEncryption()))
    pkcs8.chmod(0o600)
    tls = {
        "tls.test.mode.enable": "false",
        "tls.server.mode": "enforcing",
        "tls.server.certPath": certificate,
        "tls.server.keyPath": str(pkcs8),
        "tls.enable": "true",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": authority.trust,
    }
    flags = [f"-D{name}={value}" for name, value in tls.items()]
    namesrv.extra |= {**tls, "tls.config.file": ""}
    users: dict[str, object] = {
        "authenticationEnabled": True,
        "authorizationEnabled": True,
        "initAuthenticationUser": json.dumps({"username": ROOT[0], "password": ROOT[1]}),
    }
    if isinstance(broker, JavaBroker):
        broker.flags = (*flags, "-Dtls.config.file=/nowhere")
        for what, short in (("authentication", "Authentication"), ("authorization", "Authorization")):
            place = f"{PROVIDERS}.{what}.provider"
            users[f"{what}Provider"] = f"{place}.Default{short}Provider"
            users[f"{what}MetadataProvider"] = f"{place}.Local{short}MetadataProvider"
        users["innerClientAuthenticationCredentials"] = json.dumps({"accessKey": ROOT[0], "secretKey": ROOT[1]})
    else:
        secret = folder / "accounts-secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        users |= {**tls, "tls.config.file": "", "authSecretFile": secret}
    broker.extra |= users
    remoting.tls, remoting.user = ssl.create_default_context(cafile=authority.trust), ROOT
    os.environ[OPTIONS] = " ".join([*flags, f"-Drocketha.user={':'.join(LOAD)}"])


def make_user(address: str) -> None:
    """The load's, who may send."""
    steps = (
        (CREATE_USER, {"username": LOAD[0]}, {"username": LOAD[0], "password": LOAD[1], "userType": "Normal"}),
        (
            CREATE_ACL,
            {"subject": f"User:{LOAD[0]}"},
            {
                "subject": f"User:{LOAD[0]}",
                "policies": [{"entries": [{"resource": "Topic:*", "actions": ["Pub"], "decision": "Allow"}]}],
            },
        ),
    )
    for code, fields, body in steps:
        said = remoting.call(address, code, fields, json.dumps(body).encode())
        if said.code != 0:
            raise RuntimeError(f"{code} is answered {said}")


def forget() -> None:
    """The next ones are in the clear again."""
    remoting.tls = remoting.user = None
    os.environ.pop(OPTIONS, None)
