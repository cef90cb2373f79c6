"""Requests of strangers to the controllers: cleaning, five requests that make a master, forged heartbeats and sets."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import time

from tests.attacks.attack import Verdict, attack, wait
from tests.attacks.servers import Group, group, paused, until
from tests.attacks.victim import Counter, Victim
from tests.attacks.wire import (
    ALTER,
    APPLY_ID,
    BROKER_HEARTBEAT,
    CLEAN,
    ELECT,
    HOST,
    NEXT_ID,
    OUTSIDE,
    REGISTER,
    STRANGER,
    SYNC_STATE,
    Connection,
)

FAR = 2**60


def heartbeat(servers: Group, broker_id: int, address: str, **other: object) -> dict[str, object]:
    """The header of a broker's heartbeat (904)."""
    fields: dict[str, object] = {"clusterName": servers.cluster, "brokerName": servers.name, "brokerAddr": address}
    fields |= {"brokerId": broker_id, "epoch": 1, "maxOffset": 0, "confirmOffset": 0, "heartbeatTimeoutMills": 10_000}
    return fields | {"electionPriority": 1} | other


@attack("clean-a-living-set")
def clean(directory: pathlib.Path) -> Verdict:
    """1011 with every flag and list of ids."""
    with group(directory) as servers, Victim(servers.master_port) as victim:
        before, master = servers.replicas().body, servers.master_id()
        lists = (None, "", "1", "2", "3", "1;2;3", str(master), "1;2;3;4", "9", ";", "x", "-1", "1;1")
        codes: dict[str, list[int]] = {}
        began = time.monotonic()
        for living in (None, False, True):
            for ids in lists:
                fields: dict[str, object] = {
                    "clusterName": servers.cluster,
                    "brokerName": servers.name,
                    "invokeTime": 0,
                }
                fields |= {} if living is None else {"isCleanLivingBroker": living}
                fields |= {} if ids is None else {"brokerControllerIdsToClean": ids}
                codes.setdefault(str(servers.control(CLEAN, fields, source=STRANGER).code), []).append(1)
        same = servers.replicas().body == before and servers.master_id() == master
        meanwhile = victim.between(began, time.monotonic())
        answers = {code: len(each) for code, each in codes.items()}
        return Verdict(
            same and not meanwhile.bad, f"39 requests, answers {answers}; set unchanged {same}; sends {meanwhile}"
        )


def stranger_asks(servers: Group, address: str, name: str | None = None, source: str = STRANGER) -> list[int]:
    """Clean, take the next id, register, be alive, be elected; the five answers."""
    leader = servers.leader()
    who: dict[str, object] = {"clusterName": servers.cluster, "brokerName": name or servers.name}
    codes = []
    with Connection(leader, source=source) as stranger:
        for living in (False, True):
            codes.append(stranger.ask(CLEAN, {**who, "isCleanLivingBroker": living, "invokeTime": 0}).code)
        answer = stranger.ask(NEXT_ID, who)
        number = answer.fields.get("nextBrokerId", "1")
        codes += [
            answer.code,
            stranger.ask(APPLY_ID, {**who, "appliedBrokerId": number, "registerCheckCode": f"{address};1"}).code,
        ]
        codes.append(
            stranger.ask(REGISTER, {**who, "brokerId": number, "brokerAddress": address, "invokeTime": 0}).code
        )
        alive = heartbeat(servers, int(number), address, epoch=10**6, maxOffset=FAR) | who
        codes.append(stranger.ask(BROKER_HEARTBEAT, alive).code)
        for designate in (False, True):
            codes.append(
                stranger.ask(ELECT, {**who, "brokerId": number, "designateElect": designate, "invokeTime": 0}).code
            )
        stranger.ask(BROKER_HEARTBEAT, alive)
        wait(1)
    return codes


@attack("five-requests-living-set")
def five_living(directory: pathlib.Path) -> Verdict:
    """The set is alive."""
    with group(directory) as servers, Victim(servers.master_port) as victim, Counter(STRANGER, close=False) as port:
        true, epoch = servers.master_port(), servers.epochs()[0]
        victim.during(1)
        began = time.monotonic()
        codes = stranger_asks(servers, port.address)
        meanwhile = victim.during(max(0.1, began + 4 - time.monotonic()))
        same = servers.master_port() == true and servers.epochs()[0] == epoch
        return Verdict(same and meanwhile.longest_s < 1, f"answers {codes}; master unchanged {same}; sends {meanwhile}")


@attack("five-requests-stopped-set")
def five_stopped(directory: pathlib.Path) -> Verdict:
    """All three brokers stand still until nobody takes them for alive; they come back while the stranger is there."""
    with group(directory) as servers, Victim(servers.master_port) as victim, Counter(OUTSIDE, close=False) as port:
        victim.during(2)
        acknowledged = len(victim.acknowledged)
        with paused(*(servers.pid(each) for each in servers.broker_ports)):
            wait(14)
            codes = stranger_asks(servers, port.address, source=OUTSIDE)
            address = servers.replicas().fields.get("masterAddress")
            stranger_is_master = address == port.address
        back = until(lambda: servers.master_port() in servers.broker_ports and len(servers.masters()) == 1, 40)
        serves = until(lambda: len(victim.acknowledged) > acknowledged + 20, 20)
        whole = until(lambda: len(servers.in_sync()) == 3, 30)
        figures = (
            f"answers {codes}; stranger was master {stranger_is_master}; then own brokers led {back}, served {serves},"
            f" all in sync {whole}; controllers say {servers.replicas().fields} {servers.replicas().body.decode()}"
        )
        return Verdict(not stranger_is_master and back and serves and whole, figures)


@attack("five-requests-fresh-group")
def five_fresh(directory: pathlib.Path) -> Verdict:
    """A name that nobody had. Its master is whoever asks first, as with Java; the true set must not be touched."""
    with group(directory) as servers, Victim(servers.master_port) as victim, Counter(STRANGER, close=False) as port:
        before = servers.epochs()
        codes = stranger_asks(servers, port.address, "fresh")
        fresh = servers.control(1004, {"brokerName": "fresh", "clusterName": servers.cluster}).fields
        meanwhile = victim.during(3)
        same = servers.epochs() == before and not meanwhile.bad
        figures = f"answers {codes}; the stranger leads his own name {fresh.get('masterAddress') == port.address}"
        return Verdict(same, f"{figures}; the true set unchanged {same}; connected to {port.count} times")


@attack("squatted-name-is-given-back")
def squatted(directory: pathlib.Path) -> Verdict:
    """The stranger who took a name goes; an operator's clean must make it free: the next broker of
    that name is its master when the operator says so."""
    with group(directory) as servers:
        with Counter(STRANGER, close=False) as port:
            stranger_asks(servers, port.address, "fresh")
        who: dict[str, object] = {"clusterName": servers.cluster, "brokerName": "fresh"}
        cleaned = until(lambda: servers.control(CLEAN, {**who, "isCleanLivingBroker": True}).code == 0, 30, 1)
        number = servers.control(NEXT_ID, who).fields["nextBrokerId"]
        with Counter(HOST, close=False) as own:
            check = {"appliedBrokerId": number, "registerCheckCode": f"{own.address};2"}
            applied = servers.control(APPLY_ID, {**who, **check}).code
            asked = servers.control(ELECT, {**who, "brokerId": number, "designateElect": False}).code
            elected = servers.control(ELECT, {**who, "brokerId": number, "designateElect": True}).code
        figures = f"cleaned {cleaned}; the next broker of that name: id {number}, applied {applied}, asked {asked},"
        return Verdict(cleaned and applied == elected == 0 != asked, f"{figures} designated {elected}")


@attack("heartbeat-keeps-a-dead-master")
def kept_alive(directory: pathlib.Path) -> Verdict:
    """The master is frozen; a stranger sends heartbeats in its name, ten a second, to each controller."""
    with group(directory) as servers:
        port, number, epoch = servers.master_port(), servers.master_id(), servers.epochs()[0]
        took = None
        with contextlib.ExitStack() as stack:
            strangers = [stack.enter_context(Connection(each, source=STRANGER)) for each in servers.controller_ports]
            stack.enter_context(paused(servers.pid(port)))
            began = time.monotonic()
            while time.monotonic() < began + 30 and took is None:
                for each in strangers:
                    fields = heartbeat(servers, number, f"127.0.0.1:{port}", epoch=epoch, maxOffset=FAR)
                    each.tell(BROKER_HEARTBEAT, {**fields, "heartbeatTimeoutMills": 3_600_000})
                wait(0.1)
                with contextlib.suppress(OSError, KeyError):
                    if servers.epochs()[0] > epoch and servers.master_port() != port:
                        took = time.monotonic() - began
        whole = until(lambda: len(servers.in_sync()) == 3, 40)
        when = "never in 30 s" if took is None else f"after {took:.1f} s"
        return Verdict(took is not None and took < 15 and whole, f"another master {when}; all in sync later {whole}")


@attack("heartbeat-kills-a-living-master")
def killed(directory: pathlib.Path) -> Verdict:
    """Heartbeats in the master's name on connections that close at once, with the shortest life."""
    with group(directory) as servers, Victim(servers.master_port) as victim:
        number, epochs, address = servers.master_id(), servers.epochs(), f"127.0.0.1:{servers.master_port()}"
        before = victim.during(2)
        began, count = time.monotonic(), 0
        while time.monotonic() < began + 8:
            for port in servers.controller_ports:
                for at in (address, f"{STRANGER}:1", "127.0.0.1:1"):
                    with Connection(port, source=STRANGER) as stranger:
                        stranger.tell(BROKER_HEARTBEAT, heartbeat(servers, number, at, heartbeatTimeoutMills=1))
                        count += 1
            wait(0.1)
        meanwhile = victim.between(began, time.monotonic())
        victim.during(2)
        same = servers.epochs()[0] == epochs[0] and servers.masters() == [servers.master_port()]
        figures = f"{count} heartbeats; no election {same}; sends before {before}, during {meanwhile}"
        return Verdict(same and not meanwhile.bad and meanwhile.longest_s < 1, figures)


@attack("registration-moves-the-masters-address")
def moved(directory: pathlib.Path) -> Verdict:
    """1003 with the master's id and a stranger's address: slaves and the nameserver would follow it."""
    with group(directory) as servers, Victim(servers.master_port) as victim, Counter(STRANGER, close=False) as port:
        number, true, epoch = servers.master_id(), servers.master_port(), servers.epochs()[0]
        who: dict[str, object] = {"clusterName": servers.cluster, "brokerName": servers.name, "brokerId": number}
        began, wrong, codes = time.monotonic(), 0, set()
        while time.monotonic() < began + 8:
            codes.add(
                servers.control(REGISTER, {**who, "brokerAddress": port.address, "invokeTime": 0}, source=STRANGER).code
            )
            wrong += servers.replicas().fields.get("masterAddress") == port.address
            wait(0.2)
        meanwhile = victim.between(began, time.monotonic())
        back = until(lambda: servers.master_port() == true and len(servers.in_sync()) == 3, 20)
        figures = (
            f"answers {codes}; the controllers named the stranger's address in {wrong} of 40 looks, and connected to it"
            f" {port.count} times; true address later {back}, no election {servers.epochs()[0] == epoch};"
            f" sends {meanwhile}"
        )
        return Verdict(not wrong and back and meanwhile.longest_s < 1 and port.count <= 10, figures)


@attack("set-altered-by-a-stranger")
def altered(directory: pathlib.Path) -> Verdict:
    """1001 in the master's name with the epochs of the moment, which anybody may ask for."""
    with group(directory) as servers, Victim(servers.master_port) as victim:
        number, codes, changed = servers.master_id(), set(), 0
        began = time.monotonic()
        for _ in range(20):
            epoch, set_epoch = servers.epochs()
            fields = {"clusterName": servers.cluster, "brokerName": servers.name, "masterBrokerId": number}
            body = json.dumps({"syncStateSet": [number], "syncStateSetEpoch": set_epoch}).encode()
            codes.add(servers.control(ALTER, {**fields, "masterEpoch": epoch, "invokeTime": 0}, body, STRANGER).code)
            changed += servers.epochs()[1] > set_epoch
            wait(0.2)
        meanwhile = victim.between(began, time.monotonic())
        whole = until(lambda: len(servers.in_sync()) == 3, 20)
        figures = (
            f"20 requests, answers {codes}: the set changed {changed} times; sends {meanwhile}; whole later {whole}"
        )
        return Verdict(not changed and whole and not meanwhile.bad, figures)


@attack("controllers-connect-to-a-port-of-choice")
def probes(directory: pathlib.Path) -> Verdict:
    """A stranger's broker sets whose address is another's port; each is then suspected, again and again."""
    with group(directory) as servers, Counter() as foreign:
        count = 0
        for number in range(30):
            who: dict[str, object] = {"clusterName": servers.cluster, "brokerName": f"probe-{number}"}
            with Connection(servers.leader(), source=STRANGER) as stranger:
                check = {"appliedBrokerId": 1, "registerCheckCode": f"{foreign.address};1"}
                count += stranger.ask(APPLY_ID, {**who, **check}).code == 0
                stranger.ask(REGISTER, {**who, "brokerId": 1, "brokerAddress": foreign.address, "invokeTime": 0})
                stranger.ask(BROKER_HEARTBEAT, heartbeat(servers, 1, foreign.address) | who)
                stranger.ask(ELECT, {**who, "brokerId": 1, "designateElect": False, "invokeTime": 0})
        wait(15)
        return Verdict(
            foreign.count <= 5, f"{count} sets of a stranger's taken; connections to a foreign port {foreign.count}"
        )


def clean_a_slave(servers: Group) -> tuple[int, str]:
    """A slave stands still, and a stranger cleans it; its port, and what came of that."""
    slave = servers.slave_port()
    number = next(key for key, address in servers.route().items() if address.endswith(f":{slave}"))
    with paused(servers.pid(slave)):
        wait(14)
        fields = {"clusterName": servers.cluster, "brokerName": servers.name, "brokerControllerIdsToClean": number}
        code = servers.control(CLEAN, {**fields, "isCleanLivingBroker": False}, source=STRANGER).code
    return slave, f"clean of id {number}: {code}"


@attack("cleaned-member-comes-back")
def readopted(directory: pathlib.Path) -> Verdict:
    """A slave that stands still is cleaned by a stranger; back again, it must become a member by itself."""
    with group(directory) as servers, Victim(servers.master_port) as victim:
        _, cleaned = clean_a_slave(servers)
        whole = until(lambda: len(servers.in_sync()) == 3, 45)
        figures = f"{cleaned}; three in sync afterwards {whole}: {servers.in_sync()}"
        figures += f"; sends {victim.during(1)}"
        return Verdict(whole, figures)


@attack("cleaned-member-is-started-again")
def restarted(directory: pathlib.Path) -> Verdict:
    """What an operator tries then: the process of the cleaned member ends and is started again, on its own disk."""
    with group(directory) as servers, Victim(servers.master_port) as victim:
        slave, cleaned = clean_a_slave(servers)
        wait(2)
        os.kill(servers.pid(slave), signal.SIGKILL)
        whole = until(lambda: len(servers.in_sync()) == 3, 45)
        figures = f"{cleaned}; three in sync after its restart {whole}: {servers.in_sync()}"
        return Verdict(whole, f"{figures}; sends {victim.during(1)}")


@attack("registration-moves-the-slaves-addresses")
def moved_slaves(directory: pathlib.Path) -> Verdict:
    """1003 with the slaves' ids and a stranger's address; then the master is killed, and one of them is elected."""
    with group(directory) as servers, Victim(servers.master_port) as victim, Counter(STRANGER, close=False) as port:
        master, epoch = servers.master_port(), servers.epochs()[0]
        who: dict[str, object] = {"clusterName": servers.cluster, "brokerName": servers.name}
        slaves = [number for number in servers.in_sync() if number != servers.master_id()]
        codes = set()
        for _ in range(5):
            for number in slaves:
                moved = {**who, "brokerId": number, "brokerAddress": port.address, "invokeTime": 0}
                codes.add(servers.control(REGISTER, moved, source=STRANGER).code)
        named = servers.control(SYNC_STATE, {}, json.dumps([servers.name]).encode()).body.count(port.address.encode())
        os.kill(servers.pid(master), signal.SIGKILL)
        killed = time.monotonic()
        elected = until(lambda: servers.epochs()[0] > epoch and "masterAddress" in servers.replicas().fields, 10)
        address = servers.replicas().fields.get("masterAddress")
        serves = until(lambda: victim.between(killed + 0.5, time.monotonic()).good > 20, 20)
        took = time.monotonic() - killed
        whole = until(lambda: len(servers.in_sync()) == 3, 30)
        figures = (
            f"answers {codes}: the controllers have the stranger's address {named} times; the master killed then,"
            f" elected {elected} at {address} (the stranger's {address == port.address}); sends again {serves} after"
            f" {took:.1f} s; all in sync {whole}; connected to the stranger {port.count} times"
        )
        return Verdict(not named and serves and took < 12 and whole and port.count <= 5, figures)
