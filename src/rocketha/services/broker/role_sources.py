"""Who decides about the role, in each replication mode."""

from __future__ import annotations

from collections.abc import Callable

from rocketha.services.broker.controller_mode import ControllerMode
from rocketha.services.broker.role import ClassicRole, RoleContext, RoleSource
from rocketha.services.replication.autoswitch import AutoSwitchMode
from rocketha.services.replication.classic import ClassicMode
from rocketha.services.replication.mode import ReplicationMode

_SOURCES: dict[type[ReplicationMode], Callable[[RoleContext], RoleSource]] = {
    ClassicMode: ClassicRole,
    AutoSwitchMode: ControllerMode,
}


def role_source_of(mode: ReplicationMode) -> Callable[[RoleContext], RoleSource]:
    """What makes the role source of a broker in this mode."""
    return _SOURCES[type(mode)]
