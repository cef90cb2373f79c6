"""A request code stands in one row: no server has another list that says what holds for it."""

from __future__ import annotations

import ast
import unittest
from collections.abc import Iterator

from rocketha.broker.routes import ROUTES, Kind
from tests.tidy.source import Module, module, modules

ROWS = ("broker/routes.py", "controller/routes.py", "namesrv/routes.py")
ELSEWHERE = ("admin/", "simulation/", "observe/refusals.py", "wire/remoting.py")
"""They ask, or name a code that others answer; the codec says what a header that is too long is answered with, before
any server sees it."""
SEVERAL = 2


def lists_of_codes(source: Module) -> Iterator[str]:
    """Tuples, sets, lists, frozensets of several codes; a dict, code to responder, is where they are served."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Tuple | ast.Set | ast.List):
            codes = [each for each in node.elts if ast.unparse(each).startswith(("RequestCode.", "PrivateCode."))]
            if len(codes) >= SEVERAL:
                yield f"{source.path}:{node.lineno} lists {ast.unparse(codes[0])} and others"


class RoutesTests(unittest.TestCase):
    """The table, and the tree beside it."""

    def test_no_second_list(self) -> None:
        servers = [each for each in modules() if each.path not in ROWS and not each.path.startswith(ELSEWHERE)]
        found = [each for source in servers for each in lists_of_codes(source)]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_a_list_is_seen(self) -> None:
        for text in ("A = (RequestCode.X, RequestCode.Y)", "B = frozenset({RequestCode.X, RequestCode.Y})"):
            self.assertEqual(len(list(lists_of_codes(module("broker/x.py", text)))), 1)

    def test_rows(self) -> None:
        """A change names its table, and only a change does."""
        self.assertGreater(len(ROUTES), 30)
        for route in ROUTES.values():
            self.assertEqual(route.kind in (Kind.CHANGE, Kind.DELETION), route.changes is not None, route)
