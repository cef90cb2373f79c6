"""``rocketha topic``, ``group``, ``route``, ``message`` and ``broker`` against brokers, a nameserver and controllers on
simulated hosts.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import click
from twisted.internet import defer
from twisted.internet.error import ConnectError, ConnectionLost, TimeoutError
from twisted.trial.unittest import SynchronousTestCase

from rocketha.admin import broker, controller, group, message, route, topic
from rocketha.admin.client import Client, NoRoute, Queue, RequestFailed, Route
from rocketha.admin.cluster import Cluster
from rocketha.admin.controllers import Controllers, NotKnown
from rocketha.admin.received import Received
from rocketha.broker.role import Role
from rocketha.errors import ConfigError, RockethaError
from rocketha.protocols.endpoints import Dialer
from rocketha.simulation.host import Host
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.admin.parsing import parsed
from tests.services.controlled_case import CONTROLLER_PORT, NAME, ControlledCase
from tests.services.replication_case import NAMESERVER_PORT, ReplicationCase

COUNTED = [(0, 0, 0), (1, 0, 1), (2, 0, 0)]
AN_ID = "7F00000171A78952388A8E679BA50001"


class Asking(ReplicationCase):
    """Runs commands at the client's host."""

    def cluster(self, *nameservers: Host) -> Cluster:
        process = self.client_host.process
        assert process is not None
        addresses = [f"{host.address}:{NAMESERVER_PORT}" for host in nameservers]
        return Cluster(Client(Dialer(process.reactor), addresses, random.Random(self.seed)), 3.0)

    def act(self, asked: object, command: click.Command, *words: str) -> tuple[int, str]:
        """Exit code and standard output."""
        action, given = parsed(command, *words)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = self.await_(defer.Deferred.fromCoroutine(action(asked, given)), 60)
        return code, out.getvalue()


class ClusterCommandTests(Asking):
    """One broker of a nameserver."""

    def setUp(self) -> None:
        super().setUp()
        self.names = self.nameserver()
        self.host = self.broker("b1", f"brokerRole=ASYNC_MASTER\nnamesrvAddr={self.names.address}:{NAMESERVER_PORT}\n")
        self.asked = self.cluster(self.names)
        self.addCleanup(self.asked.close)
        self.until("it is registered", lambda: self.known("TBW102"))

    def known(self, name: str) -> bool:
        assert self.names.process is not None
        return name in self.names.process.service._server.table.topics

    def run_(self, command: click.Command, *words: str) -> str:
        code, out = self.act(self.asked, command, *words)
        self.assertEqual(code, 0, out)
        return out

    def json(self, command: click.Command, *words: str) -> Any:
        return json.loads(self.run_(command, *words, "--json"))

    def test_a_topic_from_first_to_last(self) -> None:
        """Made once, shown, changed where asked, counted, and deleted at brokers and nameservers."""
        self.assertEqual(self.run_(topic.command, "create", "Orders", "--queues", "3"), "Orders is at g\n")
        with self.assertRaisesRegex(RockethaError, "already"):
            self.act(self.asked, topic.command, "create", "Orders")
        self.until("the nameserver knows it", lambda: self.known("Orders"))
        self.assertEqual(self.run_(topic.command, "list"), "Orders\n")
        self.assertIn("TBW102\n", self.run_(topic.command, "list", "--all"))
        self.assertEqual(self.json(topic.command, "list", "--cluster", "DefaultCluster"), ["Orders"])
        (found,) = self.json(topic.command, "show", "Orders")
        self.assertEqual((found["readQueueNums"], found["writeQueueNums"], found["perm"]), (3, 3, 6))
        self.assertEqual(self.json(topic.command, "show", "Orders", "--replicas"), [found])
        self.run_(topic.command, "update", "Orders", "--write", "2", "--perm", "r")
        (found,) = self.json(topic.command, "show", "Orders")
        self.assertEqual((found["readQueueNums"], found["writeQueueNums"], found["perm"]), (3, 2, 4))
        self.run_(topic.command, "update", "Orders", "--perm", "rw")
        self.assertEqual(self.send(self.host, topic="Orders", queue_id="1"), 0)
        rows = self.json(topic.command, "status", "Orders")
        self.assertEqual(
            [(row["queueId"], row["minOffset"], row["maxOffset"]) for row in rows], [(0, 0, 0), (1, 0, 1), (2, 0, 0)]
        )
        self.assertIn("1 messages in 3 queues", self.run_(topic.command, "status", "Orders"))
        (found,) = self.json(route.command, "Orders")
        self.assertEqual((found["id"], found["readQueues"], found["writeQueues"]), (0, 3, 2))
        self.assertEqual(self.run_(topic.command, "delete", "Orders", "--yes"), "Orders is deleted\n")
        self.assertFalse(self.known("Orders"))
        again = self.run_(topic.command, "delete", "Orders", "--yes")
        self.assertEqual(again, "Orders is deleted; no nameserver knew it\n")
        with self.assertRaisesRegex(RequestFailed, "TOPIC_NOT_EXIST"):
            self.act(self.asked, topic.command, "show", "Orders")

    def test_the_type_of_a_topic(self) -> None:
        self.run_(topic.command, "create", "Late", "--type", "delay")
        self.until("the nameserver knows it", lambda: self.known("Late"))
        self.assertEqual(self.json(topic.command, "show", "Late")[0]["attributes"], {"message.type": "DELAY"})
        self.assertIn("DELAY", self.run_(topic.command, "show", "Late"))

    def test_a_group_from_first_to_last(self) -> None:
        self.assertEqual(self.run_(group.command, "create", "workers", "--retries", "3"), "workers is at g\n")
        with self.assertRaisesRegex(RockethaError, "already"):
            self.act(self.asked, group.command, "create", "workers")
        self.assertEqual(self.json(group.command, "list"), [{"group": "workers", "members": 0, "brokers": ["g"]}])
        self.assertIn("TOOLS_CONSUMER", self.run_(group.command, "list", "--all"))
        self.assertEqual(self.json(group.command, "show", "workers")["configurations"]["g"]["retryMaxTimes"], 3)
        self.assertIn("0 members", self.run_(group.command, "show", "workers"))
        self.run_(group.command, "delete", "workers", "--yes")
        with self.assertRaisesRegex(RockethaError, "no broker knows"):
            self.act(self.asked, group.command, "show", "workers")

    def filled(self) -> None:
        """Two messages in each of two queues, a minute apart, and a group that nobody is in."""
        self.run_(topic.command, "create", "T", "--queues", "2")
        self.run_(group.command, "create", "workers")
        for _ in range(2):
            for number in range(2):
                self.assertEqual(self.send(self.host, topic="T", queue_id=str(number)), 0)
            self.run_for(60)

    def lag(self, *words: str) -> list[int]:
        return [each["lag"] for each in self.json(group.command, "lag", "workers", *words)["queues"]]

    def test_lag_and_reset(self) -> None:
        """Nothing moves before --execute; then to each kind of place, and never out of a queue."""
        self.filled()
        with self.assertRaisesRegex(RockethaError, "committed no offset yet"):
            self.act(self.asked, group.command, "lag", "workers")
        said = self.json(group.command, "reset", "workers", "T", "--to", "latest")
        self.assertFalse(said["done"])
        self.assertEqual([(each["from"], each["to"]) for each in said["queues"]], [(None, 2), (None, 2)])
        with self.assertRaisesRegex(RockethaError, "committed no offset yet"):
            self.act(self.asked, group.command, "lag", "workers")
        for where, left in (("1", [1, 1]), ("latest", [0, 0]), ("earliest", [2, 2]), ("99", [0, 0]), ("0", [2, 2])):
            with self.subTest(where):
                said = self.json(group.command, "reset", "workers", "T", "--to", where, "--execute", "-y")
                self.assertTrue(said["done"])
                self.assertEqual({each["to"] for each in said["queues"]}, {2 - left[0]})
                self.assertEqual(self.lag("--topic", "T"), left)
        said = self.run_(group.command, "reset", "workers", "T", "--to", "1", "--queue", "g:1", "--execute", "--yes")
        self.assertNotIn("connected members", said)
        self.assertEqual(self.lag(), [2, 1])
        self.run_(group.command, "reset", "workers", "T", "--to", "2", "--queue", "g:0", "--execute", "--yes")
        found = self.json(group.command, "lag", "workers")["queues"]
        self.assertEqual([(each["queueId"], each["lag"]) for each in found], [(1, 1), (0, 0)], "the largest first")
        self.run_(group.command, "reset", "workers", "T", "--to", "0", "--queue", "g:0", "--execute", "--yes")
        self.assertIn("lag of workers: 3\n", self.run_(group.command, "lag", "workers"))
        with self.assertRaisesRegex(ConfigError, "no such queue"):
            self.act(self.asked, group.command, "reset", "workers", "T", "--to", "1", "--queue", "g:7")

    def test_reset_to_a_time(self) -> None:
        """The first message that is not older."""
        self.filled()
        answer = self.ask(self.host, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
        value = json_dialect.loads(answer.body)["offsetTable"].entries[0][1]["lastUpdateTimestamp"]
        with mock.patch.object(group, "place", return_value=f"@{value - 1000}"):
            self.run_(group.command, "reset", "workers", "T", "--to", "then", "--execute", "--yes")
        self.assertEqual(self.lag(), [1, 1])

    def test_reset_while_a_consumer_is_there(self) -> None:
        """The broker keeps the order (222), as of Java since 5.0."""
        self.filled()
        beat = json_dialect.dumps(
            {
                "clientID": "c@1",
                "consumerDataSet": [
                    {
                        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                        "consumeType": "CONSUME_PASSIVELY",
                        "groupName": "workers",
                        "messageModel": "CLUSTERING",
                        "subscriptionDataSet": [
                            {"topic": "T", "subString": "*", "expressionType": "TAG", "subVersion": 1}
                        ],
                    }
                ],
                "producerDataSet": [],
            }
        )
        self.assertEqual(self.ask(self.host, RequestCode.HEART_BEAT, {}, beat).code, 0)
        self.assertEqual(list(self.json(group.command, "show", "workers")["members"]), ["c@1"])
        with mock.patch.object(Cluster, "ask", autospec=True, side_effect=Cluster.ask) as asks:
            said = self.run_(group.command, "reset", "workers", "T", "--to", "1", "--execute", "--yes")
            self.run_(group.command, "reset", "workers", "T", "--to", "latest", "--execute", "--yes")
        self.assertIn("connected members go on there when", said)
        codes = [call.args[2] for call in asks.call_args_list]
        self.assertEqual(codes.count(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET), 3)
        self.assertNotIn(RequestCode.UPDATE_CONSUMER_OFFSET, codes)

    def test_reset_where_brokers_know_times_only(self) -> None:
        """With members connected they would move all queues, and to the beginning: nothing is asked of any broker."""
        moves = [group.Move(Queue("T", name, 0), f"{name}:1", 0, 1) for name in ("a", "b")]
        online = json_dialect.dumps({"connectionSet": [{"clientId": "c"}], "subscriptionTable": {}})
        asked: list[int] = []

        async def ask(address: str, code: int, *rest: Any, **more: Any) -> Command:
            asked.append(code)
            if code == RequestCode.GET_BROKER_CONFIG:
                return Command(0, body=b"useServerSideResetOffset=" + (b"true\n" if address == "a:1" else b"false\n"))
            return Command(
                0, body=online if code == RequestCode.GET_CONSUMER_CONNECTION_LIST else b'{"offsetTable":{}}'
            )

        cluster: Any = SimpleNamespace(ask=ask)
        for where, whole in ((1, True), ("latest", False)):
            with self.assertRaisesRegex(RockethaError, "Offset is off at b:1, .* nothing was changed"):
                self.await_(defer.Deferred.fromCoroutine(group.execute(cluster, "workers", where, moves, whole)))
        self.assertNotIn(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)
        self.await_(defer.Deferred.fromCoroutine(group.execute(cluster, "workers", "latest", moves, True)))
        self.assertEqual(asked.count(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET), 2)

    def test_reset_without_a_master(self) -> None:
        """A slave would take an offset, and its master's would overrule it later."""
        self.filled()
        found = self.await_(defer.Deferred.fromCoroutine(self.asked.client.route("T", fresh=True)))
        slave = Route("T", {"g": {1: found.brokers["g"][0]}}, found.queues)
        words = ("reset", "workers", "T", "--to", "0", "--execute", "--yes")
        with mock.patch.object(Client, "route", return_value=slave), self.assertRaisesRegex(NoRoute, "a master: g"):
            self.act(self.asked, group.command, *words)

    def test_reset_that_fails_half_way(self) -> None:
        """It says where it was moved."""
        moves = [group.Move(Queue("T", name, 0), f"{name}:1", 0, 1) for name in ("a", "b")]

        async def ask(address: str, code: int, *rest: Any, **more: Any) -> Command:
            if address == "b:1" and code == RequestCode.UPDATE_CONSUMER_OFFSET:
                raise RequestFailed(1, "no", address)
            return Command(code=ResponseCode.CONSUMER_NOT_ONLINE)

        asked: Any = SimpleNamespace(ask=ask)
        with self.assertRaisesRegex(RockethaError, "workers at b:1: .*; it was moved at a:1 already"):
            self.await_(defer.Deferred.fromCoroutine(group.execute(asked, "workers", 1, moves, True)))

    def test_messages(self) -> None:
        """By both ids and by key; others whose keys have the same hash are left out."""
        self.run_(topic.command, "create", "T", "--queues", "2")
        kept = f"KEYS\x01k1 k2 Aa\x02UNIQ_KEY\x01{AN_ID}\x02"
        answer = self.await_(self.sending(self.host, b"body", topic="T", properties=kept))
        self.assertEqual(answer.code, 0)
        self.until("it is indexed", lambda: self.log(self.host).dispatched_offset == self.log(self.host).end)
        self.until("the nameserver knows it", lambda: self.known("T"))
        (found,) = self.json(message.command, "query", "T", "--key", "k2")
        self.assertEqual((found["body"], found["broker"]), ("body", "g"))
        (same,) = self.json(message.command, "show", AN_ID, "--topic", "T")
        self.assertEqual(same["id"], found["id"])
        (same,) = self.json(message.command, "show", found["id"])
        self.assertEqual(same["properties"]["UNIQ_KEY"], AN_ID)
        self.assertIn("    KEYS=k1 k2 Aa\n", self.run_(message.command, "show", found["id"]))
        for words in (("query", "T", "--key", "BB"), ("show", "A" * 32, "--topic", "T")):
            with self.assertRaisesRegex(RockethaError, "no message"):
                self.act(self.asked, message.command, *words)
        with self.assertRaisesRegex(ConfigError, "--topic"):
            self.act(self.asked, message.command, "show", "not-an-id")

    def test_traces(self) -> None:
        """As Java's clients encode them: who sent, who received, and what came of it."""
        self.run_(topic.command, "create", "T")
        told = [
            ["Pub", "1700000000000", "R", "P", "T", AN_ID, "", "k1", "h:1", "4", "7", "0", "X", "true", "10.0.0.1"],
            ["SubBefore", "1700000001000", "R", "workers", "req", AN_ID, "0", "k1", "10.0.0.2"],
            ["SubAfter", "req", AN_ID, "12", "true", "k1", "0", "1700000001012", "workers"],
            ["SubBefore", "1700000001000", "R", "workers", "other", "AnotherId", "0", "k1"],
        ]
        for fields in told:
            sent = self.sending(
                self.host,
                ("\x01".join(fields) + "\x02").encode(),
                topic="RMQ_SYS_TRACE_TOPIC",
                properties=f"KEYS\x01{AN_ID} k1\x02",
            )
            self.assertEqual(self.await_(sent).code, 0)
        self.until("the nameserver knows it", lambda: self.known("RMQ_SYS_TRACE_TOPIC"))
        found = self.json(message.command, "trace", AN_ID)
        self.assertEqual([each["kind"] for each in found], ["Pub", "SubBefore", "SubAfter"])
        self.assertEqual(found[2]["clientHost"], "10.0.0.2")
        lines = self.run_(message.command, "trace", AN_ID).splitlines()
        self.assertEqual([line.split()[1] for line in lines[1:]], ["sent", "received", "consumed"])
        with self.assertRaisesRegex(RockethaError, "no client has told"):
            self.act(self.asked, message.command, "trace", "B" * 32)

    def test_brokers(self) -> None:
        """All that are registered; drained, nobody sends there, until that is undone."""
        self.run_(topic.command, "create", "T", "--queues", "2")
        self.until("the nameserver knows it", lambda: self.known("T"))
        (found,) = self.json(broker.command, "list")
        self.assertEqual((found["broker"], found["id"]), ("g", 0))
        self.assertIn("brokerVersionDesc", self.run_(broker.command, "status", "g"))
        managed = broker.Managed(self.asked, mock.Mock())
        for words, queues in (((), 0), (("--undo",), 2)):
            code, _ = self.act(managed, broker.command, "drain", "g", "--yes", *words)
            self.assertEqual((code, self.json(route.command, "T")[0]["writeQueues"]), (0, queues))
        with self.assertRaisesRegex(ConfigError, "no broker 'h'; there are g"):
            self.act(self.asked, broker.command, "status", "h")
        self.host.kill()
        code, out = self.act(self.asked, broker.command, "list")
        self.assertEqual((code, out.splitlines()[-1].startswith(found["address"])), (1, True))

    def test_names(self) -> None:
        """What is wrong with them is said before anybody is asked."""
        for command, words in (
            (topic.command, ("create", "a b")),
            (group.command, ("create", "a b")),
            (topic.command, ("update", "T")),
            (group.command, ("reset", "g", "T", "--to", "yesterday")),
            (topic.command, ("create", "T", "--cluster", "nowhere")),
        ):
            with self.assertRaises(ConfigError):
                self.act(self.asked, command, *words)

    def test_a_nameserver_that_is_gone(self) -> None:
        """What has to be told to all of them is not called done, and the others were told."""
        other = self.world.add_host("gone", lambda process: None)
        self.run_(topic.command, "create", "T", "--queues", "2")
        self.until("the nameserver knows it", lambda: self.known("T"))
        both = self.cluster(self.names, other)
        self.addCleanup(both.close)
        with self.assertRaisesRegex(NoRoute, "not told: .*; told: "):
            self.act(broker.Managed(both, mock.Mock()), broker.command, "drain", "g", "--yes")
        self.assertEqual(self.json(route.command, "T")[0]["writeQueues"], 0)


class SeveralTests(Asking):
    """Three sets of brokers, of which some fail."""

    def setUp(self) -> None:
        super().setUp()
        self.names = self.nameserver()
        keys = f"brokerRole=ASYNC_MASTER\nnamesrvAddr={self.names.address}:{NAMESERVER_PORT}\n"
        self.hosts = {name: self.broker(name, f"brokerName={name}\n{keys}") for name in ("a", "b", "c")}
        self.asked = self.cluster(self.names)
        self.addCleanup(self.asked.close)
        self.until("all are registered", lambda: len(self.sets()) == 3)

    def sets(self) -> dict[str, str]:
        """Name and address of each master."""
        try:
            found = self.await_(defer.Deferred.fromCoroutine(self.asked.sets()))
        except ConfigError:
            return {}
        return {each.name: each.master for each in found}

    def failing(self, code: int) -> Any:
        """For a while a request that changes something is refused by b, and c does not answer it."""
        at, real = self.sets(), Cluster.ask

        async def ask(self: Cluster, address: str, asked: int, *rest: Any, **more: Any) -> Command:
            if asked == code and address == at["b"]:
                raise RequestFailed(1, "its disk is full", address)
            answer = await real(self, address, asked, *rest, **more)
            if asked == code and address == at["c"]:
                raise TimeoutError("no answer")
            return answer

        return mock.patch.object(Cluster, "ask", ask)

    def test_what_is_made_half_way(self) -> None:
        """Where it is, where it is not, and where that is not known is told; the same again completes it, and as often
        as it is asked for; something else of that name is refused."""
        for command, words, other, code in (
            (topic.command, ("create", "T"), ("--queues", "3"), RequestCode.UPDATE_AND_CREATE_TOPIC),
            (group.command, ("create", "G"), ("--retries", "3"), RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
        ):
            with self.subTest(words[1]):
                out = io.StringIO()
                with (
                    self.failing(code),
                    self.assertRaisesRegex(
                        RockethaError, f"{words[1]}: made at a; not at b .*disk.*known whether at c"
                    ),
                    contextlib.redirect_stdout(out),
                ):
                    action, given = parsed(command, *words, "--json")
                    self.await_(defer.Deferred.fromCoroutine(action(self.asked, given)), 60)
                told = json.loads(out.getvalue())
                self.assertEqual((told["brokers"], list(told["refused"]), list(told["unknown"])), (["a"], ["b"], ["c"]))
                with self.failing(code), self.assertRaisesRegex(RockethaError, "made at a, c; not at b "):
                    self.act(self.asked, command, *words)
                with mock.patch.object(Cluster, "ask", autospec=True, side_effect=Cluster.ask) as asks:
                    self.assertEqual(self.act(self.asked, command, *words), (0, f"{words[1]} is at a, b, c\n"))
                written = [call.args[1] for call in asks.call_args_list if call.args[2] == code]
                self.assertEqual(written, [self.sets()["b"]])
                self.assertEqual(self.act(self.asked, command, *words)[0], 0)
                with self.assertRaisesRegex(RockethaError, "at a already"):
                    self.act(self.asked, command, *words, *other)

    def test_what_is_changed_or_deleted_half_way(self) -> None:
        """Likewise; a topic that a broker still has stays in the nameservers."""
        self.act(self.asked, topic.command, "create", "T")
        self.act(self.asked, group.command, "create", "G")
        self.until("the nameserver knows it", lambda: len(self.shown("T")) == 3)
        for command, words, code, done in (
            (topic.command, ("update", "T", "--perm", "r"), RequestCode.UPDATE_AND_CREATE_TOPIC, "changed"),
            (topic.command, ("delete", "T", "-y"), RequestCode.DELETE_TOPIC_IN_BROKER, "deleted"),
            (group.command, ("delete", "G", "-y"), RequestCode.DELETE_SUBSCRIPTIONGROUP, "deleted"),
        ):
            with self.subTest(words):
                with self.failing(code), self.assertRaisesRegex(RockethaError, f"{done} at a; not at b .*at c "):
                    self.act(self.asked, command, *words)
                if words[1] == "T":
                    self.assertTrue(self.shown("T"))
                self.assertEqual(self.act(self.asked, command, *words)[0], 0)

    def shown(self, name: str) -> list[Any]:
        """What the topic is where it is."""
        try:
            return list(json.loads(self.act(self.asked, topic.command, "show", name, "--json")[1]))
        except RequestFailed:
            return []


class ReplicaCommandTests(Asking, ControlledCase):
    """Three brokers under three controllers."""

    controller_keys = "remoteAdminEnable=true"

    def setUp(self) -> None:
        super().setUp()
        self.names = self.nameserver()
        self.keys = f"namesrvAddr={self.names.address}:{NAMESERVER_PORT}\n"
        self.start_group()
        process = self.client_host.process
        assert process is not None
        addresses = [f"{host.address}:{CONTROLLER_PORT}" for host in self.controllers]
        self.asked = broker.Managed(self.cluster(self.names), Controllers(Dialer(process.reactor), addresses))
        self.addCleanup(self.asked.close)

    def unanswered(self, code: int, problem: Exception, done: bool) -> tuple[Any, list[int]]:
        """The first request of a kind is not answered, and what was sent of that kind.

        :param done: whether it is carried out.
        """
        real, sent = Controllers.ask, list[int]()

        async def ask(self: Controllers, address: str, asked: int, *rest: Any, **more: Any) -> Command:
            if asked != code:
                return await real(self, address, asked, *rest, **more)
            sent.append(asked)
            if len(sent) > 1 or done:
                answer = await real(self, address, asked, *rest, **more)
                if len(sent) > 1:
                    return answer
            raise problem

        return mock.patch.object(Controllers, "ask", ask), sent

    def test_what_is_not_sent_twice(self) -> None:
        """An election that was not answered may have been held: it is told so, with what shows it.  Where no connection
        came about it is asked for again, as is what does no harm twice."""
        number = str(self.number(self.master()))
        words = ("drain", NAME, "--id", number, "--yes")
        elect = RequestCode.CONTROLLER_ELECT_MASTER
        for problem in (TimeoutError("no answer within 5 s"), ConnectionLost("it is gone")):
            patched, sent = self.unanswered(elect, problem, done=False)
            with patched, self.assertRaisesRegex(NotKnown, f"not known .*: rocketha controller why {NAME} shows it"):
                self.act(self.asked, broker.command, *words)
            self.assertEqual(len(sent), 1)
        patched, sent = self.unanswered(elect, ConnectError(string="refused"), done=False)
        with patched:
            self.assertEqual(self.act(self.asked, broker.command, *words)[0], 0)
        self.assertEqual(len(sent), 2)
        self.until("another one is master", lambda: self.masters() and self.number(self.master()) != int(number))
        for code, fields, shown in (
            (RequestCode.CLEAN_BROKER_DATA, {"brokerName": NAME}, f"why {NAME}"),
            (PrivateCode.MEMBERS, {"remove": "n0"}, "members"),
        ):
            patched, sent = self.unanswered(code, TimeoutError("no answer"), done=False)
            with patched, self.assertRaisesRegex(NotKnown, f"rocketha controller {shown} shows it"):
                self.await_(defer.Deferred.fromCoroutine(self.asked.controllers.ask_leader(code, fields)), 60)
            self.assertEqual(len(sent), 1)

    def test_what_is_sent_twice(self) -> None:
        """Leadership is handed over, its answer is lost, and who has it now is asked to have it."""
        leader = self.leader()
        to = next(each for each in self.controllers if each is not leader)
        patched, sent = self.unanswered(PrivateCode.TRANSFER, ConnectionLost("it is gone"), done=True)
        controllers = self.asked.controllers
        with patched:
            asked = controllers.ask_leader(PrivateCode.TRANSFER, {"to": to.name}, 30.0)
            self.assertEqual(self.await_(defer.Deferred.fromCoroutine(asked), 60).code, 0)
        self.assertEqual((len(sent), self.leader()), (2, to))

    def test_a_topic_at_each_replica(self) -> None:
        """What it is there; a replica that is dead, or has not got it, is told, and the exit code says so."""
        show = (self.asked.cluster, topic.command, "show", "Orders", "--replicas", "--json")
        self.assertEqual(self.act(self.asked.cluster, topic.command, "create", "Orders")[0], 0)

        def shown() -> list[dict[str, Any]]:
            try:
                return json.loads(self.act(*show)[1])
            except RequestFailed:  # no route yet
                return []

        self.until("all have it", lambda: sum("perm" in each for each in shown()) == 3)
        self.assertEqual(shown()[0]["brokerId"], 0)
        dead = next(each for each in self.brokers if each is not self.master())
        real = topic.config_at

        async def lacking(cluster: Cluster, address: str, name: str) -> dict[str, Any] | None:
            return None if address.startswith(dead.address) else await real(cluster, address, name)

        with mock.patch.object(topic, "config_at", lacking):
            code, out = self.act(*show[:-1])
        self.assertEqual(code, 1)
        self.assertRegex(out, f"(?m)^{NAME}, id [0-9]+: it does not have Orders$")
        dead.kill()
        code, out = self.act(*show)
        self.assertEqual((code, sum("refused" in each.get("problem", "") for each in json.loads(out))), (1, 1))

    def test_who_is_heard(self) -> None:
        """As many as there are, at all controllers, also when one is dead."""

        def heard() -> list[int]:
            found = json.loads(self.act(self.asked.controllers, controller.command, "status", "--json")[1])
            return [each["brokersHeard"] for each in found.values()]

        self.until("all are heard", lambda: heard() == [3, 3, 3])
        dead = next(each for each in self.brokers if each is not self.master())
        dead.kill()
        self.until("it is missed", lambda: heard() == [2, 2, 2], 60)

    def test_a_replica_leaves_for_good(self) -> None:
        """It hands over, stops, is missed, and is forgotten; never while it runs, and never the last master."""
        old = self.master()
        number = str(self.number(old))
        with self.assertRaisesRegex(RockethaError, "runs"):
            self.act(self.asked, broker.command, "decommission", NAME, "--id", number, "--yes")
        code, out = self.act(self.asked, broker.command, "drain", NAME, "--id", number, "--yes", "--json")
        self.assertEqual(code, 0)
        self.until("another one is master", lambda: self.role(old) is not Role.MASTER and len(self.masters()) == 1)
        self.assertEqual(json.loads(out)["master"], self.number(self.master()))
        code, out = self.act(self.asked, broker.command, "drain", NAME, "--id", number, "--yes")
        self.assertIn("has another master", out)
        code, out = self.act(self.asked.cluster, broker.command, "epochs", NAME, "--json")
        self.assertEqual({each["epoch"] for each in json.loads(out)}, {1, 2})
        old.kill()

        def missed() -> bool:
            coroutine = broker.replicas(self.asked.controllers, NAME)
            return int(number) not in self.await_(defer.Deferred.fromCoroutine(coroutine)).alive

        self.until("the controllers miss it", missed, 60)
        code, out = self.act(self.asked, broker.command, "decommission", NAME, "--id", number, "--yes", "--json")
        self.assertEqual(len(json.loads(out)["replicas"]), 2)
        self.assertNotIn(int(number), self.group().members)
        with self.assertRaisesRegex(ConfigError, f"--id {number}"):
            self.act(self.asked, broker.command, "decommission", NAME, "--id", number, "--yes")


class WordsTests(SynchronousTestCase):
    """Texts that are read."""

    def test_ids(self) -> None:
        self.assertEqual(message.at_broker("7F000001000070270000000000000010"), ("127.0.0.1:28711", 16))
        six = "0" * 31 + "1" + "00002A9F" + "0" * 16
        self.assertEqual(message.at_broker(six), ("[::1]:10911", 0))
        for text in ("", "7F", "G" * 32, "0" * 32):
            self.assertRaises(ConfigError, message.at_broker, text)

    def test_keys(self) -> None:
        """An index has hashes of keys, and Java's brokers answer with all that have the same, as Aa and BB have."""
        found = Received(Queue("T", "g", 0), 0, 0, 0, 0, "", b"", {"KEYS": "Aa k1", "UNIQ_KEY": AN_ID})
        keys = ("Aa", "k1", "BB", "k", AN_ID)
        self.assertEqual([key for key in keys if message._has(found, key, False)], ["Aa", "k1"])
        self.assertEqual([key for key in keys if message._has(found, key, True)], [AN_ID])

    def test_ago(self) -> None:
        self.assertEqual(
            [message.ago(text, 10**9) for text in ("30s", "5m", "9999d")], [10**9 - 30_000, 10**9 - 300_000, 0]
        )
        for text in ("", "5", "m", "-5m", "5y"):
            self.assertRaises(ConfigError, message.ago, text, 10**9)

    def test_places(self) -> None:
        self.assertEqual([group.place(text) for text in ("first", "latest", "17")], ["earliest", "latest", 17])
        self.assertEqual(group.place("2023-11-14T22:13:20+00:00"), "@1700000000000")
        for text in ("1969-12-31T00:00:00+00:00", "-1", "then", ""):
            self.assertRaises(ConfigError, group.place, text)
