"""A consumer that lags is sent to a slave, and back: what Java's clients do with the answers of our brokers.

Java: ``PullMessageProcessor.composeResponseHeader``, ``DefaultMessageStore.getMessage`` (suggestPullingFromSlave),
``PullAPIWrapper``, ``MQClientInstance.findBrokerAddressInSubscribe``.
"""

from __future__ import annotations

from typing import Any

from rocketha.simulation.host import Host
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import heartbeat, pull_fields, records
from tests.services.controlled_case import ControlledCase
from tests.services.replication_case import NAMESERVER_PORT, ReplicationCase

MEMORY_BYTES = 20_000
RECENT_BYTES = 8000
"""40 % of it, accessMessageInMemoryMaxRatio's default."""
AT_A_TIME = 4


class Consumer:
    """Reads a queue from its beginning as Java's clients do.

    :param route: brokers by id.
    :ivar told: the id of the broker to ask next.
    :ivar given_by: who gave messages, one entry as long as it stays the same.
    """

    def __init__(self, case: ReplicationCase, route: dict[int, Host], offset: int = 0) -> None:
        self._case = case
        self._route = route
        self.offset = offset
        self.told = 0
        self.given_by: list[Host] = []
        self.bodies: list[bytes] = []

    def _broker(self) -> Host:
        """Whom it asks next: the broker it was told of, else that of the next id, else the first of all."""
        route, told = self._route, self.told
        return route.get(told) or (route.get(told + 1) if told else None) or route[min(route)]

    def pull(self) -> int:
        """One pull; the code of its answer."""
        host = self._broker()
        fields = pull_fields(offset=self.offset, maxMsgNums=str(AT_A_TIME))
        answer = self._case.ask(host, RequestCode.PULL_MESSAGE, fields)
        self.told = int(answer.fields["suggestWhichBrokerId"])
        self.offset = int(answer.fields["nextBeginOffset"])
        if answer.code == ResponseCode.SUCCESS:
            self.bodies += [message.body for message in records(answer)]
            if self.given_by[-1:] != [host]:
                self.given_by.append(host)
        return answer.code

    def read_all(self) -> None:
        """Until there is no more."""
        while self.pull() == ResponseCode.SUCCESS:
            pass


def body(number: int) -> bytes:
    """Of a message; a record of it takes more than 500 bytes."""
    return b"%d " % number + b"x" * 500


class SmallMemory(ReplicationCase):
    """Brokers on machines with little memory, which consumers of 60 messages soon lag behind."""

    def broker(self, name: str, settings: str, start: bool = True, **more: Any) -> Host:
        return super().broker(name, settings, start, platform={"memory_bytes": lambda: MEMORY_BYTES}, **more)

    def fill(self, master: Host, slaves: list[Host], first: int = 0, count: int = 60) -> None:
        """So many messages, on all brokers, and a group that may read them."""
        self.ask(master, RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        for number in range(first, first + count):
            self.assertEqual(self.send(master, body(number)), 0)
        self.until("level", lambda: self.level(master, *slaves))
        for slave in slaves:
            state = self.service(slave).broker.state
            self.until("the tables are there", lambda state=state: "T" in state.topics and "G" in state.groups)  # type: ignore[misc]


class PairCase(SmallMemory):
    """A classic master and its slave."""

    keys = ""

    def setUp(self) -> None:
        super().setUp()
        keys = f"{self.keys}namesrvAddr={self.nameserver().address}:{NAMESERVER_PORT}\nbrokerName=g\n"
        self.master = self.broker("master", keys)
        self.slave = self.broker("slave", f"{keys}brokerRole=SLAVE\nbrokerId=1\n")
        self.fill(self.master, [self.slave])

    def consumer(self, offset: int = 0) -> Consumer:
        """One that knows both."""
        return Consumer(self, {0: self.master, 1: self.slave}, offset)


class PairTests(PairCase):
    """Slaves are read."""

    keys = "slaveReadEnable=true\nconfigUpdateEnable=true\n"

    def is_far(self, offset: int) -> bool:
        """Whether the message before this offset is more than what counts as recent away from the log's end."""
        store = self.service(self.master).broker.store
        return store.max_physical_offset - store.physical_offset("T", 0, offset - 1) > RECENT_BYTES

    def test_there_and_back(self) -> None:
        """The first messages are the master's, what follows the slave's, and the last ones the master's again."""
        consumer, seen = self.consumer(), []
        while consumer.pull() == ResponseCode.SUCCESS:
            seen.append((consumer.given_by[-1] is self.slave, self.is_far(consumer.offset)))
        self.assertEqual(consumer.given_by, [self.master, self.slave, self.master])
        self.assertEqual(consumer.bodies, [body(number) for number in range(60)])
        # Who gives what follows from how far behind the messages before were.
        self.assertEqual([at_slave for at_slave, _ in seen[1:]], [far for _, far in seen[:-1]])

    def test_one_that_lags_again(self) -> None:
        """It goes as often as it falls behind."""
        consumer = self.consumer()
        consumer.read_all()
        self.fill(self.master, [self.slave], 60, 40)
        consumer.read_all()
        self.assertEqual(consumer.given_by, [self.master, self.slave] * 2 + [self.master])
        self.assertEqual(consumer.bodies, [body(number) for number in range(100)])

    def test_without_one_of_them(self) -> None:
        """It is gone, and so from the route: a client takes whom there is, whatever it was told, and reads all."""
        for gone, number, other in ((self.slave, 0, self.master), (self.master, 1, self.slave)):
            gone.kill()
            consumer = Consumer(self, {number: other})
            consumer.read_all()
            self.assertEqual((consumer.given_by, len(consumer.bodies)), ([other], 60))
            self.restart(gone)
            self.until("level", lambda: self.level(self.master, self.slave))

    def test_the_limits_are_live(self) -> None:
        """A larger share of the memory, or slaves that are not read any more, and the same consumer stays."""
        begin = 30  # so many records are less than all of the memory, and more than 40 % of it
        for key, there, back in (
            ("accessMessageInMemoryMaxRatio", b"100", b"40"),
            ("slaveReadEnable", b"false", b"true"),
        ):
            for value, expected in ((there, 0), (back, 1)):
                change = key.encode() + b"=" + value
                self.assertEqual(self.ask(self.master, RequestCode.UPDATE_BROKER_CONFIG, body=change).code, 0)
                consumer = self.consumer(begin)
                self.assertEqual((consumer.pull(), consumer.told), (0, expected), change)


class OffTests(PairCase):
    """As shipped."""

    def test_however_far_behind(self) -> None:
        """It reads from the master."""
        consumer = self.consumer()
        consumer.read_all()
        self.assertEqual((consumer.given_by, len(consumer.bodies)), ([self.master], 60))


class ControlledTests(SmallMemory, ControlledCase):
    """Controllers give ids: the master is 0 while it is that, and no other broker has its number meanwhile."""

    controllers_count = 1
    brokers_count = 3
    keys = "slaveReadEnable=true"

    def route(self) -> dict[int, Host]:
        """As the brokers register."""
        return {self.service(host).broker.state.identity.broker_id: host for host in self.brokers}

    def test_there_and_back(self) -> None:
        """The master is the one that would be 1, the broker that groups name: clients take 2 then."""
        master = self.start_group()
        self.fill(master, [host for host in self.brokers if host is not master])
        route = self.route()
        self.assertEqual((sorted(route), route[0]), ([0, 2, 3], master))
        consumer = Consumer(self, route)
        consumer.read_all()
        self.assertEqual((consumer.given_by, len(consumer.bodies)), ([master, route[2], master], 60))

    def test_after_a_switch(self) -> None:
        """The roles are the other way round, and so is what each of them says."""
        old = self.start_group()
        self.fill(old, [host for host in self.brokers if host is not old])
        old.kill()
        self.until("another master", lambda: self.masters() and self.masters()[0] is not old)
        self.restart(old)
        self.whole()
        self.until("it has all", lambda: self.service(old).broker.store.max_offset("T", 0) == 60)
        route = self.route()
        self.assertIs(route[1], old)
        consumer = Consumer(self, route)
        consumer.read_all()
        self.assertEqual((consumer.given_by, len(consumer.bodies)), ([route[0], old, route[0]], 60))
