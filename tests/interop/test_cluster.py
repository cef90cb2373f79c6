"""``twistd rocketha-cluster``, which ``make run`` starts: one process, and a Java client, mqadmin and a restart find
a whole RocketMQ.

Source: issue 3 "Build" 5 and the first of its "Shows".
"""

from __future__ import annotations

from collections import Counter

from .harness import InteropCase, JavaClient, OurCluster, mqadmin


class Cluster(InteropCase):
    """Our nameserver and broker in one process."""

    def test_serves_and_keeps(self) -> None:
        """A Java producer and consumer work through it, mqadmin sees one broker, and a restart serves the same data."""
        cluster = self.use(OurCluster(self.subfolder("cluster")))
        client = self.use(JavaClient(cluster.namesrv_address))
        client.producer()
        sent = client.send("Whole", "async", 1000, prefix="whole", tags=["A", "B"])
        client.consume("reader", {"Whole": "A"})
        got = client.await_received("reader", 500)
        client.stop_consumer("reader")
        wanted = Counter((m["key"], m["sha"]) for m in sent if m["tags"] == "A")
        self.assertEqual(Counter((m["key"], m["sha"]) for m in got), wanted)
        self.assertIn(cluster.address, mqadmin(cluster.namesrv_address, "clusterList"))
        cluster.stop()
        cluster.restart()
        client.consume("again", "Whole")
        client.await_received("again", 1000)
        client.stop_consumer("again")
        self.assertEqual(
            Counter((m["key"], m["sha"]) for m in client.received("again")), Counter((m["key"], m["sha"]) for m in sent)
        )
