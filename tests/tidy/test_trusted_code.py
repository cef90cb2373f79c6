"""No bytes become code or objects, and every connection of ours is made in one place.

Source: CVE-2024-46983 (objects that a controller's log could make), and what was sent in the clear beside TLS.
"""

from __future__ import annotations

import ast
import unittest
from collections.abc import Iterator

from tests.tidy.source import Module, imports, module, modules

OBJECTS = ("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml", "ruamel")
OBJECTS += ("twisted.spread", "twisted.persisted", "multiprocessing.connection", "code", "codeop", "ctypes", "cffi")
"""Modules that make of bytes whatever stands in them."""
NODES_ALONE = {("access/plain_acl.py", "yaml"): "it makes nodes of a file, no objects of them"}
LOADS = (
    "yaml.load",
    "yaml.load_all",
    "yaml.full_load",
    "yaml.full_load_all",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
)
CODE = ("eval", "exec", "compile", "__import__", "execfile")
NAMES = ("importlib.import_module", "namedAny", "namedModule", "namedObject")
"""They find code by a name; whose names these are is said of each."""
NAMED_BY_US = {
    "compiled.py": "its own name",
    "admin/cli.py": "a subcommand of a fixed list",
    "admin/formats.py": "modules of a package of ours",
    "services/features/finding.py": "plug-ins that are installed",
}

CONNECTS = ("connectTCP", "connectSSL", "connectUNIX", "clientFromString", "TCP4ClientEndpoint", "TCP6ClientEndpoint")
CONNECTS += ("HostnameEndpoint", "create_connection", "open_connection", "urlopen", "HTTPConnection", "Agent")
CONNECTS += ("client_endpoint",)
MAY_CONNECT = {
    "protocols/endpoints.py": "the place",
    "services/tls/network.py": "puts TLS above it",
    "protocols/network.py": "for who has no TLS configured",
    "services/namesrv/service.py": "looks whether a broker's port is there, and says nothing",
    "simulation/reactor.py": "simulated hosts",
    "admin/fuzz_probe.py": "the fuzzer, to loopback",
    "testing/servers.py": "tests, to the servers that they started",
}


def calls(source: Module) -> Iterator[tuple[int, str]]:
    """(line, what is called, as it stands there)."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def makes_objects(source: Module) -> Iterator[str]:
    """Where bytes or texts may become code or objects."""
    for line, name in imports(source):
        if any(name == each or name.startswith(each + ".") for each in OBJECTS) and (
            (source.path, name) not in NODES_ALONE
        ):
            yield f"{source.path}:{line} imports {name}"
    for line, name in calls(source):
        if name in CODE + LOADS:
            yield f"{source.path}:{line} calls {name}"
        if name.split(".")[-1] in ("allow_pickle", "loads_pickle"):
            yield f"{source.path}:{line} calls {name}"
        if any(name == each or name.endswith("." + each) for each in NAMES) and source.path not in NAMED_BY_US:
            yield f"{source.path}:{line} finds code by a name"


def connects(source: Module) -> Iterator[str]:
    """Where a connection is made."""
    for line, name in calls(source):
        if name.split(".")[-1] in CONNECTS:
            yield f"{source.path}:{line} calls {name}"


class ObjectsTests(unittest.TestCase):
    """Regression X4."""

    def test_none_is_made_of_bytes(self) -> None:
        found = [each for source in modules() for each in makes_objects(source)]
        self.assertEqual(found, [], "\n".join(found))

    def test_each_is_seen(self) -> None:
        for text in (
            "import pickle",
            "from marshal import loads",
            "import yaml",
            "from twisted.spread import jelly",
            "eval(x)",
            "exec(x)",
            "compile(x, '', 'exec')",
            "__import__(x)",
            "importlib.import_module(x)",
            "reflect.namedAny(x)",
            "yaml.load(x, Loader=y)",
        ):
            self.assertEqual(len(list(makes_objects(module("broker/x.py", text)))), 1, text)
        self.assertEqual(list(makes_objects(module("broker/x.py", "re.compile(x); spec.compile"))), [])

    def test_the_list_is_up_to_date(self) -> None:
        found = {source.path for source in modules() for _, name in calls(source) if name.endswith(NAMES)}
        self.assertEqual(found, set(NAMED_BY_US))
        imported = {(source.path, name) for source in modules() for _, name in imports(source)}
        self.assertEqual(set(NODES_ALONE) - imported, set())


class ConnectionsTests(unittest.TestCase):
    """Regression X18: no connection of ours goes past the TLS that is configured."""

    def test_one_place_makes_them(self) -> None:
        found = [each for source in modules() if source.path not in MAY_CONNECT for each in connects(source)]
        self.assertEqual(found, [], "\n".join(found))

    def test_each_is_seen(self) -> None:
        for text in ("reactor.connectTCP(h, p, f)", "socket.create_connection(a)", "HostnameEndpoint(r, h, p)"):
            self.assertEqual(len(list(connects(module("broker/x.py", text)))), 1, text)
