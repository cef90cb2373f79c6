"""Which releases of Apache RocketMQ's servers, and which clients, were run with ours: docs/interop.md.

    python -m tests.interop.certificate [--rows WORD ...] [--page FILE]     (make certificate)

`ROWS` is the matrix: each row starts real processes on loopback, and its outcome is what it counted, or why it failed,
or why what it needs cannot be had. Outcomes are kept in build/certificate.json, so that some rows may be run again:
those whose name has all of the words. The page has every row, also one that failed or was never run.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import json
import re
import shutil
import sys
import time
import traceback
import unittest
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from .harness import jars, remoting, scratch
from .harness.clients import Event
from .harness.controllers import ReplicaGroup
from .harness.foreign import Cpp, ForeignClient, Go, Java4, Java4Binary, Java5Binary, JavaRelease, Node, Rust, Spring
from .harness.ledger import Ack, Load
from .harness.ledgers import LedgerGroup
from .harness.links import peers
from .harness.pairs import ClassicPair, await_equal, compare_at_rest, roots_of
from .harness.processes import Process, wait_until
from .harness.replica_files import check_acknowledged, compare_epochs, compare_whole_logs
from .harness.roles import BROKERS, NAMESRVS, READY_S, OurCluster, of_release

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "interop.md"
OUTCOMES = ROOT / "build" / "certificate.json"
MESSAGES, RATE = 500, 400.0
SENDS, IN_ORDER, DELAYED, HALF = 200, 60, 10, 3
DELAY_LEVEL, DELAY_MS = 2, 5000
# Clients ask the nameserver for routes every 30 s, and look for new queues every 20 s.
FOUND_S = 100.0
UPDATE_AND_CREATE_TOPIC = 17
SHOWN = 300  # characters of a reason; the whole of it goes to stderr
PASSED, FAILED, ABSENT, NOT_RUN = "passed", "**failed**", "not available here", "not run"
T = TypeVar("T", bound=Process)


class Outcome(NamedTuple):
    """Of one row.

    :ivar text: what was counted, or why not.
    :ivar date: the day, UTC.
    """

    state: str
    text: str
    date: str
    seconds: float


class Bed:
    """The processes of one row, in a folder; they end with it, and of a row that failed their logs are shown. Java's
    servers are of release `version`.
    """

    def __init__(self, version: str = jars.VERSION) -> None:
        self.version = version
        self.folder = scratch("certificate")
        self.processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, unittest.SkipTest):
            sys.stderr.write("\n".join(process.tail() for process in self.processes) + "\n")
        for process in reversed(self.processes):
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, *processes: Process) -> None:
        """What somebody else starts."""
        of_release(self.version, processes)
        self.processes += processes

    def start(self, process: T) -> T:
        self.add(process)
        process.start()  # type: ignore[attr-defined]
        return process

    def load(self, namesrvs: str) -> Load:
        return self.start(Load(namesrvs, self.folder / "load"))


class Row(NamedTuple):
    """One row of the matrix.

    :ivar subject: what is not ours, with its release.
    :ivar role: what it is to ours.
    :ivar part: which of RocketMQ's parts has to be of that release; empty for one that installs itself.
    """

    subject: str
    role: str
    version: str
    part: str
    scenario: Callable[[Bed], str]

    @property
    def name(self) -> str:
        return f"{self.subject}, {self.role}"

    def run(self) -> Outcome:
        """Skips become the outcome that it is not available, all else that it failed."""
        began = time.monotonic()
        try:
            if self.part:
                jars.demand(self.part, self.version)
            with Bed(self.version) as bed:
                state, text = PASSED, self.scenario(bed)
        except unittest.SkipTest as why:
            state, text = ABSENT, str(why)
        except Exception as error:
            sys.stderr.write(f"{self.name}: {traceback.format_exc()}\n")
            state, text = FAILED, f"{type(error).__name__}: {error}"
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        return Outcome(state, text.strip().partition("\n")[0][:SHOWN], day, time.monotonic() - began)


# ---- servers


def send(load: Load) -> list[Ack]:
    run = load.begin(rate=RATE)
    load.await_more(run, MESSAGES)
    return load.end(run)


def check_read(load: Load, acks: Sequence[Ack]) -> None:
    """Every acknowledged message is in its queue, at the offset that was told."""
    present = load.read()
    lost = [ack for ack in acks if (ack.queue, ack.offset) not in present.get(ack.key, [])]
    assert not lost, f"{len(lost)} of {len(acks)} acknowledged messages lost, such as {lost[:3]}"


def exchange(bed: Bed, namesrv: str, broker: str) -> str:
    """A nameserver and a broker of these kinds; what was sent is received, once each."""
    directory = bed.start(NAMESRVS[namesrv]("namesrv", bed.folder / "namesrv"))
    server = bed.start(BROKERS[broker](bed.folder / "broker", directory))
    load = bed.load(directory.address)
    acks = send(load)
    load.consume("all")
    load.await_delivered("all", len(acks))
    server.stop()
    server.start()
    acks += send(load)
    load.await_delivered("all", len(acks))
    got = load.stop_consumer("all")
    missing, twice = {ack.key for ack in acks} - {*got}, got.total() - len(got)
    assert not missing and not twice, f"of {len(acks)} acknowledged {len(missing)} not received, {twice} twice"
    check_read(load, acks)
    more = f", and {len(got) - len(acks)} that were stored though their sends failed" if len(got) > len(acks) else ""
    return f"{len(acks):,} acknowledged and received once each{more}, over a restart of the broker"


def classic(bed: Bed, kinds: tuple[str, str]) -> str:
    """A master and its slave; the slave is made master by hand, and the old master its slave."""
    pair = ClassicPair(kinds, bed.folder, sync=True, namesrv="ours")
    bed.add(*pair.processes)
    pair.start()
    load = bed.load(pair.namesrv.address)
    run = load.begin(rate=RATE, no_wait=True)
    load.await_more(run, MESSAGES)
    pair.slave.kill()
    load.await_more(run, MESSAGES)
    pair.slave.start()
    acks = load.end(run)
    await_equal(pair.brokers)
    acks += send(load)
    await_equal(pair.brokers)
    pair.master.kill()
    check_acknowledged(acks, pair.slave.root)
    pair.slave.stop()
    pair.master.extra, pair.slave.extra = pair.slave.extra, pair.master.extra
    pair.slave.start()
    pair.master.start()
    wait_until("a link", lambda: peers(pair.slave.port + 1), READY_S, pair.master.running)
    acks += send(load)
    check_read(load, acks)
    await_equal(pair.brokers)
    for broker in (pair.master, pair.slave):
        broker.stop()
    size, entries = compare_at_rest(pair.brokers)
    for broker in pair.brokers:
        check_acknowledged(acks, broker.root)
    return (
        f"{len(acks):,} acknowledged, 0 lost, over a kill of the slave and a change of roles by hand; logs equal "
        f"({size:,} bytes), queues equal ({entries:,} entries)"
    )


def controlled(bed: Bed, controllers: str, kinds: tuple[str, str]) -> str:
    """Two brokers under three controllers; each is killed once while it is master."""
    group = ReplicaGroup(
        controllers, bed.folder, kinds=kinds, namesrv="ours", extra={"totalReplicas": 2, "inSyncReplicas": 2}
    )
    bed.add(*group.processes)
    group.start(first=True)
    load = bed.load(group.namesrv_addresses)
    run = load.begin(rate=RATE)
    load.await_more(run, MESSAGES)
    for _ in group.brokers:
        epoch, master = group.await_whole().master_epoch, group.master()
        master.kill()
        group.await_master(lambda state, epoch=epoch: state.master_epoch > epoch)
        load.await_more(run, MESSAGES)
        master.start()
        group.await_whole()
        load.await_more(run, MESSAGES)
    acks = load.end(run)
    check_read(load, acks)
    await_equal(group.brokers)
    compare_epochs(roots_of(group.brokers))
    size = compare_whole_logs(roots_of(group.brokers))
    for broker in group.brokers:
        check_acknowledged(acks, broker.root)
    return (
        f"{len(acks):,} acknowledged, 0 lost, over {len(group.brokers)} kills of the master; logs ({size:,} bytes) and "
        "epochs equal"
    )


def ledger(bed: Bed) -> str:
    """One of ours and two of Java's in DLedger mode; the master is killed twice."""
    namesrv = bed.start(NAMESRVS["ours"]("namesrv", bed.folder / "namesrv"))
    group = LedgerGroup(("ours", "java", "java"), bed.folder, namesrv)
    bed.add(*group.brokers)
    group.start()
    load = bed.load(namesrv.address)
    run = load.begin(rate=RATE)
    load.await_more(run, MESSAGES)
    killed = []
    for _ in range(2):
        master = group.await_master()
        killed.append(group.member(master)[0])
        master.kill()
        group.await_successor(master)
        load.await_more(run, MESSAGES)
        master.start()
        load.await_more(run, MESSAGES)
    acks = load.end(run)
    await_equal(group.brokers)
    for broker in group.brokers:
        broker.stop()
    lost = group.not_stored(acks)
    assert not lost, f"{len(lost)} of {len(acks)} acknowledged messages lost, such as {lost[:3]}"
    (jar,) = jars.jars(bed.version).glob("dledger-*.jar")
    kills = " and ".join("ours" if kind == "o" else "Java's" for kind in killed)
    return (
        f"{jar.stem.replace('-', ' ')}: {len(acks):,} acknowledged, 0 lost, over two kills of the master ({kills}); "
        "each is in the logs of all three members"
    )


# ---- clients


def check_once(client: ForeignClient, sent: Sequence[Event], got: Sequence[Event]) -> None:
    """All, and nothing else, with its content; once each unless the client itself gives messages back."""
    wanted = {e["key"]: e["sha"] for e in sent}
    mine = [e for e in got if e["key"] in wanted]
    assert {e["key"]: e["sha"] for e in mine} == wanted, f"of {len(wanted)} sent, {len(mine)} received, or changed"
    twice = len(mine) - len(wanted)
    assert client.hasty or not twice, f"{twice} of {len(wanted)} were received again"


def check_order(sent: Sequence[Event], got: Sequence[Event]) -> None:
    """Every third message is for the same queue, and comes in the order in which it was sent."""
    keys = {e["key"] for e in sent}
    numbers = [int(key.rpartition("-")[2]) for key in dict.fromkeys(e["key"] for e in got if e["key"] in keys)]
    for lane in range(3):
        row = [number for number in numbers if number % 3 == lane]
        assert row == sorted(row), f"not in order: {row}"


def exchange_with(bed: Bed, kind: type[ForeignClient]) -> str:
    """Our nameserver and broker; the client sends and receives."""
    kind.install()
    cluster = bed.start(OurCluster(bed.folder / "cluster"))
    queues = {"readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    topic = "Certificate"
    fields = {"topic": topic, "defaultTopic": "TBW102", "topicSysFlag": "0", "order": "false", **queues}
    reply = remoting.call(cluster.address, UPDATE_AND_CREATE_TOPIC, fields)
    assert reply.code == 0, reply.remark
    client = bed.start(kind(cluster.namesrv_address, bed.folder / "client"))
    client.consume("push", "push", topic)
    client.consume("orderly", "orderly", topic)
    client.await_sends(topic, "first", FOUND_S)
    plain = client.send(topic, "sync", SENDS, prefix="plain")
    ordered = client.send(topic, "orderly", IN_ORDER, prefix="ordered")
    delayed = client.send(topic, "sync", DELAYED, prefix="delayed", delay_level=DELAY_LEVEL)
    sent = [*plain, *ordered, *delayed]
    for consumer in ("push", "orderly"):
        check_once(client, sent, client.await_keys(consumer, {e["key"] for e in sent}, FOUND_S))
    check_order(ordered, client.received("orderly"))
    took = [e["at"] - e["born"] for e in client.received("push") if e["key"].startswith("delayed")]
    assert min(took) >= DELAY_MS - 50, f"delayed messages came after {took} ms"
    text = (
        f"{len(sent):,} sent, {len(sent):,} received{'' if client.hasty else ' once each'}, by a concurrent and by an "
        f"orderly consumer; {len(ordered)} of them in order, {len(delayed)} delayed by {min(took) / 1000:.2f} to "
        f"{max(took) / 1000:.2f} s"
    )
    if client.transactions:
        with contextlib.suppress(AssertionError):
            client.send(topic, "transaction", HALF, prefix="half")
        refused = [e for e in client.refused("half") if re.search(r"\bCODE: 3\b", e["error"])]
        assert len(refused) == HALF, f"{len(refused)} of {HALF} half messages refused: {client.refused('half')}"
        text += f"; {HALF} transactions refused with code 3, as documented"
    return text


# ---- the matrix

SERVERS = ("4.9.3", "4.9.7", "5.1.4", "5.3.3", "5.5.0", "5.5.1")
ROLES: tuple[tuple[str, str, Callable[[Bed], str]], ...] = (
    ("broker under our nameserver", "rocketmq-broker", functools.partial(exchange, namesrv="ours", broker="java")),
    ("nameserver of our broker", "rocketmq-namesrv", functools.partial(exchange, namesrv="java", broker="ours")),
    ("slave of our master", "rocketmq-broker", functools.partial(classic, kinds=("ours", "java"))),
    ("master of our slave", "rocketmq-broker", functools.partial(classic, kinds=("java", "ours"))),
    (
        "broker with one of ours under our controllers",
        "rocketmq-controller",
        functools.partial(controlled, controllers="ours", kinds=("java", "ours")),
    ),
    (
        "controllers of our brokers",
        "rocketmq-controller",
        functools.partial(controlled, controllers="java", kinds=("ours", "ours")),
    ),
    ("two members of a DLedger group with one of ours", "rocketmq-broker", ledger),
)
CLIENTS: tuple[type[ForeignClient], ...] = (
    JavaRelease.of("4.9.7"),
    Java4,
    JavaRelease.of("5.1.4"),
    JavaRelease.of("5.3.3"),
    JavaRelease.of("5.5.0"),
    JavaRelease.of("5.5.1"),
    Java4Binary,
    Java5Binary,
    Spring,
    Go,
    Cpp,
    Node,
    Rust,
)
SERVER_ROWS = tuple(
    Row(f"RocketMQ {version}", role, version, part, scenario) for version in SERVERS for role, part, scenario in ROLES
)
CLIENT_ROWS = tuple(
    Row(kind.title, "client", jars.VERSION, "", functools.partial(exchange_with, kind=kind)) for kind in CLIENTS
)
ROWS = SERVER_ROWS + CLIENT_ROWS

# ---- the page

HEAD = """# What was run with what

Written by `make certificate`, which starts the real servers and clients named here beside rocketha's, on one machine;
each row has the day of its run. Of {all} rows {passed} passed, {failed} failed, {absent} are not available
here{not_run}.

"Lost" is a message that was acknowledged to a client and is afterwards not in the log, at the place that the client
was told. A release of which Maven has no such part is not available here; of 5.5.1 it has broker, controller, store,
remoting and common, and the rest beside them is that of 5.5.0. 4.x has no controllers. What rocketha does not support
is in [Divergence](divergence.md).

"""
SERVERS_HEAD = """## Servers

Each in every role that it has. The client is Java's 5.5.0.

| Servers | Are | Result | What was counted | Day |
|---|---|---|---|---|
"""
CLIENTS_HEAD = """
## Clients

Each on our nameserver and broker. What each cannot do is in [Clients](clients.rst).

| Client | Result | What was counted | Day |
|---|---|---|---|
"""
NEVER = Outcome(NOT_RUN, "", "", 0.0)


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def page(outcomes: Mapping[str, Outcome]) -> str:
    """docs/interop.md, of outcomes by the names of their rows."""
    found = [outcomes.get(row.name, NEVER) for row in ROWS]
    count = Counter(outcome.state for outcome in found)
    text = HEAD.format(
        all=len(ROWS),
        passed=count[PASSED],
        failed=count[FAILED],
        absent=count[ABSENT],
        not_run=f", {count[NOT_RUN]} were not run" if count[NOT_RUN] else "",
    )
    text += SERVERS_HEAD
    for row in SERVER_ROWS:
        state, what, day, _ = outcomes.get(row.name, NEVER)
        text += line((row.subject, row.role, state, what, day))
    text += CLIENTS_HEAD
    for row in CLIENT_ROWS:
        state, what, day, _ = outcomes.get(row.name, NEVER)
        text += line((row.subject, state, what, day))
    return text


def kept(path: Path) -> dict[str, Outcome]:
    """Outcomes of earlier runs, by the names of their rows."""
    return {name: Outcome(*values) for name, values in json.loads(path.read_text()).items()} if path.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", default=[], metavar="WORD", help="only rows whose names have all of these")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args()
    outcomes = kept(OUTCOMES)
    chosen = [row for row in ROWS if all(word in row.name for word in options.rows)]
    if not chosen:
        parser.error(f"no row has all of these words in its name: {' '.join(options.rows)}")
    for row in chosen:
        outcome = outcomes[row.name] = row.run()
        sys.stdout.write(f"{outcome.state}: {row.name}: {outcome.text} ({outcome.seconds:.0f} s)\n")
        sys.stdout.flush()
        OUTCOMES.parent.mkdir(exist_ok=True)
        OUTCOMES.write_text(json.dumps(outcomes, indent=1))
        options.page.write_text(page(outcomes))
    sys.exit(any(outcomes[row.name].state == FAILED for row in chosen))


if __name__ == "__main__":
    main()
