"""Where an export may go: a directory that is new, empty, or an export already.

Pure.  What makes a directory ours is its manifest; where there is none, whatever stands there is somebody else's, and
is not touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocketha.errors import ConfigError
from rocketha.export.manifest import COPY, NAME
from rocketha.store.disk import Disk

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
LOCK = "lock"
_UNFINISHED = (LOCK, f"{NAME}.tmp")
"""All that a run leaves that broke off before its first manifest was there."""
FILE_SYSTEMS = ("lost+found", ".snapshot")
"""What a file system keeps in its root: one that was made for an export is empty with them."""


def local_path(text: str) -> str:
    """A path of this machine, which may be given as ``file:///path``.

    :raises ConfigError: it names another kind of storage: ``s3://bucket`` is no folder called ``s3:``.
    """
    scheme = _SCHEME.match(text)
    if scheme is None:
        return text
    rest = text[scheme.end() :]
    if scheme[1].lower() != "file":
        raise ConfigError(f"{text}: {scheme[1]}: is not supported, exports are directories of this machine")
    if rest.startswith("//") and not rest.startswith("///"):
        raise ConfigError(f"{text}: file: takes no host; file:///path names a directory of this machine")
    return "/" + rest.lstrip("/")


def is_export(disk: Disk, directory: str) -> bool:
    """Whether a directory has a manifest, or the copy of one."""
    return any(disk.exists(f"{directory}/{name}") for name in (NAME, COPY))


def refuse_foreign(disk: Disk, directory: str, places: Iterable[str]) -> None:
    """Look whether a directory may become an export, or is one; nothing is changed.

    :param places: directories of the store.
    :raises ConfigError: it is something else, or too near to the store.
    """
    if disk.is_link(directory):
        raise ConfigError(f"{directory} is a symbolic link; name the directory {disk.real_path(directory)} itself")
    real = disk.real_path(directory)
    for place in places:
        there = disk.real_path(place)
        if real == there or _within(real, there):
            raise ConfigError(f"{directory} is within the store {place}")
        if _within(there, real):
            raise ConfigError(f"{directory} has the store {place} in it")
    if not disk.exists(directory):
        return
    if not disk.is_dir(directory):
        raise ConfigError(f"{directory} is no directory")
    names = disk.list(directory)
    if NAME not in names and COPY in names:
        raise ConfigError(f"{directory} is an export that has lost its {NAME}: rocketha export repair makes it again")
    if NAME not in names and set(names) - {*_UNFINISHED, *FILE_SYSTEMS}:
        raise ConfigError(
            f"{directory} is not empty, and no export: it has no {NAME}; nothing in it was changed, export to another"
            " directory"
        )


def _within(path: str, directory: str) -> bool:
    return path.startswith(directory.rstrip("/") + "/")
