"""A wire format: ``rocketha formats --plugins beacon-format`` prints it, ``rocketha fuzz`` attacks its reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import construct
from zope.interface import implementer

from rocketha.interfaces import API, FormatError, IWireFormat, WireFormat

BEACON = construct.Struct(
    "magic" / construct.Const(0xBEAC, construct.Int16ub),  # tells a beacon from anything else
    "number" / construct.Int32ub,  # counts up from 0
    "name" / construct.Prefixed(construct.Int8ub, construct.GreedyBytes),  # of who sends it
    construct.Terminated,
)


class Beacon(NamedTuple):
    """One value."""

    number: int
    name: bytes


def parse(data: bytes) -> Beacon:
    """The beacon of some bytes."""
    try:
        found = BEACON.parse(data)
    except construct.ConstructError as problem:
        raise FormatError(f"no beacon: {problem}") from None
    return Beacon(found.number, found.name)


def build(beacon: Beacon) -> bytes:
    """The bytes of a beacon."""
    return bytes(BEACON.build({"number": beacon.number, "name": beacon.name}))


@implementer(IWireFormat)
class BeaconFormat:
    """The plug-in."""

    name = "beacon-format"
    api = API
    version = "1.0"
    summary = "the frame of a made-up beacon"

    def formats(self) -> Sequence[Any]:
        return [WireFormat("beacon-format", BEACON, parse, build, 262, "A made-up frame that shows how it is done.")]


plugin = BeaconFormat()
