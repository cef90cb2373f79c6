"""The layout of docs/architecture.rst and the style rules that can be counted."""

from __future__ import annotations

import ast
import functools
import re
import unittest
from collections.abc import Iterator

from tests.tidy.source import PURE_PACKAGES, ROOT, Module, imports, module, modules, public_definitions

FUNCTION_LINES_MAX = 70

# Who may import whom: a package imports only from a lower rank, or from itself. Machines (rank 2) may use each other.
RANKS = {
    "__init__": 0,
    "addresses": 0,
    "compiled": 0,
    "errors": 0,
    "plugins": 0,
    "rates": 0,
    "latencies": 1,
    "wire": 1,
    **dict.fromkeys(set(PURE_PACKAGES) - {"wire"}, 2),
    "observe": 3,
    "interfaces": 3,
    "protocols": 4,
    "services": 5,
    "simulation": 6,
    "testing": 6,
    "admin": 7,
}
MACHINES_RANK = 2

# The rooms of services/: each imports only from rooms before it, and from itself.
ROOMS = (
    "waiting",
    "process",
    "tables",
    "config",
    "tls",
    "core",
    "features",
    "access",
    "raft",
    "replication",
    "controller",
    "broker",
    "namesrv",
    "learner",
    "witness",
    "cluster",
)

BANNED_WORDS = re.compile(r"Manager|Handler|Processor|Engine|Utils?(?![a-z])|Helpers?(?![a-z])")
BANNED_MODULE_NAMES = re.compile(r"(^|_)(manager|handler|processor|engine|utils?|helpers?|misc|common)(_|$)")


def wrong_imports(source: Module) -> Iterator[str]:
    """Imports that point right, or sideways."""
    rank = RANKS.get(source.package)
    if rank is None:
        yield f"{source.path}: {source.package} has no place in the layout (tests/tidy/test_layout.py RANKS)"
        return
    for line, name in imports(source):
        if not name.startswith("rocketha."):
            continue
        target = name.split(".")[1]
        other = RANKS.get(target, 0)
        if target == source.package or other < rank or other == rank == MACHINES_RANK:
            continue
        yield f"{source.path}:{line} imports {name}: {source.package} must not know {target}"


def wrong_rooms(source: Module) -> Iterator[str]:
    """Modules of services/ that have no room, and imports from a room further up."""
    if source.package != "services" or source.path == "services/__init__.py":
        return
    room = source.path.split("/")[1]
    if room not in ROOMS:
        yield f"{source.path}: services/ has rooms, and this is in none of them (tests/tidy/test_layout.py ROOMS)"
        return
    for line, name in imports(source):
        target = name.removeprefix("rocketha.services.").split(".")[0]
        if name.startswith("rocketha.services.") and target not in ROOMS[: ROOMS.index(room) + 1]:
            yield f"{source.path}:{line} imports {name}: {room} must not know {target}"


def long_functions(source: Module) -> Iterator[str]:
    """Functions over the limit."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{source.path}:{node.lineno} {node.name} has {lines} lines (at most {FUNCTION_LINES_MAX})"


def banned_names(source: Module) -> Iterator[str]:
    """Classes and modules named after nothing."""
    if BANNED_MODULE_NAMES.search(source.path.rsplit("/", maxsplit=1)[-1].removesuffix(".py")):
        yield f"{source.path}: a module is named after the noun it is about"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and BANNED_WORDS.search(node.name):
            yield f"{source.path}:{node.lineno} {node.name} does not say what it does"


def missing_docstrings(source: Module) -> Iterator[str]:
    """Public things that nothing explains."""
    if source.tree.body and not ast.get_docstring(source.tree):
        yield f"{source.path}: no module docstring"
    definitions = list(public_definitions(source))
    classes = [name for name, node in definitions if isinstance(node, ast.ClassDef) and "." not in name]
    for name, node in definitions:
        if ast.get_docstring(node) is None and [name] != classes and not explained_elsewhere(name, node):
            yield f"{source.path}:{node.lineno} {name} has no docstring"


@functools.cache
def declared_methods() -> frozenset[str]:
    """Names of methods that have a docstring in some class: where an interface or a base declares them."""
    return frozenset(
        name.rpartition(".")[2]
        for source in modules()
        for name, node in public_definitions(source)
        if "." in name and ast.get_docstring(node) is not None
    )


def explained_elsewhere(name: str, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the node does what a base or an interface says, is Twisted's (camelCase), an overload, or a one-liner
    whose name and types say it all."""
    if isinstance(node, ast.ClassDef):
        return False
    if "." in name and node.name in declared_methods():
        return True
    decorators = {ast.unparse(each).rsplit(".", maxsplit=1)[-1] for each in node.decorator_list}
    camel_case = re.search("[a-z][A-Z]", node.name) is not None
    return camel_case or "overload" in decorators or "override" in decorators or len(node.body) == 1


class LayoutTests(unittest.TestCase):
    """Each test walks every module of src/rocketha."""

    def assert_none(self, found: list[str]) -> None:
        """Fail with one finding a line."""
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_dependencies_point_left(self) -> None:
        """Wire, machines, protocols, services, plugins: nobody imports what stands to its right."""
        self.assert_none([each for source in modules() for each in wrong_imports(source)])

    def test_rooms_of_services_are_ranked(self) -> None:
        """From a server's process up to the cluster: no room imports from one further up, so there are no cycles."""
        self.assert_none([each for source in modules() for each in wrong_rooms(source)])

    def test_the_map_has_every_room(self) -> None:
        """docs/architecture.rst says what is in each, in the order of their ranks."""
        text = (ROOT / "docs" / "architecture.rst").read_text(encoding="utf-8")
        self.assertEqual(tuple(re.findall(r"^``services/(\w+)/`` ", text, re.MULTILINE)), ROOMS)
        here = {path.parent.name for path in (ROOT / "src" / "rocketha" / "services").glob("*/__init__.py")}
        self.assertEqual(here, set(ROOMS))

    def test_functions_are_short(self) -> None:
        """TIGER_STYLE's 70 lines."""
        self.assert_none([each for source in modules() for each in long_functions(source)])

    def test_names_say_what_things_do(self) -> None:
        """No Manager, Handler, Processor, Engine, utils (Twisted's coding standard says why)."""
        self.assert_none([each for source in modules() for each in banned_names(source)])

    def test_public_things_have_docstrings(self) -> None:
        """Modules, classes, and the functions that do more than their name and types say."""
        self.assert_none([each for source in modules() for each in missing_docstrings(source)])

    def test_no_init_under_twisted(self) -> None:
        """An __init__.py there overwrites Twisted's own when installed, and deletes it when uninstalled."""
        self.assertEqual([str(path) for path in (ROOT / "twisted").rglob("__init__.py")], [])
        plugins = [path.name for path in (ROOT / "twisted" / "plugins").glob("*.py")]
        self.assertEqual(plugins, ["rocketha_plugins.py"])

    def test_editable_installs_find_the_plugins(self) -> None:
        """src/twisted is the symlink that puts the plugins on the path of an editable install."""
        link = ROOT / "src" / "twisted"
        self.assertTrue(link.is_symlink())
        self.assertEqual(str(link.readlink()), "../twisted")


class RuleTests(unittest.TestCase):
    """The rules themselves: each can fail."""

    def test_a_right_pointing_import_is_seen(self) -> None:
        """wire must not know the store, nor the store the services, whichever way the import is written."""
        for path, text in (
            ("wire/x.py", "from rocketha.store import segment"),
            ("store/x.py", "import rocketha.services.broker.service"),
            ("store/x.py", "from ..protocols import remoting"),
            ("observe/x.py", "def f():\n    from rocketha import services"),
        ):
            with self.subTest(path, text=text):
                self.assertEqual(len(list(wrong_imports(module(path, text)))), 1)

    def test_left_pointing_imports_are_fine(self) -> None:
        """The broker uses the store, services use everything."""
        self.assertEqual(list(wrong_imports(module("broker/x.py", "from rocketha.store import message_store"))), [])
        self.assertEqual(list(wrong_imports(module("services/x.py", "from rocketha.protocols import remoting"))), [])
        self.assertEqual(list(wrong_imports(module("wire/x.py", "from rocketha import errors"))), [])

    def test_an_import_up_the_rooms_is_seen(self) -> None:
        """The broker uses replication, which must not know it, not even for its types; no module stands alone."""
        for path, text, count in (
            ("services/replication/x.py", "from rocketha.services.broker.service import BrokerUpkeep", 1),
            ("services/replication/x.py", "from rocketha.services import broker", 1),
            ("services/config/x.py", "if TYPE_CHECKING:\n    import rocketha.services.raft.service", 1),
            ("services/raft/x.py", "from ..controller import service", 1),
            ("services/broker_upkeep.py", "", 1),
            ("services/attic/x.py", "", 1),
            ("services/raft/x.py", "from rocketha.services.attic import x", 1),
            ("services/broker/x.py", "from rocketha.services.replication import service", 0),
            ("services/broker/x.py", "from rocketha.services.broker.service import BrokerParts", 0),
            ("services/broker/x.py", "from rocketha.broker.request import Responder", 0),
            ("services/__init__.py", "", 0),
            ("simulation/x.py", "from rocketha.services.cluster import service", 0),
        ):
            with self.subTest(path, text=text):
                self.assertEqual(len(list(wrong_rooms(module(path, text)))), count)

    def test_long_functions_are_seen(self) -> None:
        """70 lines pass, 71 do not."""
        body = "    x = 1\n"
        self.assertEqual(list(long_functions(module("a.py", "def f():\n" + body * 69))), [])
        self.assertEqual(len(list(long_functions(module("a.py", "def f():\n" + body * 70)))), 1)

    def test_empty_names_are_seen(self) -> None:
        """Whole words only: EngineDriver is caught, Reutilised is not."""
        self.assertEqual(len(list(banned_names(module("a.py", "class QueueManager: pass")))), 1)
        self.assertEqual(len(list(banned_names(module("wire/utils.py", "")))), 1)
        self.assertEqual(list(banned_names(module("a.py", "class Reutilised: pass"))), [])

    def test_missing_docstrings_are_seen(self) -> None:
        """A second class and a method of ours without one are caught; a private function, what Twisted calls, what an
        interface of ours declares, and the one class that the module is about are not."""
        body = "(self, d):\n        a = 1\n        return a\n"
        text = f'"""m"""\nclass C:\n    def dataReceived{body}\n    def sync_dir{body}\ndef _f():\n    pass\n'
        self.assertEqual(list(missing_docstrings(module("a.py", text))), [])
        text += f"class D:\n    def of_its_own{body}"
        self.assertEqual(len(list(missing_docstrings(module("a.py", text)))), 3)
