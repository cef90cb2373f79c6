"""Who belongs to the group: changes, and which configuration holds at which place of the log.

Pure.  Ongaro's thesis, 4.3: a configuration holds from the moment its entry is in the log, committed or not, and a cut
of the log takes it back.  Each entry carries the whole configuration.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class MembersChange:
    """What to change; ids not named stay as they are.

    :ivar add_voters: id -> "host:port"; an id that is a learner is promoted, one that is a voter gets a new address.
    :ivar add_learners: id -> "host:port"; an id that is a voter is demoted.
    :ivar remove: ids that leave.
    """

    add_voters: Mapping[str, str] = attrs.field(factory=dict)
    add_learners: Mapping[str, str] = attrs.field(factory=dict)
    remove: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
