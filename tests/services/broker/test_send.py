"""Sends through the whole broker: what is stored, answered and refused (facts: broker-requests 2, 3, 6)."""

from __future__ import annotations

import errno

from rocketha.broker.send import MAYBE_STORED
from rocketha.broker.stored_properties import iteration_order
from rocketha.store.messages import GetStatus
from rocketha.wire import batch, properties, record
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.services.broker_case import BrokerCase, Client, pull_fields, records, send_fields
from tests.services.events_case import events_of

KEY = "A" * 32


class SendTests(BrokerCase):
    """Single messages."""

    def stored(self, topic: str = "T", queue_id: int = 0, offset: int = 0) -> record.Record:
        found = self.broker.store.get(topic, queue_id, offset, 1, 1 << 20)
        self.assertIs(found.status, GetStatus.FOUND)
        return record.decode(found.buffers[0])

    def test_answer_of_a_send(self) -> None:
        """Success: message id from store host and offset, queue, offset, transaction id, region and trace."""
        client = self.connect()
        first, second = self.send(client), self.send(client)
        self.assertEqual(first.code, 0)
        self.assertEqual(
            first.fields,
            {
                "MSG_REGION": "DefaultRegion",
                "TRACE_ON": "true",
                "queueId": "0",
                "queueOffset": "0",
                "msgId": "7F00000100002A9F0000000000000000",
                "transactionId": KEY,
            },
        )
        size = self.stored().total
        self.assertEqual(second.fields["msgId"], f"7F00000100002A9F{size:016X}")
        self.assertEqual(second.fields["queueOffset"], "1")

    def test_what_is_stored(self) -> None:
        """Every field of the record, the properties in Java's order with the broker's own."""
        client = self.connect()
        text = f"UNIQ_KEY\x01{KEY}\x02WAIT\x01true\x02TAGS\x01TagA\x02KEYS\x01k1 k2\x02a\x01b\x02"
        self.send(client, b"the body", queue_id="2", properties=text, h="7", j="3", f="1")
        found = self.stored(queue_id=2)
        self.assertEqual((found.body, found.topic, found.queue_id, found.flag), (b"the body", "T", 2, 7))
        self.assertEqual((found.sys_flag, found.reconsume_times, found.born_timestamp_ms), (1, 3, 1795256860000))
        self.assertEqual(found.born_host, bytes([127, 0, 0, 1]) + (40001).to_bytes(4))
        values = properties.parse(found.properties)
        self.assertEqual(
            values,
            {
                "UNIQ_KEY": KEY,
                "WAIT": "true",
                "TAGS": "TagA",
                "KEYS": "k1 k2",
                "a": "b",
                "CLUSTER": "DefaultCluster",
                "MSG_REGION": "DefaultRegion",
                "TRACE_ON": "true",
            },
        )
        self.assertEqual(list(values), iteration_order(list(values)))
        for key in (KEY, "k1", "k2", "T#TagA"):
            self.assertEqual(len(self.broker.store.query("T", key, 10, 0, 1 << 60)), 1, key)

    def test_as_many_properties_as_there_may_be(self) -> None:
        """Their separators are six characters each in a JSON header, which so is twice as long as they are."""
        own = {f"p{number}": "v" for number in range(4000)}
        answer = self.send(self.connect(), properties=properties.build_text({"UNIQ_KEY": KEY, **own}))
        self.assertEqual(answer.code, ResponseCode.SUCCESS)
        self.assertEqual(properties.parse(self.stored().properties).items() & own.items(), own.items())

    def test_only_blanks_part_keys(self) -> None:
        """A tab is part of a key, live as after a recovery (and as in Java): one rule serves both."""
        self.send(self.connect(), properties="KEYS\x01a\tb c\x02")
        for key, found in (("a\tb", 1), ("c", 1), ("a", 0), ("b", 0)):
            self.assertEqual(len(self.broker.store.query("T", key, 10, 0, 1 << 60)), found, key)
        self.disk.kill()
        self.service = self.start()
        self.assertEqual(len(self.broker.store.query("T", "a\tb", 10, 0, 1 << 60)), 1)

    def test_long_names(self) -> None:
        """SEND_MESSAGE (10) carries the same under long names."""
        long_names = {
            "producerGroup": "PG",
            "topic": "T",
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "1",
            "sysFlag": "0",
            "bornTimestamp": "5",
            "flag": "9",
            "properties": "",
            "reconsumeTimes": "0",
            "unitMode": "false",
        }
        answer = self.connect().ask(RequestCode.SEND_MESSAGE, long_names, b"x")
        self.assertEqual(answer.code, 0)
        found = self.stored(queue_id=1)
        self.assertEqual((found.flag, found.born_timestamp_ms), (9, 5))
        key = properties.parse(found.properties)["UNIQ_KEY"]
        self.assertRegex(key, "^[0-9A-F]{32}$")
        self.assertEqual(answer.fields["transactionId"], key)

    def test_oneway(self) -> None:
        """A oneway send is stored and not answered, refused or not."""
        client = self.connect()
        client.say(
            client.command(RequestCode.SEND_MESSAGE_V2, send_fields(), b"x", oneway=True),
            client.command(RequestCode.SEND_MESSAGE_V2, send_fields(topic="../x"), b"x", oneway=True),
        )
        self.assertEqual(client.heard(), [])
        self.assertEqual(self.broker.store.max_offset("T", 0), 1)

    def test_many_in_one_read(self) -> None:
        """The sends of one read are answered in order and stored in order."""
        client = self.connect()
        client.say(
            *[client.command(RequestCode.SEND_MESSAGE_V2, send_fields(queue_id=i % 4), b"%d" % i) for i in range(40)]
        )
        answers = client.heard()
        self.assertEqual([answer.fields["queueOffset"] for answer in answers], [str(i // 4) for i in range(40)])
        offsets = [int(answer.fields["msgId"][16:], 16) for answer in answers]
        self.assertEqual(offsets, sorted(offsets))

    def test_any_queue(self) -> None:
        """queueId -1: the broker picks one of the write queues and says which."""
        client = self.connect()
        chosen = {self.send(client, queue_id="-1").fields["queueId"] for _ in range(40)}
        self.assertEqual(chosen, {"0", "1", "2", "3"})

    def test_unique_key_with_quotes(self) -> None:
        """A UNIQ_KEY that is no hex comes back as it was, in good JSON."""
        answer = self.send(self.connect(), properties='UNIQ_KEY\x01a"\\ü\x02')
        self.assertEqual(answer.fields["transactionId"], 'a"\\ü')


class RefusalTests(BrokerCase):
    """Codes of refused sends; extFields are there even then, because Java clients read them without a check."""

    def refused(self, client: Client, body: bytes = b"x", **fields: str) -> int:
        before = self.broker.store.max_physical_offset
        answer = self.send(client, body, **fields)
        self.assertNotEqual(answer.code, 0)
        self.assertTrue(answer.remark)
        self.assertEqual(answer.fields.get("MSG_REGION"), "DefaultRegion")
        self.assertEqual(self.broker.store.max_physical_offset, before)
        return answer.code

    def test_topic_names(self) -> None:
        """Names that could leave the directory, or are no names: 29 (CVE-2019-17572)."""
        client = self.connect()
        for name in ("../../etc", "a/b", "a\x00b", "", " ", "a#b", "x" * 128, "ü", ".."):
            self.assertEqual(self.refused(client, topic=name), ResponseCode.INVALID_PARAMETER, name)

    def test_reserved_topics(self) -> None:
        """Topics of the broker's own: 16."""
        client = self.connect()
        for name in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC"):
            self.assertEqual(self.refused(client, topic=name), ResponseCode.NO_PERMISSION)

    def test_unknown_topic(self) -> None:
        """A default topic that is missing or does not inherit: 17."""
        client = self.connect()
        self.assertEqual(self.refused(client, c="nope"), ResponseCode.TOPIC_NOT_EXIST)

    def test_queue_id(self) -> None:
        """A queue beyond the topic's: 29."""
        self.assertEqual(self.refused(self.connect(), queue_id="4"), ResponseCode.INVALID_PARAMETER)

    def test_header_fields(self) -> None:
        """Missing, unreadable and out of range numbers: 29 with the field's name."""
        client = self.connect()
        for name in ("b", "d", "e", "f", "g", "h"):
            fields = send_fields()
            del fields[name]
            answer = client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x")
            self.assertEqual(answer.code, ResponseCode.INVALID_PARAMETER)
            self.assertIn(f"header field {name}", answer.remark or "")
        for name, value in (("e", "x"), ("e", str(1 << 31)), ("g", str(1 << 63)), ("h", "1.0")):
            answer = client.ask(RequestCode.SEND_MESSAGE_V2, send_fields(**{name: value}), b"x")
            self.assertEqual(answer.code, ResponseCode.INVALID_PARAMETER, (name, value))
        for name, value in (("j", "-"), ("l", "q"), ("l", str(1 << 31))):  # a message can do without
            self.assertEqual(client.ask(RequestCode.SEND_MESSAGE_V2, send_fields(**{name: value}), b"x").code, 0)

    def test_sizes(self) -> None:
        """Body above maxMessageSize, properties above 32767: 13; an empty body: 1, as Java's NullPointerException."""
        client = self.connect()
        self.assertEqual(self.send(client, b"x" * (4 << 20)).code, 0)
        self.assertEqual(self.refused(client, b"x" * ((4 << 20) + 1)), ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.refused(client, properties="k\x01" + "v" * 32767), ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.refused(client, properties="k\x01" + "v" * 32700 + "\x02"), ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.send(client, properties="k\x01" + "v" * 2_000_000).code, ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.refused(client, b""), ResponseCode.SYSTEM_ERROR)

    def test_what_is_not_supported(self) -> None:
        """Transactions: 3; timer messages: 1 in Java's words; inner batches: 13."""
        client = self.connect()
        self.assertEqual(
            self.refused(client, properties="TRAN_MSG\x01true\x02"), ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        )
        self.assertEqual(self.refused(client, f="4"), ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        self.assertEqual(self.refused(client, properties="TIMER_DELAY_SEC\x015\x02"), ResponseCode.SYSTEM_ERROR)
        self.assertEqual(self.refused(client, f=str(0x80)), ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.refused(client, properties="INNER_NUM\x013\x02"), ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.refused(client, properties="DELAY\x01many\x02"), ResponseCode.SYSTEM_ERROR)

    def test_disk_failure(self) -> None:
        """A write that fails: 1 and that it may be stored, as a crash may leave it; nothing is readable, and the next
        send goes where it would have gone."""
        client = self.connect()
        self.send(client)
        self.disk.fail_at(1, errno.ENOSPC, only=["write"])
        answer = self.send(client)
        self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR)
        self.assertTrue(answer.remark.endswith(MAYBE_STORED), answer.remark)
        self.disk.heal()
        self.assertEqual(self.send(client).fields["queueOffset"], "1")
        self.assertEqual([r.queue_offset for r in records(client.ask(11, pull_fields()))], [0, 1])

    def test_disk_that_takes_nothing_for_a_while(self) -> None:
        """What was being written when it failed is in doubt; what comes before that is undone is refused: 14."""
        client = self.connect()
        self.send(client)
        self.disk.fail_at(1, errno.EIO, times=10, only=["write"])
        self.assertEqual(self.send(client).code, ResponseCode.SYSTEM_ERROR)
        self.assertEqual(self.refused(client), ResponseCode.SERVICE_NOT_AVAILABLE)
        self.disk.heal()
        self.assertEqual(self.send(client).fields["queueOffset"], "1")

    def test_topic_that_cannot_be_saved(self) -> None:
        """A send that creates its topic is refused when the topic's configuration does not reach the disk."""
        self.disk.fail_at(1, errno.EIO, times=2, only=["sync"])
        self.assertEqual(self.refused(self.connect()), ResponseCode.SERVICE_NOT_AVAILABLE)
        self.disk.heal()
        self.assertEqual(self.send(self.connect()).code, 0)
        self.disk.kill()
        self.service = self.start()
        self.assertIn("T", self.broker.state.topics)


class BatchTests(BrokerCase):
    """SEND_BATCH_MESSAGE."""

    def body(self, count: int, size: int = 10) -> bytes:
        return batch.join(
            batch.BatchMessage(
                i, bytes([i % 256]) * size, properties.build({"UNIQ_KEY": f"{i:032X}", "TAGS": f"t{i % 2}"})
            )
            for i in range(count)
        )

    def ask(self, body: bytes, **fields: str) -> Command:
        return self.connect().ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true", **fields), body)

    def test_one_record_each(self) -> None:
        """Consecutive offsets, ids joined by commas, no transactionId; properties as they came."""
        answer = self.ask(self.body(5), properties="WAIT\x01true\x02")
        self.assertEqual((answer.code, answer.fields["queueOffset"]), (0, "0"))
        self.assertNotIn("transactionId", answer.fields)
        found = records(self.connect().ask(11, pull_fields()))
        self.assertEqual([(r.flag, r.body, r.queue_offset) for r in found], [(i, bytes([i]) * 10, i) for i in range(5)])
        self.assertEqual(
            answer.fields["msgId"], ",".join(record.make_message_id(r.store_host, r.physical_offset) for r in found)
        )
        self.assertEqual(properties.parse(found[3].properties), {"UNIQ_KEY": f"{3:032X}", "TAGS": "t1"})
        tagged = records(self.connect().ask(11, pull_fields(subscription="t1")))
        self.assertEqual([r.queue_offset for r in tagged], [1, 3])

    def test_all_in_one_file(self) -> None:
        """A batch that does not fit the rest of a file goes whole to the next, after a blank record."""
        client = self.connect()
        while self.broker.store.max_physical_offset < 8388608 - 5000:
            self.send(client, b"x" * 4000)
        answer = self.ask(self.body(60, 100))
        self.assertEqual(answer.code, 0)
        self.assertEqual(int(answer.fields["msgId"][16:32], 16), 8388608)

    def test_refusals(self) -> None:
        """Broken bodies and what a batch may not hold: 13; nothing of it is stored."""
        good = self.body(3)
        for body in (good[:-1], good + b"\x00", b"\xff" * 22, good[:3] + b"\x7f" + good[4:]):
            self.assertEqual(self.ask(body).code, ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.ask(b"").code, ResponseCode.SYSTEM_ERROR)
        self.assertEqual(self.ask(good, topic="%RETRY%G").code, ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.ask(good, properties="DELAY\x013\x02").code, ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.broker.store.max_physical_offset, 0)

    def test_tiny_messages_that_grow(self) -> None:
        """Records are larger than what came: a batch whose records do not fit one file is refused before it is
        staged.
        """
        body = batch.join(batch.BatchMessage(0, b"", b"") for _ in range(60_000))
        self.assertEqual(self.ask(body).code, 0)
        body = batch.join(batch.BatchMessage(0, b"", b"k\x01v\x02") for _ in range(65_000))
        self.assertEqual(self.ask(body, topic="T" + "x" * 100).code, ResponseCode.MESSAGE_ILLEGAL)


class FewDescriptorsTests(BrokerCase):
    """The system has none left for a moment."""

    config = "flushDiskType=SYNC_FLUSH\nmappedFileSizeCommitLog=131072\nmaxMessageSize=60000\n"

    def test_of_the_log_s_directory(self) -> None:
        """Nobody is answered while it cannot be synced; when it can be, all go on."""
        client = self.connect()
        for _ in range(2):
            self.assertEqual(self.send(client, bytes(59_000)).code, 0)
        self.disk.fail_at(3, errno.EMFILE, times=99, only=("sync",))  # behind the full file and the new one
        client.say(client.command(310, send_fields(), bytes(59_000)))
        self.assertEqual(client.heard(), [])
        self.assertIsNone(self.broker.store.log.broken)
        self.disk.heal()
        self.advance(1)
        self.assertEqual([answer.code for answer in client.heard()], [0])
        self.assertEqual(self.send(client, b"2").code, 0)

    def test_of_the_next_file(self) -> None:
        """A send that needs it is refused, the next one is taken."""
        client = self.connect()
        for _ in range(2):
            self.assertEqual(self.send(client, bytes(59_000)).code, 0)
        self.disk.fail_at(1, errno.EMFILE, only=("create",))
        self.assertEqual(self.send(client, bytes(59_000)).code, ResponseCode.SERVICE_NOT_AVAILABLE)
        self.assertEqual(self.send(client, bytes(59_000)).code, 0)


class SyncFlushTests(BrokerCase):
    """SYNC_FLUSH: answered once the bytes are on the disk."""

    config = "flushDiskType=SYNC_FLUSH\n"

    def test_answer_follows_the_flush(self) -> None:
        """No answer while the flush is under way; senders that come meanwhile share the next one."""
        client = self.connect()
        log_work = self.works[0]
        log_work.held = True
        client.say(client.command(310, send_fields(), b"1"))
        client.say(client.command(310, send_fields(), b"2"))
        client.say(client.command(310, send_fields(), b"3"))
        self.assertEqual(client.heard(), [])
        flushes = self.broker.core.flusher.count
        log_work.let_go()
        self.assertEqual([a.fields["queueOffset"] for a in client.heard()], ["0"])
        log_work.let_go()
        self.assertEqual([a.fields["queueOffset"] for a in client.heard()], ["1", "2"])
        self.assertEqual(self.broker.core.flusher.count, flushes + 1)

    def test_wait_false(self) -> None:
        """WAIT=false asks not to wait for the disk."""
        client = self.connect()
        self.works[0].held = True
        self.assertEqual(self.send(client, properties="WAIT\x01false\x02").code, 0)

    def test_timeout(self) -> None:
        """After syncFlushTimeout: 10 with the full success header; the message stays."""
        client = self.connect()
        self.works[0].held = True
        client.say(client.command(310, send_fields(), b"1"))
        self.advance(7)
        (answer,) = client.heard()
        self.assertEqual((answer.code, answer.fields["queueOffset"]), (ResponseCode.FLUSH_DISK_TIMEOUT, "0"))

    def test_failed_flush_is_final(self) -> None:
        """After a failed fdatasync nothing is acknowledged any more, whatever later calls say."""
        client = self.connect()
        self.assertEqual(self.send(client).code, 0)
        said = events_of(self)
        self.disk.fail_at(1, errno.EIO, only=["sync"])
        self.assertEqual(self.send(client).code, ResponseCode.FLUSH_DISK_TIMEOUT)
        self.disk.heal()
        self.assertEqual(self.send(client).code, ResponseCode.SERVICE_NOT_AVAILABLE)
        self.assertIsNotNone(self.service.ready())
        failed = [(each["operation"], each["log_level"].name) for each in said if each["event"] == "disk.failed"]
        self.assertEqual(failed, [("sync", "error")])


class BornHostTests(BrokerCase):
    """What is remembered of connections for the born host of their messages."""

    def test_is_forgotten_with_the_connection(self) -> None:
        """Also where a oneway send that waited for a master is served after its client is gone."""
        hosts = self.broker.core.parts.sends._born_hosts
        for late in (False, True):
            client = self.connect()
            self.send(client)
            self.assertEqual(list(hosts), [client.protocol.id])
            kept = [client.command(310, send_fields(), body, oneway=True) for body in (b"kept", b"too")]
            client.close()
            self.assertEqual(hosts, {})
            for command in kept if late else ():
                self.broker.core.turns.run(lambda: self.broker.dispatcher.request(client.protocol, command))  # noqa: B023
            self.assertEqual(hosts, {})
        found = records(self.connect().ask(11, pull_fields()))
        self.assertEqual([each.body for each in found], [b"body", b"body", b"kept", b"too"])
        self.assertEqual(len({each.born_host for each in found[1:]}), 1)

    def test_of_a_connection_that_never_sent_before(self) -> None:
        """Its message is stored and leaves nothing."""
        client = self.connect()
        kept = client.command(310, send_fields(), b"kept", oneway=True)
        client.close()
        self.broker.core.turns.run(lambda: self.broker.dispatcher.request(client.protocol, kept))
        self.assertEqual(self.broker.core.parts.sends._born_hosts, {})
        self.assertEqual(self.broker.store.max_offset("T", 0), 1)


class RestartTests(BrokerCase):
    """Messages, topics and progress outlive the process."""

    def test_killed(self) -> None:
        """After a kill everything answered is there, the topic too, and the next offset continues."""
        client = self.connect()
        for i in range(20):
            self.send(client, b"%d" % i)
        self.disk.kill()
        self.service = self.start()
        client = self.connect()
        found = records(client.ask(11, pull_fields()))
        self.assertEqual([r.body for r in found], [b"%d" % i for i in range(20)])
        self.assertEqual(self.send(client).fields["queueOffset"], "20")

    def test_clean(self) -> None:
        """After a clean stop the store is clean and nothing is scanned again."""
        self.send(self.connect())
        self.stop()
        self.service = self.start()
        self.assertTrue(self.broker.recovery.clean)
        self.assertEqual(len(records(self.connect().ask(11, pull_fields()))), 1)


class PlaceTests(BrokerCase):
    """Where the files are."""

    config = "storePathCommitLog=/other/log"

    def test_the_log_has_a_directory_of_its_own(self) -> None:
        """The log goes where the file says, as Java's; the rest under storePathRootDir. A restart finds both."""
        self.send(self.connect())
        self.stop()
        self.assertEqual(self.disk.list("/other/log"), [f"{0:020d}"])
        self.assertIn("consumequeue", self.disk.list("/store"))
        self.assertNotIn("commitlog", self.disk.list("/store"))
        self.service = self.start()
        self.assertEqual(self.connect().ask(RequestCode.PULL_MESSAGE, pull_fields()).code, 0)
