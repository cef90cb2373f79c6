"""Remoting cases as users of a broker would send them: unsigned, forged, rightly signed, and changed after signing.

Pure.  Which of these a case becomes follows from its seed and number, as the case itself does.  A request that our own
reader can read is written anew with its signature; all else goes as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random

import attrs

from rocketha.access.signature import ACCESS_KEY, SIGNATURE, UNIQUE_KEY_QUERY, sign, signed
from rocketha.errors import RemoteProtocolError
from rocketha.wire import remoting
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.fuzz import values
from rocketha.wire.fuzz.case import Case
from rocketha.wire.remoting import Command
from rocketha.wire.spec.remoting import ROCKETMQ

UNSIGNED, FORGED, SIGNED, CHANGED = "unsigned", "forged", "signed", "changed after signing"
WAYS = {UNSIGNED: 2, FORGED: 2, SIGNED: 5, CHANGED: 2}


class Signer:
    """Of some users.

    :param passwords: of those whose signatures are right.
    :param others: names of users whose passwords are guessed: a server looks at few of these, so they are others.
    """

    def __init__(self, passwords: Mapping[str, str], others: Mapping[str, str]) -> None:
        self._passwords = dict(passwords)
        self._others = dict(others)

    def cases(self, cases: Iterable[Case]) -> Iterator[Case]:
        """The cases in another dress."""
        for case in cases:
            chance = Random(f"{case.seed}:signed:{case.index}")
            way = chance.choices(list(WAYS), list(WAYS.values()))[0]
            yield case if way == UNSIGNED else self._dressed(chance, way, case)

    def _dressed(self, chance: Random, way: str, case: Case) -> Case:
        try:
            buffer = FrameBuffer()
            frames = list(buffer.feed(case.data))
            if buffer.started_frame or not frames:
                return case
            parts = [self._frame(chance, way, frame) for frame in frames]
        except RemoteProtocolError:
            return case
        return attrs.evolve(case, data=b"".join(parts), note=f"{way}: {case.note}")

    def _frame(self, chance: Random, way: str, frame: bytes) -> bytes:
        command = remoting.decode(frame)
        name = chance.choice(sorted(self._passwords if way == SIGNED else self._others))
        secret = self._passwords[name] if way == SIGNED else self._others[name]
        fields = {**command.fields, ACCESS_KEY: name}
        fields.pop(SIGNATURE, None)
        if way == FORGED:
            fields[SIGNATURE] = chance.choice(("", "x", values.name(chance), sign("guess", b"")))
            if chance.random() < 0.2:
                fields[ACCESS_KEY] = values.name(chance)
        else:
            fields[SIGNATURE] = sign(secret, signed(fields, command.body))
        body = command.body
        if way == CHANGED:
            body = _change(chance, fields, body)
        sent = Command(
            command.code, command.language, command.version, command.opaque, command.flag, command.remark, fields, body
        )
        return remoting.encode(sent, frame[0] == ROCKETMQ and command.code < 1 << 15)


def _change(chance: Random, fields: dict[str, str], body: bytes) -> bytes:
    """One thing is another one now."""
    names = sorted(name for name in fields if name not in (ACCESS_KEY, SIGNATURE, UNIQUE_KEY_QUERY))
    if not names or chance.random() < 0.3:
        return body + b"\0"
    name = chance.choice(names)
    if chance.random() < 0.3:
        fields[name + "2"] = fields.pop(name) + "x"
    else:
        fields[name] = fields[name] + chance.choice(("0", "a", "\u00fc", " "))
    return body
