"""Queue locks of orderly consumers (Java: RebalanceLockManager)."""

from __future__ import annotations

import unittest
from unittest import mock

from rocketha.broker import queue_locks
from rocketha.broker.queue_locks import LOCK_MS, MessageQueue, QueueLocks, parse_lock_request
from rocketha.errors import RemoteProtocolError, RequestRefused
from tests.broker.support import NOW_MS

Q0, Q1 = MessageQueue("broker-a", 0, "T"), MessageQueue("broker-a", 1, "T")


class QueueLockTests(unittest.TestCase):
    """Who owns a queue, and until when."""

    def setUp(self) -> None:
        self.locks = QueueLocks()

    def test_one_owner(self) -> None:
        """A second client gets only what is free."""
        self.assertEqual(self.locks.lock("G", [Q0], "a", NOW_MS), [Q0])
        self.assertEqual(self.locks.lock("G", [Q0, Q1], "b", NOW_MS), [Q1])
        self.assertEqual(self.locks.owner("G", Q0, NOW_MS), "a")

    def test_groups_do_not_share_locks(self) -> None:
        """The same queue belongs to one client of every group."""
        self.locks.lock("G", [Q0], "a", NOW_MS)
        self.assertEqual(self.locks.lock("H", [Q0], "b", NOW_MS), [Q0])

    def test_locking_again_prolongs(self) -> None:
        """Clients lock again every 20 s; 60 s after the last time another may have it."""
        self.locks.lock("G", [Q0], "a", NOW_MS)
        self.locks.lock("G", [Q0], "a", NOW_MS + 20_000)
        self.assertEqual(self.locks.lock("G", [Q0], "b", NOW_MS + 20_000 + LOCK_MS), [])
        self.assertEqual(self.locks.lock("G", [Q0], "b", NOW_MS + 20_001 + LOCK_MS), [Q0])
        self.assertEqual(self.locks.lock("G", [Q0], "a", NOW_MS + 20_001 + LOCK_MS), [])

    def test_only_the_owner_unlocks(self) -> None:
        """Anyone else's unlock is ignored."""
        self.locks.lock("G", [Q0], "a", NOW_MS)
        self.locks.unlock("G", [Q0, Q1], "b")
        self.assertEqual(self.locks.owner("G", Q0, NOW_MS), "a")
        self.locks.unlock("G", [Q0, Q1], "a")
        self.assertIsNone(self.locks.owner("G", Q0, NOW_MS))
        self.locks.unlock("none", [Q0], "a")

    def test_nothing_owned_leaves_nothing(self) -> None:
        """An empty request makes no entry."""
        self.assertEqual(self.locks.lock("G", [], "a", NOW_MS), [])
        self.assertEqual(self.locks._groups, {})

    def test_any_held(self) -> None:
        """A group with a lock that counts consumes in order."""
        self.assertFalse(self.locks.any_held("G", NOW_MS))
        self.locks.lock("G", [Q0], "a", NOW_MS)
        self.assertTrue(self.locks.any_held("G", NOW_MS + LOCK_MS))
        self.assertFalse(self.locks.any_held("G", NOW_MS + LOCK_MS + 1))

    def test_expired_locks_are_forgotten(self) -> None:
        """Memory only: the answers stay the same."""
        self.locks.lock("G", [Q0, Q1], "a", NOW_MS)
        self.locks.lock("G", [Q1], "a", NOW_MS + 5)
        self.assertEqual(self.locks.expire(NOW_MS + LOCK_MS + 1), 1)
        self.assertEqual(self.locks.owner("G", Q1, NOW_MS + LOCK_MS + 1), "a")
        self.assertEqual(self.locks.expire(NOW_MS + LOCK_MS + 6), 1)

    def test_the_number_of_locks_is_bounded(self) -> None:
        """Locks of queues that do not exist end in an error; unlocked and expired ones make room."""
        with mock.patch.object(queue_locks, "LOCKS_MAX", 1):
            self.locks.lock("G", [Q0], "a", NOW_MS)
            self.assertRaises(RequestRefused, self.locks.lock, "G", [Q1], "a", NOW_MS)
            self.locks.unlock("G", [Q0], "a")
            self.locks.lock("G", [Q1], "a", NOW_MS)
            self.locks.expire(NOW_MS + LOCK_MS + 1)
            self.assertEqual(self.locks.lock("G", [Q0], "a", NOW_MS), [Q0])

    def test_bad_requests(self) -> None:
        """Bodies that are no lock request."""
        queue = '{"brokerName":"b","queueId":0,"topic":"T"}'
        good = '{"clientId":"c","consumerGroup":"G","mqSet":[%s]}'
        for number in ("0", '"0"', "false", "0.5", "null"):
            text = good % queue.replace("0", number)
            self.assertEqual(parse_lock_request(text.encode()).queues, (MessageQueue("b", 0, "T"),))
        for rows in ("1", *(queue.replace("0", number) for number in ('"x"', "2147483648", "[]"))):
            with self.subTest(rows=rows), self.assertRaises(RemoteProtocolError):
                parse_lock_request((good % rows).encode())
        unnamed, unlisted = '{"clientId":"","consumerGroup":"G"}', '{"clientId":"c","consumerGroup":"G","mqSet":3}'
        for text in ("[]", "{}", unnamed, unlisted):
            with self.subTest(text=text), self.assertRaises(RemoteProtocolError):
                parse_lock_request(text.encode())
        many = ",".join([queue] * (queue_locks.QUEUES_MAX + 1))
        self.assertRaises(RemoteProtocolError, parse_lock_request, (good % many).encode())
        long = b'{"clientId":"c","consumerGroup":"%b"}' % (b"a" * 256)
        self.assertRaises(RemoteProtocolError, parse_lock_request, long)
