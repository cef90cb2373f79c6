"""CPU microseconds a message of the broker's own work, without sockets or clients: frames go in, answers come out.

A real BrokerService on a real directory is fed what a Java client sends, one read at a time; the process's CPU time
is divided by the messages; so is the time until the answers left, which is what one sender waits for.  Use it to
see what a change to the hot path does; the figures that count come from ``python -m benchmarks``.

    python -m benchmarks.broker_turn [--profile] [--message keyed] [--case sync1|sync16|async|batch|batch100|pull|push]

"pull" reads messages that lie between those of three other queues, "push" batches of 32, each in one piece.
"--message keyed" sends what applications send: two KEYS, TAGS and three properties, in the order of Java's HashMap.
"--client 4" sends it as a client of 4.9 does, whose header does not name the broker.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import random
import tempfile
import time
from typing import Any

from twisted.internet import defer
from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock

from rocketha.broker.stored_properties import iteration_order
from rocketha.services.broker.service import BrokerService
from rocketha.services.config.loading import load_broker
from rocketha.services.process.platform import Platform
from rocketha.store.posix_disk import PosixDisk
from rocketha.wire import batch, properties
from rocketha.wire.remoting import encode, request

TOPIC = "BenchTopic"
BATCH_TOPIC = "BatchTopic"
FILLED_BY = {"pull": "sync1", "push": "batch"}


class Immediate:
    """Blocking work done at once."""

    def __init__(self, reactor: Any, name: str) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def run(self, call: Any) -> defer.Deferred[Any]:
        return defer.execute(call)


class Sink:
    """A transport that notes when the last answer left."""

    def __init__(self) -> None:
        self.written_s = 0.0

    def write(self, data: bytes) -> None:
        self.written_s = time.perf_counter()

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", 50000)

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", 10911)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        pass

    def unregisterProducer(self) -> None:
        pass

    def loseConnection(self) -> None:
        pass


CHANCE = random.Random(1)


def properties_of(index: int, keyed: bool) -> dict[str, str]:
    """Of a message, in the order in which the Java client writes them."""
    values = {"UNIQ_KEY": f"7F00000100002A139C5E4B{index:010X}", "WAIT": "true"}
    if keyed:
        values["KEYS"] = f"order-{CHANCE.getrandbits(40):012d} customer-{CHANCE.randrange(100_000)}"
        values["TAGS"] = f"Tag{index % 4}"
        values["tenant"] = f"tenant-{index % 7}"
        values["amount"] = f"{CHANCE.randrange(1_000_000) / 100}"
        values["traceId"] = f"{CHANCE.getrandbits(128):032x}"
    return {name: values[name] for name in iteration_order(values, 16)}


def send_frames(count: int, size: int, keyed: bool, fifth: bool) -> list[bytes]:
    """SEND_MESSAGE_V2 frames as Java 5.5.0 writes them, or 4.9."""
    frames = []
    for index in range(count):
        text = properties.build_text(properties_of(index, keyed))
        fields = {
            "a": "load-producer",
            "b": TOPIC,
            "c": "TBW102",
            "d": "4",
            "e": str(index % 4),
            "f": "0",
            "g": str(1795256860020 + index // 20),
            "h": "0",
            "i": text,
            "j": "0",
            "k": "false",
            "m": "false",
        }
        if fifth:
            fields["n"] = "broker-a"
        command = request(310, fields, b"x" * size)
        command.opaque = index
        frames.append(encode(command))
    return frames


def batch_frames(count: int, size: int, members: int, keyed: bool) -> list[bytes]:
    """SEND_BATCH_MESSAGE frames."""
    frames = []
    for index in range(count):
        parts = []
        for member in range(members):
            block = properties.build(properties_of(index * members + member, keyed))
            parts.append(batch.BatchMessage(0, b"x" * size, block))
        fields = {
            "a": "load-producer",
            "b": BATCH_TOPIC,
            "c": "TBW102",
            "d": "4",
            "e": str(index % 4),
            "f": "0",
            "g": "1795256860020",
            "h": "0",
            "i": "WAIT\x01true\x02",
            "j": "0",
            "k": "false",
            "m": "true",
            "n": "broker-a",
        }
        command = request(320, fields, batch.join(parts))
        command.opaque = index
        frames.append(encode(command))
    return frames


def pull_frames(count: int, group: str, topic: str) -> list[bytes]:
    """PULL_MESSAGE frames of 32 messages each, queue by queue."""
    frames = []
    for index in range(count):
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(index % 4),
            "maxMsgNums": "32",
            "sysFlag": "4",
            "queueOffset": str(index // 4 * 32 % 992),
            "commitOffset": "0",
            "suspendTimeoutMillis": "15000",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        command = request(11, fields)
        command.opaque = index
        frames.append(encode(command))
    return frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--case")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--message", choices=("plain", "keyed"), default="plain")
    parser.add_argument("--client", choices=("4", "5"), default="5")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        loaded = load_broker(b"brokerName=broker-a\n", flags={"storePathRootDir": directory}, environment={})
        clock = MemoryReactorClock()
        clock.rightNow = 1_795_256_860.0
        broker = BrokerService(
            loaded.config, Platform(disk=PosixDisk(), reactor=clock, work=Immediate, wall=clock.seconds)
        )
        broker.startService()
        factory = broker.broker.core.factories[0]
        protocol = factory.buildProtocol(None)
        sink = Sink()
        protocol.makeConnection(sink)
        keyed = options.message == "keyed"
        singles = send_frames(4096, options.size, keyed, options.client == "5")
        cases: dict[str, tuple[list[bytes], int]] = {
            "sync1": (singles, 1),
            "sync16": ([b"".join(singles[i : i + 4]) for i in range(0, len(singles), 4)], 4),
            "async": ([b"".join(singles[i : i + 64]) for i in range(0, len(singles), 64)], 64),
            "batch": (batch_frames(256, options.size, 32, keyed), 32),
            "batch100": (batch_frames(100, options.size, 100, keyed), 100),
            "pull": (pull_frames(512, "TOOLS_CONSUMER", TOPIC), 32),
            "push": (pull_frames(512, "TOOLS_CONSUMER", BATCH_TOPIC), 32),
        }
        if options.case is not None and options.case not in cases:
            parser.error(f"no case {options.case}; there are {', '.join(cases)}")
        for name, (reads, per_read) in cases.items():
            if options.case and name != options.case and name != FILLED_BY.get(options.case):
                continue
            rounds = max(1, options.messages // (len(reads) * per_read))
            profiler = cProfile.Profile() if options.profile else None
            used = []
            answered = [math.inf] * len(reads)  # seconds, of each read the best
            if profiler:
                profiler.enable()
            for _ in range(rounds):
                began = time.process_time()
                for number, data in enumerate(reads):
                    asked = time.perf_counter()
                    protocol.dataReceived(data)
                    answered[number] = min(answered[number], sink.written_s - asked)
                used.append((time.process_time() - began) / (len(reads) * per_read) * 1e6)
                clock.advance(0.5)
            if profiler:
                profiler.disable()
            used.sort()
            print(
                f"{name:8} {used[0]:7.2f} us/message at best, {used[len(used) // 2]:7.2f} median of {rounds} rounds;"
                f" {sum(answered) / (len(reads) * per_read) * 1e6:7.2f} until the answer"
            )
            if profiler:
                pstats.Stats(profiler).sort_stats("tottime").print_stats(22)
        broker.stopService()


if __name__ == "__main__":
    main()
