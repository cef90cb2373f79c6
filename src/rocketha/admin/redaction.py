"""Takes secrets out of texts that go to somebody who helps.

Pure.  Theory of operation.  Three nets, for none alone is enough.  By name: what a secret's name stands before, in
properties, YAML, JSON, or in a sentence (``password=...``).  By form: private keys in PEM, and passwords in URLs.  By
value: what is known to be a secret, because a configuration says so, goes wherever it stands.  Names are those that the
log hides (:func:`rocketha.observe.logging.hide`), and a few that logs of ours do not have.

It hides too much rather than too little: a user's name goes with his password.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HIDDEN = "***"
LITERAL_CHARACTERS_MIN = 6
"""Shorter ones are not looked for by value: they stand in words."""

_WORDS = (
    r"secret|passw|passphrase|pwd|signature|credential|private|security.?token|access.?token|auth.?token|bearer"
    r"|access.?key|authorization|api.?key"
)
LEVELS_MAX = 100
"""Of values in each other."""

_NAME = re.compile(_WORDS, re.IGNORECASE)
_PATH = re.compile(r"(file|path|dir|directory)$", re.IGNORECASE)
"""Names of places: those are no secrets, and help to help."""

_KEY = rf"[\w.\-]*(?:{_WORDS})[\w.\-]*"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(
    rf"^([ \t]*(?:- )?[\"']?({_KEY})[\"']?[ \t]*[=:][ \t]*)((?:[^\n\\]|\\\n|\\.)+)", re.IGNORECASE | re.MULTILINE
)
_INLINE = re.compile(
    rf"([\"']?\b({_KEY})\\*[\"']?\s*[=:]\s*)"
    rf"({_QUOTED}|\\+\"[^\"\n]*\"|'[^'\n]*'|(?:Basic |Bearer )?[^\s,;&)\]}}]+)",
    re.IGNORECASE,
)
"""Quotes may be escaped: JSON stands in texts, in what repr wrote, and in JSON."""
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_USERINFO = re.compile(r"(\b[a-z][a-z0-9+.\-]*://)[^/\s\"'<>]+@", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether what has this name is a secret."""
    return bool(_NAME.search(name)) and not _PATH.search(name)


def secrets_in(texts: Mapping[str, str]) -> Iterator[str]:
    """The secrets of a configuration, by the names of its keys."""
    for name, value in texts.items():
        if is_secret(name):
            yield value
            yield from _leaves(_parsed(value))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # nested so deep, it is nobody's record
        return None


def _record(line: str) -> dict[str, Any] | None:
    """A line of a log in JSON; None: it is no such line."""
    found = _parsed(line) if line.lstrip().startswith("{") else None
    return found if isinstance(found, dict) else None


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value


class Redactor:
    """Takes secrets out.

    :param known: what is known to be secret, wherever it stands, also in base64.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        plain = {each.strip() for each in known}
        plain = {each for each in plain if len(each) >= LITERAL_CHARACTERS_MIN and each.strip("*")}
        coded = {base64.b64encode(each.encode()).decode() for each in plain}
        longest_first = sorted(plain | coded, key=lambda each: (-len(each), each))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """A text of any kind; what is JSON, as a whole or line by line, stays JSON."""
        whole = _parsed(text)
        if isinstance(whole, dict | list):
            return json.dumps(self.value(whole), indent=2, ensure_ascii=False) + "\n"
        lines = [(line, _record(line)) for line in _PEM.sub(HIDDEN, text).splitlines(keepends=True)]
        done: list[str] = []
        for is_record, run in itertools.groupby(lines, key=lambda each: each[1] is not None):
            if is_record:
                done += [json.dumps(self.value(found), ensure_ascii=False) + "\n" for _, found in run]
            else:  # together, for a value may go on in the next line
                done.append(self._free("".join(line for line, _ in run)))
        return "".join(done)

    def value(self, value: Any, levels: int = LEVELS_MAX) -> Any:
        """A value of JSON, with what is in it, as deep as ``levels``; what is deeper is hidden."""
        if not levels:
            return HIDDEN
        if isinstance(value, Mapping):
            pairs = ((str(key), item) for key, item in value.items())
            return {
                self._free(key): HIDDEN if is_secret(key) and item not in (None, "") else self.value(item, levels - 1)
                for key, item in pairs
            }
        if isinstance(value, list | tuple):
            return [self.value(each, levels - 1) for each in value]
        return self._free(_PEM.sub(HIDDEN, value)) if isinstance(value, str) else value

    def _free(self, text: str) -> str:
        for pattern in (_LINE, _INLINE):
            text = pattern.sub(lambda match: match[0] if _PATH.search(match[2]) else f"{match[1]}{HIDDEN}", text)
        text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
        return self._known.sub(HIDDEN, text) if self._known is not None else text
