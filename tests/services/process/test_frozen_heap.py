"""What the garbage collector looks at in a server's process."""

from __future__ import annotations

import subprocess
import sys

from twisted.application.service import MultiService
from twisted.trial import unittest

from rocketha.services.broker import tap as broker_tap
from rocketha.services.cluster import tap as cluster_tap
from rocketha.services.controller import tap as controller_tap
from rocketha.services.namesrv import tap as namesrv_tap

PROGRAM = """
import gc, weakref
import rocketha.services.controller.service
from rocketha.services.process.server import FrozenHeap

class Node:
    pass

before, lasting = Node(), Node()
before.itself = before
gone = weakref.ref(before)
del before
FrozenHeap().privilegedStartService()
assert gone() is None, "garbage of the start was kept for ever"
assert gc.get_freeze_count() > 10_000 > 100 * len(gc.get_objects()), (gc.get_freeze_count(), len(gc.get_objects()))
assert not any(each is lasting for each in gc.get_objects())
after = Node()
after.itself = after
gone = weakref.ref(after)
del after
gc.collect()
assert gone() is None, "garbage since then is kept"
"""


class FrozenHeapTests(unittest.SynchronousTestCase):
    def test_what_the_process_began_with(self) -> None:
        """Is not looked at again, without its garbage; what comes later is."""
        ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_every_server_has_it(self) -> None:
        """Of each ``twistd`` plugin."""
        for tap in (broker_tap, cluster_tap, controller_tap, namesrv_tap):
            options = tap.Options()
            options.parseOptions([])
            whole = tap.makeService(options)
            assert isinstance(whole, MultiService)
            with self.subTest(tap.__name__):
                self.assertEqual(whole.getServiceNamed("frozen heap").name, "frozen heap")
