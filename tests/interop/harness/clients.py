"""The official Java client and mqadmin, driven from Python.

`JavaClient` is one JVM (java/Client.java) that holds any number of producers and consumers and streams what happens
as JSON lines: methods here send a command and wait for its answer; events are collected by a reader thread and
awaited with `until()`. Use a second JavaClient where a consumer is to be killed. `Admin` runs mqadmin commands in one
JVM, `mqadmin()` a process each.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import jars
from .processes import NotReady, Process, scratch, wait_until

Event = dict[str, Any]
ANSWER_S = 120.0


class LineProcess(Process):
    """A JVM that is spoken to in JSON lines. Answers carry the number of their command, events do not."""

    main = ""
    heap_mb = 256

    def __init__(self, name: str, folder: Path | None = None, flags: tuple[str, ...] = ()) -> None:
        super().__init__(name, folder or scratch(name))
        self.flags = flags
        self.changed = threading.Condition()
        self.events: list[Event] = []
        self.answers: dict[int, Event] = {}
        self.ended = False
        self._next = 0
        self._to_write: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def command(self) -> list[str]:
        (self.folder / "home").mkdir(exist_ok=True)
        return jars.java_command(
            self.main,
            heap_mb=self.heap_mb,
            home=self.folder / "home",
            quick=True,
            flags=self.flags,
            sources=jars.SOURCES,
        )

    def _stdin(self) -> int:
        return subprocess.PIPE

    def _stdout(self) -> int | None:
        return subprocess.PIPE

    def start(self) -> Any:
        self.spawn()
        threading.Thread(target=self._read, name=f"read-{self.name}", daemon=True).start()
        self.until("the JVM's first line", lambda events: any(e.get("ev") == "ready" for e in events), 60)
        return self

    def _read(self) -> None:
        assert self.child is not None and self.child.stdout is not None
        for line in self.child.stdout:
            if not line.startswith(b"{"):
                with open(self.log_path, "ab") as log:
                    log.write(line)
                continue
            event = json.loads(line)
            with self.changed:
                if "re" in event:
                    self.answers[event["re"]] = event
                else:
                    self.events.append(event)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def post(self, **command: Any) -> int:
        """Send a command without waiting; its number, for `answer()`."""
        assert self.child is not None and self.child.stdin is not None
        self._next += 1
        self.child.stdin.write(json.dumps({**command, "id": self._next}).encode() + b"\n")
        self.child.stdin.flush()
        return self._next

    def answer(self, number: int, timeout_s: float = ANSWER_S) -> Event:
        """The answer to a posted command; AssertionError when it says "error" or does not come."""
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.answers or self.ended, timeout_s):
                raise NotReady(f"{self.name} did not answer command {number} within {timeout_s:g} s")
            if number not in self.answers:
                raise NotReady(f"{self.name} ended before it answered command {number}\n{self.tail()}")
            answer = self.answers.pop(number)
        if "error" in answer:
            raise ClientError(answer["error"], answer.get("code"))
        return answer

    def ask(self, timeout_s: float = ANSWER_S, **command: Any) -> Event:
        return self.answer(self.post(**command), timeout_s)

    def until(self, what: str, check: Callable[[list[Event]], Any], timeout_s: float) -> Any:
        """Wait until `check(events so far)` is true, looked at whenever something arrived (at most ten times a
        second)."""
        end = time.monotonic() + timeout_s
        while True:
            with self.changed:
                value = check(self.events)
                if value:
                    return value
                left = end - time.monotonic()
                if left <= 0 or self.ended:
                    state = "it ended" if self.ended else f"not within {timeout_s:g} s"
                    raise NotReady(f"{self.name}: {state}: {what}; {self.summary()}\n{self.tail()}")
                seen = len(self.events)
                self.changed.wait_for(lambda seen=seen: len(self.events) > seen or self.ended, min(left, 1))
                # let a burst gather: checks may be linear in the events
                self.changed.wait(min(0.05, max(left, 0)))

    def summary(self) -> str:
        """How many events of which kind there were, in words."""
        kinds = Counter(
            " ".join(str(event[name]) for name in ("ev", "consumer", "mode", "again") if name in event)
            for event in self.events
        )
        return f"{len(self.events)} events: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(20))

    def stop(self, timeout_s: float = 30) -> int:
        """Close its input, on which it ends."""
        if self.child is not None and self.child.stdin is not None:
            try:
                self.child.stdin.close()
            except OSError:
                pass
            try:
                self.child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                pass
        self.kill()
        return 0


class ClientError(AssertionError):
    """The Java client reported an exception; `code` is the broker's response code where there was one."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(f"{text} (code {code})")
        self.text = text
        self.code = code


class JavaClient(LineProcess):
    """One JVM with the official client. `serialize` is the header form (JSON or ROCKETMQ); `v1` sends code 10
    instead of 310.

    `rebalance_ms` is how often consumers look at their queues unasked: the client's own 20 s makes every test of a
    retry topic
    wait for it, so it is shorter here; give 20000 where being *told* of a change (code 40) is what is tested.
    """

    main = "Client"

    def __init__(
        self,
        namesrv: str,
        name: str = "client",
        *,
        serialize: str = "JSON",
        v1: bool = False,
        rebalance_ms: int = 1000,
        folder: Path | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        flags = [
            *flags,
            f"-Drocketmq.serialize.type={serialize}",
            f"-Drocketmq.client.rebalance.waitInterval={rebalance_ms}",
        ]
        if v1:
            flags.append("-Dorg.apache.rocketmq.client.sendSmartMsg=false")
        super().__init__(name, folder, tuple(flags))
        self.flags += (f"-Drocketmq.client.localOffsetStoreDir={self.folder}/offsets",)
        self.namesrv = namesrv

    # ---- producing

    def producer(self, name: str = "p", group: str = "interop-producers", **options: Any) -> None:
        """A producer. Options: timeout_ms, retries (0), queues (4), compress_over (never), compress_type (ZLIB),
        max_message_size, poll_namesrv_ms, transactional."""
        self.ask(op="producer", name=name, group=group, namesrv=self.namesrv, **options)

    def send(
        self, topic: str, mode: str = "sync", count: int = 1, *, prefix: str, producer: str = "p", **options: Any
    ) -> list[Event]:
        """Send `count` messages "prefix-0".. and return their events (key, sha, props, q, off, id, offset_id ...).

        Modes: sync, async, oneway, batch, transaction (with outcome). Options: first, threads, batch, min_size,
        max_size, text, tags, props,
        flag, seed,
        delay_level, queue (with broker), fixed_ids, inflight. Any refusal fails the test unless allow_errors is given.
        """
        allow_errors = options.pop("allow_errors", False)
        timeout_s = options.pop("timeout_s", ANSWER_S)
        number = self.post_send(topic, mode, count, prefix=prefix, producer=producer, **options)
        answer = self.answer(number, timeout_s)
        if answer["errors"] and not allow_errors:
            raise AssertionError(
                f"{answer['errors']} of {count} {mode} sends failed, first: {self.send_errors(prefix)[:3]}"
            )
        return self.sent(prefix, topic)

    def post_send(self, topic: str, mode: str, count: int, *, prefix: str, producer: str = "p", **options: Any) -> int:
        return self.post(op="send", producer=producer, topic=topic, mode=mode, count=count, prefix=prefix, **options)

    def sent(self, prefix: str, topic: str | None = None) -> list[Event]:
        with self.changed:
            return [
                e
                for e in self.events
                if e.get("ev") == "sent" and e["key"].rpartition("-")[0] == prefix and topic in (None, e["topic"])
            ]

    def send_errors(self, prefix: str) -> list[Event]:
        with self.changed:
            return [e for e in self.events if e.get("ev") == "send_error" and e["key"].rpartition("-")[0] == prefix]

    def send_back(
        self, topic: str, offset_id: str, group: str, *, producer: str = "p", broker: str = "broker-a", delay_level: int
    ) -> None:
        """Hand a message back as a consumer of `group` that failed, to get it again after that delay."""
        self.ask(
            op="send_back",
            topic=topic,
            offset_id=offset_id,
            group=group,
            producer=producer,
            broker=broker,
            delay_level=delay_level,
        )

    # ---- consuming

    def consume(
        self,
        name: str,
        topics: Mapping[str, str] | str,
        *,
        kind: str = "push",
        group: str | None = None,
        **options: Any,
    ) -> None:
        """A consumer of kind push, orderly, broadcast or lite, from the first offset, of topics {topic: tag
        expression}.

        Options: threads, pull_batch, consume_batch, fail_prefix, fail_times, retry_level, max_reconsume,
        consume_ms, persist_ms, poll_namesrv_ms, heartbeat_ms, from_last, sql (the expressions are SQL92).
        """
        wanted = {topics: "*"} if isinstance(topics, str) else dict(topics)
        self.ask(
            op="consume",
            name=name,
            kind=kind,
            group=group or f"group-{name}",
            namesrv=self.namesrv,
            topics=wanted,
            **options,
        )

    def received(self, name: str) -> list[Event]:
        with self.changed:
            return [e for e in self.events if e.get("ev") == "msg" and e["consumer"] == name]

    def await_received(self, name: str, count: int, timeout_s: float = 60) -> list[Event]:
        """Wait until consumer `name` was given at least `count` messages."""
        state = {"at": 0, "n": 0}

        def enough(events: list[Event]) -> bool:
            for event in events[state["at"] :]:
                state["n"] += event.get("ev") == "msg" and event["consumer"] == name
            state["at"] = len(events)
            return state["n"] >= count

        try:
            self.until(f"{name} to receive {count} messages", enough, timeout_s)
        except NotReady as why:
            raise NotReady(f"{name} received {state['n']} of {count}: {why}") from None
        return self.received(name)

    def queues_of(self, name: str, topic: str) -> list[str]:
        """The queues ("broker:id") that the latest rebalance gave to consumer `name`."""
        with self.changed:
            mine = [
                e["queues"]
                for e in self.events
                if e.get("ev") == "queues" and e["consumer"] == name and e["topic"] == topic
            ]
        return mine[-1] if mine else []

    def await_queues(self, name: str, topic: str, count: int, timeout_s: float = 60) -> list[str]:
        """Wait until the rebalance has given `count` queues of `topic` to consumer `name`."""
        self.until(
            f"{name} to own {count} queues of {topic}", lambda _: len(self.queues_of(name, topic)) == count, timeout_s
        )
        return self.queues_of(name, topic)

    def stop_consumer(self, name: str) -> None:
        """A clean shutdown: offsets are committed, the client unregisters."""
        self.ask(op="stop_consumer", name=name)

    def stop_producer(self, name: str = "p") -> None:
        self.ask(op="stop_producer", name=name)

    def forget(self) -> None:
        """Drop all events so far (a long class would hold hundreds of thousands)."""
        with self.changed:
            self.events.clear()

    def until_true(self, check: Callable[[], Any], what: str, timeout_s: float = 20) -> Any:
        """Ask again until the answer is something; an exception of the client counts as nothing."""

        def asked() -> Any:
            try:
                return check()
            except ClientError:
                return None

        return wait_until(what, asked, timeout_s, self.running)

    # ---- questions of a producer

    def question(
        self, what: str, topic: str, *, producer: str = "p", broker: str = "broker-a", **options: Any
    ) -> Event:
        """view (msg_id), query (key), queues, max, min, search (time), earliest; see Client.java's ask()."""
        return self.ask(op="ask", what=what, topic=topic, producer=producer, broker=broker, **options)


class Admin(LineProcess):
    """mqadmin in one long-lived JVM, against one nameserver.

    The id of a message that it sends holds an address of this machine, and is 24 bytes longer where that is one of
    IPv6.  Java takes the first that it finds, and other tests add interfaces meanwhile (network.py).
    """

    main = "Admin"

    def __init__(self, namesrv: str, folder: Path | None = None, *, user: tuple[str, str] | None = None) -> None:
        super().__init__("mqadmin", folder, ("-Djava.net.preferIPv4Stack=true",))
        self.namesrv = namesrv
        if user is not None:
            self.flags += signing(self.folder, user)

    def run(self, *arguments: str, namesrv: bool = True, limit_s: float = 0) -> str:
        """What ``mqadmin ARGUMENTS`` prints.

        :param limit_s: when to interrupt a command that goes on for ever; 0: never.
        """
        extra = ["-n", self.namesrv] if namesrv else []
        return str(self.ask(args=[*arguments, *extra], limit_ms=int(1000 * limit_s))["out"])

    def names(self) -> list[str]:
        """All its commands, sorted."""
        return [str(name) for name in self.ask(names=True)["names"]]


def signing(folder: Path, user: tuple[str, str]) -> tuple[str, ...]:
    """The flags with which mqadmin signs as a user (name, password), by a file in `folder`."""
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "tools.yml").write_text(f"accessKey: {user[0]}\nsecretKey: {user[1]}\n")
    return (f"-Drocketmq.home.dir={folder}",)


def mqadmin(
    namesrv: str,
    *arguments: str,
    timeout_s: float = 90,
    flags: tuple[str, ...] = (),
    user: tuple[str, str] | None = None,
) -> str:
    """What the unmodified ``mqadmin`` prints, in a process of its own.

    :param user: name and password that it signs with.
    """
    folder = scratch("mqadmin")
    if user is not None:
        flags = (*flags, *signing(folder, user))
    command = jars.java_command(
        "org.apache.rocketmq.tools.command.MQAdminStartup", heap_mb=128, home=folder, quick=True, flags=flags
    )
    done = subprocess.run(
        [*command, *arguments, "-n", namesrv], capture_output=True, text=True, timeout=timeout_s, cwd=folder
    )
    # logback reports its own configuration at every start
    return "\n".join(line for line in (done.stdout + done.stderr).splitlines() if "|-" not in line)


def records(log: Path, layout: str = "commitlog") -> Iterable[Event]:
    """Every record of a log's folder as Java's own decoders read it (java/Records.java).

    :param layout: dledger of a folder with DLedger's entries.
    """
    folder = scratch("records")
    command = jars.java_command("Records", heap_mb=512, home=folder, quick=True, sources=jars.SOURCES)
    done = subprocess.run([*command, str(log), layout], capture_output=True, text=True, timeout=300, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
