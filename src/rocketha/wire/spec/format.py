"""What a registered format is: its specification and the production code that reads and writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import construct


@attrs.frozen
class Format:
    """One wire or disk format, as the fuzzer, the documentation and the tests see it.

    :ivar name: the word used on the command line (``rocketha fuzz NAME``).
    :ivar spec: the construct declaration, the single source of the layout.
    :ivar parse: the reader that production uses.  Contract: for any bytes it returns a value or raises an error of
        :mod:`rocketha.errors`; anything else is a crash.
    :ivar build: the writer that production uses, from what ``parse`` returned; None where production never writes it.
    :ivar bound: the largest value in bytes that is accepted.
    :ivar doc: one sentence: where the format is used and the Java class that defines it.
    :ivar prefix: bytes of length word that stand before each value on a socket (0 for files).
    """

    name: str
    spec: construct.Construct
    parse: Callable[[bytes], Any]
    build: Callable[[Any], bytes] | None
    bound: int
    doc: str
    prefix: int = 0
