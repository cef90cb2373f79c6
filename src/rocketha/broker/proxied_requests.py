"""Requests of an administrator that only a client can answer: the broker passes them on and passes the reply back.

Pure.  Codes 307, 309, 223 (``AdminBrokerProcessor.callConsumer``, ``Broker2Client``).  The handlers return ``None``
and leave a
:class:`~rocketha.broker.effects.CallClients`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs

from rocketha.broker.clients import Peer
from rocketha.broker.effects import CallClients, Reply
from rocketha.broker.names import retry_topic
from rocketha.broker.request import Responder
from rocketha.broker.state import BrokerState
from rocketha.errors import RemoteProtocolError
from rocketha.wire import fields, json_dialect, record
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.remoting import Answer, Command

CALL_TIMEOUT_MS = 10_000
STATUS_TIMEOUT_MS = 5_000
CALL_VERSION_MIN = 62
"""``V3_1_8_SNAPSHOT``: clients before it do not know 307 and 309."""
STATUS_VERSION_MIN = 28
"""``V3_0_7_SNAPSHOT``: clients before it do not know 221."""

_MESSAGE_ID = re.compile(r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})")


@attrs.frozen
class PassOn:
    """The one client's reply is the answer."""

    group: str
    client_id: str

    def __call__(self, replies: Sequence[Reply]) -> Answer:
        """The reply as it is, or why there is none."""
        reply = replies[0]
        if reply.code is not None:
            return Answer(reply.code, reply.remark, reply.fields, reply.body)
        who = f"consumer <{self.group}> <{self.client_id}>"
        if reply.timed_out:
            return Answer(ResponseCode.CONSUME_MSG_TIMEOUT, f"{who} Timeout: {CALL_TIMEOUT_MS} ms")
        return Answer(ResponseCode.SYSTEM_ERROR, f"invoke {who} failed: {reply.remark or 'connection lost'}")


@attrs.frozen
class CollectStatus:
    """The offsets of all clients in one table; a client that did not answer is left out, as in Java."""

    def __call__(self, replies: Sequence[Reply]) -> Answer:
        """``GetConsumerStatusBody`` with the clients' tables."""
        table = {}
        for reply in replies:
            if reply.code == ResponseCode.SUCCESS and reply.body:
                try:
                    value: Any = json_dialect.loads(reply.body)
                except RemoteProtocolError:
                    continue
                if isinstance(value, dict):
                    table[reply.client_id] = value.get("messageQueueTable") or {}
        return Answer(body=json_dialect.dumps({"consumerTable": table, "messageQueueTable": {}}))


class ProxiedRequests:
    """Handlers of requests that go on to clients."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.table: dict[int, Responder] = {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.consumer_status,
        }

    def running_info(self, connection: Peer, command: Command, now_ms: int) -> None:
        """GET_CONSUMER_RUNNING_INFO: what a consumer is doing (its own report, with a thread dump if asked)."""
        self._call(connection, command, command.fields, command.body)

    def consume_directly(self, connection: Peer, command: Command, now_ms: int) -> None:
        """CONSUME_MESSAGE_DIRECTLY: have one consumer consume one stored message now."""
        header, state = dict(command.fields), self._state
        header["brokerName"] = state.identity.broker_name
        topic, group = state.topics.get(header.get("topic", "")), state.groups.get(header.get("consumerGroup", ""))
        if topic is not None:
            header["topicSysFlag"] = str(topic.topic_sys_flag)
        if group is not None:
            header["groupSysFlag"] = str(group.group_sys_flag)
        message_id = fields.text(header, "msgId", 64)
        if not _MESSAGE_ID.fullmatch(message_id):
            raise refused(f"{message_id!r} is no id of a stored message: 32 or 56 hexadecimal digits")
        offset = int(message_id[-16:], 16)
        stored = state.store.message_at(offset) if offset <= fields.LONG_MAX else None
        if stored is None:
            raise refused(f"can not find message by the offset, {offset}", ResponseCode.SYSTEM_ERROR)
        if state.rules.names_count:
            own = header.get("topic"), retry_topic(header.get("consumerGroup", ""))
            if record.decode(stored).topic not in own:
                raise refused(f"the message at {offset} is none of this topic", ResponseCode.NO_PERMISSION)
        self._call(connection, command, header, stored)

    def _call(self, connection: Peer, command: Command, header: dict[str, str], body: bytes) -> None:
        group, client_id = fields.text(header, "consumerGroup"), fields.text(header, "clientId")
        member = self._state.clients.find_consumer(group, client_id)
        if member is None:
            raise refused(f"The Consumer <{group}> <{client_id}> not online", ResponseCode.SYSTEM_ERROR)
        if member.version < CALL_VERSION_MIN:
            remark = f"The Consumer <{client_id}> Version <{member.version}> too low to finish"
            raise refused(f"{remark}, please upgrade it to V3_1_8_SNAPSHOT", ResponseCode.SYSTEM_ERROR)
        target = (member.connection_id, client_id)
        answer_to = (connection.id, command.head())
        self._state.effects.append(
            CallClients((target,), command.code, header, body, CALL_TIMEOUT_MS, answer_to, PassOn(group, client_id))
        )

    def consumer_status(self, connection: Peer, command: Command, now_ms: int) -> None:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ask all consumers of a group, or one, how far they are in a topic."""
        topic, name = fields.text(command.fields, "topic"), fields.text(command.fields, "group")
        only = fields.optional_text(command.fields, "clientAddr")
        group = self._state.clients.consumers.get(name)
        if group is None:
            raise refused(f"No Any Consumer online in the consumer group: [{name}]", ResponseCode.SYSTEM_ERROR)
        members = [member for member in group.members.values() if only in (None, member.client_id)]
        for member in members:
            if member.version < STATUS_VERSION_MIN:
                remark = f"the client does not support this feature. version={member.version}"
                raise refused(remark, ResponseCode.SYSTEM_ERROR)
        self._state.effects.append(
            CallClients(
                tuple((member.connection_id, member.client_id) for member in members),
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                {"topic": topic, "group": name},
                b"",
                STATUS_TIMEOUT_MS,
                (connection.id, command.head()),
                CollectStatus(),
            )
        )
