"""Every command of Java's mqadmin once against Java's servers and once against ours, for docs/mqadmin.rst.

    python -m tests.interop.mqadmin_table [--rst FILE] [--outputs FOLDER]     (make mqadmin-table)

`COMMANDS` has a row for each command, in an order in which each has something to show.  A side is a nameserver, a
controller, a group of two brokers under it, a broker with users, a client with a producer and a consumer, and one JVM
for all commands.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .harness import Admin, JavaClient, Process, scratch
from .harness.controllers import CLUSTER, GROUP, TOPIC, ReplicaGroup
from .harness.remoting import call
from .harness.roles import BROKERS, GET_BROKER_CLUSTER_INFO, _Broker

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mqadmin.rst"
CONSUMERS, PRODUCERS = "AdminGroup", "AdminProducers"
USER = ("root", "root-secret")
WAIT_S, FOREVER_S = 20.0, 6.0


class Command(NamedTuple):
    """One row.

    :ivar arguments: as on a command line; ``{name}`` is a value of the side.
    :ivar needs: what it does something with, for the page.
    :ivar waits: whether what it needs comes to be by itself a moment later: it is asked again.
    :ivar shows: what it prints when that has come to be.
    :ivar forever: whether it goes on until it is interrupted.
    :ivar silent: whether it prints nothing where it works.
    :ivar differs: in what the outputs differ, where both work.
    :ivar remark: what else there is to say.
    """

    name: str
    arguments: str
    needs: str
    waits: bool = False
    shows: str = ""
    forever: bool = False
    silent: bool = False
    differs: str = ""
    remark: str = ""


BROKER, MASTER, LITE = "a broker", "a master", "a lite topic"
CONTROLLER, USERS, TOPIC_, GROUP_ = "a controller", "a broker with users", "a topic", "a consumer group"
POP, ROCKSDB, COLD, STATIC = "POP consumption", "RocksDB", "limits for cold reads", "static topics"


_ERROR_ALONE = "; mqadmin prints ``error`` alone, the broker's log has the reason"


def _unsupported(what: str) -> str:
    return f"{what}: `not supported <divergence.md>`_"


COMMANDS = (
    # topics
    Command("updateTopic", "-c {cluster} -t New -r 4 -w 4", MASTER),
    Command("updateTopicList", "-c {cluster} -f {topics}", "a file of topics"),
    Command("updateTopicPerm", "-c {cluster} -t New -p 4", TOPIC_),
    Command("topicRoute", "-t New", TOPIC_),
    Command(
        "topicList", "-c", "a nameserver", waits=True, differs="for a topic of several clusters each names another one"
    ),
    Command("topicStatus", "-t {topic}", TOPIC_),
    Command("topicClusterList", "-t {topic}", TOPIC_),
    Command("allocateMQ", "-t {topic} -i 10.0.0.1,10.0.0.2", TOPIC_),
    Command("updateOrderConf", "-t {topic} -m put -v {group}:4", "a nameserver"),
    # messages
    Command("sendMessage", "-t {topic} -p hello -k traced -c TagA -b {group} -i 0 -m true", TOPIC_),
    Command("sendMsgStatus", "-b {group} -c 3", MASTER),
    Command("checkMsgSendRT", "-t {topic} -a 3", TOPIC_),
    Command("consumeMessage", "-t {topic} -b {group} -i 0 -o 0 -c 1", TOPIC_),
    Command("printMsg", "-t {topic} -d true", TOPIC_),
    Command("printMsgByQueue", "-t {topic} -a {group} -i 0 -p true -d true -f true", TOPIC_),
    Command("queryMsgById", "-t {topic} -i {offset_id}", "a message"),
    Command("queryMsgByKey", "-t {topic} -k {key}", "a message with a key", waits=True),
    Command("queryMsgByUniqueKey", "-t {topic} -i {id}", "a message", waits=True),
    Command("queryMsgByOffset", "-t {topic} -b {group} -i 0 -o 0", "a message"),
    Command("queryMsgTraceById", "-i {traced}", "``traceTopicEnable``, and a message sent with a trace", waits=True),
    Command("queryCq", "-t {topic} -q 0 -i 0 -c 2 -b {master}", TOPIC_),
    Command("dumpCompactionLog", "-f {log}", "a copy of a file of the log; it asks no server"),
    # groups
    Command("updateSubGroup", "-c {cluster} -g New -q 2", MASTER),
    Command("updateSubGroupList", "-c {cluster} -f {groups}", "a file of groups"),
    Command("getConsumerConfig", "-g New", GROUP_),
    Command("setConsumeMode", "-c {cluster} -t {topic} -g New -m POP", POP, remark=_unsupported(POP)),
    Command("consumerProgress", "-g {consumers} -s true", GROUP_, waits=True, shows="%RETRY%"),
    Command("consumerConnection", "-g {consumers}", "a consumer that runs"),
    Command("consumerStatus", "-g {consumers} -s", "a consumer that runs"),
    Command("producerConnection", "-g {producers} -t {topic}", "a producer that runs"),
    Command("producer", "-b {master}", "a producer that runs"),
    Command("brokerConsumeStats", "-b {master}", GROUP_),
    Command("statsAll", "-t {topic}", TOPIC_),
    Command("cloneGroupOffset", "-s {consumers} -d New -t {topic}", "two groups"),
    Command("resetOffsetByTime", "-g {consumers} -t {topic} -s now", "a consumer that runs"),
    Command("skipAccumulatedMessage", "-g {consumers} -t {topic}", "a consumer that runs"),
    # brokers
    Command("clusterList", "", "a nameserver", waits=True),
    Command("brokerStatus", "-b {master}", BROKER, differs="the number of the version is rocketha's alone"),
    Command(
        "getBrokerConfig", "-b {master}", BROKER, differs="the keys of each (`Configuration <configuration.rst>`_)"
    ),
    Command(
        "updateBrokerConfig",
        "-b {master} -k defaultTopicQueueNums -v 8",
        "a broker; ours needs ``configUpdateEnable``",
        remark="only keys that may change in a process that runs (`Configuration <configuration.rst>`_)",
    ),
    Command("cleanExpiredCQ", "-c {cluster}", BROKER),
    Command("cleanUnusedTopic", "-c {cluster}", BROKER),
    Command("deleteExpiredCommitLog", "-c {cluster}", BROKER),
    Command("resetMasterFlushOffset", "-b {slave} -o 0", "a slave"),
    Command("haStatus", "-b {master}", BROKER),
    Command("getBrokerEpoch", "-b {group}", "controller mode"),
    Command("getColdDataFlowCtrInfo", "-b {master}", COLD, remark=_unsupported(COLD)),
    Command("updateColdDataFlowCtrGroupConfig", "-b {master} -g {consumers} -v 1000", COLD, remark=_unsupported(COLD)),
    Command("removeColdDataFlowCtrGroupConfig", "-b {master} -g {consumers}", COLD, remark=_unsupported(COLD)),
    Command(
        "setCommitLogReadAheadMode",
        "-b {master} -m 0",
        BROKER,
        remark="the log is read without memory maps: `not supported <divergence.md>`_",
    ),
    Command("switchTimerEngine", "-b {master} -e F", "a timer wheel", remark=_unsupported("the timer wheel")),
    Command("addBroker", "-c {master} -b {folder}/broker.conf", "a BrokerContainer, which neither side is"),
    Command("removeBroker", "-c {master} -b {cluster}:{group}:1", "a BrokerContainer, which neither side is"),
    # nameservers
    Command("getNamesrvConfig", "", "a nameserver", differs="the keys of each (`Configuration <configuration.rst>`_)"),
    Command(
        "updateNamesrvConfig",
        "-k orderMessageEnable -v true",
        "a nameserver; ours needs ``configUpdateEnable``",
        remark="only keys that may change in a process that runs (`Configuration <configuration.rst>`_)",
    ),
    Command("updateKvConfig", "-s space -k key -v value", "a nameserver"),
    Command("deleteKvConfig", "-s space -k key", "a nameserver"),
    Command("wipeWritePerm", "-b {group}", BROKER),
    Command("addWritePerm", "-b {group}", BROKER),
    # exports
    Command("exportMetadata", "-c {cluster} -f {folder}/export", BROKER),
    Command("exportConfigs", "-c {cluster} -f {folder}/export", BROKER),
    Command("exportMetrics", "-c {cluster} -f {folder}/export", BROKER),
    Command("exportPopRecord", "-b {master}", POP, remark=_unsupported(POP)),
    Command("exportMetadataInRocksDB", "-p {folder}/none -t topics", "a folder of RocksDB; it asks no server"),
    Command("rocksDBConfigToJson", "-c {cluster} -t topics", ROCKSDB, remark=_unsupported(ROCKSDB)),
    Command("checkRocksdbCqWriteProgress", "-c {cluster} -t {topic}", ROCKSDB, remark=_unsupported(ROCKSDB)),
    # static topics; Java's exports fail where there is one
    Command("updateStaticTopic", "-b {group} -t Static -qn 4", STATIC, remark=_unsupported(STATIC)),
    Command("remappingStaticTopic", "-b {group} -t Static", STATIC, remark=_unsupported(STATIC)),
    # lite topics
    *(
        Command(
            name, arguments, LITE, remark=_unsupported("lite topics") + _ERROR_ALONE * (name != "getBrokerLiteInfo")
        )
        for name, arguments in {
            "getBrokerLiteInfo": "-b {master}",
            "getParentTopicInfo": "-p Parent",
            "getLiteTopicInfo": "-p Parent -l lite",
            "getLiteClientInfo": "-p Parent -g LiteGroup -c client",
            "getLiteGroupInfo": "-p Parent -g LiteGroup",
            "triggerLiteDispatch": "-p Parent -g LiteGroup",
        }.items()
    ),
    # users
    Command("createUser", "-b {guarded} -u ann -p secret", USERS),
    Command("updateUser", "-b {guarded} -u ann -p other", USERS),
    Command("getUser", "-b {guarded} -u ann", USERS, differs="rocketha's answers have no passwords"),
    Command("listUser", "-b {guarded}", USERS, differs="rocketha's answers have no passwords"),
    Command("copyUser", "-f {guarded} -t {guarded} -u ann", USERS),
    Command("createAcl", "-b {guarded} -s User:ann -r Topic:bills -a Pub -d Allow", USERS),
    Command("updateAcl", "-b {guarded} -s User:ann -r Topic:bills -a Pub,Sub -d Allow", USERS),
    Command("getAcl", "-b {guarded} -s User:ann", USERS),
    Command("listAcl", "-b {guarded}", USERS),
    Command("copyAcl", "-f {guarded} -t {guarded} -s User:ann", USERS),
    Command("deleteAcl", "-b {guarded} -s User:ann -r Topic:bills", USERS),
    Command("deleteUser", "-b {guarded} -u ann", USERS),
    # deletions
    Command("deleteTopic", "-c {cluster} -t New", TOPIC_),
    Command("deleteSubGroup", "-c {cluster} -g New -r true", GROUP_),
    # controllers
    Command("getControllerMetaData", "-a {controller}", CONTROLLER),
    Command(
        "getControllerConfig",
        "-a {controller}",
        CONTROLLER,
        differs="the keys of each (`Configuration <configuration.rst>`_)",
    ),
    Command(
        "updateControllerConfig",
        "-a {controller} -k notifyBrokerRoleChanged -v true",
        "a controller; ours needs ``configUpdateEnable``",
        remark="only keys that may change in a process that runs (`Configuration <configuration.rst>`_)",
    ),
    Command("getSyncStateSet", "-a {controller} -b {group}", CONTROLLER),
    Command(
        "electMaster",
        "-a {controller} -b {slave_id} -bn {group} -c {cluster}",
        CONTROLLER,
        remark="Java elects, and then mqadmin cannot read its answer",
    ),
    Command(
        "cleanBrokerMetadata",
        "-a {controller} -b {dead_id} -bn {group} -c {cluster}",
        "a replica that does not run",
        waits=True,
    ),
    # what goes on for ever
    Command("startMonitoring", "", "a nameserver", silent=True),
    Command("clusterRT", "-c {cluster} -a 2 -i 1", MASTER, forever=True),
)
NAMES = sorted(command.name for command in COMMANDS)
LITE_TOPIC = (
    "updateTopic -c {cluster} -t Parent",
    "updateTopic -c {cluster} -t Parent -a +message.type=LITE",
    "updateSubGroup -c {cluster} -g LiteGroup --attributes +lite.bind.topic=Parent",
)
"""Makes the parent of lite topics, and a group of them; where there are none only the first line does something."""


class Outcome(NamedTuple):
    """What a command printed, with the addresses of the side masked."""

    text: str

    @property
    def failed(self) -> bool:
        return bool(re.search(r"Exception|\bCODE: \d|\b[Ee]rror\b|invalid|not exist", self.text))

    @property
    def shape(self) -> set[str]:
        """Its lines, without what two runs of one program differ in."""
        text = re.sub(r"\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d([.,:]\d+)?", "TIME", self.text)
        text = re.sub(r"\d+\.\d+\.\d+\.\d+(:\d{4,5})?", "HOST", text)
        text = re.sub(r"-?\b\d+\.\d+(E-?\d+)?\b", "0", text)
        text = re.sub(r"\b[0-9A-F]{16,}\b", "ID", text)
        text = re.sub(r"-?\d+", "0", text)
        return {re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()}

    @property
    def reason(self) -> str:
        """Of one that failed: the server's words, or the first line that says so."""
        found = re.search(r"CODE: \d+\s+DESC: .*", self.text) or re.search(
            r".*(?:Exception|[Ee]rror|invalid).*", self.text
        )
        return found.group().strip() if found else self.text[:200]


class _WithUsers:
    """A broker that demands users: ready when the nameserver has it, as it answers no stranger."""

    def ready(self) -> object:
        assert isinstance(self, _Broker)
        try:
            found = call(self.namesrvs[0].address, GET_BROKER_CLUSTER_INFO, timeout_s=2)
        except (OSError, ValueError):
            return None
        return f'"{self.address}"'.encode() in found.body


def _guarded(kind: str, folder: Path, namesrv: Process) -> _Broker:
    secret = folder / "accounts-secret"
    secret.write_bytes(b"a secret of the accounts, 32 or more")
    secret.chmod(0o600)
    user, inner = (
        json.dumps(dict(zip(names, USER, strict=True)))
        for names in (("username", "password"), ("accessKey", "secretKey"))
    )
    auth = "org.apache.rocketmq.auth"
    keys = {
        "brokerClusterName": "Guarded",
        "authenticationEnabled": True,
        "authorizationEnabled": True,
        "initAuthenticationUser": user,
        "innerClientAuthenticationCredentials": inner,
    }
    if kind == "java":
        keys |= {
            "authenticationProvider": f"{auth}.authentication.provider.DefaultAuthenticationProvider",
            "authenticationMetadataProvider": f"{auth}.authentication.provider.LocalAuthenticationMetadataProvider",
            "authorizationProvider": f"{auth}.authorization.provider.DefaultAuthorizationProvider",
            "authorizationMetadataProvider": f"{auth}.authorization.provider.LocalAuthorizationMetadataProvider",
        }
    else:
        keys["authSecretFile"] = secret
    base = BROKERS[kind]
    return type(f"Guarded{base.__name__}", (_WithUsers, base), {})(folder / "guarded", namesrv, keys, name="broker-b")


class Side:
    """All servers of one implementation, a client, and mqadmin.

    :ivar values: what arguments name.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        may_change = {} if kind == "java" else {"configUpdateEnable": True}
        self.folder = folder
        self.group = ReplicaGroup(
            kind,
            folder,
            count=2,
            controllers=1,
            kinds=(kind, kind),
            namesrv=kind,
            extra={
                "totalReplicas": 2,
                "inSyncReplicas": 2,
                "traceTopicEnable": True,
                "timerWheelEnable": kind == "java",  # without it no topic can be deleted there
                **may_change,
            },
            controller_extra=may_change,
        )
        assert self.group.namesrv is not None
        self.group.namesrv.extra |= may_change
        namesrv = self.group.namesrv
        self.guarded = _guarded(kind, folder, namesrv)
        self.client = JavaClient(namesrv.address, folder=folder / "client")
        self.admin = Admin(namesrv.address, folder / "admin", user=USER)
        self.values: dict[str, str] = {}

    def start(self) -> None:
        self.group.start(first=True)
        for role in (self.guarded, self.client, self.admin):
            role.start()
        self.client.producer(group=PRODUCERS)
        sent = self.client.send(
            TOPIC,
            "sync",
            4,
            prefix="m",
            queue=0,
            broker=GROUP,
            tags=["TagA"],
            text=True,
            fixed_ids=True,
            min_size=20,
            max_size=20,
        )
        self.client.consume("consumer", {TOPIC: "*"}, group=CONSUMERS, persist_ms=200)
        self.client.await_received("consumer", 4)
        self.client.await_queues("consumer", TOPIC, 4)
        for name, rows in {
            "topics": [{"topicName": f"Listed{n}", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6} for n in (1, 2)],
            "groups": [{"groupName": f"Listed{n}"} for n in (1, 2)],
        }.items():
            self.values[name] = str(self.folder / f"{name}.json")
            Path(self.values[name]).write_text(json.dumps(rows))
        master, (slave,) = self.group.master(), self.group.slaves()
        log = self.folder / "copied-log"
        shutil.copy(min((master.root / "commitlog").iterdir()), log)
        assert self.group.namesrv is not None
        self.values |= {
            "cluster": CLUSTER,
            "group": GROUP,
            "topic": TOPIC,
            "consumers": CONSUMERS,
            "producers": PRODUCERS,
            "master": master.address,
            "slave": slave.address,
            "slave_id": str(slave.broker_id()),
            "dead_id": str(master.broker_id()),
            "guarded": self.guarded.address,
            "controller": self.group.controllers.nodes[0].address,
            "namesrv": self.group.namesrv.address,
            "id": str(sent[0]["id"]),
            "offset_id": str(sent[0]["offset_id"]),
            "key": str(sent[0]["key"]),
            "log": str(log),
            "folder": str(self.folder),
        }

    def kill(self) -> None:
        for process in (self.admin, self.client, self.guarded):
            process.kill()
        self.group.kill()

    def run(self) -> dict[str, Outcome]:
        for line in LITE_TOPIC:
            self.admin.run(*line.format(**self.values).split())
        found: dict[str, Outcome] = {}
        for command in COMMANDS:
            if command.name == "cleanBrokerMetadata":  # of the one that electMaster has made a slave
                self.group.await_whole()
                next(b for b in self.group.brokers if str(b.broker_id()) == self.values["dead_id"]).kill()
            found[command.name] = self.outcome(command)
            if command.name == "sendMessage":
                self.values["traced"] = found["sendMessage"].text.split()[-1]
        return found

    def outcome(self, command: Command) -> Outcome:
        arguments = [command.name, *command.arguments.format(**self.values).split()]
        end = time.monotonic() + WAIT_S * command.waits
        while True:
            text = self.admin.run(*arguments, limit_s=FOREVER_S if command.forever else 60)
            outcome = Outcome(self.masked(text.strip()))
            if not outcome.failed and bool(text) is not command.silent and command.shows in text:
                return outcome
            if time.monotonic() > end:
                return outcome if text else Outcome("error: it printed nothing")

    def masked(self, text: str) -> str:
        for name in ("master", "slave", "guarded", "controller", "namesrv", "folder"):
            text = text.replace(self.values[name], name.upper())
        return text


def run_on(kind: str) -> dict[str, Outcome]:
    """Of each command what it printed against servers of one kind."""
    side = Side(kind, scratch(f"mqadmin-{kind}"))
    try:
        side.start()
        return side.run()
    finally:
        side.kill()


class Row(NamedTuple):
    """Of the page."""

    name: str
    needs: str
    java: str
    ours: str
    remark: str


def rows(java: Mapping[str, Outcome], ours: Mapping[str, Outcome]) -> list[Row]:
    """By the commands' names."""
    words = {False: "works", True: "fails"}
    return [
        Row(c.name, c.needs, words[java[c.name].failed], words[ours[c.name].failed], c.remark or c.differs)
        for c in sorted(COMMANDS, key=lambda c: c.name.lower())
    ]


HEAD = """mqadmin
=======

Written by ``make mqadmin-table``, which runs each command of RocketMQ 5.5.0's ``mqadmin`` once against Java's servers
and once against rocketha's: a nameserver, a controller, a group of two brokers under it, and a broker with users. The
second column says what a command does something with.

Of {all} commands {both} work with both, {java} with Java's servers alone, {ours} with rocketha's alone, {none} with
neither here. Those that work with both print the same but for what the last column says.

"""


def page(table: Sequence[Row]) -> str:
    """docs/mqadmin.rst."""
    head = Row("command", "needs", "Java", "rocketha", "remark")
    cells = [Row(f"``{row.name}``", *row[1:]) for row in table]
    widths = [max(len(row[column]) for row in (head, *cells)) for column in range(5)]
    line = "  ".join("=" * width for width in widths)

    def text(row: Row) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    count = Counter((row.java, row.ours) for row in table)
    intro = HEAD.format(
        all=len(table),
        both=count["works", "works"],
        java=count["works", "fails"],
        ours=count["fails", "works"],
        none=count["fails", "fails"],
    )
    return intro + "\n".join([line, text(head), line, *map(text, cells), line]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rst", type=Path, default=PAGE, help="the page to write")
    parser.add_argument("--outputs", type=Path, help="a folder for what each command printed")
    parser.add_argument("--kind", choices=("java", "ours"))
    options = parser.parse_args()
    found = {kind: run_on(kind) for kind in ([options.kind] if options.kind else ["java", "ours"])}
    if options.outputs is not None:
        for kind, outcomes in found.items():
            for name, outcome in outcomes.items():
                path = options.outputs / kind / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(outcome.text + "\n")
    if len(found) == 2:
        options.rst.write_text(page(rows(found["java"], found["ours"])))


if __name__ == "__main__":
    main()
