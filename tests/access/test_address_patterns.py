"""White addresses of ACL 1: Java"s own answers, and where ours are others."""

from __future__ import annotations

import unittest

from rocketha.access.address_patterns import PATTERNS_MAX, Addresses
from rocketha.errors import ConfigError
from tests.seeds import SeededCase

HOSTS = (
    "10.1.2.3",
    "10.1.2.5",
    "10.1.2.9",
    "10.1.2.10",
    "10.1.3.3",
    "10.1.9.3",
    "10.2.2.3",
    "10.9.200.7",
    "11.1.2.3",
    "127.0.0.1",
    "::1",
    "::2",
    "1050:0:0:0:5:600:300c:326b",
    "1050::5:600:300c:1",
    "1050::5:600:300c:2",
    "1050::5:600:300c:200",
    "1050::5:600:300c:201",
    "1050::5:600:10:1",
    "1050::5:600:21:1",
    "1050:5:600:300c:3261:1:2:3",
    "1050:5:600:1::",
    "1:2:3:4:5:6:7:8",
    "1:2:3:4:5:6:7:f",
    "1:2:3:4:5:6:7:10",
    "1:2:3:4:5:6:9:1",
)

EVERY = tuple(range(len(HOSTS)))
JAVA: dict[str, tuple[int, ...]] = {
    "*": EVERY,
    "*.*.*.*": EVERY,
    "*:*:*:*:*:*:*:*": EVERY,
    "": (),
    " ": (),
    "10.1.2.3": (0,),
    "10.1.2.*": (0, 1, 2, 3),
    "10.1.*.*": (0, 1, 2, 3, 4, 5),
    "10.*.*.*": (0, 1, 2, 3, 4, 5, 6, 7),
    "10.1.2.1-9": (0, 1, 2),
    "10.1.1-9.*": (0, 1, 2, 3, 4, 5),
    "10.1-9.*.*": (0, 1, 2, 3, 4, 5, 6, 7),
    "10.1.2.{3,5}": (0, 1),
    "10.1.2.3,10.1.2.5": (0, 1),
    "10.1.2.3,": (0,),
    "::1": (10,),
    "::2": (11,),
    "0:0:0:0:0:0:0:1": (10,),
    "1050::5:600:300c:326b": (12,),
    "1050::5:600:300C:1-200": (13, 14, 15),
    "1050::5:600:300c:*": (12, 13, 14, 15, 16),
    "1050::5:600:1-20:*": (17,),
    "1050:0:0:0:5:600:300c:1-9": (13, 14),
    "1050:5:600:300c:3261:*": (19,),
    "1050:5:600:*": (19, 20),
    "1050::5:600:300c:{1,2}": (13, 14),
    "1050::5:600:300c:1,1050::5:600:300c:2": (13, 14),
    "1050:*": (12, 13, 14, 15, 16, 17, 18, 19, 20),
    "1:2:3:4:5:6:7:*": (21, 22, 23),
    "1:2:3:4:5:6:7:8-f": (21, 22),
    "1:2:3:4:5:6:7-9:*": (21, 22, 23, 24),
}
"""What RocketMQ 5.1.4"s ``RemoteAddressStrategyFactory`` says: pattern to those of the addresses above that match."""

REFUSED = (
    "10.1.2.{3",
    "10.1.2",
    "10.1.*",
    "10.*",
    "10.1.2.9-1",
    "10.1.2.-9",
    "10.1.2.1-",
    "10.1.2.1-256",
    "256.1.2.3",
    "256.1.2.*",
    "10.1.2.3/24",
    "10.1.{2,3}.4",
    "010.1.2.3",
    "10.1.2.03",
    "localhost",
    "10.1.2.a-b",
    "1.2.3.4.5",
    "1050::5:{1,2}:1",
    "1050::5:600:300c:200-1",
    "::1ggg",
    "1050::5:600:300c:g-h",
    "1050::5:600:300c:-9",
)
"""By Java and by us."""


def matched(pattern: str) -> tuple[int, ...]:
    found = Addresses.of(pattern)
    return tuple(number for number, host in enumerate(HOSTS) if found.has(host))


class AsInJavaTests(unittest.TestCase):
    """The same addresses match the same patterns."""

    def test_matches(self) -> None:
        for pattern, hosts in JAVA.items():
            self.assertEqual(matched(pattern), hosts, pattern)

    def test_refused(self) -> None:
        for pattern in REFUSED:
            with self.assertRaises(ConfigError, msg=pattern):
                Addresses.of(pattern)


class OursTests(SeededCase):
    """Where Java answers something else, or crashes when a request comes."""

    def test_every_part_counts(self) -> None:
        """In Java what stands behind the first range does not, so these let in more than they say."""
        for pattern, hosts in (("10.1-9.2.3", [0, 6]), ("10.1.*.3", [0, 4, 5]), ("*.1.2.3", [0, 8])):
            self.assertEqual(list(matched(pattern)), hosts)

    def test_forgiving(self) -> None:
        """Blanks, patterns in lists, and what Java crashes at."""
        for pattern, hosts in (
            ("10.1.2.{3, 5}", (0, 1)),
            (" 10.1.2.3 , 10.1.2.5 ", (0, 1)),
            ("10.1.2.*,10.1.3.*", (0, 1, 2, 3, 4)),
            ("10.1.2.{3,5},10.1.3.3", (0, 1, 4)),
            ("10.1.2.0-0", ()),
            ("::*", (10, 11)),
            ("::ffff:10.1.2.3", (0,)),
        ):
            self.assertEqual(matched(pattern), hosts, pattern)

    def test_what_is_none(self) -> None:
        for pattern in (
            "10.1.2.{}", "10.1.2.{3,}", "10.1.2.3}{", "10.1.2.}3{", "{10.1.2.3}", "10.1.2{3}", "10.1.2.{3}.4",
            "10.1.2.1-9-20", "10.1.2.3.*", "::ffff:10.1.2.*", "1:2:3:4:5:6:7:8:*", "1:2:3:4:5:6:7:8:9", "::1::",
            ":::", "1::2:3:4:5:6:7:8:9",
            "10.1.2.٣", "10.1.2.1_0", "10.1.2.+1", "**", "*.*", "1.2.3.4\n5.6.7.8",
            ",".join(["10.1.2.3"] * (PATTERNS_MAX + 1)),
        ):  # fmt: skip
            with self.assertRaises(ConfigError, msg=pattern):
                Addresses.of(pattern)

    def test_who_asks(self) -> None:
        """A host that is no address is nowhere; one of IPv4 in IPv6's clothes is itself."""
        everywhere = Addresses.of("*")
        self.assertTrue(everywhere.all)
        for host in ("", "localhost", "10.1.2", "*", "10.1.2.3:80"):
            self.assertFalse(everywhere.has(host), host)
        self.assertTrue(Addresses.of("10.1.2.*").has("::ffff:10.1.2.3"))
        self.assertTrue(Addresses.of("fe80::1").has("fe80::1%eth0"))
        self.assertFalse(Addresses.of("").has("10.1.2.3"))
        self.assertFalse(Addresses.of("10.*.*.*").all)
        self.assertTrue(Addresses.of("10.1.2.3,*.*.*.*").all)

    def test_any_text(self) -> None:
        """A pattern or a ConfigError, never something else; and each address that is written whole is itself alone."""
        for _ in range(3000):
            text = "".join(self.chance.choices("0123456789af.:*-{}, \n", k=self.chance.randint(0, 24)))
            try:
                Addresses.of(text)
            except ConfigError as problem:
                self.assertLess(len(str(problem)), 300)
        for _ in range(300):
            numbers = [self.chance.randint(0, 255) for _ in range(4)]
            own = ".".join(map(str, numbers))
            other = ".".join(map(str, [*numbers[:3], numbers[3] ^ 1]))
            self.assertTrue(Addresses.of(own).has(own))
            self.assertFalse(Addresses.of(own).has(other))
            self.assertTrue(Addresses.of(f"{own.rpartition('.')[0]}.*").has(other))
