"""What an operator does to a controller that does not run: look at it, make it the only one, make one of a saved state.

It blocks, and is for commands.  It must not know the command line or connections.

A *state file* is a snapshot of the controllers in a file of its own, in the format of those in their directories
(docs/formats/raft-snapshot.rst): the state, the index and term that it is of, and checksums.
"""

from __future__ import annotations

import attrs

from rocketha.controller import events
from rocketha.controller.state import ControllerState
from rocketha.errors import ConfigError, CorruptStore, RemoteProtocolError
from rocketha.services.config.controller import ControllerConfig
from rocketha.store.disk import Disk
from rocketha.store.raft_offline import FoundLog, Place, begin, force_alone, look
from rocketha.store.raft_snapshot import open_snapshot, write_snapshot
from rocketha.wire.raft_entries import Members, SnapshotMeta

STATE_BYTES_MAX = 1 << 30


@attrs.frozen
class SavedController:
    """A state file.

    :ivar group: of the controllers that it is of.
    :ivar source: the controller that wrote it.
    :ivar index: the last entry in it, and ``term`` that one's term.
    :ivar data: see :meth:`ControllerState.snapshot`.
    """

    group: str
    source: str
    index: int
    term: int
    data: bytes

    def state(self) -> ControllerState:
        """What it says.

        :raises RemoteProtocolError: it is of another version, or against the invariants of a state.
        """
        state = ControllerState()
        state.restore(self.data)
        return state


@attrs.frozen
class Survivor:
    """A controller that does not run.

    :ivar state: with every entry of its log.
    :ivar decided_ms: when the last of them was proposed, by its proposer's clock; 0 if it does not say.
    """

    place: Place
    log: FoundLog
    state: ControllerState
    decided_ms: int


def place_of(config: ControllerConfig) -> Place:
    """Where the log of a controller is."""
    return Place(config.raft_directory, config.controller_dleger_group, config.controller_dleger_self_id)


def survey(disk: Disk, config: ControllerConfig) -> Survivor:
    """What a controller has, and what would count if it were the only one.

    :raises ConfigError: there is no log, or it is another controller's.
    :raises DiskFailure: the controller runs, or the disk would not.
    :raises CorruptStore: the log is damaged.
    """
    place = place_of(config)
    log = look(disk, place)
    state = ControllerState()
    if log.snapshot.index:
        state.restore(log.snapshot_data)
    for entry in log.entries:
        state.apply_entry(entry.data, entry.index)
    decided_ms = events.decode(log.entries[-1].data).evidence.now_ms if log.entries else 0
    return Survivor(place, log, state, decided_ms)


def force(disk: Disk, config: ControllerConfig, wall_ms: int) -> int:
    """Make a controller the only one of its group; the entry of its log that says so.

    :raises ConfigError: as :func:`survey`; the others too.
    """
    return force_alone(disk, place_of(config), config.self_address, wall_ms)


def load(disk: Disk, path: str) -> SavedController:
    """Read a state file.

    :raises ConfigError: there is none.
    :raises CorruptStore: it is damaged, or none.
    """
    if not disk.exists(path):
        raise ConfigError(f"there is no file {path}")
    (group, node), file = open_snapshot(disk, path)
    file.check(disk)
    saved = SavedController(group, node, file.meta.index, file.meta.term, file.read(disk, 0, STATE_BYTES_MAX))
    try:
        saved.state()
    except RemoteProtocolError as problem:
        raise CorruptStore(path, 0, str(problem)) from None
    return saved


def store(disk: Disk, path: str, saved: SavedController) -> None:
    """Write a state file: whole, when this returns.

    :raises ConfigError: there is a file of this name.
    :raises DiskFailure: the disk would not.
    """
    if disk.exists(path):
        raise ConfigError(f"{path} is there already")
    meta = SnapshotMeta(saved.index, saved.term, Members())
    write_snapshot(disk, path, (saved.group, saved.source), meta, saved.data)


def restore(disk: Disk, config: ControllerConfig, saved: SavedController, exact: bool) -> None:
    """Write a controller's directory out of a saved state, for a group of all configured controllers.

    To be done at each of them, with the same file.

    :param exact: nothing was decided since it was saved; else nobody knows who leads by now
        (:meth:`ControllerState.forget_roles`).
    :raises ConfigError: the directory has something in it.
    """
    state = saved.state()
    if not exact:
        state.forget_roles()
    place = place_of(config)
    begin(disk, place, config.peers, SnapshotMeta(saved.index, saved.term), state.snapshot())
