"""A request code stands in one row: no other list of a broker says what holds for it."""

from __future__ import annotations

import ast
import unittest
from collections.abc import Iterator

from rocketha.broker.routes import ROUTES, Kind
from tests.tidy.source import Module, module, modules

PLACES = ("broker/", "services/broker/", "services/tables/", "services/waiting/")
ROWS = "broker/routes.py"
SEVERAL = 2


def lists_of_codes(source: Module) -> Iterator[str]:
    """Tuples, sets, lists, frozensets of several codes; a dict, code to responder, is where they are served."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Tuple | ast.Set | ast.List):
            codes = [each for each in node.elts if ast.unparse(each).startswith("RequestCode.")]
            if len(codes) >= SEVERAL:
                yield f"{source.path}:{node.lineno} lists {ast.unparse(codes[0])} and others"


class RoutesTests(unittest.TestCase):
    """The table, and the tree beside it."""

    def test_no_second_list(self) -> None:
        broker = [each for each in modules() if each.path.startswith(PLACES) and each.path != ROWS]
        found = [each for source in broker for each in lists_of_codes(source)]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_a_list_is_seen(self) -> None:
        for text in ("A = (RequestCode.X, RequestCode.Y)", "B = frozenset({RequestCode.X, RequestCode.Y})"):
            self.assertEqual(len(list(lists_of_codes(module("broker/x.py", text)))), 1)

    def test_rows(self) -> None:
        """A change names its table, and only a change does."""
        self.assertGreater(len(ROUTES), 30)
        for route in ROUTES.values():
            self.assertEqual(route.kind is Kind.CHANGE, route.changes is not None, route)
