"""Refusals are counted by fixed names, and logged so that a flood fills neither the log nor the memory."""

from __future__ import annotations

import re
import unittest
from typing import Any

import attrs

from rocketha.errors import Ignored
from rocketha.observe import refusals
from rocketha.observe.metrics import Registry
from rocketha.observe.refusals import KINDS_MAX, LINES_MAX, QUIET_S, Ended, Refusals, Refused, is_refusal, named_client
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command


@attrs.define
class Peer:
    """A connection."""

    peer_host: str = "10.0.0.7"
    id: int = 1
    language: str | None = "GO"
    version: int | None = 317
    refused: Refused | None = None

    @property
    def peer(self) -> str:
        return f"{self.peer_host}:{50_000 + self.id}"


class RefusalsCase(unittest.TestCase):
    """One server's, with a clock and a log of the test's."""

    def setUp(self) -> None:
        self.now_s = 100.0
        self.said: list[dict[str, Any]] = []
        self.clients: dict[int, str] = {}
        self.refusals = Refusals("broker", lambda: self.now_s, self.clients.get)
        self.refusals.log = type("Log", (), {"warn": lambda _, text, **values: self.log(text, values)})()

    def log(self, text: str, values: dict[str, Any]) -> None:
        self.said.append({**values, "text": text.format(**values)})

    def refuse(
        self,
        peer: Peer | None = None,
        code: int = 34,
        answer: int = 1,
        remark: str = "no",
        body: bytes = b"",
        **fields: str,
    ) -> Peer:
        peer = peer or Peer()
        command = Command(code, "GO", 317, fields=fields, body=body)
        self.refusals.answered(peer, command, Answer(answer, remark))
        return peer

    def metrics(self) -> dict[str, int]:
        registry = Registry()
        refusals.install(registry, self.refusals)
        lines = registry.exposition().splitlines()
        return {
            name: int(float(value)) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
        }

    def told(self) -> int:
        """How many refusals the lines so far stand for."""
        return sum(1 + each["more"] for each in self.said)


class LogTests(RefusalsCase):
    """What a line says, and how many there are."""

    def test_a_line_says_who_what_and_why(self) -> None:
        """The words an operator looks for: client, address, language, version, code's name, remark."""
        self.refuse(body=b'{"clientID":"10.0.0.7@88","consumerDataSet":3}', remark="it is no list", bname="broker-a")
        (line,) = self.said
        for part in ("HEART_BEAT", "10.0.0.7:50001", "10.0.0.7@88", "GO", "317", "SYSTEM_ERROR", "it is no list"):
            self.assertIn(part, line["text"])
        self.assertEqual((line["event"], line["asked"]), ("request.refused", {"bname": "broker-a"}))

    def test_one_line_of_a_kind_then_how_many_more(self) -> None:
        """At once, and when the quiet time is over; every refusal is in one of the lines."""
        for _ in range(1000):
            self.refuse(Peer(id=len(self.said) + 1))
        self.assertEqual([each["more"] for each in self.said], [0])
        self.now_s += QUIET_S - 1
        self.refusals.settle()
        self.assertEqual(len(self.said), 1)
        self.now_s += 1
        self.refusals.settle()
        self.assertEqual([each["more"] for each in self.said], [0, 998])
        self.assertIn(", and 998 more like it", self.said[1]["text"])
        self.now_s += 10 * QUIET_S
        self.refusals.settle()
        self.assertEqual(len(self.said), 2)
        self.refuse()
        self.assertEqual((len(self.said), self.told()), (3, 1001))

    def test_what_makes_a_kind(self) -> None:
        """The request, the reason and the host; not the port, nor the words."""
        self.refuse()
        self.refuse(Peer(id=2), remark="other words")
        self.assertEqual(len(self.said), 1)
        self.refuse(code=41)
        self.refuse(answer=29)
        self.refuse(Peer("10.0.0.8"))
        self.assertEqual(len(self.said), 4)

    def test_lines_of_a_second_are_bounded(self) -> None:
        """Many hosts at once: what had to wait is told in the next seconds."""
        hosts = 5 * LINES_MAX
        for number in range(hosts):
            self.refuse(Peer(f"10.0.1.{number}"))
        self.assertEqual(len(self.said), LINES_MAX)
        for second in range(2, 6):
            self.now_s += 1
            self.refusals.settle()
            self.assertEqual(len(self.said), second * LINES_MAX)
        self.assertEqual(self.told(), hosts)

    def test_kinds_are_bounded_and_none_is_lost_silently(self) -> None:
        """More hosts than are kept apart: the count is right, and what is told of adds up to it."""
        hosts = KINDS_MAX + 500
        for number in range(hosts):
            self.refuse(Peer(f"10.{number >> 8}.{number & 255}.1"))
        self.assertEqual(len(self.refusals.kinds()), KINDS_MAX)
        for _ in range(hosts // LINES_MAX + 1):
            self.now_s += 1
            self.refusals.settle()
        forgotten = sum(each["count"] for each in self.said if each["event"] == "refusals.forgotten")
        lines = sum(1 + each["more"] for each in self.said if each["event"] == "request.refused")
        self.assertEqual(forgotten + lines, hosts)
        self.assertEqual(sum(self.refusals.requests.values()), hosts)

    def test_the_end_tells_what_waited(self) -> None:
        """A server that stops does not take its counts with it."""
        for _ in range(3):
            self.refuse()
        self.refusals.close()
        self.assertEqual([each["more"] for each in self.said], [0, 1])

    def test_what_a_line_does_not_show(self) -> None:
        """Properties are the application's; what is long is cut."""
        self.refuse(code=310, i="KEYS\x01secret\x02", b="T" * 500, **{f"f{number}": "v" for number in range(20)})
        (line,) = self.said
        self.assertNotIn("i", line["asked"])
        self.assertLessEqual(len(line["asked"]), 8)
        self.assertEqual(len(line["asked"]["b"]), 80)
        self.refuse(code=17, remark="r" * 5000)
        self.assertLess(len(self.said[1]["remark"]), 310)


class CountTests(RefusalsCase):
    """What counts, under which names."""

    def test_names(self) -> None:
        """One series for each request and reason; codes that we do not know share one."""
        for code in (34, 34, 99_999, 88_888):
            self.refuse(code=code)
        self.refuse(code=17, answer=7777)
        self.refusals.ended_by_us(Peer(), Ended.BAD_FRAME, "a frame of 2 GB")
        self.refusals.ignored(Peer(), Command(34), Ignored.BAD_VALUE, "row 3")
        self.assertEqual(
            self.metrics(),
            {
                'rocketha_requests_refused_total{reason="SYSTEM_ERROR",request="HEART_BEAT",role="broker"}': 2,
                'rocketha_requests_refused_total{reason="SYSTEM_ERROR",request="unknown",role="broker"}': 2,
                'rocketha_requests_refused_total{reason="unknown",request="UPDATE_AND_CREATE_TOPIC",role="broker"}': 1,
                'rocketha_connections_ended_total{reason="bad_frame",role="broker"}': 1,
                'rocketha_rows_ignored_total{reason="bad_value",request="HEART_BEAT",role="broker"}': 1,
            },
        )
        self.assertEqual({each["event"] for each in self.said}, {"request.refused", "connection.ended", "row.ignored"})

    def test_ordinary_business_is_no_refusal(self) -> None:
        """A pull that found nothing, a route before the first message: neither counted nor logged."""
        for code, answer in ((11, 19), (11, 20), (11, 21), (14, 22), (105, 17), (1001, 2007), (1001, 2001), (34, 0)):
            self.refuse(code=code, answer=answer)
        self.assertEqual((self.metrics(), self.said), ({}, []))
        for code, answer in ((310, 17), (11, 24), (11, 26), (34, 1), (310, 14), (17, 16), (310, 13), (999, 3)):
            self.assertTrue(is_refusal(code, answer), (code, answer))

    def test_every_ordinary_code_exists_and_has_a_reason(self) -> None:
        """The table is of codes that there are."""
        for code, reason in refusals.ORDINARY.items():
            self.assertTrue(ResponseCode(code) and reason)
        for (request, code), reason in refusals.ORDINARY_OF.items():
            self.assertNotEqual(refusals.request_name(request), refusals.UNKNOWN)
            self.assertTrue(ResponseCode(code) and reason)
            self.assertNotIn(code, refusals.ORDINARY)

    def test_names_are_fit_for_labels(self) -> None:
        """Whatever a peer sends, the label is one of ours."""
        for code in (*range(-2, 400), 1 << 31, 11_007):
            self.assertRegex(refusals.request_name(code), r"^([A-Z0-9_]+|unknown)$")
            self.assertRegex(refusals.answer_name(code), r"^([A-Z0-9_]+|unknown)$")
        self.assertTrue(all(re.fullmatch("[a-z_]+", each.value) for each in (*Ended, *Ignored)))


class ClientTests(RefusalsCase):
    """Who it was."""

    def test_of_the_heartbeats_before(self) -> None:
        """A connection whose heartbeats were good is known by them."""
        self.clients[1] = "good@1"
        self.refuse(code=310, answer=17)
        self.assertEqual(self.said[0]["client_id"], "good@1")

    def test_of_the_refused_body_also_later(self) -> None:
        """Its heartbeat is refused, and so its pulls are: both lines name it."""
        peer = self.refuse(body=b'{"clientID":"go@1"')
        self.refuse(peer, code=11, answer=26)
        self.assertEqual([each["client_id"] for each in self.said], ["go@1", "go@1"])
        assert peer.refused is not None and peer.refused.last is not None
        self.assertEqual((peer.refused.count, peer.refused.last.what), (2, "PULL_MESSAGE"))

    def test_where_a_request_names_its_client(self) -> None:
        """Bodies of heartbeats and locks, headers of others; control characters and long ones are no names."""
        for code, body, fields, client_id in (
            (34, b'{"clientID" : "c1","x":[', {}, "c1"),
            (41, b'{"clientId":"c2"}', {}, "c2"),
            (35, b"", {"clientID": "c3"}, "c3"),
            (103, b"", {"brokerAddr": "10.0.0.1:10911"}, "10.0.0.1:10911"),
            (310, b'{"clientID":"somebody"}', {}, None),
            (34, b'{"clientID":"a\nb"}', {}, None),
            (34, b'{"clientID":"' + b"x" * 256 + b'"}', {}, None),
            (34, b" " * 70_000 + b'{"clientID":"c4"}', {}, None),
            (34, b'{"clientID":"\xff"}', {}, "\\xff"),
        ):
            self.assertEqual(named_client(Command(code, fields=dict(fields), body=body)), client_id, body[:40])


class ShownTests(RefusalsCase):
    """What ``rocketha clients`` gets."""

    def test_newest_first(self) -> None:
        """Kinds with their count, last remark and age."""
        self.refuse(remark="first")
        self.now_s += 5
        self.refuse(code=17, answer=16)
        self.refuse(remark="second")
        kinds = [(each["what"], each["count"], each["remark"], each["secondsAgo"]) for each in self.refusals.kinds()]
        self.assertEqual(kinds, [("HEART_BEAT", 2, "second", 0.0), ("UPDATE_AND_CREATE_TOPIC", 1, "no", 0.0)])
