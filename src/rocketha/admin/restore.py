"""``rocketha restore``: an export becomes a broker's store again.

What it must not know: what a log holds; that is in :mod:`rocketha.export.restoring`.
"""

from __future__ import annotations

import os

import click

from rocketha.admin import options, output
from rocketha.admin.commands import DONE, Given
from rocketha.admin.commands import command as declared
from rocketha.export.restoring import Restorer
from rocketha.export.target import local_path
from rocketha.store.posix_disk import PosixDisk, ReadingDisk


@declared("restore")
@click.argument("export")
@click.argument("directory")
@options.JSON
def command(args: Given) -> int:
    """Make a broker's store of an export: its messages, topics, groups and consumers' offsets.

    DIRECTORY is to be the storePathRootDir of a broker, and must be new or empty.  Every byte is compared with the
    export's digests as it is read and as it stands in the new files.  What the broker was among its replicas is not
    restored: it gets an id anew.
    """
    export, directory = (os.path.abspath(local_path(each)) for each in (args.export, args.directory))
    restorer = Restorer(ReadingDisk(), export, PosixDisk(), directory)
    for _ in restorer.run():
        pass
    manifest = restorer.manifest
    output.say(
        args,
        f"{directory}: {manifest.messages} messages in {len(manifest.segments)} files, log {manifest.begin} to "
        f"{manifest.end}; mappedFileSizeCommitLog is {manifest.file_size}",
        directory=directory,
        messages=manifest.messages,
        begin=manifest.begin,
        end=manifest.end,
        mappedFileSizeCommitLog=manifest.file_size,
    )
    return DONE
