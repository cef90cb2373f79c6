"""Registrations at the nameserver by strangers: foreign ports, names of others, and their removal."""

from __future__ import annotations

import json
import pathlib
import time

from tests.attacks.attack import Verdict, attack, wait
from tests.attacks.servers import group, nameserver, until
from tests.attacks.victim import Counter, Victim
from tests.attacks.wire import HOST, REGISTER_BROKER, STRANGER, UNREGISTER_BROKER, Answer, Connection, ask

LATER = 2**50


def registration(name: str, address: str, cluster: str = "DefaultCluster", broker_id: int = 0) -> dict[str, object]:
    """The header of a registration (103)."""
    fields: dict[str, object] = {"brokerName": name, "brokerAddr": address, "clusterName": cluster}
    return fields | {"haServerAddr": address, "brokerId": broker_id, "bodyCrc32": 0, "compressed": False}


def topics(*names: str, state: int = 0, counter: int = 1) -> bytes:
    """Its body. One topic alone would be refused, as an update of a registration that is not there."""
    table = {
        name: {"topicName": name, "perm": 6, "readQueueNums": 4, "writeQueueNums": 4, "topicFilterType": "SINGLE_TAG"}
        | {"topicSysFlag": 0, "order": False}
        for name in (*names, "another")
    }
    version = {"counter": counter, "stateVersion": state, "timestamp": int(time.time() * 1000)}
    wrapper = {"dataVersion": version, "topicConfigTable": table}
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()


@attack("registration-of-foreign-ports")
def foreign_ports(directory: pathlib.Path) -> Verdict:
    """50 registrations whose address is another's port; connections kept, closed, and held twice."""
    with nameserver(directory) as server, Counter() as foreign, Counter(STRANGER) as own:
        taken = 0
        for number in range(50):
            for target, name in ((foreign, "f"), (own, "o")):
                with Connection(server.port, source=STRANGER) as stranger:
                    where = registration(f"{name}-{number}", target.address)
                    taken += stranger.ask(REGISTER_BROKER, where, topics("t")).code == 0
        kept = [Connection(server.port, source=STRANGER) for _ in range(20)]
        for number, stranger in enumerate(kept):
            taken += stranger.ask(REGISTER_BROKER, registration(f"k-{number}", foreign.address), topics("t")).code == 0
        wait(1)
        for stranger in kept:
            stranger.close()
        wait(8)
        figures = f"{taken} of 120 registrations taken: connected to a foreign port {foreign.count} times"
        figures += f", to the stranger's own {own.count}"
        return Verdict(taken > 0 and foreign.count == 0 and own.count <= 5, figures)


@attack("registration-of-foreign-ports-same-address")
def near_ports(directory: pathlib.Path) -> Verdict:
    """The same from the address of the port, where another's service may be: on loopback, or behind one NAT."""
    with nameserver(directory) as server, Counter() as foreign:
        taken = 0
        for number in range(100):
            where = registration(f"n-{number}", foreign.address)
            taken += ask(server.port, REGISTER_BROKER, where, topics("t")).code == 0
        wait(8)
        figures = f"{taken} of 100 registrations of one port taken, on connections that close:"
        return Verdict(taken > 0 and foreign.count <= 5, f"{figures} connected to it {foreign.count} times")


def claim(directory: pathlib.Path, state: int, counter: int, source: str) -> Verdict:
    """A stranger registers under the master's name and id."""
    with group(directory) as servers, Victim(servers.master_port) as victim, Counter(source, close=False) as stranger:
        true, wrong, looks = servers.route()["0"], 0, 0
        answers: dict[int, int] = {}
        began = time.monotonic()
        while time.monotonic() < began + 6:
            answer = _claimed(servers.port, servers.name, stranger.address, state, counter, source)
            answers[answer.code] = answers.get(answer.code, 0) + 1
            looks += 1
            wrong += servers.route().get("0") != true
            wait(0.05)
        meanwhile = victim.between(began, time.monotonic())
        stopped = time.monotonic()
        back = until(lambda: servers.route().get("0") == true, 40)
        figures = (
            f"{looks} claims (answers {answers}): the route named the stranger in {wrong} looks,"
            f" the holder's again {time.monotonic() - stopped:.1f} s after the last ({back});"
            f" connected to {stranger.count} times; sends {meanwhile}"
        )
        return Verdict(not wrong and back and stranger.count <= 5, figures)


def _claimed(port: int, name: str, address: str, state: int, counter: int, source: str) -> Answer:
    with Connection(port, source=source) as connection:
        body = topics("victims", state=state, counter=counter)
        return connection.ask(REGISTER_BROKER, registration(name, address), body)


@attack("registration-as-the-holder-same-epoch")
def claim_same(directory: pathlib.Path) -> Verdict:
    """The state version is what the master's is: 1."""
    return claim(directory, 1, LATER, STRANGER)


@attack("registration-as-the-holder-higher-epoch")
def claim_higher(directory: pathlib.Path) -> Verdict:
    """The state version is far above the master's."""
    return claim(directory, 2**31, LATER, STRANGER)


@attack("registration-of-the-holders-address")
def rewrite(directory: pathlib.Path) -> Verdict:
    """A stranger registers the master's own name, id and address, with other topics: the master's must stay."""
    with group(directory) as servers, Victim(servers.master_port) as victim:
        victim.during(2)
        true = servers.route()["0"]
        lost = 0
        for number in range(40):
            with Connection(servers.port, source=STRANGER) as stranger:
                body = topics("foreign", state=2**31, counter=LATER + number)
                stranger.ask(REGISTER_BROKER, registration(servers.name, true), body)
                lost += stranger.ask(105, {"topic": "victims"}).code != 0
        wait(1)
        with Connection(servers.port) as client:
            lost_later = client.ask(105, {"topic": "victims"}).code
        back = until(lambda: ask(servers.port, 105, {"topic": "victims"}).code == 0, 40)
        figures = f"40 forged registrations: the true topic had no route in {lost} looks, a second later {lost_later}"
        return Verdict(not lost and not lost_later, f"{figures}, back: {back}")


@attack("unregistration-of-others")
def unregister(directory: pathlib.Path) -> Verdict:
    """A stranger removes the master and a slave, 20 times."""
    with group(directory) as servers:
        true, gone = servers.route(), 0
        for _ in range(20):
            for broker_id, address in true.items():
                fields = {"brokerName": servers.name, "brokerAddr": address, "clusterName": servers.cluster}
                with Connection(servers.port, source=STRANGER) as stranger:
                    stranger.ask(UNREGISTER_BROKER, {**fields, "brokerId": broker_id})
            wait(0.1)
            gone += servers.route() != true if until(servers.route, 1) else 1
        stopped = time.monotonic()
        back = until(lambda: servers.route() == true, 40)
        took = time.monotonic() - stopped
        figures = f"60 requests: the route was not whole in {gone} of 20 looks, whole again after {took:.1f} s"
        return Verdict(not gone and back, f"{figures} ({back}), from {STRANGER} against {HOST}")
