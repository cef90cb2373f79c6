"""The C++ client, driven from outside: one JSON command a line on stdin, one JSON object a line on stdout.

An answer is {"re":1} or {"re":1,"error":...}, an event {"ev":"sent"|"send_error"|"msg",...}; the commands are those of
../harness/foreign.py. The C++ library speaks through the ctypes of the PyPI package that ships it.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage  # type: ignore[import-not-found]
from rocketmq.ffi import _CMessageQueue, _CPullStatus, dll  # type: ignore[import-not-found]

Command = dict[str, Any]
OUT = threading.Lock()
STOPS: dict[str, Callable[[], None]] = {}
PRODUCERS: list[Any] = []
KEPT: list[Any] = []  # what C++ may still call


def log_in(client: Any) -> None:
    """As ROCKETHA_USER=NAME:PASSWORD, if there is one."""
    name, colon, password = os.environ.get("ROCKETHA_USER", "").partition(":")
    if colon:
        client.set_session_credentials(name, password, "ALIYUN")


def say(**event: Any) -> None:
    with OUT:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def digest(body: bytes) -> str:
    return hashlib.sha1(body).hexdigest()


# ---- sending


def start_producer(c: Command) -> None:
    producer = Producer(c["group"], timeout=10_000)
    producer.set_namesrv_addr(c["namesrv"])
    log_in(producer)
    dll.SetProducerInstanceName(producer._handle, f"{c['name']}-{os.getpid()}".encode())
    producer.start()
    PRODUCERS.append(producer)


def build(c: Command, i: int) -> tuple[Any, dict[str, Any]]:
    key = f"{c['prefix']}-{i}"
    body = f"{key};".encode() * (c.get("min_size", 0) // (len(key) + 1) + 1)
    tags = c["tags"][i % len(c["tags"])] if c.get("tags") else ""
    message = Message(c["topic"])
    message.set_keys(key)
    message.set_body(body)
    if tags:
        message.set_tags(tags)
    if c.get("delay_level"):
        message.set_delay_time_level(c["delay_level"])
    about = {"key": key, "mode": c["mode"], "topic": c["topic"], "tags": tags, "size": len(body), "sha": digest(body)}
    return message, about


def report(about: dict[str, Any], error: object = None) -> None:
    if error is None:
        say(ev="sent", **about)
    else:
        say(ev="send_error", key=about["key"], mode=about["mode"], error=repr(error))


def attempt(about: dict[str, Any], send: Callable[[], Any]) -> None:
    try:
        status = getattr(send(), "status", 0)
    except Exception as error:
        report(about, error)
    else:
        report(about, None if status == 0 else status)


def send(c: Command) -> None:
    producer, mode = PRODUCERS[-1], c["mode"]
    if mode == "batch":
        made = [build(c, i) for i in range(c["count"])]
        status: list[Any] = []

        def whole() -> Any:
            if not status:
                status.append(producer.send_batch([message for message, _ in made]))
            return status[0]

        for _, about in made:
            attempt(about, whole)
        return
    flying = threading.Semaphore(0)
    started = 0
    for i in range(c["count"]):
        message, about = build(c, i)
        if mode == "async":
            KEPT.append(message)

            def done(about: dict[str, Any], error: object = None) -> None:
                report(about, error)
                flying.release()

            producer.send_async(
                message,
                lambda result, about=about: done(about, None if result.status == 0 else result.status),
                lambda error, about=about: done(about, error),
            )
            started += 1
        elif mode == "oneway":
            attempt(about, lambda message=message: producer.send_oneway(message))
        elif mode == "orderly":
            attempt(about, lambda message=message, i=i: producer.send_orderly(message, i % 3))
        else:
            attempt(about, lambda message=message: producer.send_sync(message))
    for _ in range(started):
        flying.acquire(timeout=30)


# ---- receiving


def got(name: str, message: Any) -> None:
    body = message.body
    say(
        ev="msg",
        consumer=name,
        topic=message.topic,
        key=message.keys.decode(),
        tags=(message.tags or b"").decode(),
        size=len(body),
        sha=digest(body),
        q=message.queue_id,
        off=message.queue_offset,
        again=message.reconsume_times,
        record=message.store_size,
        born=message.born_timestamp,
        at=int(time.time() * 1000),
    )


class _Again(Exception):
    """What makes the package hand a message back."""


def push(c: Command) -> Callable[[], None]:
    consumer = PushConsumer(c["group"], orderly=c["kind"] == "orderly")
    consumer.set_namesrv_addr(c["namesrv"])
    log_in(consumer)
    consumer.set_instance_name(f"{c['name']}-{os.getpid()}")
    seen: Counter[str] = Counter()

    def received(message: Any) -> None:
        got(c["name"], message)
        key = message.keys.decode()
        seen[key] += 1
        if c.get("fail_prefix") and key.startswith(c["fail_prefix"]) and seen[key] <= c["fail_times"]:
            raise _Again

    for topic, tags in c["topics"].items():
        consumer.subscribe(topic, received, tags)
    consumer.start()
    KEPT.append(consumer)
    return consumer.shutdown  # type: ignore[no-any-return]


def pull(c: Command) -> Callable[[], None]:
    """Not the package's own loop: that one keeps its offsets for all consumers of a process together."""
    consumer = PullConsumer(c["group"])
    consumer.set_namesrv_addr(c["namesrv"])
    log_in(consumer)
    consumer.start()
    ended = threading.Event()

    def read(topic: str, tags: str) -> None:
        queues = ctypes.POINTER(_CMessageQueue)()
        count = ctypes.c_int()
        dll.FetchSubscriptionMessageQueues(consumer._handle, topic.encode(), ctypes.byref(queues), ctypes.byref(count))
        offsets = [0] * count.value
        for n in itertools.cycle(range(count.value)):
            if ended.is_set():
                return
            result = dll.Pull(consumer._handle, ctypes.pointer(queues[n]), tags.encode(), offsets[n], 32)
            if result.pullStatus == _CPullStatus.FOUND:
                for k in range(result.size):
                    got(c["name"], RecvMessage(result.msgFoundList[k]))
            if result.pullStatus in (_CPullStatus.FOUND, _CPullStatus.NO_MATCHED_MSG, _CPullStatus.OFFSET_ILLEGAL):
                offsets[n] = result.nextBeginOffset
            else:
                time.sleep(0.05)  # an empty queue is answered at once, and nothing tells of the next message
            dll.ReleasePullResult(result)

    for topic, tags in c["topics"].items():
        threading.Thread(target=read, args=(topic, tags), daemon=True).start()
    KEPT.append(consumer)
    return ended.set


def run(c: Command) -> None:
    if c["op"] == "producer":
        start_producer(c)
    elif c["op"] == "send":
        send(c)
    elif c["op"] == "consume":
        STOPS[c["name"]] = pull(c) if c["kind"] == "pull" else push(c)
    elif c["op"] == "stop_consumer":
        STOPS[c["name"]]()
    else:
        raise ValueError(f"no such op: {c['op']}")


def answered(c: Command) -> None:
    try:
        run(c)
        say(re=c["id"])
    except Exception as error:
        say(re=c["id"], error=repr(error))


def main() -> None:
    say(ev="ready")
    for line in sys.stdin:
        threading.Thread(target=answered, args=(json.loads(line),), daemon=True).start()
    os._exit(0)  # C++ has threads of its own that nobody ends


if __name__ == "__main__":
    main()
