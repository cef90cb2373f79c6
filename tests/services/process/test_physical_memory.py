"""How much memory counts: the machine's, or what a control group of either version allows."""

from __future__ import annotations

import pathlib
import tempfile
import unittest

from rocketha.services.process.physical_memory import physical_memory_bytes

MIB = 1 << 20


class PhysicalMemoryTests(unittest.TestCase):
    """The files of Linux, in a folder."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.machine = physical_memory_bytes(folder.name)

    def write(self, path: str, text: str) -> None:
        """A file below the root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="ascii")

    def limit(self, path: str, group: str = "", limit: str = "") -> int:
        """What there is, where the process is in this group."""
        if group:
            self.write("proc/self/cgroup", group)
        if limit:
            self.write(f"sys/fs/cgroup/{path}", limit)
        return physical_memory_bytes(str(self.root))

    def test_the_machine(self) -> None:
        """Without control groups, and in one without a limit of its own."""
        self.assertGreater(self.machine, 64 * MIB)
        self.assertEqual(self.limit("a/memory.max", "0::/a\n", "max\n"), self.machine)
        self.assertEqual(self.limit("a/memory.max", limit=f"{1 << 62}\n"), self.machine)

    def test_the_least_of_all_above(self) -> None:
        """Version 2: whichever of them allows least."""
        self.assertEqual(self.limit("a/b/memory.max", "0::/a/b\n", f"{7 * MIB}\n"), 7 * MIB)
        self.assertEqual(self.limit("a/memory.max", limit=f"{5 * MIB}\n"), 5 * MIB)

    def test_in_a_container(self) -> None:
        """Its path may be the host's, and what it sees of it only its own group, as the topmost."""
        self.assertEqual(self.limit("memory.max", "0::/docker/0123\n", f"{9 * MIB}\n"), 9 * MIB)

    def test_version_1(self) -> None:
        """A hierarchy for each controller; other controllers' limits are none of memory."""
        groups = "9:cpu,cpuacct:/c\n4:memory:/m\n0::/\n"
        self.write("sys/fs/cgroup/memory/c/memory.limit_in_bytes", f"{MIB}\n")
        self.assertEqual(self.limit("memory/m/memory.limit_in_bytes", groups, f"{6 * MIB}\n"), 6 * MIB)

    def test_what_is_no_such_file(self) -> None:
        """Is passed over."""
        self.assertEqual(self.limit("memory.max", "nonsense\n\n::\n", f"{3 * MIB}\n"), 3 * MIB)
        self.assertEqual(self.limit("memory.max", limit="-1\n"), self.machine)
