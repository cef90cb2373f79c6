"""Connections to a broker's ports that come and go by the thousand: the process is as large as before (G7).

A process of its own, so that descriptors and memory are the broker's alone; objects and blocks are counted by
tests/protocols/test_ha_turnover.py and tests/services/replication/test_link_costs.py. Source: issue 9 "Shows" 9.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from itertools import pairwise
from pathlib import Path

from .harness import remoting
from .harness.case import InteropCase
from .harness.ledger import Ack, Load
from .harness.links import peers
from .harness.pairs import ClassicPair, await_equal
from .harness.processes import wait_until
from .harness.replica_files import check_acknowledged
from .harness.roles import GET_BROKER_RUNTIME_INFO, Role

TIMES, AT_A_TIME = 20_000, 50
PARTS = 8
GROWTH_MAX = 2 << 20
"""Bytes of resident memory that all parts but the largest may add together: two KiB of each connection would be more.

What is leaked is leaked in each part. What the busiest moment took is added once, whenever that moment comes: fifty
strangers that are sent the log at once take 6.5 MiB, and the allocator may keep them for a while.
"""

REQUEST = remoting.frame(GET_BROKER_RUNTIME_INFO)
SAID = (b"", b"\0\0\0", bytes(8), bytes(64), b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 100, REQUEST[:-3], REQUEST)
"""Nothing, half a classic hello, a whole one (it is sent the log), zeroes, another protocol, impossible lengths, half a
request and a whole one."""
WARM_ROUNDS = 2 * 2 * len(SAID)
"""Each of them at both ports with both endings."""
PART_ROUNDS = (TIMES // AT_A_TIME - WARM_ROUNDS) // PARTS


def descriptors(process: Role) -> list[str]:
    """What each of them is: a socket, a pipe, the path of a file."""
    found = []
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            found.append(os.readlink(entry))
        except FileNotFoundError:
            pass  # closed meanwhile
    return found


def reset(stranger: socket.socket) -> None:
    """End with RST, as when a process dies with bytes unread."""
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def leave(stranger: socket.socket) -> None:
    """End in order, and read what the broker still has to say until it ends too."""
    try:
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(1 << 16):
            pass
    except ConnectionError:
        pass  # the broker refused what was said


class Reconnects(InteropCase):
    """Strangers at the ports of a synchronous pair's master."""

    pair: ClassicPair
    load: Load

    @classmethod
    def prepare(cls) -> None:
        cls.pair = ClassicPair(("ours", "ours"), cls.folder, sync=True, namesrv="ours")
        cls._shared.extend(cls.pair.processes)
        cls.pair.start()
        cls.load = cls.share(Load(cls.pair.namesrv.address, cls.folder / "load"))

    def live(self) -> list[Ack]:
        run = self.load.begin()
        self.load.await_more(run, 200)
        return self.load.end(run)

    def sockets(self) -> int:
        return sum(each.startswith("socket:") for each in descriptors(self.pair.master))

    def await_gone(self, own: int) -> None:
        """Until the broker has closed what strangers opened."""
        wait_until("sockets to be closed", lambda: self.sockets() <= own, 30, self.pair.master.running)

    def come_and_go(self, round_: int) -> None:
        """Fifty strangers at one port say the same, and end in the same way."""
        port = (self.pair.ha_port, self.pair.master.port)[round_ % 2]
        said = SAID[round_ // 2 % len(SAID)]
        end = (reset, leave)[round_ // (2 * len(SAID)) % 2]
        strangers = []
        for _ in range(AT_A_TIME):
            stranger = socket.create_connection(("127.0.0.1", port), 10)
            strangers.append(stranger)
            stranger.sendall(said)
        for stranger in strangers:
            end(stranger)
            stranger.close()

    def test_descriptors_and_memory_are_flat(self) -> None:
        """Whatever is said and however it ends; the slave's own link is the same one all the time."""
        master = self.pair.master
        acks = self.live()
        linked, own = peers(self.pair.ha_port), self.sockets()
        for round_ in range(WARM_ROUNDS):
            self.come_and_go(round_)
        self.await_gone(own)
        before, resident = len(descriptors(master)), [master.rss_bytes()]
        for round_ in range(WARM_ROUNDS, TIMES // AT_A_TIME):
            self.come_and_go(round_)
            if (round_ + 1 - WARM_ROUNDS) % PART_ROUNDS == 0:
                self.await_gone(own)
                resident.append(master.rss_bytes())
        self.await_gone(own)
        after, grown = len(descriptors(master)), [late - early for early, late in pairwise(resident)]
        said = f"{TIMES} connections: {before} descriptors, then {after}; {resident[0]} bytes grew by {grown}"
        sys.stderr.write(f"\n{said}\n")
        self.assertEqual(after, before)
        self.assertEqual(len(grown), PARTS)
        self.assertLess(sum(grown) - max(grown), GROWTH_MAX, said)
        self.assertEqual((len(linked), peers(self.pair.ha_port)), (1, linked))
        acks += self.live()
        await_equal(self.pair.brokers)
        for broker in self.pair.brokers:
            self.assertEqual(check_acknowledged(acks, broker.root), len(acks))
