"""Who is connected: producers and consumers by group and by connection.

Pure.  Must not know how a client is told; it answers *who* must be told.

Theory of operation: a heartbeat makes a connection a member of groups.  When the membership of a consumer group
changes, or the set of topics it subscribes to, every member must rebalance at once instead of at its next 20 s timer,
so each (the one that caused it too) gets NOTIFY_CONSUMER_IDS_CHANGED, except in a group that broadcasts.  A member
leaves by UNREGISTER_CLIENT, with its connection, or 120 s after its last heartbeat.  The group lives as long as it
has members; its offsets live longer.

Java: ``ConsumerManager``, ``ConsumerGroupInfo``, ``ProducerManager``, ``DefaultConsumerIdsChangeListener``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import attrs

from rocketha.broker.heartbeat import BROADCASTING, ConsumerData
from rocketha.broker.subscription import SubscriptionData
from rocketha.errors import Ignored
from rocketha.wire.remoting import Command

EXPIRY_MS = 120_000
"""Silence after which a member is dropped (channelExpiredTimeout)."""
SHOWN_MAX = 256
"""Characters of an expression that a list of clients shows."""


class Peer(Protocol):
    """What handlers know of a connection (``rocketha.protocols.remoting.Connection`` has all of it)."""

    @property
    def id(self) -> int:
        """Unique in this process's life."""

    @property
    def peer(self) -> str:
        """``host:port`` of who is there, as far as a listed proxy says."""

    @property
    def socket_host(self) -> str:
        """IP address of the other end, be it a proxy's; empty for this broker itself."""

    @property
    def version(self) -> int | None:
        """MQVersion ordinal the peer last sent."""

    def ignored(self, command: Command, reason: Ignored, what: str) -> None:
        """A part of this request is left out and the rest of it served: counted and logged, see :class:`Ignored`.

        :param what: what was left out, and what is wrong with it, for a person.
        """


@attrs.define(slots=True)
class Member:
    """One client in one group."""

    connection_id: int
    address: str
    client_id: str
    language: str | None
    version: int
    last_seen_ms: int

    def as_json(self) -> dict[str, Any]:
        """``Connection`` of the connection lists."""
        return {
            "clientAddr": self.address,
            "clientId": self.client_id,
            "language": self.language or "OTHER",
            "version": self.version,
        }


@attrs.define(slots=True)
class ConsumerGroup:
    """The members of one consumer group and what they subscribe to (the last heartbeat's word)."""

    name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    members: dict[int, Member] = attrs.field(factory=dict)
    subscriptions: dict[str, SubscriptionData] = attrs.field(factory=dict)
    fingerprint: int | None = None  # of the last heartbeat; 0 for the first version, None before any

    @property
    def broadcasting(self) -> bool:
        """Whether every member gets every message, so that membership does not matter."""
        return self.message_model == BROADCASTING


@attrs.frozen
class GroupChange:
    """The members of ``group`` that must be told that it changed."""

    group: str
    connection_ids: tuple[int, ...]


@attrs.define(slots=True)
class _Memberships:
    # In the order in which they came, whatever texts hash to.
    consumer_groups: dict[str, None] = attrs.field(factory=dict)
    producer_groups: dict[str, None] = attrs.field(factory=dict)
    pulled_ms: int | None = None


class Clients:
    """All consumer and producer groups with members."""

    def __init__(self) -> None:
        self.consumers: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, dict[int, Member]] = {}
        self._groups_of_topic: dict[str, set[str]] = {}
        self._memberships: dict[int, _Memberships] = {}

    def register_consumer(self, member: Member, data: ConsumerData, fingerprint: int, with_sub: bool) -> bool:
        """A heartbeat for one consumer group; whether membership or the set of topics changed.

        :param with_sub: false when a heartbeat of the second version left the subscriptions out.
        """
        group = self.consumers.get(data.group)
        if group is None:
            group = ConsumerGroup(data.group, data.consume_type, data.message_model, data.consume_from_where)
            self.consumers[data.group] = group
        group.consume_type, group.message_model = data.consume_type, data.message_model
        group.consume_from_where, group.fingerprint = data.consume_from_where, fingerprint
        joined = self._join(group.members, member)
        if joined:
            self._memberships.setdefault(member.connection_id, _Memberships()).consumer_groups[data.group] = None
        return (self._subscribe(group, data.subscriptions) if with_sub else False) or joined

    @staticmethod
    def _join(members: dict[int, Member], member: Member) -> bool:
        present = members.get(member.connection_id)
        if present is not None and present.client_id == member.client_id:
            present.last_seen_ms, present.version = member.last_seen_ms, member.version
            return False
        # the same connection under another client id replaces the member without counting as a change (as in Java)
        members[member.connection_id] = member
        return present is None

    def _subscribe(self, group: ConsumerGroup, wanted: Iterable[SubscriptionData]) -> bool:
        changed = False
        topics = set()
        for subscription in wanted:
            topics.add(subscription.topic)
            present = group.subscriptions.get(subscription.topic)
            if present is None:
                changed = True
                self._groups_of_topic.setdefault(subscription.topic, set()).add(group.name)
            elif subscription.sub_version <= present.sub_version:
                continue
            group.subscriptions[subscription.topic] = subscription
        for topic in [topic for topic in group.subscriptions if topic not in topics]:
            changed = True
            del group.subscriptions[topic]
            self._forget_topic(topic, group.name)
        return changed

    def register_producer(self, group: str, member: Member) -> None:
        """A heartbeat for one producer group."""
        members = self.producers.get(group)
        if members is None:
            members = self.producers[group] = {}
        if self._join(members, member):
            self._memberships.setdefault(member.connection_id, _Memberships()).producer_groups[group] = None

    def unregister_consumer(self, group_name: str, connection_id: int) -> GroupChange | None:
        """A client leaves a consumer group; who must be told.  ``None`` when there is no such group.

        As in Java the others are told even when the connection was no member.
        """
        group = self.consumers.get(group_name)
        if group is None:
            return None
        self._leave_consumers(group, connection_id)
        return self.change(group)

    def unregister_producer(self, group: str, connection_id: int) -> None:
        """A client leaves a producer group."""
        members = self.producers.get(group)
        if members is not None and members.pop(connection_id, None) is not None:
            if not members:
                del self.producers[group]
            memberships = self._memberships.get(connection_id)
            if memberships is not None:
                memberships.producer_groups.pop(group, None)
                self._forget_connection(connection_id, memberships)

    def disconnected(self, connection_id: int) -> list[GroupChange]:
        """A connection is gone; who must be told."""
        memberships = self._memberships.get(connection_id)
        if memberships is None:
            return []
        changes = []
        for name in sorted(memberships.consumer_groups):
            group = self.consumers[name]
            self._leave_consumers(group, connection_id)
            changes.append(self.change(group))
        for name in sorted(memberships.producer_groups):
            self.unregister_producer(name, connection_id)
        return [change for change in changes if change is not None]

    def expire(self, now_ms: int) -> tuple[list[int], list[GroupChange]]:
        """Drop members without a heartbeat for 120 s: connections that Java closes now, and who must be told."""
        silent = set()
        for members in [*(group.members for group in self.consumers.values()), *self.producers.values()]:
            silent |= {key for key, member in members.items() if now_ms - member.last_seen_ms > EXPIRY_MS}
        closing, changes = sorted(silent), []
        for connection_id in closing:
            changes += self.disconnected(connection_id)
        return closing, changes

    def change(self, group: ConsumerGroup) -> GroupChange | None:
        """Whom to tell that ``group`` changed; ``None`` when nobody: it broadcasts or is empty."""
        if group.broadcasting or not group.members:
            return None
        return GroupChange(group.name, tuple(group.members))

    def pulled(self, connection_id: int, now_ms: int) -> None:
        """A connection asks for messages; of one that is no member nobody wants to know when it did."""
        memberships = self._memberships.get(connection_id)
        if memberships is not None:
            memberships.pulled_ms = now_ms

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What the group wants of the topic; hot path of pull."""
        found = self.consumers.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def subscription_count(self, group: str) -> int:
        """Topics the group subscribes to; 0 when nobody is connected."""
        found = self.consumers.get(group)
        return 0 if found is None else len(found.subscriptions)

    def groups_of_topic(self, topic: str) -> list[str]:
        """Connected groups that subscribe to the topic, sorted."""
        return sorted(self._groups_of_topic.get(topic, ()))

    def find_consumer(self, group: str, client_id: str) -> Member | None:
        """The member of a consumer group with this client id."""
        found = self.consumers.get(group)
        if found is None:
            return None
        return next((member for member in found.members.values() if member.client_id == client_id), None)

    def client_id(self, connection_id: int) -> str | None:
        """What the heartbeats of a connection call its client; None without groups.  Asked for every refusal."""
        member = next(self._members_of(connection_id), None)
        return None if member is None else member.client_id

    def purpose(self, connection_id: int, now_ms: int) -> dict[str, Any]:
        """What a connection is for, in JSON: its client, what it produces for and what it consumes."""
        memberships = self._memberships.get(connection_id) or _Memberships()
        groups = [self.consumers[name] for name in sorted(memberships.consumer_groups)]
        pulled_ms = memberships.pulled_ms
        return {
            "pulledSecondsAgo": None if pulled_ms is None else round((now_ms - pulled_ms) / 1000, 3),
            "clientIds": sorted({member.client_id for member in self._members_of(connection_id)}),
            "producerGroups": sorted(memberships.producer_groups),
            "consumerGroups": [
                {
                    "group": group.name,
                    "consumeType": group.consume_type,
                    "messageModel": group.message_model,
                    "subscriptions": {
                        topic: found.sub_string[:SHOWN_MAX] for topic, found in sorted(group.subscriptions.items())
                    },
                }
                for group in groups
            ],
        }

    def _members_of(self, connection_id: int) -> Iterator[Member]:
        memberships = self._memberships.get(connection_id)
        if memberships is not None:
            for name in memberships.consumer_groups:
                yield self.consumers[name].members[connection_id]
            for name in memberships.producer_groups:
                yield self.producers[name][connection_id]

    def _leave_consumers(self, group: ConsumerGroup, connection_id: int) -> None:
        if group.members.pop(connection_id, None) is not None:
            memberships = self._memberships[connection_id]
            memberships.consumer_groups.pop(group.name, None)
            self._forget_connection(connection_id, memberships)
        if not group.members:
            del self.consumers[group.name]
            for topic in group.subscriptions:
                self._forget_topic(topic, group.name)

    def _forget_topic(self, topic: str, group: str) -> None:
        groups = self._groups_of_topic[topic]
        groups.discard(group)
        if not groups:
            del self._groups_of_topic[topic]

    def _forget_connection(self, connection_id: int, memberships: _Memberships) -> None:
        if not memberships.consumer_groups and not memberships.producer_groups:
            self._memberships.pop(connection_id, None)
