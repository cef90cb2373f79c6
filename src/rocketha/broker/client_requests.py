"""What clients ask all the time: heartbeats, who else is in my group, where was I, lock my queues.

Pure.  Codes 34, 35, 46 (``ClientManageProcessor``), 38, 14, 15 (``ConsumerManageProcessor``), 41, 42
(``AdminBrokerProcessor``). These are the most frequent requests after send and pull, so they do no more than look up
and store.
"""

from __future__ import annotations

from rocketha.broker import names
from rocketha.broker.clients import Member, Peer
from rocketha.broker.groups import SubscriptionGroupConfig
from rocketha.broker.heartbeat import ACTIVELY, ConsumerData, Heartbeat, parse_heartbeat
from rocketha.broker.permissions import UNIT_SUB_FLAG
from rocketha.broker.queue_locks import parse_lock_request
from rocketha.broker.request import EMPTY_HEADER, OK, RepeatedBodies, Responder, read_body
from rocketha.broker.state import BrokerState, maker_of
from rocketha.broker.subscription import SubscriptionData
from rocketha.errors import Ignored, RequestRefused
from rocketha.wire import fields, json_dialect, json_members
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.remoting import Answer, Command

_SUB_CHANGED = Answer(fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})
_SUB_KNOWN = Answer(fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"})


class ClientRequests:
    """Handlers of the clients' own requests."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._read_heartbeat = RepeatedBodies(parse_heartbeat)
        self._read_locks = RepeatedBodies(parse_lock_request)
        self.table: dict[int, Responder] = {
            RequestCode.HEART_BEAT: self.heart_beat,
            RequestCode.UNREGISTER_CLIENT: self.unregister_client,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_client_config,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
            RequestCode.QUERY_CONSUMER_OFFSET: self.query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update_offset,
            RequestCode.LOCK_BATCH_MQ: self.lock_queues,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock_queues,
        }

    def heart_beat(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """HEART_BEAT: the connection's client is a member of these groups."""
        beat = read_body(self._read_heartbeat, command.body)
        for what in beat.ignored:
            connection.ignored(command, Ignored.NO_NAME, what)
        # the first version of heartbeats always says that it changed, as in Java
        changed = beat.fingerprint == 0
        for data in beat.consumers:
            if data.consume_type == ACTIVELY and self._state.rules.reject_pull_consumer:
                connection.ignored(command, Ignored.NOT_ALLOWED, f"group {data.group} pulls, which is switched off")
                continue
            changed = self._fingerprint_differs(beat, data) or changed
            try:
                known = self._register_consumer(connection, self._member(connection, command, beat, now_ms), data, beat)
            except RequestRefused as refusal:  # the others' members are counted; this one's next heartbeat may make it
                connection.ignored(command, Ignored.TOO_MANY, f"group {data.group}: {refusal.remark}")
                continue
            if not known:
                connection.ignored(command, Ignored.NOT_ALLOWED, f"there is no group {data.group}, nor is it made")
        for group in beat.producer_groups:
            self._state.clients.register_producer(group, self._member(connection, command, beat, now_ms))
        return _SUB_CHANGED if changed else _SUB_KNOWN

    @staticmethod
    def _member(connection: Peer, command: Command, beat: Heartbeat, now_ms: int) -> Member:
        return Member(connection.id, connection.peer, beat.client_id, command.language, command.version, now_ms)

    def _fingerprint_differs(self, beat: Heartbeat, data: ConsumerData) -> bool:
        """Whether a client must send its subscriptions again.

        Java asks for them only when it remembers another fingerprint; a restarted Java broker therefore never learns
        the subscriptions of a client that leaves them out.  We also ask when we know none.
        """
        if beat.fingerprint == 0:
            return False
        group = self._state.clients.consumers.get(data.group)
        if group is None:
            return beat.without_sub
        if beat.without_sub and not group.subscriptions:
            return True
        return group.fingerprint is not None and group.fingerprint != beat.fingerprint

    def _register_consumer(self, connection: Peer, member: Member, data: ConsumerData, beat: Heartbeat) -> bool:
        """False where there is no such group, and none is made.

        :raises RequestRefused: its host has made too many.
        """
        state = self._state
        with_sub = not (beat.without_sub and beat.fingerprint != 0)
        if state.is_slave:  # tables come from the master; the members still count here, for their pulls
            config = state.groups.get(data.group) or SubscriptionGroupConfig(data.group)
        else:
            found = state.find_group(data.group, maker_of(connection.socket_host, member.last_seen_ms))
            if found is None:
                return False
            config = found
            ordered = any(map(state.topics.is_order, self._topics_of(data, with_sub)))
            unit_flag = UNIT_SUB_FLAG if data.unit_mode else 0
            retry_topic = names.retry_topic(data.group)
            state.topic_for_group(retry_topic, config.retry_queue_nums, order=ordered, sys_flag=unit_flag)
        changed = state.clients.register_consumer(member, data, beat.fingerprint, with_sub)
        if changed and config.notify_consumer_ids_changed_enable:
            state.notify(state.clients.change(state.clients.consumers[data.group]))
        return True

    def _topics_of(self, data: ConsumerData, with_sub: bool) -> list[str]:
        """Topics of a group's heartbeat, or those known when it left them out (Java then takes none, and forgets that
        the retry topic is ordered)."""
        if with_sub:
            return [subscription.topic for subscription in data.subscriptions]
        group = self._state.clients.consumers.get(data.group)
        return [] if group is None else list(group.subscriptions)

    def unregister_client(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """UNREGISTER_CLIENT: the client shuts down or leaves one group."""
        state = self._state
        producer_group = fields.optional_text(command.fields, "producerGroup")
        if producer_group is not None:
            state.clients.unregister_producer(producer_group, connection.id)
        consumer_group = fields.optional_text(command.fields, "consumerGroup")
        if consumer_group is not None:
            change = state.clients.unregister_consumer(consumer_group, connection.id)
            config = state.groups.get(consumer_group)
            if config is None or config.notify_consumer_ids_changed_enable:
                state.notify(change)
        return EMPTY_HEADER

    def check_client_config(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """CHECK_CLIENT_CONFIG: asked at start by a consumer that filters by expression."""
        subscription = read_body(_checked_subscription, command.body)
        if subscription is None or subscription.is_tag:
            return OK
        self._state.filters.compiled(subscription.expression_type, subscription.sub_string)
        return OK

    def consumer_list(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_CONSUMER_LIST_BY_GROUP: the client ids among which a consumer divides the queues."""
        name = fields.text(command.fields, "consumerGroup")
        group = self._state.clients.consumers.get(name)
        if group is None:
            return Answer(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}", {})
        client_ids = [member.client_id for member in group.members.values()]
        return Answer(fields={}, body=json_dialect.dumps({"consumerIdList": client_ids}))

    def query_offset(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """QUERY_CONSUMER_OFFSET: where the group goes on in a queue.

        A group that never committed starts at 0 while the queue is young: nothing of it was deleted and its first
        message is near the end of the log.  Otherwise the client decides by its consumeFromWhere (QUERY_NOT_FOUND).
        """
        header = command.fields
        group, topic = fields.text(header, "consumerGroup"), fields.text(header, "topic")
        queue_id = fields.integer(header, "queueId")
        offset = self._state.offsets.query(group, topic, queue_id)
        if offset >= 0:
            return Answer(fields={"offset": str(offset)})
        if fields.optional_flag(header, "setZeroIfNotFound") is False:
            remark = "Not found, do not set to zero, maybe this group boot first"
            return Answer(ResponseCode.QUERY_NOT_FOUND, remark, {})
        if self._is_young(topic, queue_id):
            return Answer(fields={"offset": "0"})
        remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        return Answer(ResponseCode.QUERY_NOT_FOUND, remark, {})

    def _is_young(self, topic: str, queue_id: int) -> bool:
        store = self._state.store
        if topic not in self._state.topics:
            return False
        first = store.physical_offset(topic, queue_id, 0)  # -1 when there never was one, or it was deleted
        return first >= 0 and store.max_physical_offset - first <= self._state.rules.in_memory_bytes

    def update_offset(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """UPDATE_CONSUMER_OFFSET: the group has consumed a queue up to here (usually oneway)."""
        header, state = command.fields, self._state
        group, topic = fields.text(header, "consumerGroup"), fields.text(header, "topic")
        if group not in state.groups:
            raise refused(f"Group {group[:255]} not exist!", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        config = state.topics.get(topic)
        if config is None:
            raise refused(f"Topic {topic[:255]} not exist!", ResponseCode.TOPIC_NOT_EXIST)
        queue_id, offset = fields.integer(header, "queueId"), fields.long(header, "commitOffset")
        if offset < 0 or not 0 <= queue_id < config.queue_nums:
            # Nothing consumed yet, or a queue that the topic has no more.  Java stores both; neither means anything.
            if offset != -1:
                connection.ignored(command, Ignored.BAD_VALUE, f"queueId {queue_id} of {topic}, commitOffset {offset}")
            return EMPTY_HEADER
        if state.rules.server_side_reset_offset and state.offsets.has_reset(group, topic, queue_id):
            return Answer(remark="Offset has been previously reset", fields={})
        state.offsets.commit(group, topic, queue_id, offset, state.wall_ms)
        return EMPTY_HEADER

    def lock_queues(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """LOCK_BATCH_MQ: an orderly consumer wants these queues for itself; the answer holds those it has."""
        request = read_body(self._read_locks, command.body)
        owned = self._state.locks.lock(request.group, request.queues, request.client_id, now_ms)
        return Answer(body=json_dialect.dumps({"lockOKMQSet": [queue.as_json() for queue in owned]}))

    def unlock_queues(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """UNLOCK_BATCH_MQ: an orderly consumer gives queues back."""
        request = read_body(self._read_locks, command.body)
        self._state.locks.unlock(request.group, request.queues, request.client_id)
        return OK


def _checked_subscription(body: bytes) -> SubscriptionData | None:
    """The subscription of a ``CheckClientRequestBody``."""
    value = json_members.json_object(body, "a client's request")
    subscription = value.get("subscriptionData")
    return None if subscription is None else SubscriptionData.from_json(subscription)
