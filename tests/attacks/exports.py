"""Exports into places of others, and through symbolic links on either side."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterator

from tests.attacks.attack import Verdict, attack
from tests.attacks.servers import BIN, alone, until
from tests.attacks.wire import SEND_V2, Connection, message

SIZES = (
    "mappedFileSizeCommitLog=1048576",
    "mappedFileSizeConsumeQueue=60000",
    "maxHashSlotNum=1000",
    "maxIndexNum=4000",
)
SMALL = tuple(word for size in SIZES for word in ("--set", size))
SEGMENT = "00000000000000000000"
WILD = ("../../victim", "/etc/hostname", "config/../../victim", "commitlog/../victim", "..", ".", "", "a\0b")
OWN = {"only a lock", "another replica", *(f"manifest names {wild!r}" for wild in WILD)}
"""Exports of this store, under another name or just begun: a run may go on there, but touch nothing outside of it."""
Target = tuple[str, Callable[[pathlib.Path], str | pathlib.Path]]


def store(directory: pathlib.Path, name: str = "alone", count: int = 200) -> pathlib.Path:
    """The store of a broker that has ended."""
    with alone(directory / name, *SMALL) as server, Connection(server.port) as client:
        for number in range(count):
            assert client.ask(SEND_V2, message("exported"), b"%d" % number).code == 0
    return directory / name / "store"


def export(source: str | pathlib.Path, target: str | pathlib.Path, cwd: pathlib.Path) -> tuple[int, str]:
    """Run ``rocketha export``; its exit status, and what it said."""
    names = ("--cluster", "DefaultCluster", "--broker-name", "alone", "--broker-id", "0")
    command = [str(BIN / "rocketha"), "export", "--quiet", *names, str(source), str(target)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).strip()[-300:]


def picture(directory: pathlib.Path) -> dict[str, str]:
    """Everything below: kinds, modes, contents, where links point, and when it was changed."""
    found = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        status = path.lstat()
        what = f"{status.st_mode:o} {status.st_mtime_ns}"
        if path.is_symlink():
            what += f" -> {os.readlink(path)}"
        elif path.is_file():
            what += f" {hashlib.sha256(path.read_bytes()).hexdigest()}"
        found[str(path.relative_to(directory))] = what
    return found


def filled(path: pathlib.Path, **files: bytes) -> pathlib.Path:
    """A directory with files; ``__`` in a name is a slash."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        file = path / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return path


def manifest_of(
    export_of: pathlib.Path, target: pathlib.Path, change: Callable[[dict[str, object]], object]
) -> pathlib.Path:
    """A copy of an export whose manifest says something else, without a digest of it."""
    shutil.copytree(export_of, target, symlinks=True)
    content = json.loads((target / "manifest.json").read_text())
    content.pop("sha256", None)
    change(content)
    (target / "manifest.json").write_text(json.dumps(content))
    return target


def linked(path: pathlib.Path, to: pathlib.Path | str) -> pathlib.Path:
    """A symbolic link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)
    return path


def targets(at: pathlib.Path, source: pathlib.Path, other: pathlib.Path, ours: pathlib.Path) -> Iterator[Target]:
    """Names, and what makes the foreign target below a directory."""
    zeros = b"\0" * 4096
    yield "a store", lambda d: shutil.copytree(other, d / "s")
    yield "the store itself", lambda _: source
    yield "in the store", lambda _: source / "export"
    yield "commitlog of the store", lambda _: source / "commitlog"
    yield "parent of the store", lambda _: source.parent
    yield "a file", lambda d: filled(d, file=b"x") / "file"
    yield "below a file", lambda d: filled(d, file=b"x") / "file" / "export"
    yield "one dot file", lambda d: filled(d / "t", **{".hidden": b"x"})
    yield "a subdirectory", lambda d: filled(d / "t" / "commitlog").parent
    yield "a commitlog file", lambda d: filled(d / "t", **{f"commitlog__{SEGMENT}": zeros})
    yield "a config", lambda d: filled(d / "t", config__x=b"{}")
    yield "only a lock", lambda d: filled(d / "t", lock=b"")
    yield "a manifest of nothing", lambda d: filled(d / "t", **{"manifest.json": b""})
    yield "a manifest {}", lambda d: filled(d / "t", **{"manifest.json": b"{}", "x": b"y"})
    yield "a manifest of a web application", lambda d: filled(d / "t", **{"manifest.json": b'{"name":"a","version":1}'})
    yield "a manifest null", lambda d: filled(d / "t", **{"manifest.json": b"null"})
    yield "a manifest that is a directory", lambda d: filled(d / "t" / "manifest.json").parent
    yield "a link to an empty directory", lambda d: linked(d / "t", filled(d / "real"))
    yield "a link to an export", lambda d: linked(d / "t", shutil.copytree(ours, d / "real"))
    yield "a link to nothing", lambda d: linked(d / "t", "nowhere")
    yield "a pipe", lambda d: (d.mkdir(parents=True, exist_ok=True), os.mkfifo(d / "t"), d / "t")[2]
    yield "an export without its manifest", lambda d: without(shutil.copytree(ours, d / "t"), "manifest.json")
    yield "a torn manifest", lambda d: torn(shutil.copytree(ours, d / "t"))
    for scheme in ("s3://b/k", "hdfs://h/p", "S3A://b/k", "gs://b", "http://x/y", "file://host/tmp/x", "s3:/b/k"):
        yield f"{scheme}", lambda d, scheme=scheme: scheme  # type: ignore[misc]
    yield "a mirror of names", lambda d: manifest_of(ours, d / "t", lambda m: m.update(broker_name="other"))
    yield "another replica", lambda d: manifest_of(ours, d / "t", lambda m: m.update(replica="other-9"))
    yield "a later version", lambda d: manifest_of(ours, d / "t", lambda m: m.update(version=99))
    yield "another layout", lambda d: manifest_of(ours, d / "t", lambda m: m.update(layout="dledger"))
    for wild in WILD:
        yield f"manifest names {wild!r}", lambda d, wild=wild: wild_files(ours, d, wild)  # type: ignore[misc]
    for each in ("commitlog", "offsets", "config", "manifest.json", f"commitlog/{SEGMENT}", "lock"):
        yield f"a link for {each}", lambda d, each=each: link_in(ours, d, each)  # type: ignore[misc]


def without(path: pathlib.Path, name: str) -> pathlib.Path:
    """Remove a file of it."""
    (path / name).unlink()
    return path


def torn(path: pathlib.Path) -> pathlib.Path:
    """Cut its manifest."""
    content = (path / "manifest.json").read_bytes()
    (path / "manifest.json").write_bytes(content[: len(content) // 2])
    return path


def wild_files(ours: pathlib.Path, at: pathlib.Path, name: str) -> pathlib.Path:
    """A manifest whose list of files names one elsewhere, and that one."""
    filled(at, victim=b"do not touch")
    return manifest_of(ours, at / "x" / "t", lambda manifest: renamed(manifest, name))


def renamed(manifest: dict[str, object], name: str) -> None:
    """Put the name into the list of files, whatever its shape."""
    files = manifest["files"]
    if isinstance(files, dict):
        files[name] = next(iter(files.values()), "0" * 64)
    elif isinstance(files, list) and files:
        first = files[0]
        files.append({**first, "name": name} if isinstance(first, dict) else [name, *first[1:]])


def link_in(ours: pathlib.Path, at: pathlib.Path, name: str) -> pathlib.Path:
    """An export of which a part was moved away, and a link left in its place."""
    target = at / "t"
    shutil.copytree(ours, target)
    away = filled(at / "away") / "part"
    shutil.move(target / name, away)
    (target / name).symlink_to(away)
    return target


def outside(seen: dict[str, str], place: pathlib.Path, target: str | pathlib.Path) -> dict[str, str]:
    """What was seen beside the target."""
    begin = str(pathlib.Path(target).relative_to(place))
    return {key: what for key, what in seen.items() if key != begin and not key.startswith(f"{begin}/")}


@attack("export-to-foreign-targets")
def foreign(directory: pathlib.Path) -> Verdict:
    """Each must be refused with what stands there, and beside it, as it was."""
    source, other = store(directory, "one"), store(directory, "two")
    ours = directory / "ours"
    assert export(source, ours, directory)[0] == 0
    kinds, wrong = 0, []
    for name, make in targets(directory, source, other, ours):
        kinds += 1
        place = directory / f"kind-{kinds}"
        place.mkdir()
        target = make(place)
        before = picture(place) | {f"store/{key}": value for key, value in picture(source.parent).items()}
        status, said = export(source, target, place)
        after = picture(place) | {f"store/{key}": value for key, value in picture(source.parent).items()}
        if name in OWN and status == 0 and outside(before, place, target) == outside(after, place, target):
            continue
        if before != after:
            changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
            wrong.append(f"{name}: changed {changed[:4]} with exit {status}: {said[:120]}")
        elif status not in (1, 2) or "Traceback" in said:
            wrong.append(f"{name}: exit {status}, {said[-200:]}")
    return Verdict(not wrong, f"{kinds} foreign targets, {kinds - len(wrong)} refused and unchanged; {wrong}")


@attack("export-through-links-of-the-source")
def source_links(directory: pathlib.Path) -> Verdict:
    """A store in which files and directories are links to what others keep secret: nothing of it may be exported."""
    source = store(directory, "one")
    with alone(directory / "other", *SMALL) as server, Connection(server.port) as client:
        assert client.ask(SEND_V2, message("s3cr3t"), b"s3cr3t" * 100).code == 0
    secret = filled(
        directory / "secret", table=b'{"topicConfigTable":{},"secret":"s3cr3t"}', epochs=b"1\n0\n1-0\ns3cr3t"
    )
    segment = directory / "other" / "store" / "commitlog" / SEGMENT
    leaked, said = [], []
    for name, to in (
        ("config/topics.json", secret / "table"),
        ("config/consumerOffset.json", secret / "table"),
        ("epochFileCheckpoint", secret / "epochs"),
        (f"commitlog/{SEGMENT}", segment),
        (f"commitlog/{1 << 20:020}", segment),
        ("brokerIdentity", secret / "table"),
    ):
        place = directory / name.replace("/", "-")
        shutil.copytree(source, place / "store")
        (place / "store" / name).unlink(missing_ok=True)
        (place / "store" / name).symlink_to(to)
        status, words = export(place / "store", place / "export", place)
        said.append(f"{name}: exit {status} {words[-150:]}")
        found = [path for path in place.glob("export/**/*") if path.is_file() and b"s3cr3t" in path.read_bytes()]
        leaked += [f"{name}: {words[:100]}"] if found else []
    for name in ("commitlog", "config"):
        place = directory / f"directory-{name}"
        shutil.copytree(source, place / "store")
        shutil.move(place / "store" / name, place / "moved")
        (place / "store" / name).symlink_to(place / "moved")
        said.append(f"directory {name} as a link: exit {export(place / 'store', place / 'export', place)[0]}")
    return Verdict(not leaked, f"secret exported: {leaked}; {said}")


@attack("export-whose-target-becomes-a-link")
def swapped(directory: pathlib.Path) -> Verdict:
    """Between two runs parts of an export become links to what others keep: nothing there may change."""
    source = store(directory, "one")
    wrong, exits = [], []
    for name in (
        "commitlog",
        "offsets",
        "config",
        "cuts",
        "manifest.json",
        "manifest.json.tmp",
        "lock",
        "commitlog/00000000000000000000",
    ):
        place = directory / f"swap-{name.replace('/', '-')}"
        target = place / "export"
        assert export(source, target, directory)[0] == 0
        keep = filled(place / "others", **{"topics.json": b"others", "00000000000000000000": b"others" * 100})
        if (target / name).is_dir():
            shutil.rmtree(target / name)
            (target / name).symlink_to(keep)
        else:
            (target / name).unlink(missing_ok=True)
            (target / name).symlink_to(keep if name == "cuts" else keep / "topics.json")
        before = picture(keep)
        exits.append((name, export(source, target, place)[0]))
        if picture(keep) != before:
            wrong.append(name)
    refused = all(status in (1, 2) for _, status in exits)
    return Verdict(not wrong and refused, f"written through: {wrong}; exits {exits}")


@attack("export-of-a-running-broker-then-its-own-directory")
def running(directory: pathlib.Path) -> Verdict:
    """A running broker's store is given as the target of another's export: the broker must not notice."""
    source = store(directory, "one")
    with alone(directory / "live", *SMALL) as server, Connection(server.port) as client:
        for number in range(100):
            assert client.ask(SEND_V2, message("live"), b"%d" % number).code == 0
        status, words = export(source, directory / "live" / "store", directory)
        good = sum(client.ask(SEND_V2, message("live"), b"x").code == 0 for _ in range(100))
    with alone(directory / "live", *SMALL) as again, Connection(again.port) as client:
        kept = until(lambda: client.ask(SEND_V2, message("live"), b"x").code == 0, 5)
    return Verdict(
        status == 2 and good == 100 and kept, f"exit {status} ({words[:100]}); sends afterwards {good} of 100"
    )
