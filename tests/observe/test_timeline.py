"""Events are said everywhere alike, and what becomes of them on the status page."""

from __future__ import annotations

import json
from typing import Any

import attrs
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rocketha.observe import events, logging
from rocketha.observe.metrics import Registry
from rocketha.observe.overview import ROWS_MAX, Overview, Process, Rows, Topic, merged, together
from rocketha.observe.page import FRESH_S, SHARE, Feed
from rocketha.observe.timeline import MOMENTS_MAX, Moment, Timeline
from tests.observe.kinds import event_kinds

_SAMPLES: dict[str, Any] = {
    "str": "x",
    "int": 3,
    "float": 1.5,
    "int | None": None,
    "float | None": None,
    "list[int]": [1, 2],
    "list[str]": ["a"],
    "Mapping[str, str]": {"a": "b"},
}


def sample(kind: type[events.Event]) -> events.Event:
    """One of a kind; its fields have the types that they are declared with."""
    return kind(*(_SAMPLES[str(field.type)] for field in attrs.fields(kind)))


class EventTests(SynchronousTestCase):
    """Of each kind."""

    def test_said_alike(self) -> None:
        """In the log with its name and fields, counted, and on the timeline in the log's own words."""
        timeline, logged = Timeline(lambda: 12.345), []
        logging.watch(timeline.happened)
        self.addCleanup(logging.unwatch, timeline.happened)
        globalLogPublisher.addObserver(logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, logged.append)
        for kind in event_kinds():
            with self.subTest(kind.name):
                event = sample(kind)
                logged.clear()
                logging.emit(logging.make_logger(), event)
                (line,) = [each for each in logged if each.get("event") == kind.name]
                fields = logging.fields_of(line)
                self.assertEqual(set(fields), {"event", *(field.name for field in attrs.fields(kind))})
                said = logging.LineObserver._message(line, fields)
                self.assertNotIn("{", said.replace("{'a': 'b'}", ""))
                self.assertEqual(timeline.counts[kind.name], 1)
                if kind.shown:
                    moment = timeline.newest_first()[0]
                    self.assertEqual((moment.at_ms, moment.event, moment.level), (12345, kind.name, kind.level))
                    if not kind.public:
                        self.assertEqual(moment.text, said)
        self.flushLoggedErrors()

    def test_nobody_is_named(self) -> None:
        """Clients, users and operators are in the log alone."""
        hidden = {kind.name for kind in event_kinds() if not kind.shown}
        self.assertEqual(hidden, {"request.refused", "connection.ended", "row.ignored", "operator.asked"})
        asked = events.ConfigChanged("10.1.2.3:4", "key", "1", "2")
        self.assertEqual(asked.words(), "key was changed from 1 to 2")
        for kind in event_kinds():
            if kind.shown:
                of_peers = {field.name for field in attrs.fields(kind)} & {"peer", "who", "client_id"}
                self.assertFalse([each for each in of_peers if f"{{{each}}}" in (kind.public or kind.message)], kind)

    def test_the_level_of_the_log_hides_nothing(self) -> None:
        """With --log-level error the timeline and the counts are whole."""
        timeline = Timeline(lambda: 1.0)
        logging.watch(timeline.happened)
        self.addCleanup(logging.unwatch, timeline.happened)
        logging.set_level("error")
        self.addCleanup(logging.set_level, "info")
        logging.emit(logging.make_logger(), events.NameserverStopped())
        self.assertEqual(timeline.counts, {"namesrv.stopped": 1})


class TimelineTests(SynchronousTestCase):
    """What is kept."""

    def test_bounded_and_newest_first(self) -> None:
        wall = [0.0]
        timeline = Timeline(lambda: wall[0])
        for number in range(MOMENTS_MAX + 5):
            wall[0] = float(number)
            timeline.happened(events.ControllerLeads(f"n{number}", 1))
        found = timeline.newest_first()
        self.assertEqual(len(found), MOMENTS_MAX)
        self.assertEqual((found[0].at_ms, found[-1].at_ms), ((MOMENTS_MAX + 4) * 1000, 5000))
        self.assertEqual(timeline.counts["controller.leads"], MOMENTS_MAX + 5)

    def test_many_of_one_subject_push_out_no_other(self) -> None:
        """A thousand brokers register: who became master before that is still there, seen or from the trail."""
        wall = [1.0]
        timeline = Timeline(lambda: wall[0])
        timeline.happened(events.ControllerLeads("n1", 1))
        for number in range(5 * MOMENTS_MAX):
            wall[0] += 1
            timeline.happened(events.RouteRegistered("C/b", number, "h:1"))
        found = timeline.newest_first([Moment(500, "group.elected", "info", "broker 2")])
        self.assertEqual([each.event for each in found[-2:]], ["controller.leads", "group.elected"])
        self.assertEqual((len(found), found[0].at_ms), (MOMENTS_MAX, int(wall[0] * 1000)))
        self.assertEqual(timeline.counts["route.registered"], 5 * MOMENTS_MAX)

    def test_the_trail_replaces_what_was_seen(self) -> None:
        """The controllers' trail has each decision with its reason, also those from before this process began."""
        timeline = Timeline(lambda: 5.0)
        timeline.happened(events.GroupElected(7, "C/b", "elected", 2, 2, [2], "PORT_REFUSED", "gone", 0))
        timeline.happened(events.ControllerLeads("n1", 1))
        trail = [Moment(1000, "group.elected", "info", "before"), Moment(9000, "group.elected", "info", "after")]
        found = timeline.newest_first(trail)
        self.assertEqual([each.text for each in found], ["after", "controller n1 leads in term 1", "before"])

    def test_counted_in_metrics(self) -> None:
        metrics, timeline = Registry(), Timeline(lambda: 5.0)
        timeline.install(metrics)
        timeline.happened(events.DiskRestored())
        self.assertIn('rocketha_events_total{event="disk.restored"} 1.0\n', metrics.exposition())


class FeedTests(SynchronousTestCase):
    """The JSON of the page."""

    def setUp(self) -> None:
        self.now_s, self.asked = 100.0, 0
        self.overview = Overview("broker C/b", [Process("C/b:1", "broker", "h:1", "master", True)])
        self.feed = Feed(
            self.shows,
            (lambda: None, lambda: "no master"),
            Timeline(lambda: 3.0),
            lambda: 3.0,
            lambda: self.now_s,
        )

    def shows(self) -> Overview:
        self.asked += 1
        return self.overview

    def test_document(self) -> None:
        """Its fields are what other programs may rely on."""
        found = json.loads(self.feed.document())
        tables = {"processes", "groups", "topics", "consumers", "refused"}
        self.assertEqual(set(found), {"version", "nowMs", "process", "timeline", "events", "notes", *tables})
        self.assertEqual(found["process"]["unready"], "no master")
        self.assertEqual((found["process"]["unhealthy"], found["nowMs"], found["version"]), (None, 3000, 1))
        row = {"name": "C/b:1", "kind": "broker", "address": "h:1", "state": "master", "well": True, "detail": ""}
        self.assertEqual(found["processes"], {"rows": [row], "more": 0})

    def test_made_now_and_then(self) -> None:
        """However many look."""
        for _ in range(100):
            self.feed.document()
        self.assertEqual(self.asked, 1)
        self.now_s += FRESH_S
        self.feed.document()
        self.assertEqual(self.asked, 2)

    def test_a_document_that_takes_long(self) -> None:
        """It is made less often: whoever looks at the page takes a twentieth of the process's time."""
        took_s = 0.1

        def shows() -> Overview:
            self.now_s += took_s
            return self.shows()

        feed = Feed(shows, (lambda: None, lambda: None), Timeline(lambda: 3.0), lambda: 3.0, lambda: self.now_s)
        feed.document()
        self.now_s += took_s / SHARE - 2 * took_s
        feed.document()
        self.assertEqual(self.asked, 1)
        self.now_s += 1.001 * took_s
        feed.document()
        self.assertEqual(self.asked, 2)

    def test_rows_are_made_when_shown(self) -> None:
        """Of a great many topics those that are shown; also where two services know of them, and not quite the same."""
        made = []

        def topic(name: str) -> Topic:
            made.append(name)
            return Topic(name, 1, ["b"])

        many = [f"t{number:05}" for number in range(20_000)]
        first, second = Rows.of(many, topic), Rows.of(["a", *many], topic)
        self.overview = merged("x", Overview(topics=first), Overview(topics=[Topic("t00001", 9, [])]))
        self.assertEqual(json.loads(self.feed.document())["topics"]["more"], 20_000 - ROWS_MAX)
        self.assertEqual(made, many[:ROWS_MAX])
        both = merged("x", Overview(topics=first), Overview(topics=second)).topics
        self.assertEqual((len(both), both[0].name, both[20_000].name), (20_001, "t00000", "a"))

    def test_bounded(self) -> None:
        """A table has so many rows, and says how many more there are."""
        self.overview = Overview("x", topics=[Topic(f"t{number}", 4, ["b"]) for number in range(ROWS_MAX + 3)])
        found = json.loads(self.feed.document())
        self.assertEqual((len(found["topics"]["rows"]), found["topics"]["more"]), (ROWS_MAX, 3))

    def test_any_name(self) -> None:
        """What is no text, or would be markup, is a string of JSON all the same."""
        self.overview = Overview("x", topics=[Topic("\udc80</script>\x00", 1, ["<b>"])])
        text = self.feed.document()
        self.assertTrue(text.isascii())
        self.assertEqual(json.loads(text)["topics"]["rows"][0]["name"], "\udc80</script>\x00")

    def test_several_services(self) -> None:
        """One process, one document."""
        known = [
            Process("C/b:0", "broker", "h:1", "registered", True),
            Process("C/b:1", "broker", "h:2", "slave", True),
        ]
        other = Overview("nameserver", known, topics=[Topic("t", 1, ["b"])], notes=["look there"])
        found = together(lambda: self.overview, lambda: other)()
        self.assertEqual(found, merged("broker C/b and nameserver", self.overview, other))
        self.assertEqual(found.title, "broker C/b and nameserver")
        states = [(each.address, each.state) for each in found.processes]
        self.assertEqual(states, [("h:1", "master"), ("h:2", "slave")], "of what both know, the first one's word")
        self.assertEqual((len(found.topics), found.notes), (1, ["look there"]))
