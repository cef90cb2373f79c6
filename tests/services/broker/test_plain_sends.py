"""Plain sends take a short path: the same answers and the same log as by the long one, byte for byte."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from unittest import mock

from rocketha.broker.plain_send import PlainSends
from rocketha.broker.topics import TopicConfig
from rocketha.wire import batch, remoting
from rocketha.wire.codes import RequestCode
from rocketha.wire.known_sends import (
    CREDIT_FIRST,
    LAYOUT_COST,
    LAYOUT_COSTS,
    LAYOUTS_BYTES_MAX,
    LAYOUTS_MAX,
    HeaderMemory,
    SendShape,
)
from rocketha.wire.remoting import Command
from tests.services.broker_case import BrokerCase, Client, send_fields

WORDS = ("true", "false", "k1 k2", "TagA", "TagB", "3", "x\u00e9", "50%", "")
KEYS = ("0123456789ABC-EF", "0123456789A\x01CDEF", "", "0123456789AB\u00e9DEF", '0123456789"BCDEF', "0123456789 BCDEF")
OUTER = (
    "UNIQ_KEY\x01KEY\x02WAIT\x01true\x02",
    "WAIT\x01false\x02UNIQ_KEY\x01KEY",
    "",
    "WAIT\x01true\x02",
    "UNIQ_KEY\x01KEY\x02DELAY\x013\x02",
    "TRAN_MSG\x01true\x02",
    "WAIT\x01TRUE\x02",
    "WAIT\x01true\x02WAIT\x01false\x02",
)
"""Properties of a batch; the first three are plain. Java's producer sends the first, with another key each time."""
NAMES = ("WAIT", "KEYS", "TAGS", "DELAY", "a", "%s", "CLUSTER", "POP_CK", "INNER_NUM", "TIMER_DELAY_MS", "XUNIQ_KEY")


def _long_way(memory: HeaderMemory, frame: bytes, header_limit: int) -> Command:
    return remoting.decode(frame, header_limit)


def short_paths_taken(took: Counter[str]) -> AbstractContextManager[object]:
    """Counts the sends that :class:`PlainSends` made messages of."""

    def counted(name: str) -> Callable[..., object]:
        path = getattr(PlainSends, name)

        def call(*arguments: object) -> object:
            made = path(*arguments)
            took[name] += made is not None
            return made

        return call

    return mock.patch.multiple(PlainSends, message=counted("message"), batch=counted("batch"))


def _properties(chance: random.Random) -> str:
    """A properties string with ``KEY`` where the unique key goes."""
    pairs = [("UNIQ_KEY", "KEY"), ("WAIT", chance.choice(("true", "true", "false")))]
    if chance.random() < 0.7:
        pairs += [(chance.choice(NAMES), chance.choice(WORDS)) for _ in range(chance.randrange(4))]
    if chance.random() < 0.2:
        pairs.append((chance.choice(("UNIQ_KEY", "XUNIQ_KEY")), chance.choice(("other", "KEY"))))
    if chance.random() < 0.5:
        chance.shuffle(pairs)
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    return text[:-1] if chance.random() < 0.2 else text


class Producers:
    """Say much that is alike: a few topics, headers and property strings in turn."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.topics = ["T"] * 6 + [chance.choice(("%RETRY%G", "U", "T/", "SCHEDULE_TOPIC_XXXX"))] * 2
        self.texts = ["UNIQ_KEY\x01KEY\x02WAIT\x01true\x02"] * 2 + [_properties(chance) for _ in range(3)]
        odd = {
            chance.choice("fghjkm"): chance.choice(("0", "1", "4", "8", "12", "32", "128", "true", "9" * 20, "x"))
            for _ in range(2)
        }
        self.headers: list[dict[str, str]] = [{}] * 4 + [odd, {"f": "1", "h": "7", "j": "3", "l": "5"}]
        self.outer = chance.choice(OUTER[:3])
        self.bodies = [b"a", b"b" * 100, chance.randbytes(300), b"", bytes(300_001)]

    def send(self, client: Client) -> Command:
        """One message, or a batch."""
        return self.batch(client) if self.chance.random() < 0.3 else self.single(client)

    def batch(self, client: Client) -> Command:
        chance = self.chance
        queue = chance.randrange(4) if chance.random() < 0.95 else chance.choice((-1, 4, 7))
        outer = chance.choice(OUTER) if chance.random() < 0.2 else self.outer
        outer = outer.replace("KEY\x01KEY", f"KEY\x01{chance.getrandbits(64):016X}")
        given = send_fields(chance.choice(self.topics), queue, outer)
        fields = dict(sorted({**given, **chance.choice(self.headers), "m": "true"}.items()))
        members = [
            batch.BatchMessage(chance.randrange(3), bytes(chance.randrange(1, 20)), chance.choice(self.texts).encode())
            for _ in range(chance.choice((0, 1, 2, 5, 9)))
        ]
        body = batch.join(members) + (b"?" if chance.random() < 0.05 else b"")
        code = chance.choice((RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2))
        return client.command(code, fields, body, oneway=chance.random() < 0.05)

    def single(self, client: Client) -> Command:
        chance = self.chance
        key = f"{chance.getrandbits(64):016X}" if chance.random() < 0.85 else chance.choice(KEYS)
        text = chance.choice(self.texts).replace("KEY\x01KEY", "KEY\x01" + key)
        if chance.random() < 0.1:
            text = text.replace("KEY\x01other", "KEY\x01" + key)
        queue = chance.randrange(4) if chance.random() < 0.95 else chance.choice((-1, 4, 7))
        given = {**send_fields(chance.choice(self.topics), queue, text), **chance.choice(self.headers)}
        fields = dict(sorted(given.items()))  # Java's order
        body = chance.choice(self.bodies[:3] if chance.random() < 0.95 else self.bodies)
        return client.command(RequestCode.SEND_MESSAGE_V2, fields, body, oneway=chance.random() < 0.05)


class PlainSendTests(BrokerCase):
    """Both paths in two brokers that are alike."""

    config = "maxMessageSize=300000\n"

    def dialogue(self, seed: int) -> list[bytes]:
        """What a new broker says to a random producer, then what its log, queues and index hold."""
        self.setUp()
        chance = random.Random(seed)
        self.broker.state.find_group("G")
        clients, producers = [self.connect() for _ in range(2)], Producers(chance)
        said = []
        for _ in range(100):
            client = chance.choice(clients)
            client.say(*[producers.send(client) for _ in range(chance.randrange(1, 5))])
            said.append(client.transport.value())
            client.transport.clear()
            if chance.random() < 0.03:
                queues, kind = chance.randrange(3, 6), chance.choice(("SINGLE_TAG", "MULTI_TAG"))
                policy = {"cleanup.policy": chance.choice(("COMPACTION", "DELETE", "DELETE"))}
                self.broker.state.topics.table["T"] = TopicConfig(
                    "T", queues, queues, topic_filter_type=kind, attributes=policy
                )
            self.clock.advance(0.01)
        return said + self.kept()

    def kept(self) -> list[bytes]:
        """What log, queues and index hold, after a stop."""
        said = []
        store = self.broker.store
        said.append(store.log.read(0, store.max_physical_offset))
        for topic, queue in sorted((queue.topic, queue.queue_id) for queue in store.queues.all()):
            found = store.queues.get(topic, queue)
            assert found is not None
            said.append(found.read(0, found.next_offset))
        assert store.index is not None
        said.append(repr(list(store.index.units())).encode())
        self.stop()
        return said

    def told(self, said: Sequence[tuple[str, str]], **header: str) -> list[bytes]:
        """What a new broker answers to sends, given as topic and properties, then what it holds."""
        self.setUp()
        self.broker.state.find_group("G")
        table = self.broker.state.topics.table
        table["compacted"] = TopicConfig("compacted", attributes={"cleanup.policy": "COMPACTION"})
        client, answers = self.connect(), []
        for topic, text in said:
            fields = dict(sorted(send_fields(topic, 0, text, **header).items()))  # Java's order
            client.say(client.command(RequestCode.SEND_MESSAGE_V2, fields, b"body"))
            answers.append(client.transport.value())
            client.transport.clear()
        return answers + self.kept()

    def test_what_is_not_plain(self) -> None:
        """Sends whose header and length are those of plain ones, and which are not plain."""
        known = "UNIQ_KEY\x01" + "0" * 16 + "\x02%s\x02"
        cases: dict[str, list[tuple[str, str]]] = {
            "a delay": [("T", known % "zzzzz\x013")] * 3 + [("T", known % "DELAY\x013")] * 2,
            "a key that JSON escapes": [("T", known % "a\x01b")] * 3
            + [("T", known.replace("0" * 16, "00000\x0100000") % "a\x01b")] * 2,
            "such a key first": [("T", known % "a\x01b")] * 3
            + [("T", known.replace("0" * 16, "00000\x0100000") % "a\x01c")] * 2
            + [("T", known % "a\x01c")] * 2,
            "another name that ends so": [("T", "X" + known % "a\x01b")] * 4,
            "two unique keys": [("T", known % ("UNIQ_KEY\x01" + "0" * 16))] * 3
            + [("T", (known % ("UNIQ_KEY\x01" + "0" * 16)).replace("0" * 16, "1" * 16, 1))],
            "a retry topic": [("%RETRY%G", known % "a\x01b")] * 4,
            "a compacted topic": [("compacted", known % "KEYS\x013")] * 3 + [("compacted", known % "zzzz\x013")] * 2,
        }
        for name, said in cases.items():
            for header in ({}, {"j": "9", "l": "5"}):
                with self.subTest(name, **header):
                    short = self.told(said, **header)
                    with mock.patch.object(HeaderMemory, "decode", _long_way):
                        self.assertEqual(short, self.told(said, **header))

    def test_layouts_are_bounded(self) -> None:
        """A producer whose messages have other properties each time is not remembered without end, nor learned."""
        for pad in (0, 1000):
            client, met = self.connect(), set()
            for number in range(500):
                text = f"UNIQ_KEY\x01{KEYS[0][:8]}\x02k{number:04}{'x' * pad}\x01v\x02"
                self.assertEqual(self.send(client, properties=text).code, 0)
                for shape in self.shapes(client):
                    self.assertLessEqual(len(shape._layouts), LAYOUTS_MAX)
                    met |= {layout.pattern for layout in shape._layouts}
            self.assertGreaterEqual(len(met), CREDIT_FIRST // LAYOUT_COSTS - 1)
            self.assertLess(len(met), 20)
            for number in range(100):
                for shape in self.shapes(client):
                    shape._memory._credit = CREDIT_FIRST
                    shape.keep((f"n{number}{'x' * pad}",), None)
                kept = sum(len(shape._layouts) for shape in self.shapes(client))
                self.assertLessEqual(kept * (LAYOUT_COST + 2 * pad), LAYOUTS_BYTES_MAX)

    def test_what_is_refused_teaches_nothing(self) -> None:
        """Else who sends nothing that is stored fills the broker's memory."""
        client, text = self.connect(), f"UNIQ_KEY\x01{KEYS[0][:8]}\x02KEYS\x01k\x02a%d\x01b\x02"
        for number in range(20):
            fields = dict(sorted(send_fields("T", 0, text % max(3, number)).items()))
            code = client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"" if number > 3 else b"body").code
            self.assertEqual(code, 1 if number > 3 else 0)
        layouts = [layout for shape in self.shapes(client) for layout in shape._layouts]
        self.assertEqual(len(layouts), 1)

    def test_long_properties(self) -> None:
        """Refused by their length as sent, also when most of it is not kept."""
        key = "UNIQ_KEY\x01ABCDEFGH\x02"
        few, many = key + "x" * 30_000 + "\x02" * 1000, key + "x" * 35_994 + "\x02"  # JSON writes both as long
        client = self.connect()
        self.assertEqual([self.send(client, properties=text).code for text in (few, few, many, few)], [0, 0, 13, 0])

    def test_permission_is_taken_away(self) -> None:
        """``brokerPermission`` holds for the next message to an ordered topic, on old connections and new ones."""
        self.broker.state.topics.table["O"] = TopicConfig("O", 4, 4, order=True)
        clients = [self.connect(), self.connect()]

        def codes() -> list[int]:
            said = []
            for client, topic in [(clients[0], "O"), (clients[1], "T"), (self.connect(), "O")]:
                fields = dict(sorted(send_fields(topic, 0, "UNIQ_KEY\x01ABCDEFGH\x02").items()))
                said.append(client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"body").code)
            fields = dict(sorted(send_fields("O", 0, "WAIT\x01true\x02").items()))
            members = batch.join([batch.BatchMessage(0, b"body", b"")] * 2)
            return [*said, clients[0].ask(RequestCode.SEND_BATCH_MESSAGE, fields, members).code]

        self.assertEqual([codes() for _ in range(3)], [[0, 0, 0, 0]] * 3)
        self.broker.core.parts.rules.permission = 4
        self.assertEqual([codes() for _ in range(2)], [[16, 0, 16, 16]] * 2)
        self.broker.core.parts.rules.permission = 6
        self.assertEqual(codes(), [0, 0, 0, 0])

    @staticmethod
    def shapes(client: Client) -> list[SendShape]:
        """What a connection remembers."""
        return list(client.protocol._headers._shapes)

    def test_both_paths_are_one(self) -> None:
        """Answers, log, queue entries, index units: nothing tells which path a message took."""
        took: Counter[str] = Counter()
        for seed in range(48):
            with self.subTest(seed=seed):
                with short_paths_taken(took):
                    short = self.dialogue(seed)
                with mock.patch.object(HeaderMemory, "decode", _long_way):
                    self.assertEqual(short, self.dialogue(seed))
        self.assertGreater(took["message"], 500)
        self.assertGreater(took["batch"], 100)

    def test_plain_batches(self) -> None:
        """They take the short path, also where each batch has a unique key of its own, as from Java's producer."""
        members = batch.join([batch.BatchMessage(0, b"body", b"UNIQ_KEY\x010123456789ABCDEF\x02")] * 2)
        for outer in OUTER[:3]:
            with self.subTest(outer):
                client, took = self.connect(), Counter[str]()
                with short_paths_taken(took):
                    for number in range(30):
                        text = outer.replace("KEY\x01KEY", f"KEY\x01{number:016X}")
                        fields = dict(sorted({**send_fields("T", 0, text), "m": "true"}.items()))
                        self.assertEqual(client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, members).code, 0)
                self.assertGreater(took["batch"], 20)

    def test_a_full_store_refuses(self) -> None:
        """What the store takes is asked for before the short path is taken."""
        client = self.connect()
        for _ in range(3):
            self.assertEqual(self.send(client).code, 0)
        with mock.patch.object(self.broker.store, "writable", lambda now_ms: False):
            self.assertEqual(self.send(client).code, 14)
        self.assertEqual(self.send(client).code, 0)

    def test_a_deleted_topic_is_made_anew(self) -> None:
        """A message of a known shape does not go to a topic that is gone."""
        client = self.connect()
        for _ in range(3):
            self.send(client)
        del self.broker.state.topics.table["T"]
        self.assertEqual(self.send(client).code, 0)
        self.assertIn("T", self.broker.state.topics.table)
