"""Where the real RocketMQ comes from: its jars, our small Java programs compiled against them, and the flags of a JVM.

The jars come by Maven from ``tests/interop/pom.xml`` into a cache outside the tree; the programs of
``tests/interop/java`` (and of ``benchmarks/java``) are compiled once for each content of their sources. Nothing here
starts RocketMQ.

    python -m tests.interop.harness.jars        fetches and compiles, prints the two folders
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

VERSION = "5.5.0"
BASES = {"5.5.1": "5.5.0"}  # releases that Maven has in part, and the one whose other parts go with them
HERE = Path(__file__).resolve().parent.parent
SOURCES = HERE / "java"
JVM_FLAGS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)


def cache() -> Path:
    """The folder outside the tree that holds jars and classes; the Makefile names the same one."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketha"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time, of all that run on this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@functools.cache
def java() -> str:
    """The path of ``java``; skips the test that asks where there is none (or no javac beside it)."""
    home = os.environ.get("JAVA_HOME")
    for found in (str(Path(home) / "bin" / "java") if home else None, shutil.which("java")):
        if found and Path(found).exists():
            if shutil.which("javac") or (home and (Path(home) / "bin" / "javac").exists()):
                return found
    raise unittest.SkipTest("interop needs a JDK (java and javac on PATH or JAVA_HOME): none found")


@functools.cache
def jars(version: str = VERSION) -> Path:
    """The folder of a release's jars, fetched by Maven if it is not there yet; skips where that is impossible."""
    java()
    folder = cache() / f"java-{version}"
    with locked(cache() / f"java-{version}.lock"):
        if not (folder / f"rocketmq-broker-{version}.jar").exists():
            maven = shutil.which("mvn")
            if maven is None:
                raise unittest.SkipTest(f"interop needs RocketMQ's jars in {folder}, and there is no mvn to fetch them")
            done = subprocess.run(
                [
                    maven,
                    "-q",
                    "-B",
                    "-C",  # what does not have its checksum is refused
                    "-f",
                    str(HERE / "pom.xml"),
                    "dependency:copy-dependencies",
                    f"-DoutputDirectory={folder}",
                    f"-Dv={version}",
                    f"-Dbase={BASES.get(version, version)}",
                    *(("-DwithoutController",) if version.startswith("4.") else ()),
                ],
                capture_output=True,
                text=True,
                timeout=1200,
            )
            if done.returncode != 0:
                shutil.rmtree(folder, ignore_errors=True)
                raise unittest.SkipTest(
                    f"Maven could not fetch RocketMQ {version}: {(done.stdout + done.stderr)[-800:]}"
                )
    return folder


def demand(part: str, version: str) -> None:
    """Skips where a release has no such part, or Maven does not."""
    if not (jars(version) / f"{part}-{version}.jar").exists():
        raise unittest.SkipTest(f"there is no {part} {version}")


@functools.cache
def classes(sources: Path = SOURCES, lib: Path | None = None) -> Path:
    """The folder of the compiled programs of `sources`, named by a hash over them, so that an edit compiles anew.

    :param lib: the jars they are compiled against, those of RocketMQ 5.5.0 if it is not given.
    """
    files = sorted(sources.glob("*.java")) + sorted(sources.glob("*.xml"))
    digest = hashlib.sha256((VERSION if lib is None else str(lib)).encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    folder = cache() / "classes" / digest.hexdigest()[:16]
    lib = lib or jars()
    with locked(folder.with_suffix(".lock")):
        if not (folder / "done").exists():
            folder.mkdir(parents=True, exist_ok=True)
            javac = str(Path(java()).with_name("javac"))
            command = [
                javac if Path(javac).exists() else "javac",
                "-nowarn",
                "-Xlint:none",
                "-cp",
                f"{lib}/*",
                "-d",
                str(folder),
            ]
            subprocess.run([*command, *(str(f) for f in files if f.suffix == ".java")], check=True, timeout=300)
            for file in files:
                if file.suffix == ".xml":
                    shutil.copy(file, folder / file.name)
            (folder / "done").touch()
    return folder


def java_command(
    main: str,
    *,
    heap_mb: int,
    home: Path,
    quick: bool = False,
    flags: tuple[str, ...] = (),
    sources: Path | None = None,
    lib: Path | None = None,
    version: str = VERSION,
) -> list[str]:
    """The command line that runs class `main`, of `sources` if they are given, with the jars of `lib` or those of
    release `version` of RocketMQ. `quick` asks for the fast compiler only: right for short-lived programs. What it
    unpacks goes to `home`, which is made if it is not there."""
    home.mkdir(parents=True, exist_ok=True)
    path = f"{lib or jars(version)}/*"
    if sources is not None:
        path = f"{classes(sources, lib)}:{path}"
    tuning = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if quick else []
    limits = [f"-Xms{min(heap_mb, 128)}m", f"-Xmx{heap_mb}m", "-XX:MaxDirectMemorySize=512m"]
    places = [f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"]
    return [java(), *limits, *tuning, "-Xshare:auto", *JVM_FLAGS, *places, *flags, "-cp", path, main]


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{jars()}\n{classes()}\n")
    except unittest.SkipTest as why:
        sys.exit(str(why))
