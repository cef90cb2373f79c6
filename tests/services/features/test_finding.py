"""Which plug-ins are installed: modules good and bad in a package path of the test's own."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import textwrap
import unittest

from rocketha import plugins
from rocketha.errors import ConfigError
from rocketha.services.features import finding

GOOD = """
from zope.interface import implementer
from rocketha.interfaces import IBrokerFeature, FeatureParts, Key

@implementer(IBrokerFeature)
class Acme:
    name, api, version, summary = "acme", 1, "1.0", "for a test"
    keys = {"size": Key("3", "How large.")}
    def check_keys(self, keys):
        return [] if keys["size"].isdigit() else ["size is no number"]
    def build(self, context):
        return FeatureParts()

plugin = Acme()
"""


class FindingTests(unittest.TestCase):
    """Each test has a directory of modules."""

    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.directory = pathlib.Path(work.name)
        before = list(plugins.__path__)
        plugins.__path__[:] = [str(self.directory)]
        self.addCleanup(plugins.__path__.__setitem__, slice(None), before)
        self.addCleanup(self.forget)

    def forget(self) -> None:
        """What was imported."""
        for name in [each for each in sys.modules if each.startswith("rocketha.plugins.")]:
            del sys.modules[name]
            vars(plugins).pop(name.rpartition(".")[2], None)

    def write(self, name: str, text: str) -> None:
        (self.directory / f"{name}.py").write_text(textwrap.dedent(text))

    def refused(self, text: str, given: dict[str, dict[str, str]] | None = None) -> str:
        """Why this does not start."""
        with self.assertRaises(ConfigError) as caught:
            finding.needed(text, given or {})
        return str(caught.exception)

    def test_good(self) -> None:
        self.write("good", GOOD)
        (found,) = finding.installed()
        self.assertEqual((found.name, found.kind, found.problem), ("acme", "broker feature", ""))
        self.assertEqual(found.file, str(self.directory / "good.py"))
        (enabled,) = finding.needed("acme", {"acme": {"size": "5"}})
        self.assertEqual((enabled.name, dict(enabled.keys)), ("acme", {"size": "5"}))

    def test_nothing_is_on_by_itself(self) -> None:
        """Nor imported where none is named."""
        self.write("bad", "raise SystemExit(3)")
        self.assertEqual(finding.needed("", {}), [])

    def test_a_broken_one_that_is_not_named(self) -> None:
        """Is no reason not to start."""
        self.write("good", GOOD)
        self.write("bad", "import nowhere_to_be_found")
        self.assertEqual([each.name for each in finding.needed("acme", {})], ["acme"])

    def test_named_and_not_there(self) -> None:
        """The reason names what is there, and what is broken, since it may be the one."""
        self.write("other", GOOD.replace('"acme"', '"other"'))
        self.write("bad", "import nowhere_to_be_found")
        reason = self.refused("acme")
        self.assertIn("plug-in acme is named and not installed", reason)
        self.assertIn("there are: other", reason)
        self.assertIn("1 modules are broken, see rocketha check", reason)
        self.assertIn("did you mean other?", self.refused("othr"))
        reason = self.refused("bad")  # a module is named so
        self.assertIn("bad.py): it cannot be imported: ModuleNotFoundError: No module named 'nowhere_to_be", reason)

    def test_modules_that_end_the_process(self) -> None:
        self.write("bad", "raise SystemExit(3)")
        (found,) = finding.installed()
        self.assertIn("it cannot be imported: SystemExit: 3", found.problem)

    def test_faults(self) -> None:
        """Of the object; each is named, so it stops the start."""
        for old, new, reason in (
            ("    def build(self, context):\n        return FeatureParts()\n", "", "attribute was not provided"),
            ("def build(self, context)", "def build(self)", "doesn't allow enough arguments"),
            ('api, version, summary = "acme", 1', 'api, version, summary = "acme", 2', "is written for api 2"),
            ('"1.0"', "1.0", "must be texts"),
            ('Key("3", "How large.")', "3", "its key 'size' must be a name of letters"),
            ("keys = {", "other = {", "attribute was not provided"),
        ):
            with self.subTest(reason):
                self.assertIn(old, GOOD)
                self.write("good", GOOD.replace(old, new))
                self.assertIn(reason, self.refused("acme"))
                self.forget()

    def test_values_that_cannot_be_asked_what_they_provide(self) -> None:
        """Such as construct's ``this``, which a module with a wire format imports."""
        self.write("good", f"from construct import this\n{GOOD}")
        self.assertEqual([each.problem for each in finding.installed()], [""])

    def test_a_stray_init_is_told(self) -> None:
        """It hides all plug-ins beside it."""
        with tempfile.TemporaryDirectory() as other:
            beside = pathlib.Path(other, "rocketha", "plugins")
            beside.mkdir(parents=True)
            (beside / "__init__.py").touch()
            sys.path.append(other)
            self.addCleanup(sys.path.remove, other)
            problems = [each.problem for each in finding.installed()]
        self.assertEqual(problems, ["this file hides all plug-ins beside it: remove it"])

    def test_a_bad_name(self) -> None:
        self.write("good", GOOD.replace('"acme"', '"Acme!"'))
        (found,) = finding.installed()
        self.assertIn("its name is 'Acme!'", found.problem)

    def test_a_module_without_one(self) -> None:
        """A class is no plug-in; an instance is wanted."""
        self.write("empty", GOOD.replace("plugin = Acme()", ""))
        (found,) = finding.installed()
        self.assertIn("no object in it provides", found.problem)

    def test_two_of_one_name(self) -> None:
        self.write("one", GOOD)
        self.write("two", GOOD)
        reason = self.refused("acme")
        self.assertIn("one.py", reason)
        self.assertIn("two.py", reason)

    def test_two_modules_of_one_name(self) -> None:
        """In two directories: one hides the other, and this is said."""
        with tempfile.TemporaryDirectory() as other:
            plugins.__path__.append(other)
            self.write("good", GOOD)
            pathlib.Path(other, "good.py").write_text(GOOD.replace('"acme"', '"hidden"'))
            found = finding.installed()
        self.assertEqual([each.name for each in found if not each.problem], ["acme"])
        self.assertTrue(any("is imported in its place" in each.problem for each in found))

    def test_keys(self) -> None:
        self.write("good", GOOD)
        self.assertIn(
            "acme.colour is no key of plug-in acme; it has: size", self.refused("acme", {"acme": {"colour": ""}})
        )
        self.assertIn("plug-in acme: size is no number", self.refused("acme", {"acme": {"size": "x"}}))
        self.forget()
        self.write(
            "good", GOOD.replace('return [] if keys["size"].isdigit() else ["size is no number"]', "return 1 / 0")
        )
        self.assertIn("check_keys failed: ZeroDivisionError", self.refused("acme"))

    def test_named_twice(self) -> None:
        self.write("good", GOOD)
        self.assertIn("named twice", self.refused("acme, acme"))

    def test_another_kind(self) -> None:
        self.write("good", GOOD)
        with self.assertRaisesRegex(ConfigError, "is a broker feature, and a wire format is wanted"):
            finding.formats_with("acme")
