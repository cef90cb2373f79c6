"""907 and 1007: Java's bodies come out again, ours are understood, nonsense is named.

Source: recorded answers of RocketMQ 5.5.0; HARuntimeInfo, EpochEntryCache.
"""

from __future__ import annotations

import unittest
from typing import Any

from rocketha.errors import RemoteProtocolError
from rocketha.wire import ha_status
from rocketha.wire.ha_frames import EpochEntry
from rocketha.wire.ha_status import EpochStatus, HaStatus, LinkStatus, SlaveStatus
from tests.wire.support import ha_dialogue


def recorded(code: int) -> list[bytes]:
    """Bodies of recorded answers."""
    return [reply.body for request, reply in ha_dialogue() if request.code == code and reply is not None]


class StatusTests(unittest.TestCase):
    """Both bodies."""

    def test_java(self) -> None:
        """Byte for byte."""
        (body,) = recorded(907)
        link = LinkStatus("127.0.0.1:51134", 62073, 0, True, 0, 62073)
        self.assertEqual(ha_status.decode_ha_status(body), HaStatus(True, 62073, 1, (link,)))
        self.assertEqual(ha_status.encode_ha_status(ha_status.decode_ha_status(body)), body)
        master, slave = recorded(1007)
        for data, broker_id in ((master, 0), (slave, 2)):
            found = ha_status.decode_epochs(data)
            self.assertEqual(found, EpochStatus("DefaultCluster", "broker-a", broker_id, (EpochEntry(1, 0),), 62073))
            self.assertEqual(ha_status.encode_epochs(found), data)

    def test_round_trip(self) -> None:
        """A slave, a master with links, epochs that end where the next begins."""
        slave = SlaveStatus("127.0.0.1:10912", 5, 100, 7, 8, 90)
        links = (LinkStatus("h:1", -1, 101, False, 0, -1), LinkStatus("h:2", 200, -100, True, 3, 200))
        for status in (HaStatus(False, 0, 0, (), slave), HaStatus(True, 100, 1, links)):
            self.assertEqual(ha_status.decode_ha_status(ha_status.encode_ha_status(status)), status)
        epochs = EpochStatus("c", "b", 3, (EpochEntry(1, 0), EpochEntry(4, 50), EpochEntry(5, 80)), 120)
        data = ha_status.encode_epochs(epochs)
        self.assertIn(b'{"endOffset":50,"epoch":1,"startOffset":0},{"endOffset":80,', data)
        self.assertEqual(ha_status.decode_epochs(data), epochs)
        self.assertEqual(ha_status.decode_epochs(ha_status.encode_epochs(epochs._replace(entries=()))).entries, ())

    def test_defaults(self) -> None:
        """What is absent is what Java's classes begin with."""
        self.assertEqual(ha_status.decode_ha_status(b"{}"), HaStatus(False, 0, 0))
        self.assertEqual(ha_status.decode_epochs(b"{}"), EpochStatus("", "", 0, (), 0))

    def test_nonsense(self) -> None:
        """Each breach by the name of its member."""
        rows: tuple[tuple[Any, bytes, str], ...] = (
            (ha_status.decode_ha_status, b"[]", "no JSON object"),
            (ha_status.decode_ha_status, b"{", "JSON"),
            (ha_status.decode_ha_status, b'{"master":"x"}', "master: 'x' where a boolean is wanted"),
            (ha_status.decode_ha_status, b'{"masterCommitLogMaxOffset":"x"}', "masterCommitLogMaxOffset"),
            (ha_status.decode_ha_status, b'{"masterCommitLogMaxOffset":{}}', "masterCommitLogMaxOffset"),
            (ha_status.decode_ha_status, b'{"inSyncSlaveNums":-1}', "inSyncSlaveNums is -1"),
            (ha_status.decode_ha_status, b'{"haConnectionInfo":5}', "haConnectionInfo: '5' where an object is wanted"),
            (
                ha_status.decode_ha_status,
                b'{"haConnectionInfo":[1]}',
                "haConnectionInfo: '1' where an object is wanted",
            ),
            (
                ha_status.decode_ha_status,
                b'{"haConnectionInfo":[{"addr":"%b"}]}' % (b"a" * 301),
                "addr has 301 characters",
            ),
            (ha_status.decode_ha_status, b'{"haConnectionInfo":[%b{}]}' % (b"{}," * 1024), "allowed are 1024"),
            (
                ha_status.decode_ha_status,
                b'{"haClientRuntimeInfo":[]}',
                "haClientRuntimeInfo: .* where an object is wanted",
            ),
            (ha_status.decode_epochs, b'{"epochList":[{"epoch":1}]}', "startOffset is missing"),
            (ha_status.decode_epochs, b'{"epochList":[{"epoch":-1,"startOffset":0}]}', "epoch is -1"),
            (
                ha_status.decode_epochs,
                b'{"epochList":[{"epoch":2,"startOffset":0},{"epoch":1,"startOffset":5}]}',
                "epoch 1 from 5 after epoch 2 from 0",
            ),
            (
                ha_status.decode_epochs,
                b'{"epochList":[{"epoch":1,"startOffset":0,"endOffset":4},{"epoch":2,"startOffset":5}]}',
                "ends at 4 and the next begins at 5",
            ),
            (ha_status.decode_epochs, b'{"brokerId":-1}', "brokerId is -1"),
            (ha_status.decode_epochs, b'{"brokerName":"%b"}' % (b"a" * 5000), "brokerName"),
        )
        for read, data, text in rows:
            with self.subTest(text), self.assertRaisesRegex(RemoteProtocolError, text):
                read(data)
