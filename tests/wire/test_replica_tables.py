"""A slave's questions to its master: Java's answers are read, pages are put together, and nothing goes on for ever.

Source: recorded answers of RocketMQ 5.5.0; SlaveSynchronize, BrokerOuterAPI.
"""

from __future__ import annotations

import unittest
from typing import Any

from rocketha.broker.groups import SubscriptionGroupConfig
from rocketha.broker.topics import TopicConfig
from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire import json_dialect, replica_tables
from rocketha.wire.remoting import Command
from tests.wire.support import ha_dialogue


def reply(
    entries: dict[str, Any], total: int | None = None, version: int = 1, key: str = "topicConfigTable"
) -> Command:
    """One page."""
    body = json_dialect.dumps({"dataVersion": {"counter": version}, key: entries})
    fields = {} if total is None else {"totalTopicNum" if key[0] == "t" else "totalGroupNum": str(total)}
    return Command(0, flag=1, fields=fields, body=body)


def recorded(code: int) -> tuple[Command, Command]:
    """The first recorded request of a code with its answer."""
    for request, found in ha_dialogue():
        if request.code == code and found is not None:
            return request, found
    raise AssertionError(code)


class GoldenTests(unittest.TestCase):
    """What Java asked and answered."""

    def test_requests(self) -> None:
        """Fields as Java's slave sends them."""
        self.assertEqual(replica_tables.group_pages().call(), (201, recorded(201)[0].fields, b""))
        first = {"topicSeq": "0", "dataVersion": "", "maxTopicNum": "2000"}
        self.assertEqual(replica_tables.topic_pages().call(), (21, first, b""))
        for code, call in (
            (43, replica_tables.get_offsets()),
            (45, replica_tables.get_delay_offsets()),
            (402, replica_tables.get_request_modes()),
        ):
            self.assertEqual(call, (code, {}, b""))

    def test_topics_and_groups(self) -> None:
        """A page of two topics of 19, all ten groups; the broker's own classes take every entry."""
        pages = replica_tables.topic_pages()
        self.assertIsNone(pages.take(recorded(21)[1]))
        self.assertEqual(pages.call().fields["topicSeq"], "2")
        self.assertIn('"counter":7', pages.call().fields["dataVersion"])
        table = replica_tables.read_table(recorded(21)[1].body, "topicConfigTable")
        self.assertTrue(TopicConfig.from_json(table.entries["%RETRY%G1"]).order)
        groups = replica_tables.group_pages().take(recorded(201)[1])
        assert groups is not None
        self.assertEqual(groups.version, {"counter": 2, "stateVersion": 1, "timestamp": 1795256522893})
        self.assertEqual(len(groups.entries), 10)
        for name, entry in groups.entries.items():
            self.assertEqual(SubscriptionGroupConfig.from_json(entry).group_name, name)

    def test_offsets(self) -> None:
        """Queues and levels without quotes."""
        found = replica_tables.offsets(recorded(43)[1])
        self.assertEqual(found.committed["GoldenTagged@golden-consume"], {0: 4, 1: 6, 2: 5, 3: 4})
        self.assertEqual(found.version["timestamp"], 1795256476120)
        self.assertTrue(found.pulled)
        delays = replica_tables.delay_offsets(recorded(45)[1])
        self.assertEqual(delays.offsets, {1: 3, 2: 3, 3: 4})
        self.assertEqual(replica_tables.request_modes(recorded(402)[1]), {})


class PageTests(unittest.TestCase):
    """Pages of one table."""

    def test_to_the_last_entry(self) -> None:
        """Java stops one entry short of the total; here the 2,001st is asked for."""
        pages = replica_tables.topic_pages()
        self.assertIsNone(pages.take(reply({f"t{number}": {} for number in range(2000)}, 2001)))
        self.assertEqual(pages.call().fields["topicSeq"], "2000")
        whole = pages.take(reply({"last": {}}, 2001))
        assert whole is not None
        self.assertEqual((len(whole.entries), "last" in whole.entries), (2001, True))

    def test_a_master_that_sends_all_at_once(self) -> None:
        """An older one: no total."""
        whole = replica_tables.topic_pages().take(reply({"a": {}, "b": {}}))
        assert whole is not None
        self.assertEqual(sorted(whole.entries), ["a", "b"])

    def test_an_empty_table(self) -> None:
        """Nothing of nothing is whole."""
        whole = replica_tables.topic_pages().take(reply({}, 0))
        assert whole is not None
        self.assertEqual(whole.entries, {})

    def test_a_table_that_changes_is_read_anew(self) -> None:
        """What was read of the older one is forgotten, with its forbidden bits."""
        pages = replica_tables.group_pages()
        key = "subscriptionGroupTable"
        older = {"dataVersion": {"counter": 1}, key: {"old": {}}, "forbiddenTable": {"old": {"t": 4}}}
        body = json_dialect.dumps(older)
        self.assertIsNone(pages.take(Command(0, flag=1, fields={"totalGroupNum": "2"}, body=body)))
        self.assertIsNone(pages.take(reply({"x": {}, "y": {}}, 2, 2, key)))
        self.assertEqual((pages.call().fields["groupSeq"], pages.call().fields["dataVersion"]), ("0", '{"counter":2}'))
        whole = pages.take(reply({"x": {}, "y": {}}, 2, 2, key))
        assert whole is not None
        self.assertEqual((sorted(whole.entries), whole.version, whole.forbidden), (["x", "y"], {"counter": 2}, {}))

    def test_it_ends(self) -> None:
        """A table that never stands still, pages that bring nothing, more than can be, refusals."""
        pages = replica_tables.topic_pages()
        with self.assertRaisesRegex(RemoteProtocolError, "changed 6 times while it was read"):
            for version in range(100):
                self.assertIsNone(pages.take(reply({"a": {}}, 9, version)))
        pages = replica_tables.topic_pages()
        self.assertIsNone(pages.take(reply({"a": {}}, 9)))
        with self.assertRaisesRegex(RemoteProtocolError, "ends after 1 entries of 9"):
            pages.take(reply({"a": {}}, 9))
        with self.assertRaisesRegex(RemoteProtocolError, "topicConfigTable has 200001 members, allowed are 200000"):
            replica_tables.topic_pages().take(reply({f"t{number}": {} for number in range(200_001)}))
        pages = replica_tables.topic_pages()
        self.assertIsNone(pages.take(reply({f"t{number}": {} for number in range(200_000)}, 300_000)))
        with self.assertRaisesRegex(RemoteProtocolError, "more than 200000 entries"):
            pages.take(reply({"one more": {}}, 300_000))
        with self.assertRaisesRegex(RequestRefused, "no"):
            replica_tables.topic_pages().take(Command(1, flag=1, remark="no"))


class OffsetTests(unittest.TestCase):
    """Unquoted keys, fast and right."""

    def test_digits_in_texts(self) -> None:
        """What looks like an unquoted key inside a text is left alone."""
        data = b'{"offsetTable":{"a{1:b,2:c@g":{0:5,-1:7}},"note":"{9:9}"}'
        found = replica_tables.read_offsets(data)
        self.assertEqual(found.committed, {"a{1:b,2:c@g": {0: 5, -1: 7}})

    def test_large(self) -> None:
        """Over the tolerant reader's four megabytes: a broker with many groups still has a slave."""
        rows = b",".join(b'"t%d@g":{0:1,1:2,2:3,3:4}' % number for number in range(150_000))
        data = b'{"dataVersion":{},"offsetTable":{' + rows + b"}}"
        self.assertGreater(len(data), json_dialect.TOLERANT_BYTES_MAX)
        found = replica_tables.read_offsets(data)
        self.assertEqual((len(found.committed), found.committed["t149999@g"]), (150_000, {0: 1, 1: 2, 2: 3, 3: 4}))

    def test_nonsense(self) -> None:
        """Each breach by what it is."""
        for read, data, text in (
            (replica_tables.read_offsets, b"", "JSON"),
            (replica_tables.read_offsets, b"[]", "no JSON object"),
            (replica_tables.read_offsets, b'{"offsetTable":[]}', "offsetTable: .* where an object is wanted"),
            (replica_tables.read_offsets, b'{"offsetTable":{"a@g":1}}', "a@g is no JSON object"),
            (replica_tables.read_offsets, b'{"offsetTable":{"a@g":{"x":1}}}', "a queue 'x'"),
            (replica_tables.read_offsets, b'{"offsetTable":{"a@g":{-2:1}}}', "a queue '-2'"),
            (replica_tables.read_offsets, b'{"offsetTable":{"a@g":{2147483648:1}}}', "a queue '2147483648'"),
            (replica_tables.read_offsets, b'{"offsetTable":{"a@g":{0:-2}}}', "an offset '-2'"),
            (replica_tables.read_offsets, b'{"offsetTable":{"a@g":{0:"x"}}}', "where a long is wanted"),
            (replica_tables.read_offsets, b'{"offsetTable":{"a@g":{0:null}}}', "an offset 'None'"),
            (replica_tables.read_offsets, b'{"offsetTable":{"a@g":{0:9223372036854775808}}}', "an offset"),
            (replica_tables.read_offsets, b'{"dataVersion":[]}', "dataVersion: .* where an object is wanted"),
            (replica_tables.read_delay_offsets, b'{"offsetTable":[1]}', "offsetTable is no JSON object"),
            (replica_tables.read_request_modes, b'{"messageRequestModeMap":{"t":1}}', "t is no JSON object"),
            (lambda data: replica_tables.read_table(data, "t"), b'{"t":{"a":1}}', "t of 'a' is no JSON object"),
            (lambda data: replica_tables.read_table(data, "t"), b'{"forbiddenTable":{"a":1}}', "is no JSON object"),
        ):
            with self.subTest(text, data=data), self.assertRaisesRegex(RemoteProtocolError, text):
                read(data)

    def test_too_many_members(self) -> None:
        """Counted before they are parsed: objects of any shape, tables of either kind."""
        many = b'{"offsetTable":{"a@b":{' + b",".join(b"%d:0" % queue for queue in range(800_001)) + b"}}}"
        for read in (replica_tables.read_offsets, lambda data: replica_tables.read_table(data, "topicConfigTable")):
            with self.assertRaisesRegex(RemoteProtocolError, "more than 800000 members"):
                read(many)
