"""Each request that Java 5.5.0 serves is served here, or docs/divergence.md says why not.

What Java serves is ``tests/wire/data/java_served_codes.json``, which tests/interop compares with the jars.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rocketha.broker.unserved import UNSERVED
from rocketha.controller.requests import Requests
from rocketha.services.controller.answers import OwnAnswers
from rocketha.wire.codes import RequestCode
from tests.namesrv.helpers import name_server
from tests.services.broker_case import BrokerCase

ROOT = Path(__file__).parents[2]
JAVA: dict[str, list[int]] = json.loads((ROOT / "tests/wire/data/java_served_codes.json").read_text())
_HEADING = "### Requests that Java 5.5.0 serves and rocketha does not"


def named(role: str) -> set[int]:
    """The codes of the page's rows for a role."""
    page = (ROOT / "docs/divergence.md").read_text().partition(_HEADING)[2].partition("\n#")[0]
    codes: set[int] = set()
    for row in re.findall(rf"^\| {role} \| ([0-9, -]+) \|", page, re.MULTILINE):
        for item in row.split(","):
            first, _, last = item.strip().partition("-")
            codes.update(range(int(first), int(last or first) + 1))
    return codes


class ServedCodesTests(BrokerCase):
    """Both ways: nothing is refused without a word, and no row is out of date."""

    def compare(self, role: str, ours: set[int]) -> None:
        java = set(JAVA[role])
        self.assertEqual(java - ours - named(role), set(), "refused, and not on the page")
        self.assertEqual(named(role) & ours, set(), "on the page, and served")

    def test_broker(self) -> None:
        """Without controllers; 1008 comes from them."""
        ours = {int(code) for code in self.broker.dispatcher.table}
        self.compare("broker", ours | {int(RequestCode.NOTIFY_BROKER_ROLE_CHANGED)})
        self.assertEqual(UNSERVED.keys(), named("broker"), "each is told why")
        self.assertGreater(len(ours), 60)

    def test_nameserver(self) -> None:
        """All."""
        self.compare("namesrv", {int(code) for code in name_server()._codes})

    def test_controller(self) -> None:
        """All; a heartbeat is no request of the state machine's."""
        nothing: Any = None
        own = OwnAnswers(nothing, nothing, nothing, nothing, nothing, nothing).methods
        decided = Requests(nothing, nothing, nothing)._codes
        self.compare("controller", {int(code) for code in (*own, *decided, RequestCode.BROKER_HEARTBEAT)})
