"""Bits of a topic's permission.

Pure.  Java: ``PermName``, ``TopicSysFlag``.
"""

from __future__ import annotations

READ = 4
WRITE = 2
INHERIT = 1  # topics may be created from this one
READ_WRITE = READ | WRITE
PERM_MAX = 15  # bit 8 is "priority", which nothing reads

UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
