"""Who a command is to brokers that demand users: a file like RocketMQ's ``tools.yml``.

It has two lines that count, ``accessKey: NAME`` and ``secretKey: PASSWORD``; quotes are YAML's, and other keys are left
alone.  What else YAML can say is not read.

Java: ``AclUtils.getAclRPCHook``.
"""

from __future__ import annotations

import json
import re

from rocketha.access.signer import Credentials
from rocketha.errors import ConfigError
from rocketha.services.config.loading import read_file
from rocketha.services.process.secret_file import refuse_readable

ENVIRONMENT = "ROCKETHA_CREDENTIALS"
"""Names such a file where no flag does."""
USER, PASSWORD = "accessKey", "secretKey"
_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?:#.*)?""")
_OF_YAML = tuple("|>&*!~%@[{`")
"""What begins so is for YAML something else than a text, or nothing."""
_COMMENT = re.compile(r"(?:^|\s)#.*")


def parse(data: bytes, name: str) -> Credentials:
    """What stands in the file.

    :param name: of the file, for errors.
    :raises ConfigError: not both are there, once, or a value is none.
    """
    found: dict[str, str] = {}
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: not UTF-8") from None
    for number, line in enumerate(lines, 1):
        key, separator, rest = line.partition(":")
        if separator and key in (USER, PASSWORD):
            if key in found:
                raise ConfigError(f"{name}:{number}: {key} is there twice")
            found[key] = _value(rest.strip())
            if not found[key]:
                raise ConfigError(
                    f"{name}:{number}: {key}: a text is wanted: put it in quotes where it has others, has a #, or "
                    f"begins with one of {' '.join(_OF_YAML)}"
                )
    for key in (USER, PASSWORD):
        if key not in found:
            raise ConfigError(f"{name}: no {key}: two lines are wanted, {USER}: NAME and {PASSWORD}: PASSWORD")
    return Credentials(found[USER], found[PASSWORD])


def load(path: str) -> Credentials:
    """The same of a file that nobody else can read.

    :raises ConfigError: others can, or as for :func:`parse`.
    """
    refuse_readable(path)
    return parse(read_file(path), path)


def _value(text: str) -> str:
    """Empty: it is none."""
    if text[:1] not in ("'", '"'):
        return "" if text.startswith(_OF_YAML) else _COMMENT.sub("", text).strip()
    found = _QUOTED.fullmatch(text)
    if found is None:
        return ""
    if text[0] == "'":
        return found[1][1:-1].replace("''", "'")
    try:
        return str(json.loads(found[1]))
    except ValueError:
        return ""
