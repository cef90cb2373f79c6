"""What an unmodified Java producer sends is what unmodified Java consumers receive, whoever serves them.

Each class runs on a pair (nameserver, broker); on (java, java) these tests show what RocketMQ itself does, and so
prove the tests. Sources: issue 3 "Shows" 1 and 3; facts/broker-requests.md 2-7.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from . import harness
from .harness import FULL, JavaClient, PairCase, for_pairs, remoting

Event = dict[str, Any]
# "Aa" and "BB" have the same String.hashCode: a broker, which compares hashes only, passes both, and the client
# drops one
TAGS = ["TagA", "TagB", "Aa", "BB"]
CONTENT = ("topic", "key", "tags", "flag", "size", "sha", "props", "id")


def content(event: Event) -> tuple[object, ...]:
    return tuple(tuple(sorted(v.items())) if isinstance(v, dict) else v for v in (event.get(name) for name in CONTENT))


class _Checks(PairCase):
    def check_same(self, sent: list[Event], received: list[Event]) -> None:
        """Exactly the sent messages, each once, with every field, at the place that the producer was told."""
        self.assertEqual(Counter(m["key"] for m in received), Counter(m["key"] for m in sent))
        wanted = {m["key"]: m for m in sent}
        for message in received:
            original = wanted[message["key"]]
            self.assertEqual(content(message), content(original))
            self.assertEqual(message["again"], 0)
            self.assertTrue(message["born"] <= message["stored"] + 1000, message)
            if "q" in original:
                self.assertEqual((message["q"], message["off"]), (original["q"], original["off"]))
                self.assertEqual(original["status"], "SEND_OK")
                self.assertEqual(original["result_id"], message["id"])
                self.assertEqual(int(original["offset_id"][-16:], 16), message["phy"])

    def check_places(self, received: list[Event]) -> None:
        """The offsets of every queue are 0, 1, 2, ... without a gap."""
        offsets = defaultdict(list)
        for message in received:
            offsets[message["q"]].append(message["off"])
        for queue, found in offsets.items():
            self.assertEqual(sorted(found), list(range(len(found))), f"queue {queue}")


class SendReceive(_Checks):
    """10,000 messages of each way to send, through each way to receive."""

    def ways(self, mode: str, count: int, **options: Any) -> None:
        client, topic = self.client, f"Ways-{mode}"
        self.addCleanup(client.forget)
        # one consumer waits in long polls from the beginning, the others read what is there already
        client.send(topic, "sync", 4, prefix="first", tags=["none"])
        client.consume(f"live-{mode}", topic)
        sent = client.send(
            topic,
            mode,
            count,
            prefix=mode,
            tags=TAGS,
            props={"colour": "grün", "n": "x"},
            flag=77,
            max_size=600,
            **options,
        )
        self.assertEqual(len(sent), count)
        if mode == "oneway":
            client.send(topic, "sync", 1, prefix="last", tags=["none"])
        names = {
            f"live-{mode}": None,
            f"push-{mode}": {"kind": "push", "topics": topic},
            f"order-{mode}": {"kind": "orderly", "topics": topic},
            f"all1-{mode}": {"kind": "broadcast", "topics": topic, "group": f"broadcast-{mode}"},
            f"all2-{mode}": {"kind": "broadcast", "topics": topic, "group": f"broadcast-{mode}"},
            f"lite-{mode}": {"kind": "lite", "topics": topic},
            f"tags-{mode}": {"kind": "push", "topics": {topic: "TagA || Aa"}},
        }
        for name, what in names.items():
            if what:
                client.consume(name, what.pop("topics"), **what)
        chosen = [m for m in sent if m.get("tags") in ("TagA", "Aa")]
        extra = 5 if mode == "oneway" else 4
        for name in names:
            with self.subTest(name):
                full = not name.startswith("tags")
                got = client.await_received(name, count + extra if full else len(chosen), 120)
                client.stop_consumer(name)
                got = client.received(name)
                if full:
                    self.check_places(got)
                if name.startswith("order"):
                    self.check_order(got)
                self.check_same(sent if full else chosen, [m for m in got if m["key"].startswith(mode)])

    def check_order(self, received: list[Event]) -> None:
        latest: dict[int, int] = {}
        for message in received:
            self.assertEqual(
                message["off"], latest.get(message["q"], -1) + 1, "an orderly consumer was given messages out of order"
            )
            latest[message["q"]] = message["off"]

    def count(self) -> int:
        return 10_000 if FULL or self.pair == ("ours", "ours") else 2_000

    def test_sync(self) -> None:
        """One request a message, four threads."""
        self.ways("sync", self.count(), threads=4)

    def test_async(self) -> None:
        """256 requests in flight on one connection; answers may come in any order."""
        self.ways("async", self.count())

    def test_oneway(self) -> None:
        """Nothing is answered, and yet nothing is lost while both ends live (a sync send behind them closes the
        run)."""
        self.ways("oneway", self.count())

    def test_batch(self) -> None:
        """32 messages a request, stored as 32 messages with offsets in a row; the last batch is short."""
        self.ways("batch", self.count(), batch=32)


class Messages(_Checks):
    """Sizes, header forms, tag rules, retries, delays and groups."""

    def test_largest_body(self) -> None:
        """A body of 4 MiB passes whole, one of a byte more is refused with MESSAGE_ILLEGAL (13) and not stored."""
        client, topic = self.client, "Largest"
        client.producer("big", "big", max_message_size=8 << 20)
        sent = client.send(
            topic, "sync", 3, prefix="big", producer="big", min_size=4 << 20, max_size=4 << 20, tags=["T"]
        )
        client.send(
            topic,
            "sync",
            1,
            prefix="bigger",
            producer="big",
            min_size=(4 << 20) + 1,
            max_size=(4 << 20) + 1,
            allow_errors=True,
        )
        self.assertEqual([(e["i"], e.get("code")) for e in client.send_errors("bigger")], [(0, 13)])
        client.consume("big-reader", topic)
        self.check_same(sent, client.await_received("big-reader", 3))
        client.stop_consumer("big-reader")
        self.assertEqual(len(client.received("big-reader")), 3)

    def test_compressed_body(self) -> None:
        """A body that the client compresses is stored as it came and arrives inflated."""
        client, topic = self.client, "Compressed"
        client.producer("zip", "zip", compress_over=4096)
        sent = client.send(
            topic, "sync", 5, prefix="zip", producer="zip", min_size=1 << 20, max_size=1 << 20, text=True
        )
        client.consume("zip-reader", topic)
        got = client.await_received("zip-reader", 5)
        self.check_same(sent, got)
        self.assertTrue(
            all(m["record"] < 100_000 for m in got), "the client's compressed body was not stored as it came"
        )
        client.stop_consumer("zip-reader")

    def test_empty_body(self) -> None:
        """The client refuses to send an empty body; a broker that gets one nevertheless refuses it and stores
        nothing."""
        client, topic = self.client, "Empty"
        client.send(topic, "sync", 1, prefix="one", queue=0, broker="broker-a", allow_errors=True)
        client.send(topic, "sync", 4, prefix="some")
        client.send(topic, "sync", 1, prefix="empty", min_size=0, max_size=0, allow_errors=True)
        self.assertEqual([e["code"] for e in client.send_errors("empty")], [13])
        count = 5 - len(client.send_errors("one"))
        # Java's queues are made a moment after the answer.
        harness.wait_until("all of them in their queues", lambda: sum(self.largest_offsets(topic)) == count, 60)
        before = self.largest_offsets(topic)
        fields = {
            "a": "g",
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": "0",
            "f": "0",
            "g": "1700000000000",
            "h": "0",
            "i": "KEYS\1empty\2",
        }
        reply = remoting.call(self.broker.address, 310, fields)
        self.assertNotEqual(reply.code, 0)
        self.assertEqual(self.largest_offsets(topic), before)

    def largest_offsets(self, topic: str) -> list[int]:
        return [self.client.question("max", topic, queue=q)["offset"] for q in range(4)]

    def test_both_header_forms_and_the_first_send_code(self) -> None:
        """A client that speaks the binary header, and one that sends SEND_MESSAGE (10), the names written out."""
        for name, options in {"binary": {"serialize": "ROCKETMQ"}, "first": {"v1": True}}.items():
            with self.subTest(name):
                client = self.use(JavaClient(self.namesrv.address, name, **options))  # type: ignore[arg-type]
                client.producer(group=f"pg-{name}")
                topic = f"Form-{name}"
                sent = []
                for mode in ("sync", "async", "oneway", "batch"):
                    sent += client.send(topic, mode, 64, prefix=f"{name}_{mode}", tags=TAGS, props={"p": "q"})
                client.consume(name, topic)
                got = client.await_received(name, len(sent))
                client.stop_consumer(name)
                self.check_same(sent, client.received(name))
                self.check_places(got)
                client.stop()

    def test_user_properties(self) -> None:
        """Names and values in any script, several keys, no tags, a waiting flag: what went in comes out."""
        client, topic = self.client, "Properties"
        sent = client.send(
            topic,
            "sync",
            8,
            prefix="props",
            props={"ключ": "значение", "empty?": "?", "=": "a=b&c d", "long": "v" * 3000},
        )
        client.consume("props-reader", topic)
        self.check_same(sent, client.await_received("props-reader", 8))
        client.stop_consumer("props-reader")

    def test_reconsume_later_and_dead_letters(self) -> None:
        """RECONSUME_LATER comes back after its delay level, with the count, and ends in the DLQ after
        maxReconsumeTimes."""
        client, topic = self.client, "Retry"
        client.send(topic, "sync", 1, prefix="good-seed")  # a consumer of a topic that is not there talks to no broker
        client.consume("retry", topic, group="retry-group", fail_prefix="bad", retry_level=1, max_reconsume=2)
        client.await_queues("retry", "%RETRY%retry-group", 1)
        sent = client.send(topic, "sync", 4, prefix="bad", tags=["T"], props={"user": "kept"})
        good = client.send(topic, "sync", 4, prefix="good")
        got = [m for m in client.await_received("retry", 1 + 4 + 4 + 2 * 4, 60) if not m["key"].startswith("good-seed")]
        client.consume("dead", "%DLQ%retry-group")
        dead = client.await_received("dead", 4, 60)
        tries: dict[str, list[Event]] = defaultdict(list)
        for message in got:
            tries[message["key"]].append(message)
        self.assertEqual(
            {k: [m["again"] for m in ms] for k, ms in tries.items()},
            {m["key"]: [0, 1, 2] for m in sent} | {m["key"]: [0] for m in good},
        )
        for key, ms in tries.items():
            self.assertEqual(len({(m["sha"], m.get("tags"), m["props"].get("user"), m["id"]) for m in ms}), 1, key)
            for earlier, later in pairwise(ms):
                # the copy is stored a moment before we print it: allow for a clock tick below, and for a busy
                # machine above
                self.assertGreaterEqual(later["at"] - earlier["at"], 900, key)
                self.assertLess(later["at"] - earlier["at"], 10_000, key)
        self.assertEqual(
            Counter((m["key"], m["sha"], m.get("tags")) for m in dead),
            Counter((m["key"], m["sha"], m.get("tags")) for m in sent),
        )
        self.assertEqual({m["all"]["RETRY_TOPIC"] for m in dead}, {topic})
        client.stop_consumer("retry")
        client.stop_consumer("dead")
        self.assertEqual(len(client.received("retry")), 1 + len(got))

    def test_default_retry_delay(self) -> None:
        """Without a level of its own the first retry comes at level 3: ten seconds."""
        client, topic = self.client, "RetryDefault"
        client.send(topic, "sync", 1, prefix="seed")
        client.consume("slow-retry", topic, fail_prefix="once", fail_times=1)
        client.await_queues("slow-retry", "%RETRY%group-slow-retry", 1)
        client.send(topic, "sync", 1, prefix="once")
        got = client.await_received("slow-retry", 3, 40)
        got = [m for m in got if m["key"] == "once-0"]
        self.assertEqual([m["again"] for m in got], [0, 1])
        self.assertTrue(9_900 <= got[1]["at"] - got[0]["at"] <= 15_000, got[1]["at"] - got[0]["at"])
        client.stop_consumer("slow-retry")

    def test_delay_levels(self) -> None:
        """DELAY 1, 2, 3: delivered after 1, 5 and 10 s, not before, under the real topic with all their content."""
        client, topic = self.client, "Delay"
        client.send(topic, "sync", 1, prefix="now")
        client.consume("delayed", topic)
        sent = []
        for level in (3, 2, 1):
            sent += client.send(
                topic, "sync", 3, prefix=f"level{level}", delay_level=level, tags=["T"], props={"p": str(level)}
            )
        got = [m for m in client.await_received("delayed", 10, 40) if not m["key"].startswith("now")]
        by_key = {m["key"]: m for m in sent}
        for message in got:
            wait_ms = {"1": 1000, "2": 5000, "3": 10000}[message["key"][5]]
            took = message["at"] - message["born"]
            self.assertTrue(wait_ms - 50 <= took <= wait_ms + 4000, (message["key"], took))
            original = by_key[message["key"]]
            self.assertEqual(
                (message["sha"], message.get("tags"), message["props"].get("p")),
                (original["sha"], original.get("tags"), original["props"]["p"]),
            )
        self.assertEqual([m["key"][5] for m in got], ["1"] * 3 + ["2"] * 3 + ["3"] * 3)
        client.stop_consumer("delayed")

    def test_orderly_consumer_waits_for_a_failed_message(self) -> None:
        """An orderly consumer that suspends its queue is given the same message again before any later one."""
        client, topic = self.client, "OrderlyRetry"
        sent = client.send(topic, "sync", 40, prefix="turn")
        client.consume("orderly-retry", topic, kind="orderly", fail_prefix="turn-1", fail_times=2)
        tried = sum(3 if m["key"].startswith("turn-1") else 1 for m in sent)
        got = client.await_received("orderly-retry", tried, 60)
        per_queue: dict[int, list[int]] = defaultdict(list)
        for message in got:
            per_queue[message["q"]].append(message["off"])
        for offsets in per_queue.values():
            self.assertEqual(offsets, sorted(offsets))
        self.assertEqual(
            Counter(m["key"] for m in got), Counter({m["key"]: 3 if m["key"].startswith("turn-1") else 1 for m in sent})
        )
        client.stop_consumer("orderly-retry")

    def test_offsets_survive_the_consumer(self) -> None:
        """A group goes on where its consumer stopped cleanly; nothing twice, nothing lost."""
        client, topic = self.client, "Resume"
        first = client.send(topic, "sync", 50, prefix="before")
        client.consume("resume1", topic, group="resume")
        client.await_received("resume1", 50)
        client.stop_consumer("resume1")
        second = client.send(topic, "sync", 50, prefix="after")
        client.consume("resume2", topic, group="resume")
        client.await_received("resume2", 50)
        client.stop_consumer("resume2")
        self.check_same(first, client.received("resume1"))
        self.check_same(second, client.received("resume2"))

    def test_two_share_and_one_takes_over(self) -> None:
        """Two consumers of a group own two queues each; when one is killed (-9) the other owns all four within
        seconds."""
        client, topic = self.client, "Share"
        client.send(topic, "sync", 8, prefix="seed")
        one = self.use(JavaClient(self.namesrv.address, "one", rebalance_ms=20000))
        two = self.use(JavaClient(self.namesrv.address, "two", rebalance_ms=20000))
        one.consume("one", topic, group="sharers")
        two.consume("two", topic, group="sharers")
        for member in (one, two):
            member.await_queues(member.name, topic, 2)
        self.assertEqual(
            sorted(one.queues_of("one", topic) + two.queues_of("two", topic)), [f"broker-a:{q}" for q in range(4)]
        )
        sent = client.send(topic, "sync", 400, prefix="shared", threads=4)

        def seen(prefix: str) -> list[Event]:
            return [m for member in (one, two) for m in member.received(member.name) if m["key"].startswith(prefix)]

        harness.wait_until("all 400 shared messages", lambda: len({m["key"] for m in seen("shared")}) == 400, 60)
        self.assertEqual({m["key"] for m in seen("shared")}, {m["key"] for m in sent})
        for member in (one, two):
            queues = {f"broker-a:{m['q']}" for m in member.received(member.name) if m["key"].startswith("shared")}
            self.assertEqual(sorted(queues), member.queues_of(member.name, topic))
        two.kill()
        # by the broker's notice: on its own the survivor looks only every 20 s
        one.await_queues("one", topic, 4, 10)
        after = client.send(topic, "sync", 400, prefix="after", threads=4)
        one.until(
            "the survivor to receive everything",
            lambda _: len([m for m in one.received("one") if m["key"].startswith("after")]) >= 400,
            60,
        )
        self.check_same(after, [m for m in one.received("one") if m["key"].startswith("after")])
        one.stop()

    def test_queries(self) -> None:
        """View by offset id, query by key and by unique key, largest, smallest and by-time offsets, as clients ask
        them."""
        client, topic = self.client, "Queries"
        sent = client.send(topic, "sync", 30, prefix="find", tags=["T"])
        wanted = sent[17]
        viewed = client.question("view", topic, msg_id=wanted["offset_id"])["message"]
        self.check_same([wanted], [viewed])
        self.check_same([wanted], client.question("view", topic, msg_id=wanted["id"])["message"] and [viewed])
        found = client.until_true(
            lambda: client.question("query", topic, key=wanted["key"])["messages"], "the index to hold the key"
        )
        self.check_same([wanted], found)
        queue = wanted["q"]
        mine = sorted((m for m in sent if m["q"] == queue), key=lambda m: m["off"])
        self.assertEqual(client.question("max", topic, queue=queue)["offset"], len(mine))
        self.assertEqual(client.question("min", topic, queue=queue)["offset"], 0)
        self.assertEqual(client.question("search", topic, queue=queue, time=1)["offset"], 0)
        self.assertEqual(
            client.question("search", topic, queue=queue, time=viewed["stored"] + 3_600_000)["offset"], len(mine)
        )
        self.assertLessEqual(client.question("earliest", topic, queue=queue)["time"], viewed["stored"])


globals().update(for_pairs(SendReceive))
globals().update(for_pairs(Messages))
del SendReceive, Messages, _Checks
