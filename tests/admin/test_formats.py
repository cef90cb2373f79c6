"""rocketha formats: the layouts are taken from the specifications, so they can be checked against bytes."""

from __future__ import annotations

import construct
from twisted.trial.unittest import SynchronousTestCase

from rocketha.admin.formats import as_rst, as_text, kind_of, pages, tables
from rocketha.wire.registry import FORMATS
from rocketha.wire.spec import consume_queue, remoting
from tests.tidy.source import ROOT


class FormatsTests(SynchronousTestCase):
    """The command's output."""

    def test_fixed_layout(self) -> None:
        """Offsets and sizes of the consume queue unit, which Java fixes at 8 + 4 + 8 bytes (ConsumeQueue)."""
        (table,) = tables(consume_queue.UNIT)
        found = [(row.offset, row.size, row.name, row.kind) for row in table.rows]
        self.assertEqual(
            found, [(0, 8, "physical_offset", "int64"), (8, 4, "size", "int32"), (12, 8, "tags_code", "int64")]
        )
        self.assertEqual(sum(row.size or 0 for row in table.rows), consume_queue.UNIT.sizeof())
        self.assertIn("begins in the log", table.rows[0].meaning)

    def test_variable_layout(self) -> None:
        """After a field of variable length there is no offset; nested structs have tables of their own."""
        frame = tables(remoting.FRAME)[0]
        self.assertEqual([row.offset for row in frame.rows], [0, 4, 5, 8, None])
        names = [table.name for table in tables(remoting.BATCH_BODY)]
        self.assertEqual(names, ["batch-body", "batch-message"])

    def test_every_field_is_named_and_explained(self) -> None:
        """No format falls through to a Python class name, and every number says what it counts."""
        for form in FORMATS.values():
            self.assertIn(form.doc, as_text(form))
            for table in tables(form.spec):
                self.assertTrue(table.rows, form.name)
                for row in table.rows:
                    self.assertNotRegex(row.kind, "[A-Z][a-z]+[A-Z]|<", f"{form.name}.{row.name}")

    def test_unknown_constructs_show_their_class(self) -> None:
        """A construct this module does not know is shown, not dropped."""
        self.assertEqual(kind_of(construct.VarInt), "VarInt")

    def test_pages_are_up_to_date(self) -> None:
        """docs/formats is what the specifications say now: run `rocketha formats --rst docs/formats`."""
        directory = ROOT / "docs" / "formats"
        wanted = pages([FORMATS[name] for name in sorted(FORMATS)])
        self.assertEqual({path.name for path in directory.glob("*.rst")}, set(wanted))
        for name, text in wanted.items():
            self.assertEqual((directory / name).read_text(encoding="utf-8"), text, name)

    def test_a_page_is_a_table(self) -> None:
        """One row a field."""
        page = as_rst(FORMATS["remoting"])
        self.assertEqual(page.count("\n   * -"), 1 + len(tables(FORMATS["remoting"].spec)[0].rows))
