"""Request and response codes. Source: RequestCode, ResponseCode, RemotingSysResponseCode of RocketMQ 5.x;
facts/remoting.md.
"""

from __future__ import annotations

import unittest

from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fuzz.request_table import REQUESTS
from tests.wire.support import java_frames


class CodesTests(unittest.TestCase):
    """Names and numbers."""

    def test_recorded_codes_have_names(self) -> None:
        """Every request and every answer that Java sent in the recordings is in the tables."""
        for row, _ in java_frames():
            self.assertIn(row["request"], set(RequestCode))
            if row["what"] == "answer":
                self.assertIn(row["code"], set(ResponseCode))

    def test_known_numbers(self) -> None:
        """Some of each family, from Java's source."""
        for code, number in (
            (RequestCode.SEND_MESSAGE, 10),
            (RequestCode.SEND_MESSAGE_V2, 310),
            (RequestCode.SEND_BATCH_MESSAGE, 320),
            (RequestCode.REGISTER_BROKER, 103),
            (RequestCode.POP_MESSAGE, 200050),
            (ResponseCode.TOPIC_NOT_EXIST, 17),
            (ResponseCode.PULL_NOT_FOUND, 19),
            (ResponseCode.INVALID_PARAMETER, 29),
            (ResponseCode.CONTROLLER_NOT_LEADER, 2007),
        ):
            self.assertEqual(int(code), number)

    def test_the_fuzzer_knows_them(self) -> None:
        """What the fuzzer sends has a name, but for the one that no server knows."""
        self.assertEqual(set(REQUESTS) - {int(code) for code in RequestCode}, {32766})
