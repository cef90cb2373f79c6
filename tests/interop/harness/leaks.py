"""Looks for secrets where they must not be: in any bytes, as they are, in base64 and in hex.

Three bytes of a text in base64 are four characters, so a secret within something longer has three spellings there; the
characters at its ends, which depend on what stands beside it, are left out.  Bodies of PEM files are found that way
too, with line breaks left out.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

SECRET_BYTES_MIN = 12
"""A shorter one could stand somewhere by chance."""
_NOTHING = re.compile(rb"\0{32,}")
"""Files that are not full yet."""


@attrs.frozen
class Secret:
    """What must be nowhere but where it is configured.

    :ivar name: for a person.
    """

    name: str
    value: bytes = attrs.field(repr=False)

    @property
    def forms(self) -> Mapping[str, bytes]:
        """How it may be spelled."""
        found = {"as it is": self.value, "hex": self.value.hex().encode(), "HEX": self.value.hex().upper().encode()}
        for before in range(3):
            text = base64.b64encode(b"\0" * before + self.value)
            first = (before * 8 + 5) // 6  # the first character that is all the secret's
            last = (before + len(self.value)) * 8 // 6
            found[f"base64 at {before}"] = text[first:last]
            found[f"base64url at {before}"] = base64.urlsafe_b64encode(b"\0" * before + self.value)[first:last]
        return found


class Leaks:
    """What was found so far.

    :ivar found: a line each.
    :ivar looked: how many things were looked at.
    """

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._forms = [(secret, how, form) for secret in secrets for how, form in secret.forms.items()]
        for secret, _, _ in self._forms:
            if len(secret.value) < SECRET_BYTES_MIN:
                raise ValueError(f"{secret.name} is too short to be told from anything else")
        self.found: list[str] = []
        self.looked = 0

    def look(self, where: str, data: bytes) -> None:
        """At these bytes, and at what is compressed in them."""
        self.looked += 1
        for view in _views(data):
            for secret, how, form in self._forms:
                if form in view:
                    self.found.append(f"{where} has {secret.name}, {how}")

    def look_at_files(self, folder: Path, but: Iterable[Path] = ()) -> None:
        """At every file below a folder, and their names, but those where the secrets belong."""
        left_out = {path.resolve() for path in but}
        for path in sorted(folder.rglob("*")):
            self.look(f"the name of {path}", path.name.encode())
            if path.is_file() and path.resolve() not in left_out:
                self.look(str(path), path.read_bytes())

    def look_at_process(self, name: str, pid: int) -> None:
        """At what every user of the machine, and this one, may see of it."""
        for what in ("cmdline", "environ", "comm"):
            self.look(f"/proc/{name}/{what}", Path(f"/proc/{pid}/{what}").read_bytes())


def _views(data: bytes) -> Iterator[bytes]:
    data = _NOTHING.sub(b"\0", data)
    yield data
    joined = data.translate(None, b"\r\n")
    if len(joined) < len(data):
        yield joined
    if data[:1] == b"\x78":
        try:
            yield zlib.decompress(data)
        except zlib.error:
            return
