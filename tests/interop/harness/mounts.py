"""File systems of their own for the stores of a test: one that is small, one that becomes read-only by an error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

EXT4 = Path("/sys/fs/ext4")


def why_not() -> str:
    """Empty where file systems can be mounted; else what is missing, for a skip."""
    if os.geteuid() != 0:
        return "file systems are mounted by root only"
    return "" if _run("losetup", "--find").returncode == 0 else "there is no loop device to be had"


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as problem:
        return subprocess.CompletedProcess(command, 127, "", str(problem))


def _must(*command: str) -> str:
    done = _run(*command)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


class Small:
    """A file system in memory, of so many bytes."""

    def __init__(self, at: Path, size: int) -> None:
        self.at = at
        at.mkdir(parents=True, exist_ok=True)
        _must("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at))

    def fill(self) -> Path:
        """Leave no byte; the file that takes them."""
        filler = self.at / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(1 << 20)):
                    pass
            except OSError:
                pass
        return filler

    def close(self) -> None:
        _run("umount", "-l", str(self.at))


class Fragile:
    """A file system that becomes read-only with its first error, as a real one does where its disk fails."""

    def __init__(self, at: Path, image: Path, size: int) -> None:
        self.at = at
        self._image = image
        at.mkdir(parents=True, exist_ok=True)
        with image.open("wb") as file:
            file.truncate(size)
        _must("mkfs.ext4", "-q", "-F", str(image))
        self.mount()

    def mount(self) -> None:
        _must("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.at))
        source = _must("findmnt", "-n", "-o", "SOURCE", "--target", str(self.at))
        self._error = EXT4 / Path(source).name / "trigger_fs_error"

    def fail(self) -> None:
        """An error, from now on nothing can be written."""
        self._error.write_text("a test")

    def repair(self) -> None:
        """Whoever had it open has ended: as after a look by fsck."""
        _must("umount", str(self.at))
        _run("e2fsck", "-f", "-y", str(self._image))
        self.mount()

    def close(self) -> None:
        _run("umount", "-l", str(self.at))
