"""A simulated broker: the broker's side of the controller's protocol, and just enough of a broker to break it.

Speaks the real wire through the real :class:`RemotingClient` and :class:`RemotingFactory`; keeps its id as S3 says;
sends heartbeats; asks for elections; follows the master it was told, and reports a SyncStateSet when it is the master.
It plays by the rules: it acts as master only in the epoch it was told, takes a role only for a newer epoch, and
acknowledges a record only when the whole set the controller may have confirmed holds it.  So whatever
:class:`BrokerOracle` finds is the controllers' fault.

Theory of operation: one step at a time.  A tick a second sends heartbeats, lets the master append and the slave fetch,
and begins the next step (find the leader, get an id, register, ask for a role, report the set) if none is under way.
A fetch that changes what the set should be begins one as well, and a whole one: reports alone, begun by fetches shortly
before every tick, would leave a master that missed an answer no step to ask in.

Java: ``ReplicasManager``, ``AutoSwitchHAService``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from typing import Any

import attrs
from twisted.application import strports
from twisted.internet import defer, error, task

from rocketha.errors import DiskFailure
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.simulation.broker_identity import Identity
from rocketha.simulation.broker_log import MasterEpoch
from rocketha.simulation.broker_oracle import BrokerOracle, Group
from rocketha.simulation.history import History
from rocketha.simulation.host import Process
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command

DEFINITE = frozenset({0, *range(2000, 2017)})
"""Answers that say what happened; others leave it open."""
AMBIGUOUS = "names a cluster"
"""1001 and 1004 name no cluster: before a controller heard a connection's heartbeat it can not tell whose they are."""
WAITS = ResponseCode.CONTROLLER_INVALID_REQUEST
"""1003 from elsewhere while the master may live where it was: nothing has happened."""
FETCH = 29001
"""Our own code: a slave asks its master for the log."""
TICK_S = 1.0
SLAVE_SILENT_S = 3.5
REQUEST_S = 3.0


@attrs.define
class Rules:
    """How this broker goes about it.

    :ivar hurried: looks for the leader anew as soon as it is not answered; Java's waits for its next poll.
    :ivar poll_s: seconds between its questions for the master (1004).
    :ivar heartbeat_timeout_ms: what it announces.
    :ivar heeds_notices: whether 1008 reaches it; else it learns by its polls.
    :ivar lazy: share of ticks at which a slave begins to fetch nothing for a while, as behind a slow disk.
    :ivar lazy_until_s: true time; then it is lazy no more.
    """

    hurried: bool = True
    poll_s: float = 2.0
    heartbeat_timeout_ms: int = 10_000
    heeds_notices: bool = True
    lazy: float = 0.0
    lazy_until_s: float = 0.0


class SimulatedBroker:
    """See the module.

    :param disk_name: names the disk: a wiped one is another broker.
    :param cleaned: called when an operator has cleaned this broker out of the controllers.
    :ivar number: its id, None before it has one.
    :ivar master: its epoch as master, None while it is not one.
    :ivar epoch: the newest master epoch it was told.
    """

    def __init__(
        self,
        process: Process,
        group: Group,
        disk_name: str,
        port: int,
        controllers: tuple[str, ...],
        rules: Rules,
        oracle: BrokerOracle,
        history: History,
        cleaned: Callable[[], None],
    ) -> None:
        self.process = process
        self.reactor = process.reactor
        self.group = group
        self.name = disk_name
        self.address = f"{process.host.address}:{port}"
        self.controllers = controllers
        self.rules = rules
        self.oracle = oracle
        self.history = history
        self._cleaned = cleaned
        self.identity = Identity(process.disk, group.cluster, group.name)
        self.leader: str | None = None
        self.registered = False
        self.master: MasterEpoch | None = None
        self.epoch = self.set_epoch = 0
        self.master_id: int | None = None
        self.master_address = ""
        self._asked = process.host.random.randrange(max(1, len(controllers)))
        self._busy = False
        self._next_poll_s = self._next_leader_s = 0.0
        self._lazy_until_s = 0.0
        self._appended = 0
        self._read_s = 0.0
        self._copied_epoch = 0  # of the master whose log ours is a copy of
        if disk_name not in oracle.logs:
            oracle.logs[disk_name] = []
        if self.identity.number is not None:
            oracle.took_id(group, disk_name, self.identity.number)
        self.client = RemotingClient(Dialer(self.reactor))
        self.factory = RemotingFactory(self, self.reactor)
        strports.service(f"tcp:{port}", self.factory, self.reactor).startService()
        ticker = task.LoopingCall(self._tick)
        ticker.clock = self.reactor
        ticker.start(TICK_S, now=True)

    @property
    def number(self) -> int | None:
        """Its id."""
        return self.identity.number

    @property
    def log(self) -> list[str]:
        """Its records."""
        return self.oracle.logs[self.name]

    # -- the clock

    def _tick(self) -> None:
        if self.number is not None:  # while it registers, too: its heartbeats may overtake that
            self._heartbeat()
        if self.master is not None:
            self._appended += 1
            self.log.append(f"{self.master.epoch}.{self.process.number}.{self._appended}")
            self._confirm()
        elif self.master_address and self._awake():
            self._fetch()
        self._begin_step()

    def _awake(self) -> bool:
        now, chance = self.reactor.seconds(), self.process.host.random
        may = self.rules.lazy and self._true_s() < self.rules.lazy_until_s
        if may and now >= self._lazy_until_s and chance.random() < self.rules.lazy:
            self._lazy_until_s = now + 4.0 + 6.0 * chance.random()
        return now >= self._lazy_until_s

    def _begin_step(self) -> None:
        if not self._busy:
            self._busy = True
            self._step().addErrback(self._step_failed).addBoth(self._step_over)

    def _step_failed(self, failure: Any) -> None:
        """No answer, no connection, or a disk that fails: the next tick tries again."""
        failure.trap(
            error.ConnectError, error.ConnectionClosed, error.TimeoutError, error.ConnectionAborted, DiskFailure
        )
        if self.rules.hurried:
            self.leader = None

    def _step_over(self, _: Any) -> None:
        self._busy = False

    @defer.inlineCallbacks
    def _step(self) -> Generator[Any, Any, None]:
        now = self.reactor.seconds()
        if self.leader is None or now >= self._next_leader_s:
            yield self._find_leader()
            self._next_leader_s = now + (5.0 if self.rules.hurried else 10.0)
        if self.leader is None:
            return
        if self.number is None:
            yield self._get_id()
        if self.number is not None and not self.registered:
            yield self._register()
        if self.registered and (now >= self._next_poll_s or self.master_id is None):
            self._next_poll_s = now + self.rules.poll_s
            yield self._poll()
        if self.master is not None:
            yield self._report_set(self.master)

    # -- asking

    def _ask(
        self, code: int, fields: Mapping[str, Any], body: bytes = b"", what: Any = None
    ) -> defer.Deferred[Command]:
        """A request to the leader; into the history if it is an operation."""
        assert self.leader is not None
        text = {key: str(value) for key, value in fields.items()}
        asked = self.client.request(self.leader, code, text, body, REQUEST_S)
        token = self.history.invoke(self.group, self._true_s(), self.name, what) if what is not None else None

        def answered(answer: Command) -> Command:
            if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
                if token is not None:
                    self.history.drop(token)
                if self.rules.hurried:
                    self.leader = None
            elif token is not None and (AMBIGUOUS in (answer.remark or "") or answer.code == WAITS):
                self.history.drop(token)
            elif token is not None and answer.code in DEFINITE:
                self.history.settle(token, self._true_s(), _outcome(answer))
            return answer

        return asked.addCallback(answered)

    def _true_s(self) -> float:
        return self.reactor.scheduler.now

    @defer.inlineCallbacks
    def _find_leader(self) -> Generator[Any, Any, None]:
        self._asked += 1
        address = self.controllers[self._asked % len(self.controllers)]
        self.leader = None
        answer = yield self.client.request(address, RequestCode.CONTROLLER_GET_METADATA_INFO, {}, b"", REQUEST_S)
        self.leader = answer.fields.get("controllerLeaderAddress") or None

    def _names(self, **more: Any) -> dict[str, Any]:
        return {"clusterName": self.group.cluster, "brokerName": self.group.name, **more}

    @defer.inlineCallbacks
    def _get_id(self) -> Generator[Any, Any, None]:
        """S3: next id, temp file, apply, final file; any step may be the process's last."""
        identity = self.identity
        if identity.wanted is None:
            answer = yield self._ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, self._names(), what=("next",))
            if answer.code:
                return
            code = f"{self.address};{int(self.reactor.wall() * 1000)}.{self.process.host.random.getrandbits(32)}"
            identity.want(int(answer.fields["nextBrokerId"]), code)
        assert identity.wanted is not None
        number, code = identity.wanted
        fields = self._names(appliedBrokerId=number, registerCheckCode=code)
        answer = yield self._ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, fields, what=("apply", number, code))
        if answer.code == 0:
            identity.keep(number)
            self.oracle.took_id(self.group, self.name, number)
        elif answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
            identity.give_up()

    @defer.inlineCallbacks
    def _register(self) -> Generator[Any, Any, None]:
        fields = self._names(brokerId=self.number, brokerAddress=self.address)
        answer = yield self._ask(
            RequestCode.CONTROLLER_REGISTER_BROKER, fields, what=("register", self.number, self.address)
        )
        if answer.code == 0:
            self.registered = True
            self._heartbeat()
            self._take_role(answer)
        elif answer.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED:
            self.identity.forget()
            self._cleaned()

    @defer.inlineCallbacks
    def _poll(self) -> Generator[Any, Any, None]:
        """1004, and 1002 where there is no master."""
        answer = yield self._ask(
            RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": self.group.name}, what=("get",)
        )
        if answer.code in (
            ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
        ):
            self.registered = False
        elif answer.code == 0:
            self._take_role(answer)
            if not answer.fields.get("masterAddress"):
                self.master_id = None
                fields = self._names(brokerId=self.number, designateElect="false")
                elected = yield self._ask(RequestCode.CONTROLLER_ELECT_MASTER, fields, what=("elect", self.number))
                if elected.code in (0, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
                    self._take_role(elected)

    def _heartbeat(self) -> None:
        epoch = int(self.log[-1].split(".")[0]) if self.log else 0
        fields = self._names(
            brokerAddr=self.address,
            brokerId=self.number,
            epoch=epoch,
            maxOffset=len(self.log),
            confirmOffset=self.master.confirmed if self.master is not None else len(self.log),
            heartbeatTimeoutMills=self.rules.heartbeat_timeout_ms,
            electionPriority=2147483647,
        )
        text = {key: str(value) for key, value in fields.items()}
        for address in self.controllers:
            self.client.oneway(address, RequestCode.BROKER_HEARTBEAT, text).addErrback(_forgotten)

    # -- its role

    def _take_role(self, command: Command) -> None:
        """What 1002, 1003, 1004 and 1008 tell: master, address, both epochs, set."""
        fields = command.fields
        if not fields.get("masterAddress") or "masterEpoch" not in fields:
            return
        body = json.loads(command.body) if command.body else {}
        epoch = int(fields["masterEpoch"])
        set_epoch = int(fields["syncStateSetEpoch"] if "syncStateSetEpoch" in fields else body["syncStateSetEpoch"])
        in_sync = frozenset(body.get("syncStateSet") or ())
        master_id = int(fields["masterBrokerId"])
        if epoch > self.epoch:
            self.epoch, self.set_epoch = epoch, set_epoch
            self.master_id, self.master_address = master_id, fields["masterAddress"]
            self.master = None
            if master_id == self.number:
                self.master = MasterEpoch(epoch, master_id, len(self.log), in_sync, set_epoch)
                self.oracle.became_master(self.group, epoch, self.name)
                self._confirm()
        elif epoch == self.epoch:
            self.master_id, self.master_address = master_id, fields["masterAddress"]
            if self.master is not None:
                self.master.take_set(in_sync, set_epoch)

    def _confirm(self) -> None:
        assert self.master is not None
        fresh = self.master.confirm(self.log)
        if fresh:
            self.oracle.acked(self.group, self.master.epoch, self.name, fresh)

    @defer.inlineCallbacks
    def _report_set(self, master: MasterEpoch) -> Generator[Any, Any, None]:
        """1001, if the set is not as it should be."""
        wanted = master.wanted_set(self.reactor.seconds(), SLAVE_SILENT_S)
        if wanted == master.in_sync or self.leader is None:
            return
        at_epoch = master.set_epoch
        master.doubtful[at_epoch] = master.doubtful.get(at_epoch, frozenset()) | wanted
        if len(wanted) > 1 and self.process.host.random.random() < 0.2:
            # It changed its mind and asked twice at one epoch: only one of the two may be granted.
            self._alter(master, frozenset({master.own_id}), at_epoch).addErrback(_forgotten)
        yield self._alter(master, wanted, at_epoch)

    @defer.inlineCallbacks
    def _alter(self, master: MasterEpoch, wanted: frozenset[int], at_epoch: int) -> Generator[Any, Any, None]:
        fields = {"brokerName": self.group.name, "masterBrokerId": self.number, "masterEpoch": master.epoch}
        body = json.dumps({"syncStateSet": sorted(wanted), "syncStateSetEpoch": at_epoch}).encode()
        what = ("alter", self.number, master.epoch, at_epoch, tuple(sorted(wanted)))
        answer = yield self._ask(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body, what)
        if answer.code == 0:
            master.take_set(wanted, int(answer.fields["newSyncStateSetEpoch"]))
            self._confirm()
        else:
            self._next_poll_s = 0.0

    def _fetch(self) -> None:
        """As a slave: what the master has."""
        epoch = self.epoch
        have = len(self.log) if self._copied_epoch == epoch else 0
        fields = {"brokerId": str(self.number), "epoch": str(epoch), "have": str(have)}
        asked = self.client.request(self.master_address, FETCH, fields, timeout_s=REQUEST_S)

        def fetched(answer: Command) -> None:
            self._read_s = self.reactor.wall()
            if answer.code == 0 and epoch == self.epoch and self.master is None and self.number is not None:
                log = json.loads(answer.body)
                news = self._copied_epoch != epoch or len(log) > len(self.log)
                self._copied_epoch = epoch
                if news:
                    self.log[:] = log
                    self._fetch()  # says that we have it

        asked.addCallback(fetched).addErrback(_forgotten)

    # -- what others ask

    def connected(self, connection: RemotingProtocol) -> None:
        """Nothing to do."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """Nothing to do."""

    def turn_ended(self) -> None:
        """Nothing to do."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """A notice of the controllers, a slave's fetch, or somebody who wants to know whether we live."""
        if command.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            if self.rules.heeds_notices and self.number is not None:  # else the answer that gave it its id was lost
                self._take_role(command)
            return Answer()
        if command.code == FETCH:
            return self._fetched(command)
        if command.code == RequestCode.GET_BROKER_HA_STATUS:
            return Answer(body=self._ha_status())
        if command.code == RequestCode.GET_BROKER_EPOCH_CACHE:
            return Answer(body=json.dumps({"brokerName": self.group.name, "clusterName": self.group.cluster}).encode())
        return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")

    def _fetched(self, command: Command) -> Answer:
        master = self.master
        if master is None or int(command.fields["epoch"]) != master.epoch:
            return Answer(ResponseCode.SYSTEM_ERROR, "not the master of that epoch")
        slave = int(command.fields["brokerId"])
        master.acks[slave] = max(int(command.fields["have"]), master.acks.get(slave, 0))
        master.heard_s[slave] = self.reactor.seconds()
        self._confirm()
        if master.wanted_set(self.reactor.seconds(), SLAVE_SILENT_S) != master.in_sync:
            self._begin_step()
        return Answer(body=json.dumps(self.log).encode())

    def _ha_status(self) -> bytes:
        """907, as Java answers: the role, and when a slave last read from its master."""
        link = {"lastReadTimestamp": int(self._read_s * 1000), "maxOffset": len(self.log)}
        return json.dumps({"master": self.master is not None, "haClientRuntimeInfo": link}).encode()


def _forgotten(failure: Any) -> None:
    """Somebody did not hear us; the next tick says it again."""


def _outcome(answer: Command) -> tuple[Any, ...]:
    """What a checker compares: the code, the fields, the set."""
    body = json.loads(answer.body) if answer.body else {}
    return (answer.code, tuple(sorted(answer.fields.items())), tuple(body.get("syncStateSet") or ()))
