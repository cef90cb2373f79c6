"""The documents as a site: Sphinx builds it without a warning, and every link in it leads to a page of it."""

from __future__ import annotations

import html.parser
import io
import pathlib
import re
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

from sphinx.cmd.build import build_main

from tests.tidy.source import ROOT


class Links(html.parser.HTMLParser):
    """Where the links of a page lead, and what may be linked to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.targets.append(values["href"] or "")
        if values.get("id"):
            self.anchors.add(values["id"] or "")


class SiteTests(unittest.TestCase):
    """``make docs``."""

    def test_site(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            said = io.StringIO()
            with redirect_stderr(said), redirect_stdout(said):
                code = build_main(["-q", "-W", "--keep-going", "-b", "html", str(ROOT / "docs"), directory])
            self.assertEqual(code, 0, said.getvalue())
            site = pathlib.Path(directory)
            pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
            self.assertGreater(len(pages), 60)
            self.assertEqual([each for path, links in pages.items() for each in broken(path, links, pages)], [])


def broken(page: pathlib.Path, links: Links, pages: dict[pathlib.Path, Links]) -> list[str]:
    """The links of a page that lead nowhere in the site."""
    found = []
    for target in links.targets:
        if re.match("[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        there = pages.get(path)
        if not path.exists() or (anchor and there is not None and anchor not in there.anchors):
            found.append(f"{page.name}: {target}")
    return found
