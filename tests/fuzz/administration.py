"""Cases of requests that no client sends: of users and what they may do, of brokers to controllers, of operators.

Pure.  The generator of :mod:`rocketha.wire.fuzz` leaves them out, for it also attacks servers where anybody may ask
them.  A case follows from its seed and number alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from rocketha.wire import remoting
from rocketha.wire.fuzz import json_text, values
from rocketha.wire.fuzz.case import HOSTILE, VALID, Case
from rocketha.wire.fuzz.request_table import REQUESTS

USERS = ("fuzz-user-1", "fuzz-user-2", "fuzz-user-3")
FIELDS: Mapping[str, Sequence[str]] = {
    "username": USERS,
    "subject": [f"User:{name}" for name in USERS],
    "policyType": ("Custom", "Default", ""),
    "resource": ("Topic:fuzz*", "*", "Group:fuzz-group", "Cluster:DefaultCluster"),
    "filter": ("", "fuzz"),
    "subjectFilter": ("", "User:"),
    "resourceFilter": ("", "Topic"),
    "clusterName": ("DefaultCluster", "FuzzCluster"),
    "brokerName": ("fuzz-broker", "fuzz-broker-2"),
    "brokerId": ("1", "2", "0", "-1"),
    "brokerAddress": ("127.0.0.1:1", "127.0.0.1:2"),
    "brokerAddr": ("127.0.0.1:1",),
    "appliedBrokerId": ("1", "2"),
    "registerCheckCode": ("127.0.0.1:1;1",),
    "masterBrokerId": ("1", "2"),
    "masterAddress": ("127.0.0.1:1",),
    "masterEpoch": ("0", "1", "2"),
    "syncStateSetEpoch": ("0", "1", "2"),
    "designateElect": ("false", "true"),
    "brokerControllerIdsToClean": ("1", "1;2", "null"),
    "isCleanLivingBroker": ("false", "true"),
    "after": ("", "0"),
    "invokeTime": ("0", "1795256860020"),
}
SHARES = (0.3, 0.95)
"""Of the fields that a request has: few requests want more than four, and all of these."""
BODIES: Sequence[Any] = (
    {"username": "fuzz-user-1", "password": "fuzz-password", "userType": "Normal", "userStatus": "enable"},
    {"password": "fuzz-password", "userType": "Super"},
    {
        "subject": "User:fuzz-user-1",
        "policies": [
            {
                "policyType": "Custom",
                "entries": [
                    {
                        "resource": "Topic:fuzz*",
                        "actions": ["Pub", "Sub"],
                        "sourceIps": ["10.0.0.0/8", "::1"],
                        "decision": "Allow",
                    }
                ],
            }
        ],
    },
    {"syncStateSet": [1, 2], "syncStateSetEpoch": 1},
    ["fuzz-broker"],
    {},
)
BODY_BYTES_MAX = 70_000


class Administration:
    """Of one port.

    :param codes: that it answers.
    """

    def __init__(self, codes: Sequence[int]) -> None:
        self._codes = [code for code in sorted(codes) if code not in REQUESTS]

    def __call__(self, seed: int, index: int) -> Case:
        chance = Random(f"{seed}:administration:{index}")
        code, kind = chance.choice(self._codes), chance.choice((VALID, HOSTILE, HOSTILE))
        share = chance.choice(SHARES)
        fields = {name: chance.choice(FIELDS[name]) for name in FIELDS if chance.random() < share}
        note = f"request {code}"
        value = chance.choice(BODIES)
        body = b"" if chance.random() < 0.2 else json.dumps(value).encode()
        if kind == HOSTILE:
            for name in chance.sample(sorted(FIELDS), chance.choice((0, 1, 1, 3))):
                fields[name] = values.name(chance) if chance.random() < 0.6 else values.number_text(chance)
            pick = chance.random()
            if pick < 0.5:
                body, what = json_text.hostile(chance, value if isinstance(value, dict) else {}, BODY_BYTES_MAX)
                note += f": body's {what}"
            elif pick < 0.6:
                body = values.octets(chance, chance.randrange(200))
        command = remoting.request(code, fields, body)
        command.opaque = index & 0x7FFFFFFF
        try:
            data = remoting.encode(command, code < 1 << 15 and chance.random() < 0.3)
        except remoting.RemoteProtocolError:  # a name that the packed header cannot hold
            data = remoting.encode(remoting.Command(code, opaque=command.opaque, body=body))
        return Case("administration", seed, index, kind, note, data)
