"""``python -m tests.services.cluster.page_server``: the status page of a process that knows a great deal.

Prints its port. Names are as hostile as a peer may choose them.
"""

from __future__ import annotations

import sys
import time

from twisted.internet import reactor

from rocketha.observe import events
from rocketha.observe.http import StatusFactory
from rocketha.observe.metrics import Registry
from rocketha.observe.overview import Consumption, Group, Overview, Process, Refused, Replica, Topic
from rocketha.observe.page import Feed
from rocketha.observe.timeline import Timeline

MARKUP = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
LONG = "a-topic-whose-name-is-as-long-as-names-may-be-" + "x" * 80


def overview() -> Overview:
    """Every table has rows of every kind."""
    processes = [
        Process("n1", "controller", "10.0.0.1:9878", "leads", True, "this one: term 7, entry 42 committed"),
        Process("n2", "controller", "10.0.0.2:9878", "follows", True, "has the log up to entry 42 of 42"),
        Process("n3", "controller", "10.0.0.3:9878", "follows", False, "has the log up to entry 12 of 42"),
        Process("C/broker-a:1", "broker", "10.0.0.1:10911", "alive", True, "master, heard 0.4 s ago"),
        Process("C/broker-a:2", "broker", "10.0.0.2:10911", "suspected", False, "heard 2.4 s ago"),
        Process(f"C/{MARKUP}:3", "broker", "10.0.0.3:10911", "not heard", None),
    ]
    replicas = [
        Replica(1, "10.0.0.1:10911", "master", True, 3, 123_456_789, 0, 412),
        Replica(2, "10.0.0.2:10911", "slave", False, 3, 103_456_789, 20_000_000, 2412),
        Replica(3, "10.0.0.3:10911", "", False),
    ]
    others = [Replica(0, "10.0.1.1:10911", "master"), Replica(1, "10.0.1.2:10911", "slave")]
    return Overview(
        "controller n1",
        processes,
        [
            Group("C", "broker-a", "the controllers, by heartbeats", replicas, 3, 12),
            Group("C", MARKUP, "registrations", others),
        ],
        [Topic(f"orders-{number}", 8, ["broker-a", "broker-b"], number * 1234) for number in range(18)]
        + [Topic(LONG, 4, ["broker-a"], 1), Topic(MARKUP, 4, ["broker-a"], 1)],
        [Consumption(f"workers-{number}", f"orders-{number}", number * number, 3) for number in range(20)],
        [Refused("broker", "PULL_MESSAGE", "NO_PERMISSION", 312), Refused("broker", "connection", "idle", 4)],
        notes=["Topics are on the nameserver's page."],
    )


def main() -> None:
    """Until its standard input ends, with something that happens every second."""
    timeline = Timeline(time.time)
    for event in (
        events.ControllerStarted("n1", "group1", "tcp:9878", "10.0.0.1:9878"),
        events.BrokerSuspected("C/broker-a:2", "its connection closed"),
        events.DiskFailed("/srv/store/commitlog/0", "write", "no space left"),
        events.GroupElected(7, f"C/{MARKUP}", "elected", 1, 3, [1], "HANDED_OVER", "broker 2 was stopping", 0),
    ):
        timeline.happened(event)

    def later() -> None:
        timeline.happened(events.BrokerCleared("C/broker-a:2", "its port answers"))

    feed = Feed(overview, (lambda: None, lambda: "no controller leads"), timeline, time.time, time.monotonic)
    factory = StatusFactory(Registry(), lambda: None, lambda: None, document=feed.document)
    port = reactor.listenTCP(0, factory, interface="127.0.0.1")
    reactor.callLater(1, later)
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()
    reactor.callInThread(lambda: (sys.stdin.read(), reactor.callFromThread(reactor.stop)))
    reactor.run()


if __name__ == "__main__":
    main()
