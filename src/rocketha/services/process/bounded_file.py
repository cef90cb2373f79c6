"""Small files that an operator names: read whole, or not at all, and again when they change."""

from __future__ import annotations

import os

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


def file_stamp(path: str) -> object:
    """What is another once the file may have other bytes, or others may read it."""
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
