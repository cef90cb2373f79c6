"""A topic that is deleted while producers send to it, and the table without it that comes late to a slave."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet import task

from rocketha.services.replication import metadata_slave
from rocketha.wire.codes import RequestCode
from tests.services.controlled_case import ControlledCase

LATE_S = 0.05
"""One lost packet: the log comes over another connection."""


class MadeAgainTests(ControlledCase):
    """One controller, two brokers."""

    controllers_count = 1
    brokers_count = 2

    def test_queues_of_the_new_topic_stay(self) -> None:
        """The slave's log has messages of the new topic when it hears that the old one is gone: they stay visible."""
        ask = metadata_slave.Following._ask

        def late(following: Any, code: int, *rest: Any, **more: Any) -> Any:
            asked = ask(following, code, *rest, **more)
            if code == RequestCode.GET_ALL_TOPIC_CONFIG:
                asked.addCallback(lambda answer: task.deferLater(following._context.clock, LATE_S, lambda: answer))
            return asked

        master = self.start_group()
        (slave,) = [host for host in self.brokers if host is not master]
        self.assertEqual(set(self.send_many(master, 40)), {0})
        self.until("the slave has all", lambda: self.level(master, slave))
        self.run_for(3)
        with mock.patch.object(metadata_slave.Following, "_ask", late):
            deleting = self.asking(master, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            self.run_for(0.02)
            self.assertEqual(set(self.send_many(master, 20)), {0})
            self.assertEqual(self.await_(deleting).code, 0)
            self.run_for(5)
        queues = self.service(master).broker.store.queue_table()["T"]
        self.assertEqual(sum(end - begin for begin, end in queues.values()), 20)
        self.assertEqual(self.service(slave).broker.store.queue_table()["T"], queues)
        self.assertIn("T", self.service(slave).broker.state.topics.table)
