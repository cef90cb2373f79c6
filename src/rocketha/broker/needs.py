"""What a request needs its user to be allowed, from its header and its body.

Pure.  Each row of the broker's table has one of these; where Java's rule names nothing the request still needs
something here.  A field that is missing stands for every topic or group: only who may do it to all may leave it out.

Java: ``DefaultAuthorizationContextBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rocketha.access.policies import Action, Kind, Need
from rocketha.broker.heartbeat import parse_heartbeat
from rocketha.broker.names import RETRY_PREFIX
from rocketha.broker.queue_locks import parse_lock_request
from rocketha.wire import json_members
from rocketha.wire.remoting import Command

Needs = Callable[[Command], Iterable[Need]]

ROWS_MAX = 10_000
"""Of a list in a body."""
GROUP_FIELDS = ("consumerGroup", "group", "groupName")

NOTHING: frozenset[Action] = frozenset()
PUB, SUB, CREATE, UPDATE, DELETE, GET = (
    frozenset((each,)) for each in (Action.PUB, Action.SUB, Action.CREATE, Action.UPDATE, Action.DELETE, Action.GET)
)


def of_topic(name: str, actions: frozenset[Action]) -> Need:
    """A group's retry topic is the group's own: whoever may consume as that may."""
    if name.startswith(RETRY_PREFIX):
        consumes = SUB if actions & (PUB | SUB) else NOTHING
        return Need(Kind.GROUP, name.removeprefix(RETRY_PREFIX), actions - PUB | consumes)
    return Need(Kind.TOPIC, name, actions)


def of_group(name: str, actions: frozenset[Action]) -> Need:
    """Some clients name a group by its retry topic."""
    return Need(Kind.GROUP, name.removeprefix(RETRY_PREFIX), actions)


def topic(actions: frozenset[Action], field: str = "topic") -> Needs:
    """The one in a header field."""
    return lambda command: (of_topic(command.fields.get(field, ""), actions),)


def any_topic(actions: frozenset[Action]) -> Needs:
    """All of them: the request does not say whose it is about."""
    needs = (Need(Kind.TOPIC, "", actions),)
    return lambda command: needs


def consume_stats(command: Command) -> Iterator[Need]:
    """The group; and the topics that are named, which are shown whether or not it subscribes to them."""
    fields = command.fields
    yield of_group(fields.get("consumerGroup", ""), GET)
    for name in filter(None, (*fields.get("topicList", "").split(";"), fields.get("topic", ""))):
        yield of_topic(name, GET)


def group(actions: frozenset[Action], *names: str) -> Needs:
    """Those in these header fields."""
    return lambda command: [of_group(command.fields.get(name, ""), actions) for name in names or ("consumerGroup",)]


def cluster(actions: frozenset[Action]) -> Needs:
    """This broker's."""
    needs = (Need(Kind.CLUSTER, "", actions),)
    return lambda command: needs


def both(*all_of: Needs) -> Needs:
    """Everything that each of these says."""
    return lambda command: [need for each in all_of for need in each(command)]


def heartbeat(command: Command) -> Iterator[Need]:
    """To consume: each group and what it subscribes to.  Producers are looked at when they send."""
    for consumer in parse_heartbeat(command.body).consumers:
        yield of_group(consumer.group, SUB)
        yield from (of_topic(each.topic, SUB) for each in consumer.subscriptions)


def locks(command: Command) -> Iterator[Need]:
    """The group, and the topics of its queues."""
    request = parse_lock_request(command.body)
    yield of_group(request.group, SUB)
    for name in dict.fromkeys(queue.topic for queue in request.queues):
        yield of_topic(name, SUB)


def unregistered(command: Command) -> Iterator[Need]:
    """A client leaves a group of consumers."""
    if command.fields.get("consumerGroup"):
        yield of_group(command.fields["consumerGroup"], SUB)


def checked_client(command: Command) -> Iterator[Need]:
    """The group that has its filter compiled."""
    value = json_members.json_object(command.body or b"{}", "a client's configuration")
    yield of_group(json_members.text(value, "group", "") or "", SUB)


def in_body(make: Callable[[str, frozenset[Action]], Need], name: str, rows: str = "") -> Callable[..., Needs]:
    """Names in a body: of the one thing in it, or of each in a list."""

    def needs(actions: frozenset[Action]) -> Needs:
        def read(command: Command) -> Iterator[Need]:
            value = json_members.json_object(command.body or b"{}", "what is to be made")
            found: Iterable[dict[str, Any]] = json_members.rows(value, rows, ROWS_MAX) if rows else (value,)
            count = 0
            for count, row in enumerate(found, 1):  # noqa: B007
                yield make(json_members.text(row, name, "") or "", actions)
            if not count:
                yield make("", actions)

        return read

    return needs


OF_CLUSTER = cluster(UPDATE)

topics_in_body = in_body(of_topic, "topicName", "topicConfigList")
group_in_body = in_body(of_group, "groupName")
groups_in_body = in_body(of_group, "groupName", "groupConfigList")
