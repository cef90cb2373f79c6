"""Pulls, waiting, delays, send-back and group changes through the whole broker (facts: broker-requests 4 to 6, 9)."""

from __future__ import annotations

from rocketha.broker.groups import SubscriptionGroupConfig
from rocketha.broker.offsets import TELLS_MAX, TOLD_MAX
from rocketha.wire import json_dialect, properties, record
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.services.broker_case import BrokerCase, Client, heartbeat, pull_fields, records, send_fields

TAGGED = "UNIQ_KEY\x01" + "B" * 32 + "\x02TAGS\x01{}\x02"


class PullTests(BrokerCase):
    """Codes, offsets and filters."""

    def pull(self, client: Client, **fields: str) -> Command:
        return client.ask(RequestCode.PULL_MESSAGE, pull_fields(**fields))  # type: ignore[arg-type]

    def test_found(self) -> None:
        """Whole records, at most 32, and the four offsets."""
        client = self.connect()
        for i in range(40):
            self.send(client, b"%d" % i)
        answer = self.pull(client)
        self.assertEqual([r.body for r in records(answer)], [b"%d" % i for i in range(32)])
        self.assertEqual(answer.remark, "FOUND")
        header = {"nextBeginOffset": "32", "minOffset": "0", "maxOffset": "40", "suggestWhichBrokerId": "0"}
        self.assertEqual({name: answer.fields[name] for name in header}, header)
        rest = self.pull(client, offset="32")
        self.assertEqual(len(records(rest)), 8)

    def test_where_the_offset_lies(self) -> None:
        """The table of facts 4: end, beyond the end, an empty queue."""
        client = self.connect()
        for _ in range(3):
            self.send(client)
        for offset, code, next_offset in ((3, 19, 3), (4, 21, 3), (99, 21, 3), (-5, 21, 0)):
            answer = self.pull(client, offset=str(offset))
            self.assertEqual((answer.code, answer.fields["nextBeginOffset"]), (code, str(next_offset)), offset)
        self.assertEqual(self.pull(client, queue_id="1").code, ResponseCode.PULL_NOT_FOUND)
        self.assertEqual(self.pull(client, queue_id="1", offset="7").code, ResponseCode.PULL_OFFSET_MOVED)

    def test_tags(self) -> None:
        """Tags by hash; examined and not matched is code 20 with the offset behind them."""
        client = self.connect()
        for i in range(6):
            self.send(client, b"%d" % i, properties=TAGGED.format("AB"[i % 2]))
        self.assertEqual([r.body for r in records(self.pull(client, subscription="B"))], [b"1", b"3", b"5"])
        self.assertEqual(len(records(self.pull(client, subscription=" A || B "))), 6)
        answer = self.pull(client, subscription="C")
        self.assertEqual((answer.code, answer.fields["nextBeginOffset"]), (ResponseCode.PULL_RETRY_IMMEDIATELY, "6"))

    def test_refusals(self) -> None:
        """Unknown topic 17, queue 29, missing subscription 24, older subscription 25, SQL92 1, forbidden 16."""
        client = self.connect()
        self.send(client)
        self.assertEqual(self.pull(client, topic="nope").code, ResponseCode.TOPIC_NOT_EXIST)
        self.assertEqual(self.pull(client, queue_id="4").code, ResponseCode.INVALID_PARAMETER)
        self.assertEqual(self.pull(client, queue_id="-1").code, ResponseCode.INVALID_PARAMETER)
        self.assertEqual(self.pull(client, sysFlag="0").code, ResponseCode.SUBSCRIPTION_NOT_EXIST)
        client.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", "T"))
        self.assertEqual(self.pull(client, sysFlag="0").code, 0)
        self.assertEqual(self.pull(client, expressionType="SQL92").code, ResponseCode.SYSTEM_ERROR)
        self.assertEqual(self.pull(client, consumerGroup="../g").code, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        self.broker.core.parts.rules.permission = 2
        self.assertEqual(self.pull(client).code, ResponseCode.NO_PERMISSION)

    def test_subscription_newer_than_the_heartbeat(self) -> None:
        """Java answers 25 for up to 30 s to a client whose heartbeat was skipped; it gets all and filters itself."""
        client = self.connect()
        for tag in "AB":
            self.send(client, tag.encode(), properties=TAGGED.format(tag))
        client.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", "T", tags="A"))
        self.assertEqual([r.body for r in records(self.pull(client, sysFlag="0", subVersion="1"))], [b"A"])
        self.assertEqual([r.body for r in records(self.pull(client, sysFlag="0", subVersion="2"))], [b"A", b"B"])

    def test_fast_port(self) -> None:
        """listenPort - 2 takes sends and refuses pulls with 3, as in Java."""
        client = self.connect(fast=True)
        self.assertEqual(self.send(client).code, 0)
        self.assertEqual(self.pull(client).code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    def test_unsupported(self) -> None:
        """A code nobody serves: 3 in Java's words; one that Java serves, with the reason."""
        for code, why in (
            (37, ": this broker has no transactions"),
            (200050, ": this broker has no POP consumption"),
            (325, ": this broker has no request-reply"),
            (361000, ""),
            (999, ""),
        ):
            answer = self.connect().ask(code)
            self.assertEqual((answer.code, answer.remark), (3, f" request type {code} not supported{why}"))

    def test_commit_offset(self) -> None:
        """Flag 1 commits the offset that comes with the pull."""
        client = self.connect()
        self.send(client)
        self.pull(client, sysFlag="5", commitOffset="1")
        self.assertEqual(self.broker.state.offsets.query("G", "T", 0), 1)

    def test_what_it_commits_does_not_decide(self) -> None:
        """A client that has consumed nothing says -1, another nothing or nonsense: each gets its messages."""
        client = self.connect()
        self.send(client)
        for offset in ("-1", "", "x", "2", str(2**63)):
            self.assertEqual(self.pull(client, sysFlag="5", commitOffset=offset).code, 0)
            self.assertEqual(self.broker.state.offsets.query("G", "T", 0), -1)
        self.pull(client, sysFlag="5", commitOffset="1")
        self.pull(client, sysFlag="5", commitOffset="-1")
        self.assertEqual(self.broker.state.offsets.query("G", "T", 0), 1)


class WaitTests(BrokerCase):
    """Long polling."""

    def wait(self, client: Client, **fields: str) -> Command:
        command = client.command(RequestCode.PULL_MESSAGE, pull_fields(sysFlag="6", **fields))  # type: ignore[arg-type]
        client.say(command)
        return command

    def setUp(self) -> None:
        super().setUp()
        self.producer = self.connect()
        self.send(self.producer)
        self.consumer = self.connect()

    def test_woken_by_a_message(self) -> None:
        """Nothing is said until a message comes; then it is, in the same turn as the send."""
        held = self.wait(self.consumer, offset="1")
        self.assertEqual(self.consumer.heard(), [])
        self.send(self.producer, b"news")
        (answer,) = self.consumer.heard()
        self.assertEqual((answer.opaque, [r.body for r in records(answer)]), (held.opaque, [b"news"]))
        self.assertEqual(self.broker.reading.held.count, 0)

    def test_not_woken_by_others(self) -> None:
        """Another queue, another topic, another tag wake nobody."""
        self.wait(self.consumer, offset="1", subscription="A")
        self.send(self.producer, queue_id="1")  # type: ignore[arg-type]
        self.send(self.producer, topic="U")
        self.send(self.producer, properties=TAGGED.format("B"))
        self.assertEqual(self.consumer.heard(), [])
        self.send(self.producer, b"mine", properties=TAGGED.format("A"))
        (answer,) = self.consumer.heard()
        self.assertEqual([r.body for r in records(answer)], [b"mine"])

    def test_time_is_up(self) -> None:
        """At suspendTimeoutMillis: 19, not earlier, not much later."""
        self.wait(self.consumer, offset="1", suspendTimeoutMillis="1500")
        self.advance(1.4)
        self.assertEqual(self.consumer.heard(), [])
        self.advance(0.2)
        (answer,) = self.consumer.heard()
        self.assertEqual((answer.code, answer.fields["nextBeginOffset"]), (ResponseCode.PULL_NOT_FOUND, "1"))

    def test_one_message_for_many_pulls(self) -> None:
        """Of one connection, as a broker has it that passes on others' pulls: not all their answers in one turn."""
        asked = [self.wait(self.consumer, offset="1").opaque for _ in range(40)]
        self.send(self.producer, b"x" * 1_000_000)
        first = [answer.opaque for answer in self.consumer.heard()]
        self.assertEqual((first, self.broker.reading.held.count), (asked[:17], 23))
        answers = []
        for _ in range(2):
            self.advance(0.03, 0.03)
            answers.append(self.consumer.heard())
        self.assertEqual([[each.opaque for each in some] for some in answers], [asked[17:34], asked[34:]])
        self.assertEqual({len(each.body) > 1_000_000 for some in answers for each in some}, {True})
        self.assertEqual(self.broker.reading.held.count, 0)

    def test_gone(self) -> None:
        """A consumer that is gone holds nothing."""
        for _ in range(5):
            self.wait(self.consumer, offset="1")
        self.assertEqual(self.broker.reading.held.count, 5)
        self.consumer.close()
        self.assertEqual(self.broker.reading.held.count, 0)
        self.send(self.producer)
        self.advance(20)

    def test_topic_deleted(self) -> None:
        """Who waits for a topic that is deleted is told so."""
        self.wait(self.consumer, offset="1")
        self.assertEqual(self.producer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}).code, 0)
        self.advance(16)
        (answer,) = self.consumer.heard()
        self.assertEqual(answer.code, ResponseCode.TOPIC_NOT_EXIST)


class ResetTests(BrokerCase):
    """A group that is sent elsewhere while its members wait for messages."""

    def setUp(self) -> None:
        super().setUp()
        self.former, self.owner = self.connect(), self.connect()
        for _ in range(9):
            self.send(self.former)
        self.pull(self.former, 9)  # makes the group

    def reset(self, offset: int) -> None:
        fields = {"topic": "T", "group": "G", "queueId": "0", "offset": str(offset), "timestamp": "0"}
        self.assertEqual(self.former.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields).code, 0)

    def pull(self, client: Client, offset: int, sys_flag: int = 4, **more: str) -> Command:
        return client.ask(RequestCode.PULL_MESSAGE, pull_fields(offset=offset, sysFlag=str(sys_flag), **more))

    def hold(self, client: Client, offset: int) -> None:
        client.say(client.command(RequestCode.PULL_MESSAGE, pull_fields(offset=offset, sysFlag="6")))
        self.assertEqual(client.heard(), [])

    def committed(self) -> str | None:
        fields = {"consumerGroup": "G", "topic": "T", "queueId": "0"}
        return self.owner.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields).fields.get("offset")

    def commit(self, offset: int) -> None:
        fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
        self.assertEqual(self.owner.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code, 0)

    def test_a_member_that_has_lost_the_queue(self) -> None:
        """Its pull still waits, and nobody wants the answer; who has the queue now is sent there all the same."""
        self.hold(self.former, 9)
        self.advance(5.0)
        self.hold(self.owner, 9)
        self.reset(4)
        self.advance(11.0)
        (stray,) = self.former.heard()
        self.assertEqual((stray.code, stray.fields["nextBeginOffset"]), (ResponseCode.PULL_OFFSET_MOVED, "4"))
        self.advance(5.0)
        (moved,) = self.owner.heard()
        self.assertEqual((moved.code, moved.fields["nextBeginOffset"]), (ResponseCode.PULL_OFFSET_MOVED, "4"))
        self.assertEqual(len(records(self.pull(self.owner, 4))), 5)
        self.assertEqual(self.broker.state.offsets.resets, {})

    def test_what_it_consumed_before_does_not_count(self) -> None:
        """Until a pull comes from there, neither a report nor what a pull says beside takes the group back."""
        self.reset(4)
        self.commit(8)
        self.pull(self.owner, 9, 5, commitOffset="3")
        self.commit(9)
        self.assertEqual(self.committed(), "4")
        self.pull(self.owner, 4)
        self.assertEqual(self.committed(), "4")
        self.commit(6)
        self.assertEqual(self.committed(), "6")

    def test_a_consumer_that_goes_its_own_way(self) -> None:
        """One that keeps its offsets itself is told some times, and served then."""
        self.reset(4)
        codes = [self.pull(self.owner, 7).code for _ in range(TELLS_MAX + 1)]
        self.assertEqual(codes, [ResponseCode.PULL_OFFSET_MOVED] * TELLS_MAX + [ResponseCode.SUCCESS])
        self.commit(9)
        self.assertEqual(self.committed(), "9")

    def test_many_that_come_and_go(self) -> None:
        """They do not fill memory."""
        self.reset(4)
        offsets = self.broker.state.offsets
        for number in range(TOLD_MAX):
            offsets.told("G", "T", 0, number)
        self.assertEqual(self.pull(self.owner, 7).code, ResponseCode.SUCCESS)
        self.assertEqual(offsets.resets, {})


class DelayTests(BrokerCase):
    """Delay levels and send-back."""

    def visible(self, topic: str, queue_id: int = 0) -> list[record.Record]:
        found = self.broker.store.get(topic, queue_id, 0, 100, 1 << 20)
        return [message for stored in found.buffers for _, message in record.scan(stored)]

    def test_delay_level(self) -> None:
        """DELAY=2 waits 5 s in SCHEDULE_TOPIC_XXXX queue 1, then is where it was sent; the answer names the first
        place.
        """
        client = self.connect()
        self.send(client, queue_id=2)  # type: ignore[arg-type]
        answer = self.send(client, b"later", queue_id=2, properties="DELAY\x012\x02TAGS\x01x\x02")  # type: ignore[arg-type]
        self.assertEqual((answer.fields["queueId"], answer.fields["queueOffset"]), ("2", "0"))
        (waiting,) = self.visible("SCHEDULE_TOPIC_XXXX", 1)
        values = properties.parse(waiting.properties)
        self.assertEqual((values["REAL_TOPIC"], values["REAL_QID"]), ("T", "2"))
        self.advance(4.9)
        self.assertEqual(len(self.visible("T", 2)), 1)
        self.advance(0.2)
        delivered = self.visible("T", 2)[1]
        self.assertEqual((delivered.body, delivered.queue_id), (b"later", 2))
        tagged = client.ask(11, pull_fields(queue_id=2, subscription="x"))
        self.assertEqual([r.body for r in records(tagged)], [b"later"])
        self.advance(20)
        self.assertEqual(len(self.visible("T", 2)), 2)

    def test_delay_outlives_the_process(self) -> None:
        """What was waiting is delivered after a kill, and what was delivered is not delivered again after a clean
        stop.
        """
        client = self.connect()
        self.send(client, b"1s", properties="DELAY\x011\x02")
        self.send(client, b"10s", properties="DELAY\x013\x02")
        self.advance(2)
        self.stop()
        self.service = self.start()
        self.advance(0.5)
        self.disk.kill()
        self.service = self.start()
        self.advance(12)
        self.assertEqual([r.body for r in self.visible("T")], [b"1s", b"10s"])

    def test_level_above_the_highest(self) -> None:
        """Level 99 is level 18."""
        self.send(self.connect(), properties="DELAY\x0199\x02")
        self.assertEqual(len(self.visible("SCHEDULE_TOPIC_XXXX", 17)), 1)

    def send_back(self, client: Client, offset: int, level: int, **fields: str) -> Command:
        header = {"offset": str(offset), "group": "G", "delayLevel": str(level), "originTopic": "T", **fields}
        return client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)

    def test_send_back(self) -> None:
        """The copy waits (level 3 at first), then lies in %RETRY%G with one more reconsumption and its origin."""
        client = self.connect()
        sent = self.send(client, b"hard", properties=TAGGED.format("x"))
        client.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", "T"))
        self.assertEqual(self.send_back(client, 0, 0).code, 0)
        self.advance(9.9)
        self.assertEqual(self.visible("%RETRY%G"), [])
        self.advance(0.2)
        (copy,) = self.visible("%RETRY%G")
        values = properties.parse(copy.properties)
        self.assertEqual((copy.body, copy.reconsume_times), (b"hard", 1))
        self.assertEqual((values["RETRY_TOPIC"], values["ORIGIN_MESSAGE_ID"]), ("T", sent.fields["msgId"]))
        self.assertEqual((values["WAIT"], values["DELAY"], values["TAGS"]), ("false", "3", "x"))

    def test_send_back_of_a_long_group(self) -> None:
        """Clients up to 5.3 took names of 255 characters: a group that is configured may go on, none is made."""
        client, long = self.connect(), "g" * 248
        self.send(client, b"hard")
        refused = self.send_back(client, 0, 1, group=long)
        self.assertEqual(refused.code, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        self.broker.state.groups.table[long] = SubscriptionGroupConfig(group_name=long)
        self.assertEqual(self.send_back(client, 0, 1, group=long).code, 0)
        self.advance(1.1)
        (copy,) = self.visible(f"%RETRY%{long}")
        self.assertEqual((copy.body, copy.reconsume_times), (b"hard", 1))
        self.assertEqual(self.send_back(client, 0, -1, group=long).code, 0)
        self.assertEqual(len(self.visible(f"%DLQ%{long}")), 1)
        too_long = self.send_back(client, 0, 1, group=long + "g")
        self.assertEqual(too_long.code, ResponseCode.INVALID_PARAMETER)

    def test_dead_letter(self) -> None:
        """A negative level, or as many reconsumptions as allowed: %DLQ%G at once."""
        client = self.connect()
        self.send(client)
        client.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", "T"))
        self.assertEqual(self.send_back(client, 0, -1).code, 0)
        self.assertEqual(self.send_back(client, 0, 0, maxReconsumeTimes="0").code, 0)
        self.assertEqual(len(self.visible("%DLQ%G")), 2)
        self.assertEqual(self.broker.state.topics.table["%DLQ%G"].perm, 6)

    def test_send_back_of_nothing(self) -> None:
        """An offset where no record begins: 1."""
        client = self.connect()
        self.send(client)
        for offset in (1, 10_000_000, -1):
            self.assertEqual(self.send_back(client, offset, 0).code, ResponseCode.SYSTEM_ERROR)
        self.assertEqual(client.ask(36, {"offset": "0"}).code, ResponseCode.INVALID_PARAMETER)


class GroupTests(BrokerCase):
    """Heartbeats and group changes on real connections."""

    def test_members_are_told_before_the_answer(self) -> None:
        """40 goes to every member, to the newcomer before its heartbeat's answer; to the rest when one is gone."""
        first, second = self.connect(), self.connect()
        first.say(first.command(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", "T")))
        self.assertEqual([(c.code, c.flag) for c in first.heard()], [(40, 2), (0, 1)])
        second.say(second.command(RequestCode.HEART_BEAT, body=heartbeat("c2", "G", "T")))
        self.assertEqual([(c.code, c.flag) for c in second.heard()], [(40, 2), (0, 1)])
        self.assertEqual([(c.code, c.fields) for c in first.heard()], [(40, {"consumerGroup": "G"})])
        members = first.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"})
        self.assertEqual(sorted(json_dialect.loads(members.body)["consumerIdList"]), ["c1", "c2"])
        second.close()
        self.assertEqual([c.code for c in first.heard()], [40])

    def test_expiry(self) -> None:
        """A member without a heartbeat for 120 s is dropped although its connection speaks."""
        first, second = self.connect(), self.connect()
        for client, name in ((first, "c1"), (second, "c2")):
            client.say(client.command(RequestCode.HEART_BEAT, body=heartbeat(name, "G", "T")))
        for _ in range(14):
            self.advance(10, 1.0)
            first.say(first.command(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", "T")))
            second.say(second.command(30, {"topic": "T", "queueId": "0"}))
        self.assertTrue(second.transport.disconnecting)
        self.assertFalse(first.transport.disconnecting)
        self.assertEqual(len(self.broker.state.clients.consumers["G"].members), 1)

    def test_offsets_outlive_the_process(self) -> None:
        """A committed offset is on the disk within flushConsumerOffsetInterval."""
        client = self.connect()
        self.send(client)
        client.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", "T"))
        client.say(
            client.command(15, {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}, oneway=True)
        )
        self.advance(6)
        self.disk.kill()
        self.service = self.start()
        answer = self.connect().ask(14, {"consumerGroup": "G", "topic": "T", "queueId": "0"})
        self.assertEqual(answer.fields["offset"], "1")


class QueryTests(BrokerCase):
    """Offsets, times and single messages."""

    def test_offsets_and_times(self) -> None:
        """30, 31, 29, 32 on a queue with three messages a second apart."""
        client = self.connect()
        times = []
        for _ in range(3):
            times.append(self.broker.core.platform.wall_ms())
            self.send(client)
            self.advance(1)
        queue = {"topic": "T", "queueId": "0"}
        self.assertEqual(client.ask(30, queue).fields, {"offset": "3"})
        self.assertEqual(client.ask(31, queue).fields, {"offset": "0"})
        self.assertEqual(client.ask(29, {**queue, "timestamp": str(times[1])}).fields, {"offset": "1"})
        self.assertEqual(client.ask(29, {**queue, "timestamp": str(times[1] + 1)}).fields, {"offset": "2"})
        self.assertEqual(client.ask(32, queue).fields, {"timestamp": str(times[0])})
        self.assertEqual(client.ask(30, {"topic": "nope", "queueId": "0"}).fields, {"offset": "0"})

    def test_message_by_offset(self) -> None:
        """33: the record, or 1 in Java's words."""
        client = self.connect()
        self.send(client, b"it")
        self.assertEqual(record.decode(client.ask(33, {"offset": "0"}).body).body, b"it")
        answer = client.ask(33, {"offset": "5"})
        self.assertEqual((answer.code, answer.remark), (1, "can not find message by the offset, 5"))

    def test_query_by_key(self) -> None:
        """12: by key and by unique key; 22 when there is none."""
        client = self.connect()
        self.send(client, b"it", properties="UNIQ_KEY\x01" + "C" * 32 + "\x02KEYS\x01order1\x02")
        fields = {"topic": "T", "maxNum": "10", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
        self.assertEqual([r.body for r in records(client.ask(12, {**fields, "key": "order1"}))], [b"it"])
        unique = client.ask(12, {**fields, "key": "C" * 32, "_UNIQUE_KEY_QUERY": "true", "maxNum": "0"})
        self.assertEqual([r.body for r in records(unique)], [b"it"])
        self.assertEqual(client.ask(12, {**fields, "key": "other"}).code, ResponseCode.QUERY_NOT_FOUND)

    def test_how_much_a_query_gives(self) -> None:
        """What it asks for, up to 64 (maxMsgsNumBatch), and no more than a frame holds."""
        client = self.connect()
        for _ in range(70):
            self.send(client, b"it", properties="KEYS\x01many\x02")
        fields = {"topic": "T", "key": "many", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
        found = {number: len(records(client.ask(12, {**fields, "maxNum": str(number)}))) for number in (5, 40, 1000)}
        self.assertEqual(found, {5: 5, 40: 40, 1000: 64})
        for _ in range(6):
            self.send(client, bytes(4 << 20), properties="KEYS\x01large\x02")
        answer = client.ask(12, {**fields, "key": "large", "maxNum": "64"})
        self.assertEqual(len(records(answer)), 3)


class SendFieldsTests(BrokerCase):
    """A retry topic is sent to like any other."""

    def test_send_to_retry_topic(self) -> None:
        """The fallback of send-back: 26 without the group, the DLQ when reconsumed too often."""
        client = self.connect()
        fields = send_fields(topic="%RETRY%G2", j="3", l="2")
        self.assertEqual(client.ask(310, fields, b"x").code, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        client.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G2", "T"))
        client.heard()
        self.assertEqual(client.ask(310, fields, b"x").code, 0)
        self.assertEqual(self.broker.store.max_offset("%DLQ%G2", 0), 1)
        self.assertEqual(client.ask(310, send_fields(topic="%RETRY%G2", j="2", l="2"), b"x").code, 0)
        self.assertEqual(self.broker.store.max_offset("%RETRY%G2", 0), 1)
