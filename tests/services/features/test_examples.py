"""The examples of docs/examples keep the contract, by the tests that their authors would use; so do the fakes."""

from __future__ import annotations

import importlib.util
import pathlib
import tempfile
import unittest
from types import ModuleType
from typing import Any

from zope.interface.verify import verifyObject

from rocketha.interfaces import IBrokerContext, IBrokerFeature, IFollowing, IMessages, IWireFormat, Request
from rocketha.testing import FakeContext, FeatureContract
from tests.services.features.cases import Feature, PluginCase

EXAMPLES = pathlib.Path(__file__).parents[3] / "docs" / "examples"
LINES_MAX = 120


def load(path: pathlib.Path) -> ModuleType:
    """An example's module, under a name of our own."""
    spec = importlib.util.spec_from_file_location(f"rocketha_example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = {path.stem: load(path) for path in sorted(EXAMPLES.glob("*/rocketha/plugins/*.py"))}


class _Contract(FeatureContract):
    pass


def _contracts() -> dict[str, type]:
    found: dict[str, type] = {}
    for name, module in MODULES.items():
        if IBrokerFeature.providedBy(module.plugin):
            keys = {"path": "/run/flag"} if name == "flag_file" else {}
            members: dict[str, Any] = {"plugin": module.plugin, "keys": keys, "__module__": __name__}
            title = f"{''.join(map(str.capitalize, name.split('_')))}ContractTests"
            found[title] = type(title, (_Contract, unittest.TestCase), members)
    return found


globals().update(_contracts())


class ExampleTests(unittest.TestCase):
    """What each of them does, without a broker."""

    def test_one_of_each_kind(self) -> None:
        """And each package is short."""
        self.assertEqual(len(MODULES), 7)
        for package in EXAMPLES.glob("*/pyproject.toml"):
            files = [path for path in package.parent.rglob("*") if path.suffix in (".py", ".toml")]
            lines = sum(len(path.read_text().splitlines()) for path in files)
            self.assertLess(lines, LINES_MAX, package)

    def parts(self, name: str, **keys: str) -> tuple[FakeContext, Any]:
        plugin = MODULES[name].plugin
        context = FakeContext({**{key: each.default for key, each in plugin.keys.items()}, **keys})
        return context, plugin.build(context)

    def test_ticker(self) -> None:
        context, parts = self.parts("ticker")
        parts.timers[0].run()
        parts.timers[0].run()
        self.assertEqual([each.body for each in context.messages.stored["TICKS", 0]], [b"tick", b"tick"])
        self.assertEqual(context.saves, 2)
        answer = parts.routes[0].respond(Request(20_001, {}, b"", "127.0.0.1:1"))
        self.assertEqual(answer.fields, {"count": "2"})
        _, again = self.parts("ticker")
        again.file.load(parts.file.dump())
        self.assertEqual(again.routes[0].respond(None).fields, {"count": "2"})
        self.assertTrue(MODULES["ticker"].plugin.check_keys({"every_s": "0"}))

    def test_property_filter(self) -> None:
        _, parts = self.parts("property_filter")
        matches = parts.filters[0].compile("region = 'eu' AND name <> 'it''s'")
        self.assertTrue(matches({"region": "eu"}))
        self.assertFalse(matches({"region": "us"}))
        self.assertFalse(matches({"region": "eu", "name": "it's"}))
        for wrong in ("", "region", "region = eu", "a = 'b' OR c = 'd'", "a = 'b' AND"):
            with self.assertRaises(ValueError):
                parts.filters[0].compile(wrong)

    def test_flag_file(self) -> None:
        with tempfile.NamedTemporaryFile() as flag:
            _, parts = self.parts("flag_file", path=flag.name)
            self.assertIn(flag.name, parts.health[0].check())
        self.assertIsNone(parts.health[0].check())

    def test_address_guard(self) -> None:
        _, parts = self.parts("address_guard")
        (guard,) = parts.authenticators
        self.assertIsNone(guard.denies(Request(10, {}, b"", "127.0.0.1:5000")))
        self.assertIsNone(guard.denies(Request(10, {}, b"", "::1:5000")))
        self.assertIn("192.0.2.1", guard.denies(Request(10, {}, b"", "192.0.2.1:5000")))

    def test_beacon_format(self) -> None:
        plugin = MODULES["beacon_format"].plugin
        verifyObject(IWireFormat, plugin)
        (found,) = plugin.formats()
        self.assertEqual(found.parse(found.build(value := found.parse(bytes.fromhex("beac000000010261 62")))), value)


class FakesTests(PluginCase):
    """A fake that is not like the real thing tests nothing."""

    def plugins(self) -> list[Feature]:
        return [Feature()]

    def test_both_are_what_the_interfaces_say(self) -> None:
        for context in (FakeContext(), self.context()):
            verifyObject(IBrokerContext, context)
            verifyObject(IMessages, context.messages)
            verifyObject(IFollowing, context.messages.follow("T", print))

    def test_both_know_the_same_attributes(self) -> None:
        """Each of the interface's; types of plain values agree."""
        real, fake = self.context(), FakeContext()
        for name in ("keys", "cluster", "broker", "address"):
            self.assertIs(type(getattr(real, name)), type(getattr(fake, name)), name)
