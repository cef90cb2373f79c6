"""JSON bodies between brokers, and between a broker and its controller: what their members are.  Declarations only.

Java: ``SyncStateSet``, ``HARuntimeInfo``, ``EpochEntryCache``, ``TopicConfigAndMappingSerializeWrapper``,
``SubscriptionGroupWrapper``, ``ConsumerOffsetSerializeWrapper``, ``DelayOffsetSerializeWrapper``,
``MessageRequestModeSerializeWrapper``.
"""

from __future__ import annotations

from rocketha.wire.spec.remoting import JsonText

SYNC_STATE_SET = "sync-state-set" / JsonText(
    {
        "syncStateSet": "ids",  # broker ids at the controller
        "syncStateSetEpoch": "int",  # counts the changes of the set
    }
)

HA_STATUS = "ha-status" / JsonText(
    {
        "haClientRuntimeInfo": "object",  # of a slave: masterAddr and the numbers of its link
        "haConnectionInfo": "rows",  # of a master: one a link: addr, slaveAckOffset, diff, inSync, ...
        "inSyncSlaveNums": "int",  # links that are near enough
        "master": "flag",  # whether it leads
        "masterCommitLogMaxOffset": "long",  # end of the master's log
    }
)

EPOCH_CACHE = "epoch-cache" / JsonText(
    {
        "brokerId": "long",  # 0 of a master, else the id at the controller
        "brokerName": "text",
        "clusterName": "text",
        "epochList": "rows",  # epoch, startOffset, endOffset; the last ends at 2**63-1
        "maxOffset": "long",  # end of the log
    }
)

TOPIC_TABLE = "topic-table" / JsonText(
    {
        "dataVersion": "object",  # counter, stateVersion, timestamp
        "mappingDataVersion": "object",  # the same of the static topics
        "topicConfigTable": "table",  # topic -> TopicConfig
        "topicQueueMappingDetailMap": "table",  # static topics
    }
)

GROUP_TABLE = "group-table" / JsonText(
    {
        "dataVersion": "object",  # counter, stateVersion, timestamp
        "forbiddenTable": "table",  # group -> topic -> bits taken away
        "subscriptionGroupTable": "table",  # group -> SubscriptionGroupConfig
    }
)

OFFSET_TABLE = "offset-table" / JsonText(
    {
        "dataVersion": "object",  # counter, stateVersion, timestamp
        "groupTopicMap": "table",  # group -> topics, not read
        "offsetTable": "table",  # topic@group -> queue -> offset; fastjson does not quote the queues
        "pullOffsetTable": "table",  # the same of what was last given; may be absent
    }
)

DELAY_OFFSETS = "delay-offsets" / JsonText(
    {
        "dataVersion": "object",  # counter, stateVersion, timestamp; absent from older versions
        "offsetTable": "object",  # delay level -> offset in its queue; fastjson does not quote the levels
    }
)

REQUEST_MODES = "request-modes" / JsonText(
    {
        "messageRequestModeMap": "table",  # topic -> group -> mode
    }
)
