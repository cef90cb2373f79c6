"""One request, one answer: header fields, codes, remarks and bodies (facts/namesrv: DefaultRequestProcessor,
ClientRequestProcessor, ZoneRouteRPCHook)."""

from __future__ import annotations

import json
import unittest
import zlib
from typing import Any

import orjson

from rocketha.namesrv.effects import Address, BrokerAppeared, ConfigChanged, HolderToBeAsked, SaveKvConfig
from rocketha.namesrv.kv_config import KvConfig
from rocketha.namesrv.requests import Caller, NameServer
from rocketha.wire.codes import RequestCode as Code
from rocketha.wire.remoting import Answer
from tests.namesrv.helpers import ask, body, command, json_body, name_server, register_command, registration

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
BROKER = {"clusterName": "C", "brokerName": "broker-a", "brokerAddr": A, "brokerId": "0"}


def route(server: NameServer, topic: str = "T1", version: int = 513, **fields: str) -> Answer:
    return ask(server, command(Code.GET_ROUTEINFO_BY_TOPIC, version=version, topic=topic, **fields))


def loaded(answer: Answer) -> Any:
    return json.loads(answer.body)


class BrokerRequestTests(unittest.TestCase):
    """103, 104, 322, 901, 904, 106."""

    def setUp(self) -> None:
        self.server = name_server()

    def test_register(self) -> None:
        """A master gets an empty header and, without order configurations, no body."""
        self.assertEqual(ask(self.server, register_command()), Answer(0, None, {}, b""))
        self.assertEqual([type(e) for e in self.server.take_effects()], [BrokerAppeared])
        self.assertEqual(self.server.take_effects(), [])

    def test_register_slave(self) -> None:
        """A slave gets its master's addresses."""
        ask(self.server, register_command())
        answer = ask(self.server, register_command(address=B, broker_id=1))
        self.assertEqual(answer.fields, {"haServerAddr": "ha-" + A, "masterAddr": A})

    def test_register_returns_order_configuration(self) -> None:
        """Namespace ORDER_TOPIC_CONFIG, unless switched off."""
        for enabled, wanted in ((True, b'{"table":{"T":"broker-a:4"}}'), (False, b"")):
            server = name_server(return_order_topic_config_to_broker=enabled)
            server.kv = server.kv.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
            self.assertEqual(ask(server, register_command()).body, wanted)

    def test_checksum(self) -> None:
        """bodyCrc32 is CRC32 without its sign bit; 0 and absent are unchecked."""
        data = json_body()
        good = zlib.crc32(data) & 0x7FFFFFFF
        for checksum, code, remark in (
            (str(good), 0, None),
            ("0", 0, None),
            (str(good ^ 1), 1, "crc32 not match"),
            ("-5", 1, "crc32 not match"),
        ):
            answer = ask(self.server, register_command(content=data, bodyCrc32=checksum))
            self.assertEqual((answer.code, answer.remark), (code, remark))
        request = register_command()
        del request.fields["bodyCrc32"]
        self.assertEqual(ask(self.server, request).code, 0)

    def test_first_single_topic(self) -> None:
        """Seen live: code 1, `register broker failed`."""
        answer = ask(self.server, register_command(content=json_body({"T": 6})))
        self.assertEqual((answer.code, answer.remark), (1, "register broker failed"))

    def test_hostile_header(self) -> None:
        """Every needed field, absent or out of bounds, is refused by name and changes nothing."""
        for field, value in (
            ("brokerName", None),
            ("clusterName", None),
            ("brokerAddr", None),
            ("brokerId", None),
            ("haServerAddr", None),
            ("brokerName", ""),
            ("brokerName", "x" * 256),
            ("brokerName", "a\x00b"),
            ("clusterName", "a\nb"),
            ("brokerAddr", "nohost"),
            ("brokerAddr", "h:0"),
            ("brokerAddr", "h:65536"),
            ("brokerAddr", "a b:1"),
            ("brokerAddr", ":1"),
            ("brokerId", "-1"),
            ("brokerId", "x"),
            ("brokerId", str(2**63)),
            ("brokerId", "9" * 30),
            ("__ZONE_NAME", "z" * 300),
        ):
            with self.subTest(field=field, value=value):
                request = register_command()
                if value is None:
                    del request.fields[field]
                else:
                    request.fields[field] = value
                answer = ask(self.server, request)
                self.assertEqual(answer.code, 1)
                self.assertIn(field, answer.remark or "")
                self.assertEqual(self.server.table.brokers, {})

    def test_side_fields(self) -> None:
        """What Java cannot read, or nobody can mean, has its default; a registration is no worse for it."""
        for field, value, timeout_ms in (
            ("bodyCrc32", "x", 120_000),
            ("bodyCrc32", str(2**31), 120_000),
            ("heartbeatTimeoutMillis", "0", 120_000),
            ("heartbeatTimeoutMillis", "x", 120_000),
            ("heartbeatTimeoutMillis", "-5", 120_000),
            ("heartbeatTimeoutMillis", str(2**62), 86_400_000),
            ("heartbeatTimeoutMillis", "\u0665", 5),
        ):
            with self.subTest(field=field, value=value):
                server = name_server()
                self.assertEqual(ask(server, register_command(**{field: value})).code, 0)
                [live] = server.table.live.values()
                self.assertEqual(live.timeout_ms, timeout_ms)

    def test_mappings_of_nothing(self) -> None:
        """A static topic's mapping that is null is none."""
        mappings = {"a": "null", "b": None, "c": ""}
        content = json.dumps({"topicConfigSerializeWrapper": {"topicQueueMappingInfoMap": mappings}}).encode()
        self.assertEqual(ask(self.server, register_command(content=content)).code, 0)

    def test_flags_are_bits(self) -> None:
        """A topic's flags may have all of them set, which Java's nameserver passes on."""
        wrapper = {"topicConfigTable": {name: {"topicName": name, "topicSysFlag": -1} for name in ("T", "U")}}
        request = register_command(content=json.dumps({"topicConfigSerializeWrapper": wrapper}).encode())
        self.assertEqual(ask(self.server, request).code, 0)
        self.assertEqual([row.sys_flag for row in self.server.table.topics["T"].values()], [-1])

    def test_ipv6_and_host_names(self) -> None:
        """Addresses that Java writes for brokerIP1."""
        for address in ("[::1]:10911", "broker-a.example.org:1", "[fe80::1%eth0]:65535"):
            self.assertEqual(ask(self.server, register_command(address=address)).code, 0)

    def test_zone_and_timeout(self) -> None:
        """`__ZONE_NAME` and heartbeatTimeoutMillis are kept with the registration."""
        ask(self.server, register_command(__ZONE_NAME="z1", heartbeatTimeoutMillis="10000"))
        (broker,) = self.server.table.brokers.values()
        (live,) = self.server.table.live.values()
        self.assertEqual((broker.zone, live.timeout_ms), ("z1", 10_000))

    def test_old_broker(self) -> None:
        """No enableActingMaster at all: a slave brings nothing."""
        request = register_command(broker_id=3)
        del request.fields["enableActingMaster"]
        ask(self.server, request)
        self.assertEqual(self.server.table.topics, {})

    def test_compressed(self) -> None:
        """The header says how the body is read."""
        answer = ask(self.server, register_command(compressed="TRUE"))
        self.assertIn("incorrect header check", answer.remark or "")

    def test_unregister(self) -> None:
        """Code 0 whether or not the broker is known."""
        ask(self.server, register_command())
        for _ in range(2):
            self.assertEqual(ask(self.server, command(Code.UNREGISTER_BROKER, **BROKER)), Answer())
            self.assertEqual(self.server.table.brokers, {})

    def test_unregistration_of_others(self) -> None:
        """By the connection that registered the address; once that is over, from its host.  Others are refused."""
        ask(self.server, register_command(), 1)
        gone = command(Code.UNREGISTER_BROKER, **BROKER)
        for connection, host in ((2, "10.0.0.1"), (3, "10.0.0.9")):
            answer = ask(self.server, gone, connection, host=host)
            self.assertEqual(answer.code, 1)
            self.assertIn("registered by another connection, from 10.0.0.1", answer.remark or "")
        self.server.liveness.connection_lost(1, "10.0.0.1", 0)
        self.assertEqual(ask(self.server, gone, 4, host="10.0.0.9").code, 1)
        self.assertEqual(len(self.server.table.live), 1)
        self.assertEqual(ask(self.server, gone, 5, host="10.0.0.1"), Answer())
        self.assertEqual(self.server.table.live, {})

    def test_registration_of_another_hosts_address(self) -> None:
        """Who registers it could unregister it next: the holder is asked while its connection is there."""
        ask(self.server, register_command(), 1)
        again = register_command(name="other", broker_id=3)
        for connection, host in ((1, "10.0.0.1"), (2, "10.0.0.1")):  # itself, also by a new connection
            self.server.answer(register_command(), Caller(connection, host), 0)
        with self.assertRaises(HolderToBeAsked) as found:
            self.server.answer(again, Caller(3, "10.0.0.9"), 0)
        self.assertEqual((found.exception.holder.address, found.exception.host), (A, "10.0.0.1"))
        self.server.liveness.connection_lost(2, "10.0.0.1", 0)
        self.server.answer(again, Caller(3, "10.0.0.9"), 0)
        self.assertEqual([live.host for live in self.server.table.live.values()], ["10.0.0.9"])

    def test_query_data_version(self) -> None:
        """changed, the stored version, and a fresh timestamp."""
        asked = orjson.dumps({"counter": 1, "stateVersion": 0, "timestamp": 5})
        request = command(Code.QUERY_DATA_VERSION, asked, **BROKER)
        self.assertEqual(ask(self.server, request), Answer(fields={"changed": "true"}))
        ask(self.server, register_command())
        self.assertEqual(ask(self.server, request, now_ms=77), Answer(fields={"changed": "false"}, body=asked))
        (live,) = self.server.table.live.values()
        self.assertEqual(live.heard_ms, 77)
        self.assertEqual(ask(self.server, command(Code.QUERY_DATA_VERSION, **BROKER)).fields, {"changed": "true"})
        self.assertEqual(ask(self.server, command(Code.QUERY_DATA_VERSION, b"{", **BROKER)).code, 1)

    def test_heartbeat(self) -> None:
        """Refreshes, never registers."""
        request = command(Code.BROKER_HEARTBEAT, **BROKER)
        self.assertEqual(ask(self.server, request), Answer())
        ask(self.server, register_command())
        ask(self.server, request, now_ms=99)
        self.assertEqual([live.heard_ms for live in self.server.table.live.values()], [99])

    def test_member_group(self) -> None:
        """Addresses by id; none for an unknown broker or, unlike Java, another cluster's (regression B5)."""
        ask(self.server, register_command())
        ask(self.server, register_command(address=B, broker_id=2))
        for cluster, addresses in (("C", {"0": A, "2": B}), ("D", {})):
            answer = ask(self.server, command(Code.GET_BROKER_MEMBER_GROUP, clusterName=cluster, brokerName="broker-a"))
            group = {"brokerAddrs": addresses, "brokerName": "broker-a", "cluster": cluster}
            self.assertEqual(loaded(answer), {"brokerMemberGroup": group})

    def test_cluster_info_of_equal_names(self) -> None:
        """Both clusters are listed; the name's addresses are the first cluster's (regression B5)."""
        ask(self.server, register_command(cluster="C2", address=B))
        ask(self.server, register_command(cluster="C1", address=A))
        info = loaded(ask(self.server, command(Code.GET_BROKER_CLUSTER_INFO)))
        self.assertEqual(info["clusterAddrTable"], {"C1": ["broker-a"], "C2": ["broker-a"]})
        self.assertEqual(info["brokerAddrTable"]["broker-a"]["brokerAddrs"], {"0": A})

    def test_write_perm(self) -> None:
        """205 and 327 count topics."""
        ask(self.server, register_command())
        answer = ask(self.server, command(Code.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a"))
        self.assertEqual(answer.fields, {"wipeTopicCount": "2"})
        self.assertEqual(loaded(route(self.server))["queueDatas"][0]["perm"], 4)
        answer = ask(self.server, command(Code.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a"))
        self.assertEqual(answer.fields, {"addTopicCount": "2"})
        self.assertEqual(loaded(route(self.server))["queueDatas"][0]["perm"], 6)
        answer = ask(self.server, command(Code.WIPE_WRITE_PERM_OF_BROKER, brokerName="unknown"))
        self.assertEqual(answer.fields, {"wipeTopicCount": "0"})

    def test_unknown_code(self) -> None:
        """Seen live, with the leading blank."""
        answer = ask(self.server, command(999))
        self.assertEqual((answer.code, answer.remark), (3, " request type 999 not supported"))


class RouteTests(unittest.TestCase):
    """105."""

    def setUp(self) -> None:
        self.server = name_server()
        ask(self.server, register_command())
        ask(self.server, register_command(address=B, broker_id=2))

    def test_keys_by_client(self) -> None:
        """Quoted from version 401 on or when asked for; the old form is no JSON, and clients below 401 read only
        that.
        """
        quoted = b'{"0":"10.0.0.1:10911","2":"10.0.0.2:10911"}'
        bare = b'{0:"10.0.0.1:10911",2:"10.0.0.2:10911"}'
        for version, fields, wanted in (
            (513, {}, quoted),
            (401, {}, quoted),
            (400, {}, bare),
            (0, {}, bare),
            (400, {"acceptStandardJsonOnly": "true"}, quoted),
            (400, {"acceptStandardJsonOnly": "false"}, bare),
        ):
            with self.subTest(version=version, fields=fields):
                self.assertIn(b'"brokerAddrs":' + wanted + b",", route(self.server, version=version, **fields).body)

    def test_exact_body(self) -> None:
        """Byte for byte as seen live."""
        wanted = (
            b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","2":"10.0.0.2:10911"},"brokerName":"broker-a",'
            b'"cluster":"C","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a",'
            b'"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
        )
        self.assertEqual(route(self.server), Answer(body=wanted))

    def test_unknown_topic(self) -> None:
        """17 with Java's remark; a request without a topic is asked for the topic null."""
        answer = route(self.server, "No")
        self.assertEqual(answer.code, 17)
        self.assertEqual(
            answer.remark,
            "No topic route info in name server for the topic: No\n"
            "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.",
        )
        answer = ask(self.server, command(Code.GET_ROUTEINFO_BY_TOPIC))
        self.assertIn("for the topic: null", answer.remark or "")
        self.assertLess(len(route(self.server, "x" * 10_000).remark or ""), 500)

    def test_order_configuration(self) -> None:
        """Only with orderMessageEnable."""
        for enabled, wanted in ((False, None), (True, "broker-a:4")):
            server = name_server(order_message_enable=enabled)
            server.kv = server.kv.put("ORDER_TOPIC_CONFIG", "T1", "broker-a:4")
            ask(server, register_command())
            self.assertEqual(loaded(route(server)).get("orderTopicConf"), wanted)

    def test_not_ready(self) -> None:
        """needWaitForService refuses routes for its 45 s and not a moment longer (regression D11)."""
        server = name_server(started_ms=1000, need_wait_for_service=True)
        ask(server, register_command())
        request = command(Code.GET_ROUTEINFO_BY_TOPIC, topic="T1")
        self.assertEqual(ask(server, request, now_ms=45_999), Answer(1, "name server not ready"))
        self.assertEqual(ask(server, request, now_ms=46_000).code, 0)
        self.assertEqual(ask(server, command(Code.GET_BROKER_CLUSTER_INFO), now_ms=1000).code, 0)

    def test_zone(self) -> None:
        """`__ZONE_MODE` keeps the zone's brokers, and those without a master."""
        server = name_server()
        for name, host, broker_id, zone in (("a", 1, 0, "Z1"), ("b", 2, 0, "z2"), ("c", 3, 1, "z2")):
            ask(server, register_command(name, f"10.0.0.{host}:1", broker_id, __ZONE_NAME=zone))
        for fields, wanted in (
            ({"__ZONE_MODE": "true", "__ZONE_NAME": "z1"}, ["a", "c"]),
            ({"__ZONE_MODE": "true", "__ZONE_NAME": "none"}, ["c"]),
            ({"__ZONE_MODE": "true", "__ZONE_NAME": " "}, ["a", "b", "c"]),
            ({"__ZONE_MODE": "true"}, ["a", "b", "c"]),
            ({"__ZONE_MODE": "false", "__ZONE_NAME": "z1"}, ["a", "b", "c"]),
        ):
            with self.subTest(fields=fields):
                found = loaded(route(server, **fields))
                self.assertEqual([row["brokerName"] for row in found["brokerDatas"]], wanted)
                self.assertEqual([row["brokerName"] for row in found["queueDatas"]], wanted)
        self.assertEqual(loaded(route(server))["brokerDatas"][0]["zoneName"], "Z1")

    def test_zone_counts_unowned_brokers_out(self) -> None:
        """A broker that named no zone is in none."""
        found = loaded(route(self.server, __ZONE_MODE="true", __ZONE_NAME="z1"))
        self.assertEqual(found["brokerDatas"], [])

    def test_acting_master(self) -> None:
        """The lowest id stands in as 0: only with supportActingMaster, enableActingMaster and a read-only topic."""
        for support, enable, perm, wanted in (
            (True, "true", 6, {"0": A, "3": B}),
            (False, "true", 6, {"2": A, "3": B}),
            (True, "false", 6, {"2": A, "3": B}),
        ):
            with self.subTest(support=support, enable=enable):
                server = name_server(support_acting_master=support)
                topics = {"T1": perm, "rmq_sys_SYNC_BROKER_MEMBER_broker-a": perm}
                for address, broker_id in ((A, 2), (B, 3)):
                    request = register_command(address=address, broker_id=broker_id, content=json_body(topics))
                    request.fields["enableActingMaster"] = enable
                    ask(server, request)
                self.assertEqual(loaded(route(server))["brokerDatas"][0]["brokerAddrs"], wanted)
                hidden = loaded(route(server, "rmq_sys_SYNC_BROKER_MEMBER_broker-a"))["brokerDatas"][0]
                self.assertEqual(hidden["brokerAddrs"], {"2": A, "3": B})

    def test_acting_master_with_a_master(self) -> None:
        """Nobody stands in for a master that is there."""
        server = name_server(support_acting_master=True)
        for address, broker_id in ((A, 0), (B, 3)):
            request = register_command(address=address, broker_id=broker_id, content=json_body({"T1": 4, "T2": 4}))
            request.fields["enableActingMaster"] = "true"
            ask(server, request)
        self.assertEqual(loaded(route(server))["brokerDatas"][0]["brokerAddrs"], {"0": A, "3": B})

    def test_filter_servers_and_mappings(self) -> None:
        """By broker address, and by broker name."""
        mapping = {"topic": "T1", "bname": "broker-a", "totalQueues": 2}
        whole = orjson.loads(json_body(counter=2))
        whole["filterServerList"] = ["f:1"]
        whole["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] = {"T1": mapping}
        ask(self.server, register_command(content=orjson.dumps(whole)))
        found = loaded(route(self.server))
        self.assertEqual(found["filterServerTable"], {A: ["f:1"]})
        self.assertEqual(found["topicQueueMappingByBroker"], {"broker-a": mapping})


class TopicRequestTests(unittest.TestCase):
    """206, 216, 217, 224, 304, 311-313."""

    def setUp(self) -> None:
        self.server = name_server()
        ask(self.server, register_command())

    def topics(self, code: int, **fields: str) -> Any:
        return loaded(ask(self.server, command(code, **fields)))

    def test_lists(self) -> None:
        """All, by cluster, of no cluster, of the system."""
        self.assertEqual(self.topics(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), {"topicList": ["T1", "T2"]})
        self.assertEqual(self.topics(Code.GET_TOPICS_BY_CLUSTER, cluster="C"), {"topicList": ["T1", "T2"]})
        self.assertEqual(self.topics(Code.GET_TOPICS_BY_CLUSTER, cluster="no"), {"topicList": []})
        self.assertEqual(self.topics(Code.GET_TOPICS_BY_CLUSTER), {"topicList": []})
        system = {"brokerAddr": A, "topicList": ["C", "broker-a"]}
        self.assertEqual(self.topics(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS), system)
        self.server = name_server()
        self.assertEqual(self.topics(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS), {"topicList": []})

    def test_disabled_lists(self) -> None:
        """Code 1, `disable`."""
        server = name_server(enable_all_topic_list=False, enable_topic_list=False)
        for code in (
            Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            Code.GET_TOPICS_BY_CLUSTER,
            Code.GET_UNIT_TOPIC_LIST,
            Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            Code.GET_TOPICS_BY_CLUSTER,
            Code.GET_UNIT_TOPIC_LIST,
            Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
            Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
            Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
            Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        ):
            self.assertEqual(ask(server, command(code)), Answer(1, "disable"))

    def test_unit_lists(self) -> None:
        """By the topic's flags: 1 unit, 2 subscribed by units."""
        rows = [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1, "topicSysFlag": 0}]
        for flag in (1, 2, 3):
            rows[0]["topicSysFlag"] = flag
            ask(
                self.server,
                command(Code.REGISTER_TOPIC_IN_NAMESRV, orjson.dumps({"queueDatas": rows}), topic=f"F{flag}"),
            )
        self.assertEqual(self.topics(Code.GET_UNIT_TOPIC_LIST), {"topicList": ["F1", "F3"]})
        self.assertEqual(self.topics(Code.GET_HAS_UNIT_SUB_TOPIC_LIST), {"topicList": ["F2", "F3"]})
        self.assertEqual(self.topics(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST), {"topicList": ["F2"]})

    def test_delete_topic(self) -> None:
        """Of another cluster: nothing; of this one, and of all: gone."""
        for cluster, left in (("D", ["T1", "T2"]), ("C", ["T2"])):
            ask(self.server, command(Code.DELETE_TOPIC_IN_NAMESRV, topic="T1", clusterName=cluster))
            self.assertEqual(sorted(self.server.table.topics), left)
        self.assertEqual(ask(self.server, command(Code.DELETE_TOPIC_IN_NAMESRV, topic="T2")), Answer())
        self.assertEqual(ask(self.server, command(Code.DELETE_TOPIC_IN_NAMESRV, topic="T2", clusterName="")), Answer())
        self.assertEqual(self.server.table.topics, {})
        self.assertEqual(ask(self.server, command(Code.DELETE_TOPIC_IN_NAMESRV)).remark, "the request has no topic")

    def test_register_topic(self) -> None:
        """Ignored when a broker name is unknown; refused when malformed."""
        good = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 3}
        for rows, known in (([good, {**good, "brokerName": "no"}], False), ([], False), ([good], True)):
            content = orjson.dumps({"queueDatas": rows})
            self.assertEqual(ask(self.server, command(Code.REGISTER_TOPIC_IN_NAMESRV, content, topic="N")).code, 0)
            self.assertEqual("N" in self.server.table.topics, known)
        queue = loaded(route(self.server, "N"))["queueDatas"][0]
        self.assertEqual((queue["readQueueNums"], queue["writeQueueNums"]), (2, 3))
        self.assertEqual(ask(self.server, command(Code.REGISTER_TOPIC_IN_NAMESRV, topic="M")), Answer())
        for rows in (
            [5],
            [{**good, "perm": 99}],
            [{**good, "readQueueNums": "x"}],
            [{"perm": 6}],
            [{**good, "perm": []}],
        ):
            content = orjson.dumps({"queueDatas": rows})
            self.assertEqual(ask(self.server, command(Code.REGISTER_TOPIC_IN_NAMESRV, content, topic="M")).code, 1)
        self.assertEqual(ask(self.server, command(Code.REGISTER_TOPIC_IN_NAMESRV, b"[1]", topic="M")).code, 1)


class ConfigurationRequestTests(unittest.TestCase):
    """100, 101, 102, 219, 318, 319."""

    def setUp(self) -> None:
        self.server = name_server()

    def test_kv(self) -> None:
        """Each change asks for the file to be saved, and is shown when it is; a deletion of nothing does not, but where
        what it finds is not there yet."""
        key = {"namespace": "NS", "key": "k"}
        self.assertEqual(ask(self.server, command(Code.PUT_KV_CONFIG, **key, value="v")), Answer())
        self.assertEqual(self.server.take_effects(), [SaveKvConfig(KvConfig({"NS": {"k": "v"}}))])
        self.assertEqual(ask(self.server, command(Code.GET_KV_CONFIG, **key)).code, 22)
        self.server.kv_saved(self.server.kv_wanted, 1)
        self.assertEqual(ask(self.server, command(Code.GET_KV_CONFIG, **key)), Answer(fields={"value": "v"}))
        answer = ask(self.server, command(Code.GET_KVLIST_BY_NAMESPACE, namespace="NS"))
        self.assertEqual(answer, Answer(body=b'{"table":{"k":"v"}}'))
        for _ in range(2):
            self.assertEqual(ask(self.server, command(Code.DELETE_KV_CONFIG, **key)), Answer())
            self.assertEqual(self.server.take_effects(), [SaveKvConfig(KvConfig({"NS": {}}))])
        self.server.kv_not_saved()
        self.assertEqual(ask(self.server, command(Code.GET_KV_CONFIG, **key)), Answer(fields={"value": "v"}))
        self.assertEqual(ask(self.server, command(Code.DELETE_KV_CONFIG, **key)), Answer())
        self.server.kv_saved(self.server.kv_wanted, 2)
        self.server.take_effects()
        self.assertEqual(ask(self.server, command(Code.DELETE_KV_CONFIG, **key)), Answer())
        self.assertEqual(self.server.take_effects(), [])

    def test_kv_missing(self) -> None:
        """22 with Java's remarks; 1 where a field is missing."""
        answer = ask(self.server, command(Code.GET_KV_CONFIG, namespace="NS", key="k"))
        self.assertEqual(answer, Answer(22, "No config item, Namespace: NS Key: k"))
        answer = ask(self.server, command(Code.GET_KVLIST_BY_NAMESPACE, namespace="NS"))
        self.assertEqual(answer, Answer(22, "No config item, Namespace: NS"))
        answer = ask(self.server, command(Code.PUT_KV_CONFIG, namespace="NS", value="v"))
        self.assertEqual(answer, Answer(1, "namespace or key is null"))
        self.assertEqual(ask(self.server, command(Code.PUT_KV_CONFIG, namespace="NS", key="k")).code, 1)
        self.assertEqual(ask(self.server, command(Code.GET_KV_CONFIG, namespace="NS")).code, 1)

    def test_get_config(self) -> None:
        """Sorted key=value lines."""
        lines = ask(self.server, command(Code.GET_NAMESRV_CONFIG)).body.decode().splitlines()
        self.assertEqual(lines, sorted(lines))
        self.assertIn("enableAllTopicList=true", lines)

    def test_update_is_off(self) -> None:
        """CVE-2023-37582: by default no request changes the configuration."""
        answer = ask(self.server, command(Code.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true"))
        self.assertEqual(answer.code, 16)
        self.assertIn("configUpdateEnable", answer.remark or "")

    def test_update(self) -> None:
        """Switched on: live keys change at once, are audited, and others are refused with the whole request."""
        self.server = name_server(config_update_enable=True)
        request = command(Code.UPDATE_NAMESRV_CONFIG, b"enableAllTopicList=false\nenableTopicList=true\n")
        self.assertEqual(ask(self.server, request, connection=7), Answer())
        self.assertEqual(self.server.take_effects(), [ConfigChanged(7, (("enableAllTopicList", "true", "false"),))])
        self.assertEqual(ask(self.server, command(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)), Answer(1, "disable"))
        ask(self.server, request)
        self.assertEqual(self.server.take_effects(), [])
        for content in (b"enableAllTopicList=true\nkvConfigPath=/x", b"enableAllTopicList=true\nlistenPort=1"):
            self.assertEqual(ask(self.server, command(Code.UPDATE_NAMESRV_CONFIG, content)).code, 16)
        self.assertEqual(ask(self.server, command(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)), Answer(1, "disable"))


class RegistrationThroughTableTests(unittest.TestCase):
    """What the table's own tests cannot see from outside."""

    def test_route_of_a_topic_whose_broker_is_gone(self) -> None:
        """Never an empty broker list: Java's address choice breaks on it."""
        server = name_server()
        server.table.register(registration(content=body(["T1", "T2"])), 0)
        server.table.unregister(Address("C", A), 1)
        self.assertEqual(route(server).code, 17)
