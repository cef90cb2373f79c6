"""``rocketha bundle``: one archive with all that helps to help, without secrets."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import time
from collections.abc import Iterable

import click

from rocketha.admin import bundle_contents, cluster_status, doctor_page, options, output, status_page
from rocketha.admin.commands import DONE, Given
from rocketha.admin.commands import command as declared
from rocketha.admin.findings import judge
from rocketha.admin.main_loop import run_with
from rocketha.errors import ConfigError

README = """What is in here, made by rocketha bundle:

MANIFEST.txt               all that is in here, and which files of directories were left out, and why
doctor.txt, doctor.json    what rocketha doctor found
status.txt, status.json    what rocketha cluster status shows
processes/                 of each process what it tells: its effective configuration, its clients and refusals, ...
why/                       the controllers' decisions about each broker set
members/                   members of groups in DLedger mode
status-ports/              metrics, health and readiness
directories/               logs and configurations of this machine

Secrets are replaced by ***; look before you send it on.
"""


async def collect(connected: cluster_status.Connected, args: Given) -> bundle_contents.Collected:
    """Everything that can be reached.

    :raises ConfigError: a directory is none.
    """
    found = bundle_contents.Collected()
    bundle_contents.of_directories(args.directory, found)
    picture = await connected.look(args)
    findings = judge(picture)
    found.add("README.txt", README)
    found.add("doctor.txt", "\n".join(doctor_page.lines(picture, findings)) + "\n")
    found.add("doctor.json", json.dumps(doctor_page.as_json(picture, findings)))
    found.add("status.txt", "\n".join(status_page.lines(picture)) + "\n")
    found.add("status.json", json.dumps(status_page.as_json(picture)))
    await bundle_contents.of_processes(connected.client, picture, found)
    ports = [address for text in args.http for address in options.split(text)]
    await bundle_contents.of_status_ports(connected.reactor, ports, found)
    found.add("MANIFEST.txt", found.manifest())
    return found


def pack(path: str, root: str, files: Iterable[tuple[str, str]], now_s: float) -> int:
    """Write the archive, which only its owner may read; how many files it has.

    :param root: the directory in it.
    :raises ConfigError: it exists already, or cannot be written.
    """
    count = 0
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, text in files:
                data = text.encode("utf-8", "backslashreplace")
                entry = tarfile.TarInfo(f"{root}/{name}")
                entry.size, entry.mtime, entry.mode = len(data), int(now_s), 0o600
                archive.addfile(entry, io.BytesIO(data))
                count += 1
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror or problem}") from None
    return count


@declared("bundle")
@click.option("-o", "--output", metavar="FILE.tar.gz", default="", help="The archive (default: rocketha-TIME.tar.gz).")
@click.option(
    "-d",
    "--directory",
    metavar="DIR",
    multiple=True,
    help="A directory of this machine with logs, configurations or a store; may be repeated. Messages are not taken.",
)
@click.option(
    "--http", metavar="HOST:PORT[;...]", multiple=True, help="Status ports (--http of a process), for metrics."
)
@cluster_status.whole
@run_with(cluster_status.connected)
async def command(connected: cluster_status.Connected, args: Given) -> int:
    """Collect all that helps to help into one archive, without secrets.

    Of each process that answers: effective configuration, clients, refusals, epochs and Raft state; rocketha doctor's
    page; metrics of the status ports and logs of the directories that are given.  Files of these that are left out are
    counted on standard error and named in MANIFEST.txt.
    """
    now_s = cluster_status.wall_ms() / 1000
    root = f"rocketha-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now_s))}"
    path = args.output or f"{root}.tar.gz"
    if os.path.exists(path):
        raise ConfigError(f"{path} exists already")
    found = await collect(connected, args)
    count = pack(path, root, found.redacted(), now_s)
    left_out = found.why_left_out()
    for why, number in left_out.items():
        print(f"{number} files left out, see MANIFEST.txt: {why}", file=sys.stderr)
    line = f"{path}: {count} files, without secrets; look before you send it on"
    output.say(args, line, path=path, files=count, leftOut=left_out)
    return DONE
