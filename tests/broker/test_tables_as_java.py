"""Tables of files and masters are read in the dialect of every other body."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from rocketha.broker.data_version import DataVersion
from rocketha.broker.delay_levels import read_progress
from rocketha.broker.metadata_modes import read_modes
from rocketha.broker.offsets import read_offsets
from rocketha.errors import RemoteProtocolError
from rocketha.namesrv import data_version
from rocketha.namesrv.kv_config import KvConfig
from rocketha.wire import json_dialect


class TableTests(unittest.TestCase):
    """What fastjson coerces is coerced, and what it refuses is refused."""

    def test_offsets(self) -> None:
        """Numbers as texts; a null for a map, or in it, is nothing."""
        read = {"T@G": {"0": "5", "1": 2.0, "2": None, "3": True, "+4": "1,000"}, "T@H": None, "T@I": ""}
        wanted = {"T@G": {0: 5, 1: 2, 3: 1, 4: 1000}, "T@H": {}, "T@I": {}}
        self.assertEqual(read_offsets({"offsetTable": read}), wanted)
        for nothing in (None, "", "null", {}):
            self.assertEqual(read_offsets({"offsetTable": nothing}), {})
        self.assertEqual(read_progress({"offsetTable": {"18": "7", "1": None}}), {18: 7})
        self.assertEqual(read_progress({"offsetTable": "null"}), {})

    def test_modes_and_configuration(self) -> None:
        """Rows of null are none; texts may be given as numbers."""
        mode = {"mode": "POP", "popShareQueueNum": -1}
        read = {"T": {"G": mode, "H": None}, "U": None}
        self.assertEqual(read_modes({"messageRequestModeMap": read}), {"T": {"G": mode}, "U": {}})
        kv = KvConfig.decode(json_dialect.dumps({"configTable": {"N": {"a": 1, "b": None, "c": "x"}, "M": ""}}))
        self.assertEqual(kv.tables, {"N": {"a": "1", "c": "x"}, "M": {}})

    def test_what_is_none(self) -> None:
        """A list for a map, a word for a number, a number beyond the type."""
        readers: tuple[tuple[Callable[[Any], Any], tuple[Any, ...]], ...] = (
            (read_offsets, (None, [], {"offsetTable": []}, {"offsetTable": {"T@G": [1]}})),
            (read_offsets, tuple({"offsetTable": {"T@G": row}} for row in ({"0": 1 << 63}, {"x": 1}, {"0": "y"}))),
            (read_progress, (None, {"offsetTable": {"1": -1}}, {"offsetTable": {"-1": 1}}, {"offsetTable": 3})),
            (read_modes, (None, {"messageRequestModeMap": []}, {"messageRequestModeMap": {"T": {"G": 1}}})),
        )
        for read, values in readers:
            for value in values:
                with self.subTest(read=read.__name__, value=value):
                    self.assertRaises(RemoteProtocolError, read, value)

    def test_versions(self) -> None:
        """A broker's counts what it can read; a nameserver's refuses what Java refuses, and takes nothing for 0."""
        given = {"counter": "3", "stateVersion": None, "timestamp": "x"}
        self.assertEqual(DataVersion.from_json(given), DataVersion(3, 0, 0))
        for nothing in (None, "", "null", {}):
            self.assertEqual(data_version.from_json(nothing), data_version.DataVersion())
        self.assertEqual(data_version.from_json({"counter": "3"}).counter, 3)
        self.assertRaises(RemoteProtocolError, data_version.from_json, given)
        self.assertRaises(RemoteProtocolError, data_version.from_json, [1])
