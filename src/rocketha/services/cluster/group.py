"""A whole RocketMQ with replicas on one machine: a nameserver here, and a process for each broker and controller.

Decides nothing about roles: the controllers do, or the brokers themselves (DLedger mode).  It starts the processes,
starts again what ends, says what changes, and stops them in order: replicas, then their master, which sign off and
close their stores while the controllers still answer, then the controllers, then the nameserver.

Theory of operation.  Processes of their own, because what a group is for is to live on when one of them is killed,
frozen or starved, and a person is to be able to do that.  The nameserver lives here: it keeps nothing that a restart
would lose, and its table is where it is seen who clients are sent to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import attrs
from twisted.application import service
from twisted.internet import defer, error

import rocketha
from rocketha.errors import RockethaError
from rocketha.observe import events
from rocketha.observe.logging import emit, lasting, make_logger
from rocketha.observe.overview import Overview, Process, merged
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.network import Network
from rocketha.services.cluster import layout as cluster_layout
from rocketha.services.cluster.layout import Layout, Plan
from rocketha.services.cluster.master_page import MasterPage
from rocketha.services.cluster.member import Member
from rocketha.services.cluster.service import command_name, tell_terminal, tls_lines
from rocketha.services.cluster.switches import Switches
from rocketha.services.controller import trail
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.fatal import end_process
from rocketha.services.process.status import StatusService
from rocketha.services.process.ticker import Ticker
from rocketha.store.posix_disk import private_dirs

READY_CHECK_S = 0.02
BROKER_STOP_S, CONTROLLER_STOP_S = 60.0, 5.0
"""How long a process that was told to stop may take.  A broker hands its role over and closes its store, which is some
thousands of files; one that is killed meanwhile has to recover."""


class GroupService(service.MultiService):
    """A nameserver, brokers and controllers.

    :param network: how the nameserver connects, and who watches the members.
    :param tell: where words for a person go.
    :param wall: seconds since 1970.
    :ivar served: fires when all brokers are registered and one of them is the master.
    :ivar members: by name, in the order of their start.
    """

    def __init__(
        self,
        namesrv: NameServerService,
        layout: Layout,
        network: Network,
        status: StatusService | None = None,
        reactor: Any = None,
        tell: Callable[[str], None] = tell_terminal,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.setName("cluster")
        self.served: defer.Deferred[None] = defer.Deferred()
        self.members: dict[str, Member] = {}
        self._namesrv = namesrv
        self._layout = layout
        self._network = network
        self._reactor = reactor
        self._terminal = tell
        self._wall = wall
        self._switches: Switches | None = None
        self._master_page: MasterPage | None = None
        self._later: list[Plan] = []
        self._waiting: Ticker | None = None
        self._began_s = 0.0
        self._adopted = False
        self._log = make_logger()
        for child in (status, namesrv):
            if child is not None:
                child.setServiceParent(self)

    # -- life

    def privilegedStartService(self) -> None:
        """Twisted: the nameserver's port is opened, and a former broker's directory becomes the first replica's."""
        self._take_reactor()
        try:
            private_dirs(self._layout.data)
            self._adopted = not self._layout.dledger and cluster_layout.adopt(self._layout.data)
            super().privilegedStartService()
        except error.CannotListenError as problem:
            self._give_up(f"port {problem.port} can not be opened: {problem.socketError}")
        except RockethaError as problem:
            self._give_up(str(problem))

    def startService(self) -> None:
        """Twisted: start everything, and watch for the moment it serves."""
        self._take_reactor()
        try:
            super().startService()
        except error.CannotListenError as problem:
            self._give_up(f"port {problem.port} can not be opened: {problem.socketError}")
        # The processes' ends are told by a signal, which Twisted takes when its loop begins.
        self._reactor.callWhenRunning(self._start_members)

    def _take_reactor(self) -> None:
        if self._reactor is None:
            from twisted.internet import reactor

            self._reactor = reactor

    def _give_up(self, reason: str) -> None:
        self.running = 0
        end_process(self._reactor, reason)

    def _start_members(self) -> None:
        if not self.running:
            return
        self._began_s = self._reactor.seconds()
        layout = self._layout
        controllers, brokers = layout.controller_plans(), layout.broker_plans()
        first = brokers if layout.dledger else cluster_layout.begin_first(layout.data, brokers)
        self._later = [plan for plan in brokers if plan not in first]
        dialer = Dialer(self._reactor, self._network.endpoint)
        self._master_page = MasterPage(dialer)
        self._switches = Switches(
            dialer,
            self._namesrv,
            layout.broker.broker_name,
            {plan.address: plan.name for plan in controllers},
            {plan.port: plan.name for plan in brokers},
            self.tell,
            self._label,
            controlled=not layout.dledger,
        )
        for plan in [*controllers, *brokers]:
            log = os.path.join(layout.log_directory, plan.name)
            self.members[plan.name] = Member(plan, log, self._reactor, self._ended, self._started)
        self.tell(f"{len(self.members)} processes start; their logs are in {os.path.relpath(layout.log_directory)}")
        for plan in [*controllers, *first]:
            self.members[plan.name].start()
        self._switches.start()
        self._waiting = Ticker(self._reactor, lasting(self._look, "a look at the group"), READY_CHECK_S)
        self._waiting.start()

    def _look(self) -> None:
        switches = self._switches
        if switches is None or not switches.master or self._waiting is None:
            return
        for plan in self._later:
            self.members[plan.name].start()
        self._later = []
        if len(switches.registered) == self._layout.brokers:
            self._waiting.stop()
            self._waiting = None
            self._terminal(self.words())
            emit(self._log, events.ClusterServes(self._reactor.seconds() - self._began_s))
            self.served.callback(None)

    @defer.inlineCallbacks
    def stopService(self) -> Any:
        """Twisted: fires when every process is gone and the nameserver's port is closed."""
        service.Service.stopService(self)
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None
        if self._switches is not None:
            self._switches.stop()
        if self._master_page is not None:
            self._master_page.close()
        for chosen, seconds in self._stop_order():
            yield defer.gatherResults([member.stop(seconds) for member in chosen])
        for child in reversed(list(self)):
            yield defer.maybeDeferred(child.stopService)

    def _stop_order(self) -> list[tuple[list[Member], float]]:
        """The replicas before the master: it would hand its role to one that stops as well."""
        master = self._switches.master if self._switches is not None else ""
        brokers = [member for name, member in self.members.items() if name.startswith("broker")]
        controllers = [member for member in self.members.values() if member not in brokers]
        return [
            ([member for member in brokers if member.name != master], BROKER_STOP_S),
            ([member for member in brokers if member.name == master], BROKER_STOP_S),
            (controllers, CONTROLLER_STOP_S),
        ]

    # -- what happens to the processes

    def _started(self, member: Member) -> None:
        if self._switches is not None:
            self._switches.started(member.name)
        emit(self._log, events.ProcessStarted(member.name, member.pid or 0))
        if member.tries > 1:
            self.tell(f"{self._label(member.name)} is started{' again' if member.starts > 1 else ''}")

    def _ended(self, member: Member, what: str) -> None:
        if self._switches is not None:
            self._switches.ended(member.name)
        last = member.last_word() if member.exit_code else ""
        text = f"{member.name} {what}" + (f": {last}" if last else "")
        if not self.served.called and member.starts == 1 and member.exit_code:
            # It never ran: the same would happen again.
            self._give_up(f"{text} ({os.path.relpath(member.log_path)})")
            return
        emit(self._log, events.ProcessEnded(member.name, text.removeprefix(f"{member.name} ")))
        self.tell(text)

    def _label(self, name: str) -> str:
        member = self.members.get(name)
        if member is None or member.pid is None:
            return name
        number = self._switches.ids.get(name) if self._switches is not None else None
        return f"{name} (pid {member.pid})" if number is None else f"{name} (id {number}, pid {member.pid})"

    # -- words

    def ready(self) -> str | None:
        """None, or why clients are not served."""
        if self._switches is None or not self._switches.master:
            return "no master yet"
        return None if 0 in self._switches.registered else "no master"

    def overview(self) -> Overview:
        """For the status page: the processes, and what nameserver, controllers and the master know of the group."""
        switches, of_namesrv = self._switches, self._namesrv.overview()
        master = switches.master if switches is not None else ""
        leader = switches.leader if switches is not None else ""
        group = switches.group if switches is not None else None
        rows = []
        for name, member in self.members.items():
            runs = member.pid is not None
            state = "not running" if not runs else "master" if name == master else "leads" if name == leader else "runs"
            detail = f"pid {member.pid}" if runs else f"started {member.starts} times"
            if switches is not None and name in switches.ids:
                detail = f"id {switches.ids[name]}, {detail}"
            kind = "broker" if name.startswith("broker") else "controller"
            rows.append(Process(name, kind, member.plan.address, state, runs, detail))
        known = Overview(
            groups=of_namesrv.groups if group is None else [trail.group_row(group)],
            moments=[] if group is None else list(trail.moments(group)),
        )
        page = self._master_page
        told = Overview() if page is None else page.look(self.members[master].plan.address if master else "")
        rest = attrs.evolve(of_namesrv, processes=(), groups=(), notes=())
        return merged("cluster on this machine", Overview(processes=rows), known, told, rest)

    def tell(self, text: str) -> None:
        """One line with the time of day."""
        self._terminal(f"{time.strftime('%H:%M:%S', time.localtime(self._wall()))}  {text}\n")

    def words(self) -> str:
        """Addresses, processes, and what to type next."""
        layout, command = self._layout, command_name()
        namesrv, seconds = layout.namesrv_address, self._reactor.seconds() - self._began_s
        found = "kept from before as broker-1" if self._adopted else "one directory for each process"
        lines = [f"rocketha {rocketha.__version__} serves, after {seconds:.1f} s", f"  {'nameserver':13} {namesrv}"]
        master = self._switches.master if self._switches is not None else ""
        for member in self.members.values():
            role = "  master" if member.name == master else ""
            lines.append(f"  {member.name:13} {member.plan.address}  pid {member.pid}{role}")
        controllers = ";".join(plan.address for plan in layout.controller_plans())
        logs = os.path.relpath(layout.log_directory)
        lines += [
            f"  {'data':13} {os.path.join(os.path.relpath(layout.data), '')}: {found}; logs in {logs}",
            "try it in another shell",
            *tls_lines(layout.broker.remoting.tls),
            f"  {command} send --namesrv {namesrv} TopicTest hello",
            f"  {command} receive --namesrv {namesrv} TopicTest --from first",
            f"  kill -9 {self.members[master].pid}    # the master: see who takes over",
        ]
        if controllers:
            lines.append(f"  {command} controller --controllers '{controllers}' why {layout.broker.broker_name}")
        lines.append("Ctrl-C stops it")
        return "\n".join(lines) + "\n"
