"""Without what only Linux has: the servers serve, are killed and recover, on the reactor that macOS has.

Nobody here has a macOS.  What can be seen is that nothing needs what that lacks, and what is done with what it has.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from rocketha.testing import RocketMQ
from tests.testing.test_servers import await_bodies, bodies, send

SITECUSTOMIZE = '''\
"""Takes away what only Linux has, before anything is imported."""

import builtins, errno, fcntl, io, os, resource, select, signal, socket, time

GONE = {
    os: (
        "eventfd", "eventfd_read", "eventfd_write", "EFD_NONBLOCK", "EFD_CLOEXEC", "fdatasync", "posix_fallocate",
        "posix_fadvise", "sendfile", "splice", "copy_file_range", "memfd_create", "pidfd_open", "preadv", "pwritev",
        "RWF_NOWAIT", "RWF_DSYNC", "RWF_SYNC", "SEEK_DATA", "SEEK_HOLE", "O_DIRECT", "O_TMPFILE", "getrandom", "pipe2",
        "timerfd_create", "unshare", "setns",
    ),
    select: ("epoll", "poll", *(name for name in dir(select) if name.startswith(("EPOLL", "POLL")))),
    time: ("CLOCK_BOOTTIME",),
    signal: ("pidfd_send_signal", "signalfd"),
    resource: ("prlimit",),
    socket: ("SO_REUSEPORT", "TCP_USER_TIMEOUT", "TCP_QUICKACK", "AF_NETLINK", "SOCK_CLOEXEC", "SOCK_NONBLOCK"),
    fcntl: (
        "F_OFD_SETLK", "F_OFD_GETLK", "F_OFD_SETLKW", "F_SETPIPE_SZ", "F_GETPIPE_SZ", "F_ADD_SEALS", "F_GET_SEALS",
        "F_NOTIFY", "F_SETLEASE", "F_GETLEASE", "F_SETSIG", "F_GETSIG",
    ),
}
for module, names in GONE.items():
    for name in (*names, *(each for each in dir(os) if module is os and each.startswith("sched_"))):
        if hasattr(module, name):
            delattr(module, name)


class WithoutProc:
    """No function: as a member of a class that would be a method, which what it stands for is not."""

    def __init__(self, call):
        self.call = call

    def __call__(self, path=".", *rest, **named):
        if isinstance(path, str) and (path + "/").startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self.call(path, *rest, **named)


builtins.open = io.open = WithoutProc(builtins.open)
for name in ("listdir", "stat", "open", "readlink"):
    setattr(os, name, WithoutProc(getattr(os, name)))
'''

LOOK = """
import os, select
from twisted.internet import reactor
gone = (os, "eventfd"), (os, "fdatasync"), (os, "pwritev"), (os, "sched_yield"), (select, "epoll"), (select, "poll")
print(type(reactor).__name__, os.path.exists("/proc/self"), [name for module, name in gone if hasattr(module, name)])
"""


class PortableTests(unittest.TestCase):
    """Each process is started with less than this one has."""

    def setUp(self) -> None:
        place = self.enterContext(tempfile.TemporaryDirectory())
        (pathlib.Path(place) / "sitecustomize.py").write_text(SITECUSTOMIZE, encoding="utf-8")
        path = os.pathsep.join((place, *filter(None, (os.environ.get("PYTHONPATH"),))))
        self.enterContext(mock.patch.dict(os.environ, {"PYTHONPATH": path}))

    def test_it_is_gone(self) -> None:
        """What the other tests rely on: Twisted takes ``select``, as on macOS."""
        done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout.strip(), "SelectReactor False []", done.stderr)

    def test_one_broker(self) -> None:
        """On a disk: what was acknowledged is there after kill -9, and after a clean stop."""
        with tempfile.TemporaryDirectory() as place:
            rocketmq = RocketMQ(directory=place, keys={"flushDiskType": "SYNC_FLUSH"})
            self.addCleanup(rocketmq.stop)
            rocketmq.start()
            address = rocketmq.brokers["broker-1"]
            self.assertEqual(send(address, b"a"), 0)
            rocketmq.kill()
            rocketmq.start()
            self.assertEqual((bodies(address), send(address, b"b")), ([b"a"], 0))
            rocketmq.stop()
            rocketmq.start()
            self.assertEqual(bodies(address), [b"a", b"b"])
            rocketmq.stop()

    def test_a_group(self) -> None:
        """Brokers and a controller: the master is killed, another follows it with all messages, and it comes back."""
        with RocketMQ(brokers=2, controllers=1) as rocketmq:
            master = rocketmq.master()
            self.assertEqual(send(rocketmq.brokers[master], b"a"), 0)
            rocketmq.kill(master)
            follower = rocketmq.brokers[rocketmq.master(after=master)]
            await_bodies(self, follower, [b"a"])
            self.assertEqual(send(follower, b"b"), 0)
            rocketmq._await(lambda: len(rocketmq.in_sync()) == 2, "it is started again")
            await_bodies(self, follower, [b"a", b"b"])
