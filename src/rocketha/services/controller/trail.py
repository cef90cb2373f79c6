"""The decisions about a group as people read them: with the time of day, and each broker by both of its names.

What it reads is the JSON of request 11003 (:mod:`rocketha.controller.audit`), so that whoever asked a controller
says the same as the controller itself.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from rocketha.observe.overview import Group, Replica
from rocketha.observe.timeline import Moment


def wall_time(ms: int) -> str:
    """Milliseconds since 1970 as the logs have it, in UTC; ``-`` where nobody noted the time."""
    if not 0 < ms < 1 << 47:
        return "-"
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


class Names:
    """What the brokers of a group are called: ``2 (10.0.0.2:10911)``, the id that the controllers gave and the address.

    :param group: of 11003.
    """

    def __init__(self, group: Mapping[str, Any]) -> None:
        self._addresses = {**group.get("cleanedBrokerAddrs", {}), **group["brokerAddrs"]}

    def of(self, broker_id: int) -> str:
        """Both; the id alone of one whose address nobody knows any more."""
        address = self._addresses.get(str(broker_id))
        return f"{broker_id} ({address})" if address else str(broker_id)


NO_EVENTS = frozenset({"ID_APPLIED", "ADDRESS_CHANGED", "ADOPTED"})
"""Decisions about who is registered: ``rocketha controller why`` has them, too."""


def moments(group: Mapping[str, Any]) -> Iterator[Moment]:
    """The decisions of a group for a timeline, oldest first, under the names of the events that said them."""
    names, name = Names(group), f"{group['clusterName']}/{group['brokerName']}"
    for each in group["decisions"]:
        if each["did"] in NO_EVENTS:
            continue
        did = each["did"].lower().replace("_", " ")
        in_sync = ", ".join(names.of(member) for member in each["syncStateSet"]) or "nobody"
        master = names.of(each["masterBrokerId"]) if each["masterBrokerId"] else "none"
        changed = each["did"] == "SET_CHANGED"
        led = f"master {master} in epoch {each['masterEpoch']}"
        text = f"{name} {did}: {led}, in sync {in_sync}"
        if changed:
            text = f"{name} in sync: {in_sync}, set epoch {each['syncStateSetEpoch']}; {led}"
        why = "" if changed else f"{each['why']}: {each['reason']}" if each["reason"] else each["why"]
        event = "group.set_changed" if changed else "group.elected"
        yield Moment(each["leaderClockMs"], event, "info", text, why)


def group_row(group: Mapping[str, Any]) -> Group:
    """The group as it is now, as far as its heartbeats tell."""
    master, in_sync = group["masterBrokerId"], group["syncStateSet"]
    heard = {each["brokerId"]: each for each in group.get("alive", ())}
    end = heard[master]["maxOffset"] if master in heard else None
    replicas = []
    for text, address in sorted(group["brokerAddrs"].items(), key=lambda item: int(item[0])):
        number = int(text)
        beat = heard.get(number)
        role = "" if beat is None else "master" if number == master else "slave"
        lag = None if beat is None or end is None else max(0, end - beat["maxOffset"])
        epoch, own_end = (None, None) if beat is None else (beat["epoch"], beat["maxOffset"])
        replicas.append(Replica(number, address, role, number in in_sync, epoch, own_end, lag))
    source = "the controllers, by heartbeats"
    name, epoch, set_epoch = group["brokerName"], group["masterEpoch"], group["syncStateSetEpoch"]
    return Group(group["clusterName"], name, source, replicas, epoch, set_epoch)
