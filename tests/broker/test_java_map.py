"""Java's HashMap order, and properties blocks laid out in it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from rocketha.broker.stored_properties import TEMPLATES_BYTES_MAX, StoredProperties, in_java_order, iteration_order
from rocketha.wire.properties import parse_text

# Printed by Java 17, a line each: names put into new HashMap<>(128) in this order | the map's keySet().
FROM_JAVA = Path(__file__).parent / "data" / "hashmap_order.txt"


class IterationOrderTests(SynchronousTestCase):
    """The order of a HashMap, as Java printed it."""

    def test_as_java(self) -> None:
        """Usual names, names that collide in hash and bucket, names beyond ASCII, and maps that grew."""
        lines = FROM_JAVA.read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(lines), 5)
        for line in lines:
            put, got = (side.split(",") for side in line.split("|"))
            self.assertEqual(iteration_order(put), got)

    def test_a_repeated_name_keeps_its_place(self) -> None:
        """Putting a key again changes its value, not its place."""
        self.assertEqual(iteration_order(["BB", "Aa", "BB"]), iteration_order(["BB", "Aa"]))


class StoredPropertiesTests(SynchronousTestCase):
    """The broker's own properties win; templates do not leak values."""

    def setUp(self) -> None:
        self.layout = StoredProperties({"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "C"})

    def test_template_equals_plain_layout(self) -> None:
        """A block from a template is what the plain way writes, the second time too, and with percent signs."""
        for values in (
            {"UNIQ_KEY": "AB", "WAIT": "true"},
            {"UNIQ_KEY": "CD", "WAIT": "false"},
            {"a%s": "b%s%d", "%": "%%", "UNIQ_KEY": "x"},
            {"only": "one"},
            {},
        ):
            own = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "C"}
            self.assertEqual(self.layout.text(dict(values)), in_java_order({**values, **own}))

    def test_a_client_cannot_forge_the_brokers_properties(self) -> None:
        """MSG_REGION, TRACE_ON and CLUSTER of the client are overwritten, as in Java."""
        block = self.layout.text({"CLUSTER": "forged", "MSG_REGION": "x", "k": "v"})
        own = {"CLUSTER": "C", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        self.assertEqual(parse_text(block), {**own, "k": "v"})

    def test_hostile_name_sets_do_not_grow_the_cache(self) -> None:
        """Every message with names of its own, short or long, few or many: the memory of templates stays bounded."""
        for length, count, messages in ((1000, 1, 4_000), (5, 40, 600)):
            with self.subTest(length=length, count=count):
                layout = StoredProperties({"CLUSTER": "C"})
                tracemalloc.start()
                try:
                    for index in range(messages):
                        layout.text({f"{index:06}-{number:02}{'x' * length}": "v" for number in range(count)})
                    used = tracemalloc.get_traced_memory()[0]
                finally:
                    tracemalloc.stop()
                self.assertLess(used, TEMPLATES_BYTES_MAX * 3 // 2)
