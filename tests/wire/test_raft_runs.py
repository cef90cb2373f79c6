"""Runs in Raft's frames: only for a log that may have them."""

from __future__ import annotations

import unittest

from rocketha.errors import RemoteProtocolError
from rocketha.raft.messages import Entry, Kind, Message
from rocketha.wire import raft_frames


class RunTests(unittest.TestCase):
    """The controllers' log could not store one: the frame is refused, as it was before there were any."""

    def test_they_are_refused(self) -> None:
        entries = Entry(8, 3, 1, b"abc", 3), Entry(11, 3, 1, b"d"), Entry(12, 4, 1, b"ef", 2)
        data = raft_frames.encode(Message(Kind.APPEND, "a", "b", 4, 7, 3, entries=entries))
        self.assertRaises(RemoteProtocolError, raft_frames.decode, data)
        self.assertEqual(raft_frames.decode(data, runs=True).entries, entries)


if __name__ == "__main__":
    unittest.main()
