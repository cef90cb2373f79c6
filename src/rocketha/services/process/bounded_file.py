"""Small files that an operator names: read whole, or not at all."""

from __future__ import annotations

from rocketha.errors import ConfigError


def read_bounded(path: str, bytes_max: int) -> bytes:
    """What is in a file; one byte more than allowed where it has more.

    :raises ConfigError: it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(bytes_max + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
