"""Clients that are not today's Java with its JSON header: in Go, C++, Node and Rust, of Java's 4.x line, and binary.

Each is one small program in a folder of tests/interop, driven in JSON lines as `JavaClient` is, with a part of its
commands: producer, send (modes sync, async, oneway, batch, orderly; some have transaction), consume (kinds push,
orderly, pull) and stop_consumer. What it needs is installed by name, versions pinned, into a cache outside the tree,
once for each content of its folder; where that cannot be, the test is skipped and says why.

    python -m tests.interop.harness.foreign     installs those that a default run takes, prints their folders
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import jars
from .clients import Event, LineProcess
from .processes import NotReady, wait_until

FETCH_S, BUILD_S = 600, 900


def tool(name: str) -> str:
    """The path of a program of this machine."""
    found = shutil.which(name)
    if found is None:
        raise unittest.SkipTest(f"there is no {name} on the PATH")
    return found


def _run(command: Sequence[str], folder: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)


def installed(name: str, fetch: Sequence[str], build: Sequence[str] = (), files: Sequence[Path] | None = None) -> Path:
    """A copy of `files` (if not given: of those in tests/interop/`name`) in the cache, in which `fetch` and then
    `build` were run.

    A `fetch` that fails skips the test (no registry), a `build` that fails is an error.
    """
    if files is None:
        files = sorted(file for file in (jars.HERE / name).iterdir() if file.is_file())
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    folder = jars.cache() / "clients" / f"{name}-{digest.hexdigest()[:16]}"
    with jars.locked(folder.with_suffix(".lock")):
        if (folder / "done").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in files:
            shutil.copy(file, folder / file.name)
        done = _run(fetch, folder, FETCH_S)
        if done.returncode != 0:
            raise unittest.SkipTest(f"could not fetch what {name} needs: {(done.stdout + done.stderr)[-800:]}")
        if build:
            done = _run(build, folder, BUILD_S)
            if done.returncode != 0:
                raise AssertionError(f"{name} does not build: {(done.stdout + done.stderr)[-4000:]}")
        (folder / "done").touch()
    return folder


class ForeignClient(LineProcess):
    """One program; its producer is there once it has started.

    :cvar hasty: whether it hands messages back that it has shown to nobody, when more come than it has threads for.
    :cvar transactions: whether it has the mode transaction.
    """

    title = ""
    hasty = False
    transactions = False

    def __init__(self, namesrv: str, folder: Path, user: tuple[str, str] | None = None) -> None:
        super().__init__(type(self).__name__.lower(), folder)
        self.namesrv = namesrv
        self.user = user

    def environment(self) -> Mapping[str, str]:
        return {**os.environ} | ({} if self.user is None else {"ROCKETHA_USER": ":".join(self.user)})

    @classmethod
    def install(cls) -> Path:
        """The folder of what runs; SkipTest where it cannot be had."""
        raise NotImplementedError

    def start(self) -> ForeignClient:
        super().start()
        self.ask(op="producer", name="p", group=f"{self.name}-producers", namesrv=self.namesrv, compress_over=4096)
        return self

    def send(self, topic: str, mode: str, count: int, *, prefix: str, size: int = 100, **options: Any) -> list[Event]:
        """Send "prefix-0".. and return what was sent; any refusal fails the test.

        Options: tags, delay_level. Of mode orderly, every third message is for the same queue.
        """
        sizes = {"min_size": size, "max_size": size, "text": True, "batch": count}
        self.ask(op="send", producer="p", topic=topic, mode=mode, count=count, prefix=prefix, **sizes, **options)
        with self.changed:
            sent = [e for e in self.events if e.get("ev") == "sent" and e["key"].rpartition("-")[0] == prefix]
        bad = self.refused(prefix)
        if bad or len(sent) != count:
            raise AssertionError(f"{self.name} sent {len(sent)} of {count} in mode {mode}, refused: {bad[:3]}")
        return sent

    def refused(self, prefix: str) -> list[Event]:
        """Of what was sent as "prefix-0".., what was not acknowledged, with the reason as "error"."""
        with self.changed:
            return [e for e in self.events if e.get("ev") == "send_error" and e["key"].rpartition("-")[0] == prefix]

    def await_sends(self, topic: str, prefix: str, timeout_s: float) -> None:
        """Until a message is acknowledged, for a client that has not yet found the master."""
        tries = iter(range(1 << 30))

        def acknowledged() -> bool:
            try:
                self.send(topic, "sync", 1, prefix=f"{prefix}.{next(tries)}")
            except AssertionError:
                return False
            return True

        wait_until(f"{self.name} to send", acknowledged, timeout_s, self.running)

    def consume(self, name: str, kind: str, topic: str, tags: str = "*", **options: Any) -> None:
        """A consumer of a group of its own, from the first offset. Options: fail_prefix, fail_times, retry_level."""
        group = self.group(name)
        self.ask(op="consume", name=name, kind=kind, group=group, namesrv=self.namesrv, topics={topic: tags}, **options)

    def group(self, consumer: str) -> str:
        """The name of a consumer's group."""
        return f"{self.name}-{consumer}"

    def received(self, consumer: str) -> list[Event]:
        with self.changed:
            return [e for e in self.events if e.get("ev") == "msg" and e["consumer"] == consumer]

    def await_keys(self, consumer: str, keys: set[str], timeout_s: float) -> list[Event]:
        """Until `consumer` was given a message of each of `keys`."""

        def missing() -> set[str]:
            return keys - {e["key"] for e in self.received(consumer)}

        try:
            self.until(f"{consumer} to be given {len(keys)} messages", lambda _: not missing(), timeout_s)
        except NotReady as why:
            raise NotReady(f"{len(missing())} of {len(keys)} missing, such as {sorted(missing())[:5]}: {why}") from None
        return self.received(consumer)


class Go(ForeignClient):
    title = "rocketmq-client-go 2.1.2"
    transactions = True

    @classmethod
    @functools.cache
    def install(cls) -> Path:
        go = tool("go")
        return installed("go", [go, "mod", "download"], [go, "build", "-o", "client", "."])

    def command(self) -> list[str]:
        return [str(self.install() / "client")]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "HOME": str(self.folder)}


class Cpp(ForeignClient):
    title = "librocketmq 1.0.1 (PyPI rocketmq 0.4.4)"

    @classmethod
    @functools.cache
    def install(cls) -> Path:
        flags = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
        pip = [sys.executable, "-m", "pip", "install", *flags, "--target", "lib", "-r", "requirements.txt"]
        return installed("cpp", pip)

    def command(self) -> list[str]:
        return [sys.executable, str(self.install() / "client.py")]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "HOME": str(self.folder), "PYTHONPATH": str(self.install() / "lib")}


class Node(ForeignClient):
    title = "ali-ons 3.12.0"

    @classmethod
    @functools.cache
    def install(cls) -> Path:
        tool("node")
        return installed("node", [tool("npm"), "ci", "--silent", "--ignore-scripts"])

    def command(self) -> list[str]:
        return [tool("node"), str(self.install() / "client.js")]


LIMITS = ("-Xms32m", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class _Java(ForeignClient):
    """A JVM; `serialize` is the form of its headers."""

    serialize = "JSON"

    def __init__(self, namesrv: str, folder: Path) -> None:
        super().__init__(namesrv, folder)
        self.flags = (f"-Drocketmq.serialize.type={self.serialize}", f"-Drocketmq.client.logRoot={folder}/logs")


class Java4(_Java):
    title = "rocketmq-client 4.9.8"
    transactions = True

    @classmethod
    @functools.cache
    def install(cls) -> Path:
        jars.java()
        fetch = [tool("mvn"), "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        javac = [tool("javac"), "-nowarn", "-Xlint:none", "-cp", "lib/*", "-d", "classes", "OldClient.java"]
        return installed("java4", fetch, javac)

    def command(self) -> list[str]:
        path = ":".join([f"{self.install()}/classes", *self.libraries()])
        return [jars.java(), *LIMITS, *self.flags, "-cp", path, "OldClient"]

    @classmethod
    def libraries(cls) -> list[str]:
        """What the program runs with."""
        return [f"{cls.install()}/lib/*"]


class Java4Binary(Java4):
    title = "rocketmq-client 4.9.8, binary header"
    serialize = "ROCKETMQ"


class JavaRelease(Java4):
    """The same program, as it was compiled for 4.9.8, with the jars of another release: `version`."""

    version = ""

    @classmethod
    def install(cls) -> Path:
        jars.demand("rocketmq-client", cls.version)
        return super().install()

    @classmethod
    def libraries(cls) -> list[str]:
        """The release's, and the program's own reader of JSON."""
        return [f"{jars.jars(cls.version)}/*", *map(str, (cls.install() / "lib").glob("fastjson-*.jar"))]

    @staticmethod
    def of(version: str) -> type[JavaRelease]:
        """Its class."""
        members = {"version": version, "title": f"rocketmq-client {version}"}
        return type(f"Java{version.replace('.', '')}", (JavaRelease,), members)


class Spring(ForeignClient):
    """A Spring Boot application, with a template and annotated listeners."""

    title = "rocketmq-spring-boot-starter 2.3.5 (Spring Boot 3.5.7, rocketmq-client 5.3.2)"
    transactions = True

    @classmethod
    @functools.cache
    def install(cls) -> Path:
        jars.java()
        fetch = [tool("mvn"), "-q", "-B", "-C", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        javac = [tool("javac"), "-nowarn", "-Xlint:none", "-cp", "lib/*", "-d", "classes", "SpringClient.java"]
        return installed("spring", fetch, javac)

    def command(self) -> list[str]:
        folder = self.install()
        logs = f"-Drocketmq.client.logRoot={self.folder}/logs"
        return [jars.java(), *LIMITS, logs, "-cp", f"{folder}/classes:{folder}/lib/*", "interop.SpringClient"]


class Java5Binary(_Java):
    """Its heartbeats are frequent: when it shares out queues for the first time, it skips the one that would tell of it
    if another is under way just then, and a Java master refuses its pulls (25) until the next."""

    title = "rocketmq-client 5.5.0, binary header"
    main = "Client"
    serialize = "ROCKETMQ"

    def consume(self, name: str, kind: str, topic: str, tags: str = "*", **options: Any) -> None:
        super().consume(name, kind, topic, tags, heartbeat_ms=1000, **options)

    @classmethod
    def install(cls) -> Path:
        return jars.classes()


class Rust(ForeignClient):
    title = "rocketmq-client-rust 1.0.0"
    hasty = True

    @classmethod
    @functools.cache
    def install(cls) -> Path:
        cargo = tool("cargo")
        build = f"{cargo} build --locked --quiet && mv target/debug/client . && rm -rf target"
        return installed("rust", [cargo, "fetch", "--locked", "--quiet"], ["sh", "-c", build])

    def command(self) -> list[str]:
        return [str(self.install() / "client")]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "HOME": str(self.folder)}


SAMPLE: tuple[type[ForeignClient], ...] = (Go, Cpp, Node, Java4, Java5Binary)
EVERY: tuple[type[ForeignClient], ...] = (*SAMPLE, Java4Binary, Rust)


if __name__ == "__main__":
    for each in SAMPLE:
        try:
            sys.stdout.write(f"{each.install()}\n")
        except unittest.SkipTest as why:
            sys.stderr.write(f"{each.title}: {why}\n")
