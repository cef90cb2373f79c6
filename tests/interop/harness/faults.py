"""What a test does to a running group: kills, stops, restarts, resets. Each returns when the group serves again.

The faults know nothing of messages; harness/ledger.py does the counting.
"""

from __future__ import annotations

import functools
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable

from . import ports
from .controllers import GroupState, Replica, ReplicaGroup
from .disk import Bad
from .ledger import Freeze, Load
from .processes import NotReady, Process, wait_until
from .replica_files import LogFiles, epochs
from .roles import READY_S


@functools.cache
def why_no_resets() -> str:
    """Empty where ``ss -K`` can reset a connection; else what is missing (root, iproute2, INET_DIAG_DESTROY)."""
    if shutil.which("ss") is None:
        return "resetting connections needs ss (iproute2)"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            _kill_connection(*one.getsockname(), *one.getpeername())
            other.settimeout(1)
            try:
                other.recv(1)
            except ConnectionError:
                return ""
            except TimeoutError:
                pass
    return "resetting connections needs root and a kernel with INET_DIAG_DESTROY"


def _kill_connection(ip: str, port: int, peer_ip: str, peer_port: int) -> bool:
    done = subprocess.run(
        ["ss", "-K", "-tnH", "src", f"{ip}:{port}", "dst", f"{peer_ip}:{peer_port}"], capture_output=True, check=False
    )
    return done.returncode == 0 and bool(done.stdout.strip())


def reset_connections(one: Process, others: Iterable[Process]) -> int:
    """Reset every established TCP connection between `one` and `others`, whoever opened it; how many there were."""
    listing = subprocess.run(["ss", "-tnpH", "state", "established"], capture_output=True, text=True, check=True)
    owner: dict[tuple[str, str], int] = {}
    for line in listing.stdout.splitlines():
        match = re.match(r"\s*\d+\s+\d+\s+(\S+)\s+(\S+)\s+.*pid=(\d+)", line)
        if match:
            local, peer = (re.sub(r"^\[::ffff:(.*)\]", r"\1", text) for text in match.group(1, 2))
            owner[local, peer] = int(match[3])
    pids = {process.pid for process in others}
    count = 0
    for (local, peer), pid in owner.items():
        if pid == one.pid and owner.get((peer, local)) in pids:
            ip, port = local.rsplit(":", 1)
            peer_ip, peer_port = peer.rsplit(":", 1)
            count += _kill_connection(ip, int(port), peer_ip, int(peer_port))
    return count


class Faults:
    """The faults of issues 8 and 9 on one group. What they saw is for the ledger and the reports afterwards."""

    def __init__(self, group: ReplicaGroup) -> None:
        self.group = group
        self.freezes: list[Freeze] = []  # of Java's: ours must not lose anything by them
        self.back_s: list[tuple[str, float]] = []  # from its start or thaw to a replica's place in the set
        self.diverged: list[int] = []  # bytes of killed masters' logs that nobody else had
        self.switch_s: list[tuple[str, float]] = []
        self.without_master = 0  # rounds in which the dead had to come back first

    def _epoch(self) -> int:
        state = self.group.await_master()
        return state.master_epoch

    def _next_master(
        self,
        what: str,
        since: float,
        epoch: int,
        timeout_s: float = READY_S,
        wanted: Callable[[GroupState], bool] = lambda state: True,
    ) -> GroupState:
        state = self.group.await_master(lambda s: s.master_epoch > epoch and wanted(s), timeout_s)
        self.switch_s.append((what, time.monotonic() - since))
        return state

    def kill_master(self) -> None:
        """kill -9; another takes over; the killed one comes back as a slave."""
        epoch, master = self._epoch(), self.group.master()
        began = time.monotonic()
        master.kill()
        self._next_master("kill -9 of the master", began, epoch)
        self.back(master)

    def kill_slave(self) -> None:
        """kill -9 of a slave: no switch; it comes back."""
        epoch, slave = self._epoch(), self.group.slaves()[0]
        slave.kill()
        wait_until("the slave to leave the set", lambda: self._left(slave), READY_S)
        self.back(slave)
        if self._epoch() != epoch:
            raise AssertionError("the death of a slave made a switch")

    def _left(self, broker: Replica) -> bool:
        state = self.group.state()
        return state is not None and state.ids[broker.address] not in state.in_sync

    def kill_leader(self) -> None:
        """kill -9 of the lead controller: no switch."""
        epoch = self._epoch()
        leader = self.group.controllers.await_leader()
        began = time.monotonic()
        leader.kill()
        self.group.controllers.await_leader()
        self.switch_s.append(("kill -9 of the lead controller", time.monotonic() - began))
        leader.restart()
        if self._epoch() != epoch:
            raise AssertionError("the death of a controller made a switch")
        self.group.await_whole()

    def kill_leader_and_master(self) -> None:
        epoch, master = self._epoch(), self.group.master()
        leader = self.group.controllers.await_leader()
        began = time.monotonic()
        leader.kill()
        master.kill()
        self._next_master("kill -9 of the lead controller and the master", began, epoch)
        leader.restart()
        self.back(master)

    def kill_master_and_slave(self, apart_s: float = 0.05, patience_s: float = 10) -> None:
        """kill -9 of the master and, a moment later, of a slave: perhaps of the one just elected (A23).

        The third replica may lead if nobody ever heard of the slave's election; else one of the dead must come back.
        """
        epoch, master = self._epoch(), self.group.master()
        slave = self.group.slaves()[0]
        third = next(b for b in self.group.brokers if b not in (master, slave))
        began = time.monotonic()
        master.kill()
        self.stay(apart_s)
        slave.kill()
        try:
            self._next_master(
                "kill -9 of the master and a slave",
                began,
                epoch,
                patience_s,
                wanted=lambda s: s.master_address == third.address,
            )
        except NotReady:
            self.without_master += 1
        for broker in (master, slave):  # both at once: the one that may lead may be the other
            broker.spawn()
        self.group.await_whole(2 * READY_S)

    def freeze_master(self, thawed_after_s: float = 1.0) -> None:
        """SIGSTOP until another is master and `thawed_after_s` more, then SIGCONT."""
        epoch, master = self._epoch(), self.group.master()
        began, began_ms = time.monotonic(), int(time.time() * 1000)
        master.signal(signal.SIGSTOP)
        try:
            self._next_master("SIGSTOP of the master", began, epoch)
            self.stay(thawed_after_s)
        finally:
            master.signal(signal.SIGCONT)
        if master.implementation == "java":
            self.freezes.append(Freeze(master.address, began_ms, int(time.time() * 1000)))
        else:
            self._counts(master, "ours thawed", time.monotonic())

    def stop_master(self) -> None:
        """SIGTERM; another takes over; the stopped one comes back as a slave."""
        self.back(self._stopped_master("clean stop of the master"))

    def _stopped_master(self, what: str) -> Replica:
        epoch, master = self._epoch(), self.group.master()
        began = time.monotonic()
        master.signal(signal.SIGTERM)
        self._next_master(what, began, epoch)
        wait_until("it to end", lambda: not master.running(), READY_S)
        master.kill()  # reaps it
        return master

    def exchange_slave(self, kind: str) -> Replica:
        """SIGTERM of a slave that is not of this kind; one of this kind takes its place."""
        slave = next(each for each in self.group.slaves() if each.implementation != kind)
        slave.stop()
        return self._exchanged(slave, kind)

    def exchange_master(self, kind: str) -> Replica:
        """SIGTERM of the master; another takes over, and one of this kind takes its place as a slave."""
        return self._exchanged(self._stopped_master(f"clean stop of the master, for {kind}"), kind)

    def _exchanged(self, stopped: Replica, kind: str) -> Replica:
        broker = self.group.exchange(stopped, kind)
        self.back(broker)
        return broker

    def diverge_master(self, load: Load, mib: int = 12) -> None:
        """kill -9 of a master whose log has what nobody else's has: its slaves stand still, and it is given more than
        the sockets take, by producers who wait for nobody. Another is elected, the killed one must cut its log.
        """
        epoch, master, slaves = self._epoch(), self.group.master(), self.group.slaves()
        for slave in slaves:
            slave.signal(signal.SIGSTOP)
        try:
            fill = load.begin_fill(mib, size=128 << 10, no_wait=True)
            began = time.monotonic()
            master.kill()
        finally:
            for slave in slaves:
                slave.signal(signal.SIGCONT)
        ending = load.post(op="stop", prefix=fill)
        end = LogFiles(master.root).end
        state = self._next_master("kill -9 of a master that was ahead", began, epoch)
        load.answer(ending)
        heir = next(broker for broker in slaves if broker.address == state.master_address)

        def begun() -> int | None:
            try:
                return dict(epochs(heir.root)).get(state.master_epoch)
            except Bad:  # it is being written
                return None

        start = wait_until("the epoch in the new master's file", begun, READY_S, heir.running)
        assert isinstance(start, int)
        self.diverged.append(max(0, end - start))
        self.back(master)

    def restart_all(self) -> None:
        """kill -9 of every controller and broker at once, then all of them again.

        The master goes before its slaves: a Java master that sees both connections close acknowledges alone (A21).
        """
        master = self.group.master()
        doomed = [*self.group.controllers.nodes, master, *(b for b in self.group.brokers if b is not master)]
        for process in doomed:
            process.signal(signal.SIGKILL)
        for process in doomed:
            process.kill()
        self.group.controllers.start()
        for broker in self.group.brokers:
            broker.spawn()
        self.group.await_whole(2 * READY_S)

    def move(self, broker: Replica) -> None:
        """Stop a replica, give it another port, start it again: the same id and place in the set."""
        number = broker.broker_id()
        broker.kill()
        broker.move(ports.block())
        broker.restart()
        state = self.group.await_whole(2 * READY_S)
        if dict(state.addresses).get(number) != broker.address:
            raise AssertionError(f"replica {number} moved to {broker.address}, the controllers say {state}")

    def reset_master(self) -> int:
        """Reset all connections between the healthy master and the controllers; how many."""
        return reset_connections(self.group.master(), self.group.controllers.nodes)

    def stay(self, seconds: float) -> None:
        """Let the load run on: not a wait for an event, but the time in which something must not happen."""
        time.sleep(seconds)  # see above

    def back(self, broker: Replica) -> None:
        """Start a replica that was killed; returns when the set is full, keeps how long it took to count in it."""
        broker.spawn()
        self._counts(broker, f"{broker.implementation} started", time.monotonic())
        self.group.await_whole(2 * READY_S)
        broker.await_ready()

    def _counts(self, broker: Replica, what: str, since: float) -> None:
        """Until a replica is in the SyncStateSet under a master."""
        self.group.await_master(lambda state: broker.broker_id() in state.in_sync, 2 * READY_S)
        self.back_s.append((what, time.monotonic() - since))
