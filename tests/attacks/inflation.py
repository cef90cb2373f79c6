"""Compressed messages that inflate to gigabytes: through the broker, and through Spark's reader."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib

from tests.attacks.attack import Verdict, attack
from tests.attacks.exports import SEGMENT, export
from tests.attacks.registrations import registration
from tests.attacks.servers import alone, descendants, nameserver, until
from tests.attacks.victim import Victim
from tests.attacks.wire import HEARTBEAT, PULL, REGISTER_BROKER, SEND_V2, Connection, ask, consumers, message, pull

COMPRESSED, ZLIB = 0x1, 0x300
BOMB_MIB = 2048


def bomb(mib: int = BOMB_MIB) -> bytes:
    """Zlib bytes that inflate to so many MiB of zeros."""
    compressor, zeros = zlib.compressobj(9), bytes(1 << 20)
    return b"".join(compressor.compress(zeros) for _ in range(mib)) + compressor.flush()


@attack("inflation-in-the-broker")
def broker(directory: pathlib.Path) -> Verdict:
    """Sends, a pull with tags, a batch, a compressed heartbeat: the broker must not inflate what it need not."""
    data = bomb()
    with alone(directory) as server, Victim(lambda: server.port) as victim, Connection(server.port, 20) as stranger:
        before, began = server.rss_mib(), time.monotonic()
        codes = [
            stranger.ask(SEND_V2, message("bombs", flags=COMPRESSED | ZLIB, properties="TAGS\x01a\x02"), data).code
            for _ in range(10)
        ]
        codes.append(stranger.ask(PULL, pull("bombs")).code)
        codes.append(stranger.ask(HEARTBEAT, {"compressed": True}, consumers("attackers")).code)
        codes.append(stranger.ask(320, message("bombs", flags=COMPRESSED | ZLIB) | {"m": True}, data).code)
        after, meanwhile = server.rss_mib(), victim.between(began, time.monotonic() + 0.01)
    figures = f"{len(data) / 1e6:.1f} MB that are {BOMB_MIB} MiB, 10 times: answers {codes};"
    figures += f" {before:.0f} to {after:.0f} MiB; sends {meanwhile}"
    return Verdict(after - before < 150 and meanwhile.longest_s < 1, figures)


@attack("inflation-in-the-nameserver")
def nameserver_registration(directory: pathlib.Path) -> Verdict:
    """A registration whose compressed body inflates to 2 GiB, and one that says so in its lengths."""
    bodies = (bomb(), zlib.compress(b"\x7f\xff\xff\xff" + bytes(100)), zlib.compress(b"\xff\xff\xff\xff" * 100))
    with nameserver(directory) as server:
        before, began, codes = server.rss_mib(), time.monotonic(), []
        for body in bodies:
            with Connection(server.port, 20) as stranger:
                try:
                    codes.append(
                        stranger.ask(REGISTER_BROKER, registration("b", "10.0.0.1:1") | {"compressed": True}, body).code
                    )
                except OSError as problem:
                    codes.append(type(problem).__name__)
        took, after = time.monotonic() - began, server.rss_mib()
        alive = ask(server.port, 106).code == 0
    return Verdict(
        alive and after - before < 100,
        f"answers {codes} in {took:.1f} s; {before:.0f} to {after:.0f} MiB; serves {alive}",
    )


READ = """
import os, sys
os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
from pyspark.sql import SparkSession, functions
from rocketha_spark.source import RockethaSource
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.memory", "2g").getOrCreate()
spark.dataSource.register(RockethaSource)
try:
    source = spark.read.format("rocketha").option("decompress", "true").option("onlyConfirmed", "false")
    sizes = source.load(sys.argv[1]).select(functions.length("body").alias("n"))
    print("ROWS", tuple(sizes.agg(functions.count("*"), functions.max("n"), functions.sum("n")).first()))
except Exception as problem:
    print("REFUSED", [line for line in str(problem).splitlines() if "rror" in line][-1:])
spark.stop()
"""


WORKER_MIB = 250
"""Python with its libraries has 100; the longest body of 64 MiB, while it grows, and 4 MiB of log come on top."""
KINDS = {"a worker": b"-m\0pyspark.daemon", "the JVM": b"org.apache.spark.deploy.SparkSubmit"}
"""Processes of Spark, by what stands in their command lines."""


def greatest_rss(pid: int) -> dict[str, float]:
    """The greatest resident memory so far, in MiB, of any process of each kind below one."""
    greatest = dict.fromkeys(KINDS, 0.0)
    for each in descendants(pid):
        try:
            command = pathlib.Path(f"/proc/{each}/cmdline").read_bytes()
            found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{each}/status").read_text())
        except OSError:
            continue
        for kind, words in KINDS.items():
            if words in command and found:
                greatest[kind] = max(greatest[kind], int(found[1]) / 1024)
    return greatest


def exported(directory: pathlib.Path, bodies: list[bytes]) -> pathlib.Path:
    """An export of a broker that was sent these bodies, compressed."""
    with alone(directory / "broker") as server, Connection(server.port, 20) as client:
        for body in bodies:
            assert client.ask(SEND_V2, message("bombs", flags=COMPRESSED | ZLIB), body).code == 0
    status, words = export(directory / "broker" / "store", directory / "export", directory)
    assert status == 0, words
    return directory / "export"


def read(directory: pathlib.Path) -> tuple[list[str], dict[str, float]]:
    """Read the export with Spark in a process of its own; what it said, and the memory of its processes at most."""
    script = directory / "read.py"
    script.write_text(READ)
    output = directory / "output"
    with open(output, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, str(script), str(directory / "export")], stdout=file, stderr=file, cwd=directory
        )
    greatest = dict.fromkeys(KINDS, 0.0)
    try:

        def ended() -> bool:
            for kind, rss_mib in greatest_rss(process.pid).items():
                greatest[kind] = max(greatest[kind], rss_mib)
            return process.poll() is not None

        until(ended, 240, 0.05)
    finally:
        for pid in (*descendants(process.pid), process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
    said = [line for line in output.read_text(errors="replace").splitlines() if line.startswith(("ROWS", "REFUSED"))]
    return said, greatest


def bounded(directory: pathlib.Path, bodies: list[bytes]) -> Verdict:
    """A worker has one batch, which may be one body of 64 MiB.  The JVM has what its user gave it."""
    exported(directory, bodies)
    said, greatest = read(directory)
    figures = f"{len(bodies)} messages, {sum(map(len, bodies)) / 1e6:.1f} MB; {said}; at most "
    figures += ", ".join(f"{kind} {rss_mib:.0f} MiB" for kind, rss_mib in greatest.items())
    return Verdict(bool(said) and 0 < greatest["a worker"] < WORKER_MIB, figures)


@attack("export-links-read-by-spark")
def links(directory: pathlib.Path) -> Verdict:
    """A file of an export, and its manifest, become links to another export's: Spark must not follow them."""
    followed, said = [], []
    for name in (f"commitlog/{SEGMENT}", f"offsets/{SEGMENT}", "commitlog", "manifest.json"):
        place = directory / name.replace("/", "-")
        target = exported(place, [bomb(1)])
        shutil.move(target / name, place / "away")
        (target / name).symlink_to(place / "away")
        words, _ = read(place)
        said.append((name, [word[:90] for word in words]))
        followed += [name] if not words or not words[0].startswith("REFUSED") else []
    return Verdict(not followed, f"followed: {followed}; {said}")


@attack("inflation-in-spark-one-bomb")
def spark_bomb(directory: pathlib.Path) -> Verdict:
    """One message of 2 GiB."""
    return bounded(directory, [bomb()])


@attack("inflation-in-spark-many")
def spark_many(directory: pathlib.Path) -> Verdict:
    """60 messages of 60 MiB, each allowed by itself: 3.6 GB in one batch of the log."""
    return bounded(directory, [bomb(60)] * 60)
