"""Forged notices of another master (1008), which any stranger can send."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import time

from tests.attacks.attack import Verdict, attack, wait
from tests.attacks.servers import BIN, Group, Server, free_block, group, until
from tests.attacks.victim import Flood, Rate, Victim
from tests.attacks.wire import HA_STATUS, NOTICE, ONEWAY, SEND_V2, Connection, ask, frame, message

LARGEST = 2**31 - 1


def notice(master: int, address: str, epoch: int, members: tuple[int, ...]) -> bytes:
    """The frame of a notice."""
    fields = {"masterAddress": address, "masterEpoch": epoch, "syncStateSetEpoch": epoch, "masterBrokerId": master}
    body = json.dumps({"syncStateSet": list(members), "syncStateSetEpoch": epoch}).encode()
    return frame(NOTICE, dict(fields), body, ONEWAY)


def judged(before: Rate, meanwhile: Rate, after: Rate, same: bool) -> Verdict:
    """Half of the sends of before must go on, no gap may be longer than a second, and nobody else may be master."""
    figures = f"sends before {before}, during {meanwhile}, after {after}; master unchanged: {same}"
    enough = meanwhile.good / meanwhile.seconds >= 0.5 * before.good / before.seconds and meanwhile.longest_s < 1
    return Verdict(enough and same and after.bad == 0 and after.good > 0, figures)


def flooded(directory: pathlib.Path, rate: int) -> Verdict:
    """A flood of notices that name a stranger, each of a higher epoch."""
    with group(directory) as servers, Victim(servers.master_port) as victim:
        master, epochs = servers.master_port(), servers.epochs()
        victim.during(1)
        before = victim.during(3)
        with Flood(master, lambda number: notice(77, "127.0.0.1:1", 1000 + number, (77,)), rate) as flood:
            meanwhile = victim.during(5)
            sent = flood.sent
        victim.during(3)
        after = victim.during(2)
        same = servers.masters() == [master] and servers.epochs()[0] == epochs[0]
        verdict = judged(before, meanwhile, after, same)
        return Verdict(verdict.held, f"{sent} notices in 5 s; {verdict.figures}; {victim.refusals}")


@attack("notice-100-a-second")
def notice_100(directory: pathlib.Path) -> Verdict:
    """As the report had it: one good send in 7 s."""
    return flooded(directory, 100)


@attack("notice-2000-a-second")
def notice_2000(directory: pathlib.Path) -> Verdict:
    """The same, so many that each answer to them would cost."""
    return flooded(directory, 2000)


@attack("notice-makes-a-slave-master")
def notice_slave(directory: pathlib.Path) -> Verdict:
    """A slave is told in a higher epoch that it is the master, at 20 a second."""
    with group(directory) as servers, Victim(servers.master_port) as victim:
        master, slave = servers.master_port(), servers.slave_port()
        own = int(next(key for key, address in servers.route().items() if address.endswith(f":{slave}")))
        before = victim.during(2)
        believed = 0
        with Flood(slave, lambda number: notice(own, f"127.0.0.1:{slave}", 500 + number, (own,)), 20):
            began = time.monotonic()
            while time.monotonic() < began + 5:
                believed += bool(ask(slave, HA_STATUS).json()["master"])
                wait(0.1)
            meanwhile = victim.between(began, time.monotonic())
        after = victim.during(2)
        same = servers.masters() == [master] and until(lambda: len(servers.in_sync()) == 3, 10)
        verdict = judged(before, meanwhile, after, same and not believed)
        return Verdict(verdict.held, f"the slave took itself for master in {believed} of 50 looks; {verdict.figures}")


@attack("notice-largest-epoch-then-a-switch")
def notice_largest(directory: pathlib.Path) -> Verdict:
    """Every broker hears of the largest epoch there is; a real switch must work afterwards."""
    with group(directory) as servers, Victim(servers.master_port) as victim:
        victim.during(1)
        for port in servers.broker_ports:
            with Connection(port) as stranger:
                for _ in range(5):
                    stranger.socket.sendall(notice(2, "127.0.0.1:1", LARGEST, (1, 2, 3)))
        still = victim.during(3)
        return switched(servers, victim, f"sends for 3 s behind the notices {still}", still.longest_s < 1)


def switched(servers: Group, victim: Victim, begin: str, held: bool) -> Verdict:
    """Kill the master; another one must serve within 10 s, and all three be in sync within 30 s."""
    old, epoch = servers.master_port(), servers.epochs()[0]
    os.kill(servers.pid(old), signal.SIGKILL)
    killed = time.monotonic()
    elected = until(lambda: servers.epochs()[0] > epoch and servers.master_port(), 10)
    serves = until(lambda: victim.between(killed + 0.5, time.monotonic()).good > 20, 10)
    took = time.monotonic() - killed
    whole = until(lambda: len(servers.in_sync()) == 3, 30)
    figures = (
        f"{begin}; a master killed then: elected {elected}, served {serves} after {took:.1f} s, all in sync {whole}"
    )
    return Verdict(held and elected and serves and whole, figures)


@attack("notice-to-a-fenced-broker")
def notice_fenced(directory: pathlib.Path) -> Verdict:
    """A broker whose controllers are away is told that it is the master; it must not believe it."""
    first = free_block(6)
    port, away = first + 2, first + 5
    keys = ("enableControllerMode=true", f"controllerAddr=127.0.0.1:{away}", "brokerId=-1")
    sets = [word for key in keys for word in ("--set", key)]
    where = ("--data", str(directory / "store"), "--port", str(port), "--name", "fenced")
    broker = Server(directory, "rocketha-broker", *where, *sets)
    try:
        assert until(lambda: ask(port, HA_STATUS), 30), broker.log()[-2000:]
        taken = 0
        with Connection(port) as stranger:
            for number in range(10):
                stranger.socket.sendall(notice(1, f"127.0.0.1:{port}", 10 + number, (1,)))
                stranger.socket.sendall(notice(-1, f"127.0.0.1:{port}", 100 + number, (-1,)))
                answer = stranger.ask(SEND_V2, message("fenced"), b"x")
                taken += answer.code == 0
        return Verdict(
            not taken and (BIN / "twistd").exists(), f"20 notices: {taken} of 10 sends taken, the last {answer.code}"
        )
    finally:
        broker.stop()
