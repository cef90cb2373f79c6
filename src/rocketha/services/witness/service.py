"""A member of a group in DLedger mode that votes, counts for a majority, and keeps no messages.

Theory of operation.  It is a member of the Raft group like a broker's (:mod:`rocketha.services.raft.service`), on a log
that remembers of each entry only that it is there, and in which term (:mod:`rocketha.store.witness_log`).  So it never
leads, and no client, nameserver or controller knows of it.  It is told no bodies of what it missed: its leader has it
begin behind what is committed.

What it must not do: together with Java's members, who would send it entries and let it lead.

Java: none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.application import service
from twisted.internet import defer

from rocketha.observe import events, refusals
from rocketha.observe.logging import emit, make_logger
from rocketha.observe.metrics import Registry
from rocketha.observe.overview import Overview, Process
from rocketha.observe.refusals import Refusals, refused_by
from rocketha.protocols.raft import RaftLimits
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol, ServerParts
from rocketha.protocols.shared_port import SharedPort
from rocketha.raft.config import RaftConfig
from rocketha.raft.messages import Members
from rocketha.raft.node import RaftNode
from rocketha.services.access.guard import guarded
from rocketha.services.config import views
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.process.clients import ConnectedClients
from rocketha.services.process.own_process import OwnProcess
from rocketha.services.process.platform import Platform
from rocketha.services.process.ticker import Ticker
from rocketha.services.raft.java_members import Group, JavaMembers
from rocketha.services.raft.java_port import WITNESS_ROUTES, JavaPort, Operator
from rocketha.services.raft.operators import group_status
from rocketha.services.raft.options import RaftMember, RaftOptions, RaftView, vouching
from rocketha.services.raft.service import RaftService
from rocketha.services.replication.dledger import members_of
from rocketha.services.witness.store import NoBodies, WitnessStore
from rocketha.store.entry_log import FIRST_TERM
from rocketha.store.witness_log import WitnessLog
from rocketha.wire.codes import PrivateCode
from rocketha.wire.remoting import Answer, Command


class Witness(service.MultiService):
    """See the module.

    :param listen: endpoint strings; from the configuration where empty.
    :ivar refusals: what its port refused.
    """

    def __init__(
        self, config: BrokerConfig, platform: Platform, listen: Sequence[str] = (), warnings: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.setName("witness")
        self._keys = config.replication
        self._warnings = tuple(warnings)
        self._platform = platform
        self._log = make_logger()
        self.refusals = Refusals("witness", platform.seconds)
        self._raft = self._make_raft()
        self._raft.on_told(self._heard)
        self._problem = ""
        self._settling = Ticker(platform.reactor, self.refusals.settle, 1.0)
        process = OwnProcess(platform, platform.askers.known)
        self._ports: list[RemotingFactory] = []
        clients = ConnectedClients(self._ports, self.refusals, lambda ids: {}, process)
        answers: dict[int, Operator] = {
            PrivateCode.STATUS: self._status,
            PrivateCode.CLIENTS: clients.answer,
            PrivateCode.LOG_LEVEL: process.log_level,
        }
        java = JavaPort(self._raft, self.refusals, answers)
        requests = guarded(java, platform.askers, WITNESS_ROUTES)
        parts = ServerParts(refusals=self.refusals)
        self._port = SharedPort(requests, platform.reactor, self._raft.port, parts=parts)
        self._ports.append(self._port)
        address = self._keys.dledger_peers[self._keys.d_leger_self_id]
        port, backlog = int(address.rpartition(":")[2]), config.remoting.server_socket_backlog
        self._listen = tuple(listen) or (views.endpoint(config.bind_address, port, backlog),)
        for part in (
            self._raft,
            *(platform.network.port(platform.reactor, each, self._port, self.refusals) for each in self._listen),
        ):
            part.setServiceParent(self)

    def _make_raft(self) -> RaftService:
        keys, platform = self._keys, self._platform
        name, directory = keys.d_leger_self_id, keys.dledger_directory
        log = WitnessLog(platform.disk, directory, (keys.d_leger_group, name), members_of(keys))
        # Its leaders decide what is sent: only what concerns who votes for whom has to be as in theirs.
        config = RaftConfig(
            name,
            leads=False,
            sticky_lease=True,
            first_term=FIRST_TERM,
            hands_out=False,
            cached_entries=0,
            cached_bytes=0,
        )
        return RaftService(
            RaftMember(name, keys.d_leger_group, keys.dledger_peers, directory, vouches=vouching(platform.askers)),
            WitnessStore(log, platform),
            platform,
            RaftOptions(),
            config,
            RaftLimits(runs=True),
            refusals=self.refusals,
            dialect=self._java_members,
        )

    def _java_members(self, node: RaftNode, group: Group) -> JavaMembers:
        """None is admitted; tools that speak DLedger's words are answered."""
        reactor = self._platform.reactor
        return JavaMembers(self._raft.identity, node, NoBodies(), reactor, group, admitted=lambda: False)

    def startService(self) -> None:
        """Twisted: recover, then take part."""
        super().startService()
        self._settling.start()
        for warning in self._warnings:
            self._log.warn("{text}", text=warning)
        emit(self._log, events.WitnessStarted(self._keys.d_leger_self_id, self._keys.d_leger_group))

    @defer.inlineCallbacks
    def stopService(self) -> Any:
        """Twisted: fires when all is closed."""
        self._settling.stop()
        yield defer.maybeDeferred(super().stopService)
        self._port.close_all()
        self.refusals.close()
        emit(self._log, events.WitnessStopped(self._keys.d_leger_self_id, self._keys.d_leger_group))

    # --- what is

    def _heard(self, members: Members) -> None:
        """For the others it may be an ordinary member, from which they expect what it does not have."""
        own = self._keys.d_leger_self_id
        mistaken = own in members.ids() and own not in members.witnesses
        problem = f"for the group {own} is no witness: dLegerWitness has to name it at all members" if mistaken else ""
        if problem and problem != self._problem:
            emit(self._log, events.WitnessMistaken(problem))
        self._problem = problem

    def _status(self, connection: RemotingProtocol, command: Command) -> Answer:
        return group_status(self._raft.node)

    def view(self) -> RaftView | None:
        """The member, for metrics; None before its log is read."""
        return self._raft.status() if self._raft.ready else None

    def healthy(self) -> str | None:
        """For the status port; what is fatal ends the process."""
        return None

    def ready(self) -> str | None:
        """For the status port: why it witnesses nothing; None: it does."""
        view = self.view()
        if view is None:
            return "the log is being read"
        if self._problem:
            return self._problem
        own = self._keys.d_leger_self_id
        if own not in view.node.members.ids():
            return f"{own} is no member of the group yet: rocketha dledger add --witness"
        return None if view.node.leader_id else "nobody leads"

    def overview(self) -> Overview:
        """For the status page: the members of the group, as far as a witness is told."""
        keys, view = self._keys, self.view()
        title = f"witness {keys.d_leger_self_id} of {keys.d_leger_group}"
        if view is None:
            return Overview(title)
        node, processes = view.node, []
        for name, address in node.members.addresses.items():
            witness = name in node.members.witnesses
            state = "leads" if name == node.leader_id else "witness" if witness else "member"
            well = self.ready() is None if name == keys.d_leger_self_id else True if name == node.leader_id else None
            detail = f"term {node.term}, entry {node.commit} committed" if name == keys.d_leger_self_id else ""
            processes.append(Process(name, "witness" if witness else "broker", address, state, well, detail))
        note = "A witness is told neither what members have nor of topics: see the page of the group's master."
        return Overview(title, processes, refused=refused_by(self.refusals), notes=[note])

    def install(self, metrics: Registry) -> None:
        """Register the metrics."""
        refusals.install(metrics, self.refusals)

        def of(value: Callable[[RaftView], int]) -> Callable[[], int]:
            def ask() -> int:
                view = self.view()
                return 0 if view is None else value(view)

            return ask

        for name, text, ask, kind in (
            (
                "ready",
                "1 while it takes part in a group that has a leader.",
                lambda view: int(self.ready() is None),
                "gauge",
            ),
            ("term", "The Raft term.", lambda view: view.node.term, "gauge"),
            ("last_index", "The last entry it was told of.", lambda view: view.node.last_index, "gauge"),
            ("committed_index", "The last committed entry.", lambda view: view.node.commit, "gauge"),
            ("syncs_total", "Syncs of its log.", lambda view: view.syncs, "counter"),
        ):
            metrics.ask(f"rocketha_witness_{name}", text, of(ask), kind)
