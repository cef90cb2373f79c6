"""How much memory there is for the page cache: the machine's, or less where a control group allows less.

Java: ``StoreUtil.TOTAL_PHYSICAL_MEMORY_SIZE``, which knows control groups where its JDK does, and takes 24 GiB where it
is not told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

_UNTOLD = 24 << 30


def physical_memory_bytes(root: str = "/") -> int:
    """What this process and its files may take.

    :param root: where ``proc`` and ``sys`` are.
    """
    return min((_machine_bytes(), *_limits(root)))


def _machine_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):  # a system that does not tell
        return _UNTOLD


def _limits(root: str) -> Iterator[int]:
    """Those of this process's control group and of all above it, of either version."""
    for line in _read(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            mount, name = f"{root}/sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = f"{root}/sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts), -1, -1):  # within a container only the topmost one may be there: its own
            limit = _read("/".join((mount, *parts[:depth], name))).strip()
            if limit.isdigit():  # not "max"
                yield int(limit)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
