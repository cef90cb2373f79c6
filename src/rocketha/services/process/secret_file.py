"""Files with secrets: nobody else may read them, or they are none.

The rule is PostgreSQL's for the key of its TLS: the file is the user's own, and for them alone; or root's, who may let
the user's group read it.
"""

from __future__ import annotations

import os
import re
import stat

from rocketha.errors import ConfigError

_PRIVATE_KEY = re.compile(r"(?:^|:)privateKey=((?:[^:\\]|\\.)*)")
_DEFAULT_KEY = "server.pem"
"""Of Twisted's ``ssl:`` endpoints."""


def refuse_readable(path: str) -> None:
    """Look who may read a file.

    :raises ConfigError: others can, or it cannot be looked at.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    mode, own = stat.S_IMODE(found.st_mode), os.geteuid()
    if found.st_uid not in (own, 0):
        raise ConfigError(f"{path}: a secret of user {found.st_uid}, and neither of user {own} nor of root")
    allowed = 0o700 if found.st_uid == own else 0o740
    if mode & ~allowed & 0o777:
        raise ConfigError(
            f"{path}: others can read or write this secret (mode {mode:04o}); chmod {allowed & 0o640:04o} it, and"
            " replace the secret where somebody may have read it"
        )


def refuse_readable_key(description: str) -> None:
    """The same for the private key of an endpoint string with TLS.

    :raises ConfigError: others can read it.
    """
    if description.startswith("ssl:"):
        said = _PRIVATE_KEY.search(description)
        refuse_readable(_DEFAULT_KEY if said is None else re.sub(r"\\(.)", r"\1", said[1]))
