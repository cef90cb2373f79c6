"""Header fields are read as Java's header classes read them: a table of classes, fields and values through both."""

from __future__ import annotations

import re
import sys
from collections import Counter

from . import header_fields
from .harness import InteropCase
from .header_fields import REFUSED, UNREAD

_NOTHING = r'(?:absent|null|\[null\]|"")'
_QUICK = r'"(?: 1|1 |1\\n|1_000|\\ud835\\udfcf)"'
_BEYOND = r'"?-?\d{10,20}"?'
_V2 = r"SendMessageRequestHeaderV2[\w ]*"
_PULL = r"PullMessageRequestHeader[\w ]*"
_NAME = r"(?:clusterName|brokerName|brokerAddr|brokerAddress|haServerAddr|registerCheckCode)"
REASONS = (
    (r"[\w. ]+ 1e10 value value", "how a number was written is not kept: as a text it is 10000000000.0, Java's 1.0E10"),
    (
        r"(?!Elect)[\w ]+\.\w+ .* null refused",
        "needed, and not there or unreadable: Java's handler ends with a"
        " NullPointerException, ours says which field it is",
    ),
    (
        r"Types\.text \"\" value refused|\w+\.(?:topic|key|\w*[gG]roup) \"\" value refused",
        "an empty name is none: there is no such topic, group or key",
    ),
    (rf"\w+\.{_NAME} \"\" value refused", "an empty name or address of a broker, which Java takes in"),
    (r"(?:RegisterBroker|QueryDataVersion)RequestHeader\.brokerAddr .* value refused", "no host:port"),
    (rf'\w+\.{_NAME} "(?:\\t|1\\n)" value refused', "a name that cannot be printed"),
    (
        r"(?:Types|Unregister\w+|GetConsume\w+|CreateTopic\w+|CloneGroup\w+|CleanC\w+)\.\w+ \"(?: *|\\t)\" value null",
        "a blank text that may be absent is: no topic or group has such a name",
    ),
    (rf"[\w ]+\.\w+ {_NOTHING} null value", "what is absent has its default at once; Java's handler asks for null"),
    (r"SendMessageRequestHeader\.reconsumeTimes .* null value", "what cannot be read is absent, and has its default"),
    (
        r"RegisterBroker\w+\.bodyCrc32 .* value null|ResetOffset\w+\.queueId .* value null",
        "what cannot be read is absent; Java has its default, 0 or -1, in the class",
    ),
    (
        rf"(?:{_V2}|SendMessageRequestHeader)\.\w+ {_QUICK} (?:refused|null) value|{_PULL}\.\w+ {_QUICK} refused value",
        "sends and pulls read numbers the quick way, as Python: blanks around, underscores, digits beyond 16 bits",
    ),
    (rf"{_PULL}\.\w+ {_BEYOND} refused value", "pulls are checked against the queue, not against Java's types"),
    (
        rf"{_V2}\.[jl] .* refused (?:value|null)|"
        rf"{_PULL}\.(?:suspendTimeoutMillis|subVersion|commitOffset) .* refused null",
        "a side field that cannot be read is absent: the message or the pull is served",
    ),
    (rf"{_V2} of a batch\.m .* value value", "320 is a batch, whatever its header says"),
    (rf"[\w ]+\.\w+ .* refused {UNREAD}", "ours has no use for the field, or not in this request"),
    (r"CreateTopic\w+\.(?:readQueueNums|writeQueueNums|perm) .* value refused", "no number of queues, no permission"),
    (r'CreateTopic\w+\.topicFilterType "" refused value', "an empty word is absent, and has its default"),
    (r"CreateTopic\w+\.topicFilterType .* refused null", "absent, it has its default"),
    (r"ResetOffset\w+\.timestamp .* value refused", "Java reads 0, the beginning of time, and goes there"),
    (r"ResetOffset\w+\.(?:queueId|offset) .* value refused", "there is no such queue or offset"),
    (r"RegisterBroker\w+\.brokerId .* value refused", "no broker's id is negative"),
    (r"ElectMaster\w+\.\w+ .* (?:value|null) refused", "who asks for an election says of what"),
    (r"BrokerHeartbeat\w+\.epoch \"2147483647\" value refused", "one more would not be an epoch"),
)
"""Of a difference, as :func:`header_fields.told` has it, and why that is left so."""


class HeaderFieldTests(InteropCase):
    """The oracle is RemotingCommand.decodeCommandCustomHeader of the 5.5.0 jars."""

    def test_the_table(self) -> None:
        """Every pair has the same outcome, or a reason is held for it; a reason that nothing needs any more fails."""
        rows = header_fields.rows()
        reasons: Counter[str] = Counter()
        unread, used = 0, set()
        with header_fields.Readers().patched() as readers:
            for row, java in zip(rows, header_fields.theirs(rows, self.folder / "java"), strict=True):
                ours = readers.ours(row)
                if ours == UNREAD and java != REFUSED:
                    unread += 1
                elif ours != java:
                    told = header_fields.told(row, java, ours)
                    known = next((each for each in REASONS if re.fullmatch(each[0], told)), None)
                    assert known is not None, f"{told} ({row.encoding}): Java {java}, ours {ours}"
                    used.add(known)
                    reasons[known[1]] += 1
        self.assertEqual(set(REASONS) - used, set())
        said = [f"\n{len(rows)} pairs of header field and value, {unread} of them unread, {reasons.total()} differ"]
        sys.stderr.write("\n".join([*said, *(f"  {count} x {reason}" for reason, count in reasons.items())]) + "\n")
