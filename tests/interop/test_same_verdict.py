"""What clients of any language may send is served where Java serves it: 100,000 generated requests, asked of both."""

from __future__ import annotations

import random
import re
import sys
from collections import Counter

from . import same_verdict
from .harness import FULL, InteropCase, JavaBroker, JavaNamesrv, OurBroker, OurNamesrv, Role, wait_until
from .same_verdict import Case, Difference

REQUESTS = 100_000 if FULL else 8_000
UPDATE_TOPIC = 17

_NOBODY = "who gives no client id cannot be told of changes, nor own a lock; Java keeps it under null"
_NULLS = "a null, or nothing, for a list or a row of it: Java ends with a NullPointerException, ours reads it as empty"
_OTHER_FLAG = "a member that ours does not read: onlyThisBroker is for Java's own forwarding"
_LIST_OF_ONE = "a list of one for a boolean, which fastjson reads in some classes only"
_NO_NAME = "a name that Java refuses in a header, and for a lock in some orders only; ours keeps it for a minute"
_NOT_USED = "a member of a topic that no route has: the nameserver does not look at it"
_TOPIC = r"\S*topicConfigTable\.[Vv]\."
_NO_NUMBER = "no number of queues and no permission: the nameserver would pass it on to every client"
_NO_TOPIC = "an empty name is no topic's"
REASONS = (
    (rf"103 {_TOPIC}(order|topicFilterType|attributes)\S*: .* refused served", _NOT_USED),
    (rf'103 {_TOPIC}(perm|(read|write)QueueNums)(\[\]: 2147483648|(\[\])?: "?-1"?) served refused', _NO_NUMBER),
    (rf'103 {_TOPIC}topicName(\[\])?: "" served refused', _NO_TOPIC),
    (r'103 \S*topicQueueMappingInfoMap\.\w+: (null|""|"null") refused served', _NULLS),
    (r"34 clientID: .* served refused", _NOBODY),
    (r"4[12] clientId: .* served refused", _NOBODY),
    (r'(34|41|42) \S*(DataSet|mqSet)(\[\])?: (null|""|"null"|\[null\]) refused served', _NULLS),
    (r"4[12] onlyThisBroker: .* refused served", _OTHER_FLAG),
    (r"34 (\S*classFilterMode|\S*unitMode|withoutSub): \[.*\] refused served", _LIST_OF_ONE),
    (r"4[12] consumerGroup: .* refused served", _NO_NAME),
)
"""Of a difference, as ``code change Java's verdict ours``, and why that is left so."""


class SameVerdictTests(InteropCase):
    """Java's broker and nameserver beside ours."""

    def judged(self, found: list[Difference]) -> Counter[str]:
        """How many differ for which reason; one without a reason fails."""
        reasons: Counter[str] = Counter()
        for case, java, ours in found:
            texts = [f"{case.code} {change} {java} {ours}" for change in case.changes]
            known = [reason for text in texts for pattern, reason in REASONS if re.fullmatch(pattern, text)]
            self.assertTrue(known, f"{case}: Java {java}, ours {ours}")
            reasons[known[0]] += 1
        return reasons

    def test_requests_of_clients_and_brokers(self) -> None:
        """Heartbeats, locks, offset reports, registrations: types swapped, nulls, lists for values, other cases."""
        names = self.use(JavaNamesrv("java-namesrv", self.folder / "java-namesrv"))
        ours = self.use(OurNamesrv("our-namesrv", self.folder / "our-namesrv"))
        brokers = [
            self.use(JavaBroker(self.folder / "java-broker", names, {"brokerName": "b"})),
            self.use(OurBroker(self.folder / "our-broker", ours, {"brokerName": "b"})),
        ]
        topic = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
        topic |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        first = [Case(UPDATE_TOPIC, topic, None, ()), *same_verdict.unchanged("b")]
        for broker in brokers:

            def ready(broker: Role = broker) -> bool:
                return same_verdict.verdicts(broker, first) == [same_verdict.SERVED] * len(first)

            wait_until(f"{broker.name} serves what is not changed", ready, 30)
        # The sample finds what comes back, the full run what is new.
        seed = random.SystemRandom().randrange(1 << 32) if FULL else 1
        chance = random.Random(seed)
        with self.subTest(seed=seed):
            cases = list(same_verdict.broker_cases(REQUESTS, chance, "b"))
            reasons = self.judged(same_verdict.differences(brokers[0], brokers[1], cases))
            cases = list(same_verdict.namesrv_cases(REQUESTS // 4, chance))
            reasons += self.judged(same_verdict.differences(names, ours, cases))
            said = [f"\n{REQUESTS + REQUESTS // 4} requests, seed {seed}: {reasons.total()} verdicts differ"]
            sys.stderr.write("\n".join([*said, *(f"  {count} x {reason}" for reason, count in reasons.items())]) + "\n")
