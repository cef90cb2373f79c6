"""The documents as a site: ``make docs`` builds it with Sphinx.

The pages are written for a reader of the repository, too: links name files (``raft.rst``), and docs/index.rst is one
list.  Here its links become the table of contents, and links to files become links to pages.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

project = "rocketha"
author = "the rocketha developers"
extensions = ["myst_parser"]
html_theme = "alabaster"
html_theme_options = {"fixed_sidebar": True, "page_width": "1200px", "body_max_width": "900px"}
html_static_path: list[str] = []
exclude_patterns = ["_build"]
myst_heading_anchors = 3

_LINK = re.compile(r"<(?!\.\.)([\w./-]+?)\.(?:rst|md)>`_")
_PAGE = re.compile(r"^(?![a-z]+:)([^#]+)\.(?:rst|md)(#.*)?$")
_SOURCE = re.compile(r"^(?![a-z]+:)[^#]+\.py$")


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """The links of a list of pages, in their order, are its part of the table of contents."""
    if page.rpartition("/")[2] == "index":
        pages = "\n".join(f"   {name}" for name in dict.fromkeys(_LINK.findall(source[0])))
        source[0] += f"\n\n.. toctree::\n   :hidden:\n\n{pages}\n"


def link_pages(app: Sphinx, tree: nodes.document, page: str) -> None:
    """``raft.rst`` is ``raft.html`` here; what lies outside of docs/ is no page of the site."""
    for reference in list(tree.findall(nodes.reference)):
        target = _PAGE.match(reference.get("refuri", ""))
        if target is None:
            if _SOURCE.match(reference.get("refuri", "")):
                reference.parent.replace(reference, reference.children)
            continue
        if target[1].startswith("../"):
            reference.parent.replace(reference, reference.children)
        else:
            reference["refuri"] = f"{target[1]}.html{target[2] or ''}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx: see https://www.sphinx-doc.org/en/master/extdev/appapi.html."""
    app.connect("source-read", add_contents)
    app.connect("doctree-resolved", link_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
