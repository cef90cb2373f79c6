"""Floods of names, ids and addresses: what a server keeps of them in memory, and whether it goes on."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import time
import urllib.error
from collections.abc import Callable

from tests.attacks.attack import Verdict, attack
from tests.attacks.registrations import registration, topics
from tests.attacks.servers import Alone, Server, alone, get, group, nameserver, rss_mib
from tests.attacks.victim import Victim
from tests.attacks.wire import (
    APPLY_ID,
    BROKER_HEARTBEAT,
    HEARTBEAT,
    HOST,
    LOCK,
    NEXT_ID,
    REGISTER_BROKER,
    ROUTE,
    SEND_V2,
    STRANGER,
    Connection,
    ask,
    consumers,
    frame,
    message,
)

MANY = 50_000
SECONDS = 60.0
AT_ONCE = 50


def pipelined(
    port: int,
    request: Callable[[int], bytes],
    many: int = MANY,
    source: str = HOST,
    kept: list[Connection] | None = None,
) -> tuple[int, dict[int, int]]:
    """Send so many requests, 50 at a time, for a minute at most; how many were sent, and answers by code.

    The connection is closed, or kept open in ``kept``.
    """
    codes: dict[int, int] = {}
    deadline, sent, connection = time.monotonic() + SECONDS, 0, None
    while sent < many and time.monotonic() < deadline:
        try:
            connection = connection or Connection(port, 15, source)
            connection.socket.sendall(b"".join(map(request, range(sent, min(many, sent + AT_ONCE)))))
            for _ in range(min(AT_ONCE, many - sent)):
                header, _ = connection.next_frame(time.monotonic() + 15)
                codes[header["code"]] = codes.get(header["code"], 0) + 1
        except OSError:
            codes[-1] = codes.get(-1, 0) + 1
            connection = None
        sent += AT_ONCE
    if connection is not None and kept is not None:
        kept.append(connection)
    elif connection is not None:
        connection.close()
    return sent, codes


def flood(server: Alone, request: Callable[[int], bytes], bound_mib: float, many: int = MANY) -> Verdict:
    """Flood a broker alone; it may grow by so much, and must go on serving a client without a gap of a second."""
    ask(server.port, SEND_V2, message("before"), b"x")
    before, began = server.rss_mib(), time.monotonic()
    with Victim(lambda: server.port, pause_s=0.02) as victim:
        sent, codes = pipelined(server.port, request, many)
        code = ask(server.port, SEND_V2, message("before"), b"x").code
        meanwhile, after = victim.between(began, time.monotonic()), server.rss_mib()
    figures = f"{sent} requests, answers {codes}: {before:.0f} to {after:.0f} MiB; then a send {code};"
    return Verdict(
        after - before <= bound_mib and code == 0 and meanwhile.longest_s < 1, f"{figures} sends beside it {meanwhile}"
    )


@attack("flood-topics-broker")
def broker_topics(directory: pathlib.Path) -> Verdict:
    """Each send names a new topic, which the default creates, as Java's does."""
    with alone(directory) as server:
        verdict = flood(server, lambda number: frame(SEND_V2, message(f"flood-{number}"), b"x"), 400)
        files = sum(len(names) for _, _, names in os.walk(directory / "store" / "consumequeue"))
        used = sum(each.stat().st_blocks * 512 for each in (directory / "store").rglob("*") if each.is_file())
        return Verdict(verdict.held, f"{verdict.figures}; {files} files of queues, {used / 2**20:.0f} MiB of disk")


@attack("flood-groups-broker")
def broker_groups(directory: pathlib.Path) -> Verdict:
    """Each heartbeat of one client names a new group."""
    with alone(directory) as server:
        return flood(server, lambda number: frame(HEARTBEAT, {}, consumers(f"flood-{number}")), 200)


@attack("flood-groups-in-one-heartbeat")
def broker_groups_at_once(directory: pathlib.Path) -> Verdict:
    """50 heartbeats of 1,000 new groups each."""
    with alone(directory) as server:

        def request(number: int) -> bytes:
            return frame(HEARTBEAT, {}, consumers(*(f"flood-{number}-{each}" for each in range(1000))))

        return flood(server, request, 200, 50)


@attack("flood-client-ids-broker")
def broker_clients(directory: pathlib.Path) -> Verdict:
    """Each heartbeat on one connection has a new client id."""
    with alone(directory) as server:
        return flood(server, lambda number: frame(HEARTBEAT, {}, consumers("group", client=f"client@{number}")), 100)


@attack("flood-offsets-broker")
def broker_offsets(directory: pathlib.Path) -> Verdict:
    """Each commit is of a new group and queue of a topic that is there."""
    with alone(directory) as server:

        def request(number: int) -> bytes:
            return frame(15, {"consumerGroup": f"g-{number}", "topic": "before", "queueId": 0, "commitOffset": 0})

        return flood(server, request, 100)


@attack("flood-locks-broker")
def broker_locks(directory: pathlib.Path) -> Verdict:
    """Each lock is of a new group and topic."""
    with alone(directory) as server:

        def request(number: int) -> bytes:
            queue = {"brokerName": "alone", "topic": f"t-{number}", "queueId": 0}
            return frame(
                LOCK, {}, json.dumps({"clientId": "c", "consumerGroup": f"g-{number}", "mqSet": [queue]}).encode()
            )

        return flood(server, request, 100)


@attack("flood-layouts-of-properties")
def broker_layouts(directory: pathlib.Path) -> Verdict:
    """20,000 sends, each with properties of other names, every tenth with 30,000 bytes of them."""
    with alone(directory) as server:

        def request(number: int) -> bytes:
            count = 600 if number % 10 == 0 else 10
            properties = "\x02".join(f"{number:x}name{each:030}\x01{each}" for each in range(count)) + "\x02"
            return frame(SEND_V2, message("before", properties=properties), b"x")

        return flood(server, request, 100, 20_000)


@attack("flood-names-of-fields")
def broker_fields(directory: pathlib.Path) -> Verdict:
    """50,000 requests with header fields, languages and codes of names that nobody knows."""
    with alone(directory) as server:
        return flood(server, lambda number: frame(400_000 + number, {f"field{number}": number, "c": "x"}), 50)


@attack("flood-status-paths")
def status_paths(directory: pathlib.Path) -> Verdict:
    """2,000 pages of other names at the status port, and then the metrics' size."""
    with alone(directory) as server:
        size, before = len(get(server.status_port, "/metrics")), server.rss_mib()
        for number in range(2000):
            with contextlib.suppress(urllib.error.HTTPError):
                get(server.status_port, f"/page-{number}?x={number}")
        grown, after = len(get(server.status_port, "/metrics")) - size, server.rss_mib()
        figures = f"2000 pages: metrics grew by {grown} bytes, {before:.0f} to {after:.0f} MiB"
        return Verdict(grown < 2000 and after - before < 20, figures)


def newcomer(server: Server) -> tuple[int, int]:
    """What a true broker's registration is answered, and its route."""
    with Connection(server.port) as broker:
        code = broker.ask(REGISTER_BROKER, registration("true", "127.0.0.1:1"), topics("orders")).code
        return code, broker.ask(ROUTE, {"topic": "orders"}).code


@attack("flood-registrations-nameserver")
def nameserver_names(directory: pathlib.Path) -> Verdict:
    """Each registration has a name, a cluster and an address of its own."""
    with nameserver(directory) as server:

        def request(number: int) -> bytes:
            where = registration(f"b-{number}", f"10.0.{number // 250}.{number % 250}:10911", f"c-{number}")
            return frame(REGISTER_BROKER, where, topics("t"))

        before, kept = server.rss_mib(), list[Connection]()
        sent, codes = pipelined(server.port, request, source=STRANGER, kept=kept)
        after = server.rss_mib()
        code, route = newcomer(server)
        figures = f"{sent} registrations, answers {codes}: {before:.0f} to {after:.0f} MiB;"
        figures += f" then a true broker {code}, its route {route}"
        return Verdict(after - before < 200 and code == route == 0, figures)


@attack("flood-topics-nameserver")
def nameserver_topics(directory: pathlib.Path) -> Verdict:
    """50 registrations of 1,000 new topics each, then a true broker's."""
    with nameserver(directory) as server:
        before = server.rss_mib()
        codes: dict[int, int] = {}
        with Connection(server.port, 20, STRANGER) as stranger:
            for number in range(300):
                body = topics(*(f"t-{number}-{each}" for each in range(1000)), counter=number)
                code = stranger.ask(REGISTER_BROKER, registration(f"b-{number}", f"10.0.{number}.1:1"), body).code
                codes[code] = codes.get(code, 0) + 1
            after = server.rss_mib()
            code, route = newcomer(server)
        figures = f"300,000 topics, answers {codes}: {before:.0f} to {after:.0f} MiB;"
        figures += f" then a true broker {code}, its route {route}"
        return Verdict(after - before < 400 and code == 0, figures)


@attack("flood-keys-nameserver")
def nameserver_keys(directory: pathlib.Path) -> Verdict:
    """Each puts a new key of the nameserver's key-value configuration, which goes to a file."""
    with nameserver(directory) as server:

        def request(number: int) -> bytes:
            return frame(100, {"namespace": f"n-{number % 100}", "key": f"k-{number}", "value": "v" * 100})

        before = server.rss_mib()
        sent, codes = pipelined(server.port, request)
        after = server.rss_mib()
        code = ask(server.port, ROUTE, {"topic": "orders"}).code
        figures = f"{sent} keys, answers {codes}: {before:.0f} to {after:.0f} MiB; then a route {code}"
        return Verdict(after - before < 100 and code == 17, figures)


@attack("flood-ids-controllers")
def controller_ids(directory: pathlib.Path) -> Verdict:
    """A stranger takes ids of the true set as quickly as he can; a true broker must still get one."""
    with group(directory) as servers:
        who: dict[str, object] = {"clusterName": servers.cluster, "brokerName": servers.name}
        codes: dict[int, int] = {}
        began = time.monotonic()
        with Connection(servers.leader(), source=STRANGER) as stranger:
            for number in range(300):
                following = stranger.ask(NEXT_ID, who).fields["nextBrokerId"]
                check = {
                    "appliedBrokerId": following,
                    "registerCheckCode": f"10.0.0.{number % 250}:{number + 1};{number}",
                }
                code = stranger.ask(APPLY_ID, {**who, **check}).code
                codes[code] = codes.get(code, 0) + 1
        took = time.monotonic() - began
        following = servers.control(NEXT_ID, who).fields["nextBrokerId"]
        answer = servers.control(APPLY_ID, {**who, "appliedBrokerId": following, "registerCheckCode": "127.0.0.1:1;1"})
        figures = f"300 requests in {took:.1f} s, answers {codes};"
        figures += f" then a broker of another address {answer.code} {answer.remark}"
        return Verdict(codes.get(0, 0) < 64 and answer.code == 0, figures)


def controllers_flooded(directory: pathlib.Path, request: Callable[[str, int], bytes], many: int = MANY) -> Verdict:
    """Flood the leader; a true group must still be served, and a newcomer's set be taken."""
    with group(directory) as servers:
        leader, kept = servers.leader(), list[Connection]()
        pids = [servers.pid(port) for port in servers.controller_ports]
        before, epoch = [rss_mib(pid) for pid in pids], servers.epochs()[0]
        sent, codes = pipelined(leader, lambda number: request(servers.cluster, number), many, STRANGER, kept)
        after = [rss_mib(pid) for pid in pids]
        grown = max(end - begin for begin, end in zip(before, after))
        fields: dict[str, object] = {"clusterName": servers.cluster, "brokerName": "newcomer", "appliedBrokerId": 1}
        answer = servers.control(APPLY_ID, {**fields, "registerCheckCode": "127.0.0.1:1;1"})
        same = servers.epochs()[0] == epoch and servers.leader() == leader
        disk = sum(each.stat().st_size for each in servers.data.glob("controller-*/**/*") if each.is_file()) / 2**20
        figures = (
            f"{sent} requests, answers {codes}: a controller grew by {grown:.0f} MiB, disk of the three {disk:.0f} MiB;"
            f" no election {same}; a newcomer's set {answer.code} {answer.remark}"
        )
        return Verdict(grown < 150 and same and answer.code == 0, figures)


@attack("flood-groups-controllers")
def controller_groups(directory: pathlib.Path) -> Verdict:
    """Each applies for the first id of a set of a new name."""

    def request(cluster: str, number: int) -> bytes:
        fields: dict[str, object] = {"clusterName": cluster, "brokerName": f"flood-{number}", "appliedBrokerId": 1}
        return frame(APPLY_ID, {**fields, "registerCheckCode": f"10.0.0.1:{number % 60000 + 1};{number}"})

    return controllers_flooded(directory, request)


@attack("flood-heartbeats-controllers")
def controller_heartbeats(directory: pathlib.Path) -> Verdict:
    """Each is of a broker of another name, with the longest life there is."""

    def request(cluster: str, number: int) -> bytes:
        fields: dict[str, object] = {"clusterName": cluster, "brokerName": f"flood-{number}", "brokerId": number}
        fields |= {"brokerAddr": f"10.0.0.1:{number % 60000 + 1}", "epoch": 1, "maxOffset": 1, "confirmOffset": 1}
        return frame(BROKER_HEARTBEAT, {**fields, "heartbeatTimeoutMills": 3_600_000, "electionPriority": 1})

    return controllers_flooded(directory, request)


@attack("flood-addresses-controllers")
def controller_addresses(directory: pathlib.Path) -> Verdict:
    """A set of the stranger's own is registered 5,000 times, each time with another address: entries of the log."""

    def request(cluster: str, number: int) -> bytes:
        fields: dict[str, object] = {"clusterName": cluster, "brokerName": "flood", "invokeTime": 0}
        if number == 0:
            return frame(APPLY_ID, {**fields, "appliedBrokerId": 1, "registerCheckCode": "10.0.0.1:1;1"})
        return frame(1003, {**fields, "brokerId": 1, "brokerAddress": f"10.0.0.1:{number % 60000 + 1}"})

    return controllers_flooded(directory, request, 20_000)
