"""Where single values come from: integers at their borders, text that people send, and text that nobody should.

Pure.  Every function takes the case's own ``Random``.
"""

from __future__ import annotations

from random import Random

WORDS = (
    "TopicTest",
    "fuzz-topic",
    "fuzz_topic_2",
    "TBW102",
    "%RETRY%fuzz-group",
    "%DLQ%fuzz-group",
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "fuzz-group",
    "DefaultCluster",
    "broker-a",
    "TagA",
    "TagA || TagB",
    "*",
    "key-1 key-2",
    "127.0.0.1:10911",
    "SINGLE_TAG",
    "DefaultRegion",
    "true",
    "false",
    "0",
    "-1",
    "1795256860020",
)
"""Names and texts as real clients send them."""

HOSTILE_TEXTS = (
    "",
    " ",
    ".",
    "..",
    "../../../../tmp/rocketha-fuzz",
    "..\\..\\x",
    "/",
    "//",
    "/etc/passwd",
    "a/b",
    "a\x00b",
    "\x00",
    "a#b",
    "#",
    "%",
    "%%",
    "%RETRY%",
    "%DLQ%",
    "%RETRY%%RETRY%x",
    "%s%n%x",
    "a@b",
    "a b",
    "a\nb=c",
    "a\r\nb",
    "\x01",
    "\x02",
    "a\x01b\x02",
    "|",
    "||",
    " || ",
    "*",
    "-",
    "_",
    "~",
    "a" * 120,
    "a" * 121,
    "a" * 127,
    "a" * 128,
    "a" * 255,
    "a" * 256,
    "a" * 4096,
    "%RETRY%" + "a" * 248,
    "%RETRY%" + "a" * 249,
    "\u00fc",
    "\u4e2d\u6587",
    "\U0001f680",
    "\ufeff",
    "\u202e",
    "e\u0301",
    "\u2028",
    "null",
    "undefined",
    "None",
    "${jndi:ldap://127.0.0.1/x}",
    "'; --",
    "$(true)",
    "`true`",
    "CON",
    "a.lock",
    "config",
    "checkpoint",
    "abort",
    "\x7f",
)
"""Names that must be refused or kept harmless (security.md: path pieces, separators, NUL, lengths over the limit)."""

HOSTILE_NUMBERS = (
    "0",
    "-0",
    "-1",
    "1",
    "+1",
    "00",
    "007",
    "127",
    "128",
    "255",
    "256",
    "32767",
    "32768",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "1" * 400,
    "1" * 5000,
    "1e3",
    "1.0",
    "1.5",
    "-1.5",
    "1e400",
    "NaN",
    "Infinity",
    "-Infinity",
    "",
    " ",
    " 1",
    "1 ",
    "1_000",
    "0x10",
    "0b1",
    "0o7",
    "\u0663",
    "\u0967",
    "\u00b2",
    "\uff11",
    "1L",
    "1,000",
    "--1",
    "null",
    "true",
)
"""What may stand where a decimal number is wanted; some are numbers to Python's ``int()`` and not to Java's parsers."""


def borders(bits: int, signed: bool) -> tuple[int, ...]:
    """The integers of a width at which readers go wrong, all within its range."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    wanted = [0, 1, -1, 2, 3, 4, 7, 8, -2, -4, 21, 22, 91, 127, 128, -128, 255, 256, 32767, 32768, 65535, 65536, 65537]
    wanted += [
        1 << 20,
        (4 << 20) + 1,
        (16 << 20) - 4,
        16 << 20,
        (16 << 20) + 1,
        (1 << 31) - 1,
        1 << 31,
        -(1 << 31),
        (1 << 53) + 1,
    ]
    wanted += [low, low + 1, low // 2, high // 2, high - 1, high]
    return tuple(sorted({value for value in wanted if low <= value <= high}))


def integer(chance: Random, bits: int, signed: bool) -> int:
    """An integer of a width: a border, a small one, or any."""
    pick = chance.random()
    if pick < 0.35:
        return chance.choice(borders(bits, signed))
    if pick < 0.65:
        return chance.randrange(min(1 << bits - 1, 1000))
    value = chance.getrandbits(bits)
    return value - (1 << bits) if signed and value >> bits - 1 else value


def length(chance: Random, size: int) -> int:
    """A length for something whose length is free: mostly short, at most ``size``."""
    pick = chance.random()
    if pick < 0.1:
        return 0
    if pick < 0.65:
        most = 16
    elif pick < 0.92:
        most = 256
    elif pick < 0.995:
        most = 4096
    else:
        most = 70000
    return chance.randrange(min(most, size) + 1)


def octets(chance: Random, count: int) -> bytes:
    """Exactly ``count`` bytes: text of people, random, or one byte repeated."""
    pick = chance.random()
    if pick < 0.5:
        word = chance.choice(WORDS).encode()
        return (word * (count // len(word) + 1))[:count]
    if pick < 0.8:
        return chance.randbytes(count)
    return bytes((chance.choice((0, 1, 2, 0x20, 0x7F, 0x80, 0xFF)),)) * count


def text(chance: Random) -> str:
    """A text: mostly one that clients send, sometimes a hostile one, never a lone surrogate."""
    pick = chance.random()
    if pick < 0.6:
        return chance.choice(WORDS)
    if pick < 0.8:
        return chance.choice(HOSTILE_TEXTS)
    if pick < 0.9:
        return str(integer(chance, 64, True))
    return "".join(
        chr(chance.choice((0x20, 0x61, 0x7A, 0xE9, 0x4E2D, 0x1F680)) + chance.randrange(6))
        for _ in range(length(chance, 64))
    )


def name(chance: Random) -> str:
    """A name for a topic, group or file that should not be taken as it is."""
    return chance.choice(HOSTILE_TEXTS)


def number_text(chance: Random) -> str:
    """What stands where a decimal number is wanted."""
    return chance.choice(HOSTILE_NUMBERS) if chance.random() < 0.7 else str(integer(chance, 64, True))
