"""What requests look like: codes, header fields, and the small fixed sets of values that fill them.

Pure.  Left out on purpose, because a server that obeys them is right and looks hung or grows its disk: changes of
configuration keys that exist, role changes (1008, 1009, 902, 903), export to disk (355), deletion of the log on demand
(27, 329).  Sources: RequestCode and the request header classes of RocketMQ 5.x.
"""

from __future__ import annotations

from random import Random

_TABLE = """
10 message producerGroup=group topic=topic defaultTopic=default defaultTopicQueueNums=few queueId=queue
    sysFlag=flags bornTimestamp=ms flag=int properties=properties reconsumeTimes=few unitMode=bool
    maxReconsumeTimes=few batch=bool bname=broker
310 message a=group b=topic c=default d=few e=queue f=flags g=ms h=int i=properties j=few k=bool l=few m=bool
    n=broker
320 batch a=group b=topic c=default d=few e=queue f=flags g=ms h=int i=properties j=few k=bool l=few m=bool
    n=broker
36 - offset=offset group=group delayLevel=few originMsgId=id_text originTopic=topic unitMode=bool
    maxReconsumeTimes=few bname=broker
37 - topic=topic producerGroup=group tranStateTableOffset=offset commitLogOffset=offset commitOrRollback=flags
    fromTransactionCheck=bool msgId=id_text transactionId=id_text
11 - consumerGroup=group topic=topic queueId=queue queueOffset=offset maxMsgNums=few sysFlag=pull_flags
    commitOffset=offset suspendTimeoutMillis=short_ms subscription=expression subVersion=ms
    expressionType=filter maxMsgBytes=int requestSource=few bname=broker
361 - consumerGroup=group topic=topic queueId=queue queueOffset=offset maxMsgNums=few sysFlag=pull_flags
    commitOffset=offset suspendTimeoutMillis=short_ms subscription=expression subVersion=ms
    expressionType=filter maxMsgBytes=int
12 - topic=topic key=text maxNum=few beginTimestamp=ms endTimestamp=ms _UNIQUE_KEY_QUERY=bool indexType=text
    lastKey=text
13 - topic=topic queueId=queue bname=broker
14 - consumerGroup=group topic=topic queueId=queue bname=broker setZeroIfNotFound=bool
15 - consumerGroup=group topic=topic queueId=queue bname=broker commitOffset=offset
17 - topic=topic defaultTopic=default readQueueNums=few writeQueueNums=few perm=few topicFilterType=filter_type
    topicSysFlag=few order=bool attributes=text force=bool
18 json force=bool
21 - topicSeq=few dataVersion=text maxTopicNum=few
22 json
23 -
25 config
26 -
28 -
29 - topic=topic queueId=queue bname=broker timestamp=ms boundaryType=text
30 - topic=topic queueId=queue bname=broker committed=bool
31 - topic=topic queueId=queue bname=broker
32 - topic=topic queueId=queue bname=broker
33 - topic=topic offset=offset
34 heartbeat
35 - clientID=client producerGroup=group consumerGroup=group
38 - consumerGroup=group
41 lock
42 lock
43 -
45 -
46 check
60 -
61 -
100 - namespace=namespace key=text value=text
101 - namespace=namespace key=text
102 - namespace=namespace key=text
103 register brokerName=broker brokerAddr=address clusterName=cluster brokerId=id haServerAddr=address
    compressed=bool bodyCrc32=crc heartbeatTimeoutMillis=ms enableActingMaster=bool
104 - brokerName=broker brokerAddr=address clusterName=cluster brokerId=id
105 - topic=topic acceptStandardJsonOnly=bool
106 -
200 group_config
201 - groupSeq=few dataVersion=text maxGroupNum=few
202 - topic=topic
203 - consumerGroup=group
204 - producerGroup=group
205 - brokerName=broker
206 -
207 - groupName=group cleanOffset=bool
208 - consumerGroup=group topic=topic topicList=topic
212 - topic=topic group=group timestamp=ms isForce=bool
215 - topic=topic
216 - topic=topic clusterName=cluster
217 route topic=topic
219 - namespace=namespace
222 - topic=topic group=group timestamp=ms isForce=bool offset=offset queueId=queue
224 - cluster=cluster
300 - topic=topic
303 - topic=topic group=group
304 -
305 -
306 -
308 - filterGroups=text compareGroup=group topic=topic
311 -
314 - srcGroup=group destGroup=group topic=topic offline=bool
315 - statsName=text statsKey=text
317 - isOrder=bool
318 config
319 -
321 - topic=topic queueId=queue index=offset count=few consumerGroup=group
322 data_version brokerName=broker brokerAddr=address clusterName=cluster brokerId=id
327 - brokerName=broker
343 - group=group
345 - group=group topic=topic
351 - topic=topic lo=bool
352 - group=group
353 - group=group topic=topic readable=bool
370 - producerGroup=group topic=topic recallHandle=text brokerName=broker
400 json
401 json
402 -
901 - clusterName=cluster brokerName=broker
904 - clusterName=cluster brokerAddr=address brokerName=broker brokerId=id epoch=few maxOffset=offset
    confirmOffset=offset
905 - minBrokerId=id brokerName=broker minBrokerAddr=address offlineBrokerAddr=address haBrokerAddr=address
906 json
907 -
1007 - brokerName=broker
200050 - consumerGroup=group topic=topic queueId=queue bname=broker maxMsgNums=few invisibleTime=short_ms
    pollTime=short_ms bornTime=ms initMode=few expType=filter exp=expression
200051 - consumerGroup=group topic=topic queueId=queue bname=broker extraInfo=text offset=offset
32766 -
"""


def _rows() -> dict[int, tuple[dict[str, str], str]]:
    table: dict[int, tuple[dict[str, str], str]] = {}
    for line in _TABLE.replace("\n    ", " ").split("\n"):
        if line:
            code, body, *fields = line.split()
            table[int(code)] = dict(field.split("=") for field in fields), "" if body == "-" else body
    return table


REQUESTS = _rows()
"""code -> (header field -> kind of its value, kind of the body)."""

HELD = frozenset((11, 361, 200050, 200054))
"""Codes whose answer may wait for a message to arrive."""

CODES = tuple(sorted(REQUESTS))
MOSTLY = (10, 310, 310, 320, 11, 361, 34, 36, 14, 15, 41, 103, 105, 17, 12, 33)

POOLS: dict[str, tuple[str, ...]] = {
    "topic": (
        "fuzz-topic-a",
        "fuzz-topic-b",
        "TBW102",
        "%RETRY%fuzz-group",
        "SCHEDULE_TOPIC_XXXX",
        "TopicTest",
        "fuzz-none",
    ),
    "default": ("TBW102", "TBW102", "fuzz-topic-a", ""),
    "group": ("fuzz-group", "fuzz-group-2", "CLIENT_INNER_PRODUCER", "TOOLS_CONSUMER", "DEFAULT_PRODUCER"),
    "broker": ("fuzz-broker", "fuzz-broker-2"),
    "address": ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:65535", "[::1]:3"),
    "cluster": ("FuzzCluster", "DefaultCluster"),
    "namespace": ("ORDER_TOPIC_CONFIG", "FUZZ"),
    "client": ("127.0.0.1@fuzz#1", "127.0.0.1@fuzz#2"),
    "id": ("0", "0", "1", "2", "-1"),
    "queue": ("0", "0", "1", "3", "-1", "7"),
    "few": ("0", "1", "2", "4", "8", "16", "32"),
    "flags": ("0", "0", "1", "2", "4", "8", "12", "16", "32"),
    "pull_flags": ("0", "4", "4", "6", "7", "2", "5", "22", "20"),
    "offset": ("0", "0", "1", "100", "-1", "4096", "1000000"),
    "ms": ("0", "1795256860020", "1795256465822", "-1"),
    "short_ms": ("0", "1", "50", "200"),
    "bool": ("true", "false", "TRUE"),
    "int": ("0", "1", "-1", "4096"),
    "crc": ("0", "0", "1"),
    "expression": ("*", "TagA", "TagA || TagB", "a > 5", ""),
    "filter": ("TAG", "TAG", "SQL92", ""),
    "filter_type": ("SINGLE_TAG", "MULTI_TAG", "OTHER"),
    "text": ("TagA", "key-1", "fuzz", "+message.type=DELAY", "{}"),
    "id_text": ("7F00000100002A9F0000000000000000", "7F0000010000000018B4AAC2F5B40000", ""),
    "properties": (
        "TAGS\x01TagA\x02KEYS\x01key-1 key-2\x02WAIT\x01true\x02",
        "UNIQ_KEY\x017F0000010000000018B4AAC2F5B40000\x02WAIT\x01false\x02TAGS\x01TagB",
        "DELAY\x013\x02",
        "",
    ),
}
NAMES = frozenset(
    "topic default group broker address cluster namespace client text id_text expression filter filter_type".split()
)

HOSTILE_PROPERTIES = (
    "\x01\x02",
    "\x02\x02\x02",
    "\x01\x01\x01",
    "a\x01",
    "\x01a\x02",
    "a\x01b",
    "a\x01b\x01c\x02",
    "DELAY\x01-1\x02",
    "DELAY\x0199999999999\x02",
    "DELAY\x01a\x02",
    "DELAY\x011e3\x02",
    "RETRY_TOPIC\x01../x\x02",
    "REAL_TOPIC\x01../x\x02REAL_QID\x01-1\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01a\x02",
    "INNER_NUM\x012147483647\x02INNER_BASE\x01-1\x02",
    "TIMER_DELAY_SEC\x0199999999999999\x02",
    "TIMER_DELIVER_MS\x01-1\x02",
    "WAIT\x01\x02",
    "KEYS\x01" + "k " * 8000 + "\x02",
    "TAGS\x01" + "t" * 32000 + "\x02",
    "a\x01b\x02" * 8000,
    "x" * 32767,
    "x" * 32768,
    "x" * 60000,
    "UNIQ_KEY\x01\x00\x02",
    "KEYS\x01\ud83d\ude80\x02".encode("utf-16", "surrogatepass").decode("utf-16"),
    "__CRC32#\x010000000000\x02",
    "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%../b\x02INNER_MULTI_QUEUE_OFFSET\x011,2\x02",
    "ORIGIN_MESSAGE_ID\x01" + "f" * 300 + "\x02",
    "CLUSTER\x01evil\x02",
    "RECONSUME_TIME\x01-5\x02MAX_RECONSUME_TIMES\x01-9\x02",
    "RECONSUME_TIME\x01x\x02",
    "MSG_REGION\x01a\x02TRACE_ON\x01maybe\x02",
)
"""Properties strings whose separators, numbers and lengths mislead."""


def filled(chance: Random, kind: str) -> str:
    """A value of a kind, as clients send it."""
    return str(chance.choice(POOLS[kind]))
