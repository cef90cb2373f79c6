"""Who may read what is left on the disk, and secrets that others can read."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess

from tests.attacks.attack import Verdict, attack
from tests.attacks.exports import export
from tests.attacks.servers import BIN, Server, free_block, group
from tests.attacks.wire import SEND_V2, ask, message


@attack("modes-after-a-life")
def modes(directory: pathlib.Path) -> Verdict:
    """A group, a switch, an export, a log file: under umask 0, directories are 0700 and files 0600 everywhere."""
    former = os.umask(0)
    try:
        with group(directory / "group", "--log-file", str(directory / "logs" / "log")) as servers:
            for number in range(50):
                ask(servers.master_port(), SEND_V2, message(f"modes-{number % 3}"), b"x")
            data = servers.data
        status, words = export(data / "broker-1", directory / "export", directory)
    finally:
        os.umask(former)
    assert status == 0, words
    open_ones, count = [], 0
    for root in (data, directory / "export", directory / "logs"):
        for path in [root, *root.rglob("*")]:
            mode, count = path.lstat().st_mode, count + 1
            if stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600):
                open_ones.append(f"{stat.S_IMODE(mode):o} {path.relative_to(directory)}")
    return Verdict(count > 50 and not open_ones, f"{count} files and directories, of other modes: {open_ones[:10]}")


def starts(directory: pathlib.Path, secret: pathlib.Path) -> tuple[bool, str]:
    """Whether a controller with this secret starts, and its last line."""
    port = free_block(1)
    keys = (f"controllerDLegerPeers=n0-127.0.0.1:{port}", "controllerDLegerSelfId=n0", f"raftSecretFile={secret}")
    sets = [word for key in keys for word in ("--set", key)]
    where = f"controllerStorePath={directory / 'controller'}"
    server = Server(directory, "rocketha-controller", *sets, "--set", where)
    try:
        server.process.wait(4)
        return False, server.log().strip().splitlines()[-1][-200:]
    except subprocess.TimeoutExpired:
        return True, ""
    finally:
        server.stop()


@attack("secret-readable-by-others")
def secrets(directory: pathlib.Path) -> Verdict:
    """A secret with each mode; as a link, a directory, short, empty, absent."""
    wrong, said, count = [], "", 0
    for mode, wanted in (
        (0o600, True),
        (0o400, True),
        (0o644, False),
        (0o604, False),
        (0o620, False),
        (0o660, False),
        (0o602, False),
    ):
        secret = directory / f"secret-{mode:o}"
        secret.write_bytes(b"s" * 32)
        secret.chmod(mode)
        started, words = starts(directory / f"mode-{mode:o}", secret)
        said = words or said
        count += 1
        wrong += [f"{mode:o} starts: {started}"] if started != wanted else []
    (directory / "short").write_bytes(b"s" * 8)
    (directory / "empty").touch()
    for name in ("short", "empty"):
        (directory / name).chmod(0o600)
    (directory / "folder").mkdir(mode=0o700)
    linked = directory / "linked"
    linked.symlink_to(directory / "secret-644")
    for name in ("short", "empty", "folder", "absent", "linked"):
        count += 1
        wrong += [f"{name} starts"] if starts(directory / f"kind-{name}", directory / name)[0] else []
    assert (BIN / "twistd").exists()
    return Verdict(not wrong, f"{count} secrets, judged wrongly: {wrong}; the words: {said}")
