"""What the parts of a conversation with a Java member share.

Pure.  Java counts entries and terms from 0, the core from 1: where a name begins with ``java_`` the number is Java's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import attrs

from rocketha.raft.log import Log
from rocketha.raft.messages import Entry, Members, Message
from rocketha.raft.node import RaftNode
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_values import DLedgerResponseCode

M = TypeVar("M", bound=values.Message)
Answered = Callable[[values.Message | None], None]
"""Told the answer to a request; None: there is none."""
Reply = Callable[[values.Message], None]


class Storage(Protocol):
    """What the log has that the core does not ask for."""

    def raw(self, entry: Entry) -> bytes:
        """The bytes of an entry of the log, or of a run, as they are on the disk.

        :raises Unavailable: it is not there yet.
        """

    def end_of(self, index: int) -> int:
        """Log offset behind an entry that is there."""

    @property
    def file_size(self) -> int:
        """Bytes of a file: an entry lies in one."""


@attrs.frozen
class Here:
    """This member, for who speaks for it.

    :ivar tell: has the core take messages of a member.
    :ivar seconds: a clock that never goes back.
    :ivar later: calls something after so many seconds.
    """

    group: str
    id: str
    node: RaftNode
    storage: Storage
    tell: Callable[[list[Message]], None]
    seconds: Callable[[], float]
    later: Callable[[float, Callable[[], None]], Any]

    @property
    def log(self) -> Log:
        """To read."""
        return self.node.log

    @property
    def members(self) -> Members:
        """Of the group, as the core knows them."""
        return self.node.members

    @property
    def peers(self) -> Mapping[str, str]:
        """Id to ``host:port`` of all members."""
        return self.members.addresses

    @property
    def java_begin(self) -> int:
        """The first entry of the log; -1 where there is none."""
        log = self.log
        return log.first_index - 1 if log.last_index >= log.first_index else -1

    @property
    def java_end(self) -> int:
        """The last one."""
        return self.log.last_index - 1

    @property
    def java_term(self) -> int:
        """The present one."""
        return max(self.node.term - 1, 0)

    def answer(
        self,
        kind: type[M],
        request: values.Message,
        code: DLedgerResponseCode = DLedgerResponseCode.SUCCESS,
        **more: Any,
    ) -> M:
        """An answer to a request."""
        common: dict[str, Any] = {
            "group": self.group,
            "remote_id": request.local_id,
            "local_id": self.id,
            "leader_id": self.node.leader_id,
            "term": self.java_term,
            "code": int(code),
        }
        return kind(**(common | more))
