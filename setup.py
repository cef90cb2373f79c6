"""The compiled part, and the description for an index; all the rest stands in setup.cfg."""

import pathlib
import re

from Cython.Build import cythonize
from setuptools import Extension, setup


def description() -> str:
    """README.rst without links to files, which an index has not: a link becomes its text and the file's name."""
    text = pathlib.Path(__file__).with_name("README.rst").read_text(encoding="utf-8")
    return re.sub(r"`([^`<]+?)(\s+)<(?![a-z]+:)([^>]+)>`_", _named, text)


def _named(link: re.Match[str]) -> str:
    said, blank, file = link.groups()
    return f"``{file}``" if said == file else f"{said}{blank}(``{file}``)"


extensions = cythonize([Extension("rocketha._compiled", ["src/rocketha/_compiled.pyx"])], build_dir="build/cython")
for extension in extensions:
    extension.optional = True  # where there is no C compiler, rocketha goes without
setup(ext_modules=extensions, long_description=description())
