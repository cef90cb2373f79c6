"""Things that happen to a service and that somebody may want to find again: values with a name, not sentences.

Pure.  A test compares them.  ``observe.logging.emit`` says each of them everywhere alike: in the log, with ``event`` =
the name, so that an alert can be written on it; in ``rocketha_events_total``, by name; on the status page's timeline
(``observe.timeline``).  Names are stable once released; attributes may be added.  docs/events.rst lists them by
the same subjects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from rocketha.errors import DiskFailure


@attrs.frozen
class Event:
    """Something that happened.

    :cvar name: ``subject.verb``, stable.
    :cvar level: how loudly it is logged.
    :cvar message: what a person reads, with the attributes' names in braces.
    :cvar public: the same for the status page, where the message tells of clients, users or operators: the page shows
        no other names and addresses than those of brokers, controllers and nameservers.  Empty: the message.
    :cvar shown: whether the status page shows it at all, or only counts it.
    """

    name: ClassVar[str] = ""
    level: ClassVar[str] = "info"
    message: ClassVar[str] = ""
    public: ClassVar[str] = ""
    shown: ClassVar[bool] = True

    def words(self) -> str:
        """What the status page says."""
        return (self.public or self.message).format_map(attrs.asdict(self, recurse=False))


# -- nameserver -------------------------------------------------------------------------------------------------------


@attrs.frozen
class NameserverStarted(Event):
    """The nameserver listens."""

    name: ClassVar[str] = "namesrv.started"
    message: ClassVar[str] = "nameserver listens on {address}"

    address: str


@attrs.frozen
class NameserverStopped(Event):
    """The nameserver has closed its ports."""

    name: ClassVar[str] = "namesrv.stopped"
    message: ClassVar[str] = "nameserver stopped"


@attrs.frozen
class RouteRegistered(Event):
    """A broker registered with the nameserver that it did not know.

    :ivar broker: ``cluster/brokerName``.
    :ivar broker_id: 0 of a master.
    """

    name: ClassVar[str] = "route.registered"
    message: ClassVar[str] = "broker {broker} registered as id {broker_id} at {address}"

    broker: str
    broker_id: int
    address: str


@attrs.frozen
class RouteRemoved(Event):
    """A registration is gone from the nameserver.

    :ivar broker_id: None where it had none any more.
    """

    name: ClassVar[str] = "route.removed"
    message: ClassVar[str] = "broker {broker} at {address} is registered no more: {reason}"

    broker: str
    broker_id: int | None
    address: str
    reason: str


@attrs.frozen
class RouteRejected(Event):
    """A registration was older than that of the broker which holds its id."""

    name: ClassVar[str] = "route.rejected"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = (
        "broker {broker} at {address} is not registered as id {broker_id}: {held_by} holds it, and is newer"
    )

    broker: str
    broker_id: int
    address: str
    held_by: str
    state_version: int
    held_state_version: int


@attrs.frozen
class NameShared(Event):
    """A broker name is used in several clusters: clients see only the first."""

    name: ClassVar[str] = "route.name_shared"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "broker name {broker} is used in the clusters {clusters}; clients see the first only"

    broker: str
    clusters: list[str]


# -- broker -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class BrokerStarted(Event):
    """The broker has recovered its store and listens.

    :ivar recovery: how the store was found: ``new``, ``clean`` or ``after a crash``.
    :ivar seconds: from the start of the service to listening.
    """

    name: ClassVar[str] = "broker.started"
    message: ClassVar[str] = "broker {broker} listens on {address} after {seconds:.2f} s; store {store}: {recovery}"

    broker: str
    address: str
    store: str
    recovery: str
    seconds: float


@attrs.frozen
class BrokerStopping(Event):
    """The broker was told to stop.

    :ivar role: MASTER, SLAVE or FENCED; a MASTER hands over first where it can.
    """

    name: ClassVar[str] = "broker.stopping"
    message: ClassVar[str] = "broker {broker} was told to stop; it was {role}"

    broker: str
    role: str


@attrs.frozen
class HealthLost(Event):
    """A health check of a plug-in says that the broker is unhealthy."""

    name: ClassVar[str] = "health.lost"
    level: ClassVar[str] = "error"
    message: ClassVar[str] = "unhealthy: {check}: {problem}"

    check: str
    problem: str


@attrs.frozen
class HealthRestored(Event):
    """The check finds nothing wrong any more."""

    name: ClassVar[str] = "health.restored"
    message: ClassVar[str] = "healthy again: {check}"

    check: str


@attrs.frozen
class BrokerStopped(Event):
    """The broker has closed its store cleanly."""

    name: ClassVar[str] = "broker.stopped"
    message: ClassVar[str] = "broker {broker} stopped; its store is clean up to offset {max_offset}"

    broker: str
    max_offset: int


@attrs.frozen
class PutsSlow(Event):
    """Sends waited for long until their messages were safe.

    :ivar waited_ms: the one that waited longest, about.
    :ivar lacked: ``disk`` or ``replicas``.
    :ivar cause: for a person.
    """

    name: ClassVar[str] = "puts.slow"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "sends waited up to {waited_ms} ms for {lacked}: {cause}"

    waited_ms: int
    lacked: str
    cause: str


@attrs.frozen
class ReactorStalled(Event):
    """This process did nothing for a while: it was stopped, got no CPU time, or something in it took long.

    :ivar stalled_ms: how late a look came that was due meanwhile, so it stood still for at least this long.
    """

    name: ClassVar[str] = "reactor.stalled"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "this process did nothing for at least {stalled_ms} ms; whoever asked meanwhile waited"

    stalled_ms: int


# -- roles and switches -----------------------------------------------------------------------------------------------


@attrs.frozen
class BrokerIdentified(Event):
    """A broker under controllers knows its id."""

    name: ClassVar[str] = "broker.identified"
    message: ClassVar[str] = "this is broker {broker_id} of {broker}"

    broker: str
    broker_id: int


@attrs.frozen
class MemberReluctant(Event):
    """A member in DLedger mode would rather have another one lead."""

    name: ClassVar[str] = "member.reluctant"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "another member is to lead, where one can: {reason}"

    reason: str


@attrs.frozen
class RoleChanged(Event):
    """A broker's role is another: MASTER, SLAVE, or FENCED (neither takes nor gives messages)."""

    name: ClassVar[str] = "role.changed"
    message: ClassVar[str] = "the role is {role}, it was {before}"

    role: str
    before: str


@attrs.frozen
class BrokerFenced(Event):
    """A broker under controllers may be no master any more, or does not know who is."""

    name: ClassVar[str] = "broker.fenced"
    message: ClassVar[str] = "fenced: {reason}"

    reason: str


@attrs.frozen
class MasterLeads(Event):
    """A broker under controllers was elected, and acts as master from now on."""

    name: ClassVar[str] = "master.leads"
    message: ClassVar[str] = "this broker {broker_id} is master of epoch {epoch}"

    broker_id: int
    epoch: int


@attrs.frozen
class MasterRetires(Event):
    """A master takes no more messages, and lets its replicas reach the end of its log: another one follows."""

    name: ClassVar[str] = "master.retires"
    message: ClassVar[str] = "takes no more messages, another master follows: {reason}"

    reason: str


@attrs.frozen
class MasterFollowed(Event):
    """A broker follows a master from now on.

    :ivar epoch: in DLedger mode, the term.
    """

    name: ClassVar[str] = "master.followed"
    message: ClassVar[str] = "follows broker {broker_id} at {address} in epoch {epoch}"

    broker_id: int
    address: str
    epoch: int


@attrs.frozen
class SetChanged(Event):
    """A master has another SyncStateSet."""

    name: ClassVar[str] = "set.changed"
    message: ClassVar[str] = "in sync: {in_sync}, set epoch {set_epoch}, epoch {epoch}"

    in_sync: list[int]
    set_epoch: int
    epoch: int


# -- draining ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class DrainBegan(Event):
    """A master that handed over passes on what clients with a stale route send."""

    name: ClassVar[str] = "drain.began"
    message: ClassVar[str] = "passes requests of clients that come here still on to {master}"

    master: str


@attrs.frozen
class DrainMoved(Event):
    """The master changed while a broker drains."""

    name: ClassVar[str] = "drain.moved"
    message: ClassVar[str] = "passes on to {master} from now on"

    master: str


@attrs.frozen
class DrainEnded(Event):
    """Clients have left, or the time is over."""

    name: ClassVar[str] = "drain.ended"
    message: ClassVar[str] = "passes nothing on any more, after {seconds:.1f} s"

    seconds: float


# -- controllers ------------------------------------------------------------------------------------------------------


@attrs.frozen
class GroupElected(Event):
    """Controllers changed who is master of a broker group, or who belongs to it; each of them says so.

    :ivar index: of the log entry that decided it: the same at all controllers.
    :ivar did: what was decided: ``elected``, ``unseated``, ...
    :ivar master: the broker's id; None: there is no master.
    :ivar cause: ``HANDED_OVER`` where the master before stopped as planned; else what was found, or who asked.
    :ivar reason: the same for a person.
    :ivar decided_ms: when the leader proposed it, ms since 1970 by its clock; who catches up says it later.
    """

    name: ClassVar[str] = "group.elected"
    message: ClassVar[str] = (
        "entry {index}: {group} {did}; master {master} in epoch {epoch}, in sync {in_sync}; {cause}: {reason}"
    )

    index: int
    group: str
    did: str
    master: int | None
    epoch: int | None
    in_sync: list[int]
    cause: str
    reason: str
    decided_ms: int


@attrs.frozen
class GroupSetChanged(Event):
    """Controllers know another SyncStateSet, as the master reported it."""

    name: ClassVar[str] = "group.set_changed"
    message: ClassVar[str] = (
        "entry {index}: {group} in sync {in_sync}, set epoch {set_epoch}; master {master} in epoch {epoch}"
    )

    index: int
    group: str
    master: int | None
    epoch: int
    in_sync: list[int]
    set_epoch: int


@attrs.frozen
class GroupNotElected(Event):
    """An election that a controller wanted came to nothing."""

    name: ClassVar[str] = "group.not_elected"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "no new master of {group}: {reason}"

    group: str
    reason: str


@attrs.frozen
class ControllerStarted(Event):
    """The controller listens."""

    name: ClassVar[str] = "controller.started"
    message: ClassVar[str] = "controller {id} of {group} listens on {listen}, advertised as {address}"

    id: str
    group: str
    listen: str
    address: str


@attrs.frozen
class ControllerStopped(Event):
    """The controller has closed its log and its port."""

    name: ClassVar[str] = "controller.stopped"
    message: ClassVar[str] = "controller {id} stopped"

    id: str


@attrs.frozen
class ControllerLeads(Event):
    """This controller decides from now on."""

    name: ClassVar[str] = "controller.leads"
    message: ClassVar[str] = "controller {id} leads in term {term}"

    id: str
    term: int


@attrs.frozen
class ControllerDeposed(Event):
    """This controller decides no more."""

    name: ClassVar[str] = "controller.deposed"
    message: ClassVar[str] = "controller {id} leads no more"

    id: str


@attrs.frozen
class BrokerSuspected(Event):
    """The leading controller doubts that a broker lives, and asks around.

    :ivar broker: ``cluster/brokerName:id``.
    """

    name: ClassVar[str] = "broker.suspected"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "broker {broker} is suspected: {reason}"

    broker: str
    reason: str


@attrs.frozen
class BrokerCleared(Event):
    """A suspicion was wrong."""

    name: ClassVar[str] = "broker.cleared"
    message: ClassVar[str] = "broker {broker} is not given up: {reason}"

    broker: str
    reason: str


@attrs.frozen
class BrokerDied(Event):
    """The leading controller gives a broker up."""

    name: ClassVar[str] = "broker.died"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "broker {broker} is dead: {reason}"

    broker: str
    reason: str


@attrs.frozen
class BrokerHeard(Event):
    """A broker that was suspected, or dead, is heard again."""

    name: ClassVar[str] = "broker.heard"
    message: ClassVar[str] = "broker {broker} is heard again; it was {before}"

    broker: str
    before: str


@attrs.frozen
class ControllersForced(Event):
    """A controller was made the only one of its group by an operator (``rocketha controller force-new-cluster``); said
    at each start until a snapshot has the entry.

    :ivar index: the entry of its log that says so.
    :ivar members: who votes now.
    """

    name: ClassVar[str] = "controllers.forced"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = (
        "controller {id} was made the only one by force-new-cluster, entry {index}; now {members} vote. One that was "
        "left out must not start on its old data"
    )

    id: str
    index: int
    members: str


@attrs.frozen
class ControllersBehind(Event):
    """A broker has an epoch that the leading controller knows nothing of: its state is an old copy, or has lost
    decisions.  The set's master stays; nobody is elected after it but by an operator.

    :ivar epoch: the newest in the broker's epoch file.
    :ivar known: the set's master epoch as the controllers have it.
    """

    name: ClassVar[str] = "controllers.behind"
    level: ClassVar[str] = "error"
    message: ClassVar[str] = (
        "broker {broker} has epoch {epoch}, the controllers know of none after {known}: decisions are lost, and nobody "
        "is elected in its set but by rocketha controller elect (docs/disasters.rst)"
    )

    broker: str
    epoch: int
    known: int


# -- Raft groups ------------------------------------------------------------------------------------------------------


@attrs.frozen
class RaftStarted(Event):
    """A member of a Raft group has read its log and takes part.

    :ivar members: id and address of each.
    """

    name: ClassVar[str] = "raft.started"
    message: ClassVar[str] = "raft member {member} of group {group}: term {term}, {entries} entries, {members}"

    member: str
    group: str
    term: int
    entries: int
    members: str


@attrs.frozen
class RaftLeaderChanged(Event):
    """A member of a Raft group (controllers, DLedger mode, witnesses) knows another leader.

    :ivar leader: its id, or ``nobody``.
    """

    name: ClassVar[str] = "raft.leader_changed"
    message: ClassVar[str] = "raft member {member} of group {group}: {leader} leads in term {term}"

    member: str
    group: str
    leader: str
    term: int


@attrs.frozen
class RaftHandedOver(Event):
    """A leader of a Raft group handed over, as planned: it stops, is unfit, or was asked to.

    :ivar leader: who leads now.
    """

    name: ClassVar[str] = "raft.handed_over"
    message: ClassVar[str] = "raft member {member} handed over to {leader}, which leads in term {term}: {reason}"

    member: str
    leader: str
    term: int
    reason: str


@attrs.frozen
class RaftMembersChanged(Event):
    """A Raft group has other members."""

    name: ClassVar[str] = "raft.members_changed"
    message: ClassVar[str] = "raft member {member} of group {group}: the members are {members}"

    member: str
    group: str
    members: str


# -- log and disk -----------------------------------------------------------------------------------------------------


@attrs.frozen
class LogTruncated(Event):
    """The end of a broker's log was cut: its master does not have it, or it is no whole record.

    :ivar end: where the log ends now.
    :ivar cut_bytes: what lay behind that.
    """

    name: ClassVar[str] = "log.truncated"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "{cut_bytes} bytes of the log behind {end} were cut off: {reason}"

    end: int
    cut_bytes: int
    reason: str


@attrs.frozen
class DiskFailed(Event):
    """An operation on the disk failed; what was being written is not acknowledged."""

    name: ClassVar[str] = "disk.failed"
    level: ClassVar[str] = "error"
    message: ClassVar[str] = "{operation} of {path} failed: {reason}"

    path: str
    operation: str
    reason: str

    @classmethod
    def of(cls, failure: DiskFailure) -> DiskFailed:
        return cls(failure.path, failure.operation, failure.message)


@attrs.frozen
class DiskRestored(Event):
    """The disk of a Raft member works again."""

    name: ClassVar[str] = "disk.restored"
    message: ClassVar[str] = "the disk works again: this node may lead"


@attrs.frozen
class DiskFilling(Event):
    """The disk passed a mark: at 0.75 expired files go at any hour, at 0.85 the oldest go, 0.95 refuses writes."""

    name: ClassVar[str] = "disk.filling"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "the disk under {path} is {used_ratio:.0%} full: {consequence}"

    path: str
    used_ratio: float
    consequence: str


@attrs.frozen
class ClockStepped(Event):
    """The time of day was set while a broker ran, by a second or more: messages bear it, and files expire by it.

    :ivar seconds: how far, back where it is less than 0.
    """

    name: ClassVar[str] = "clock.stepped"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "the time of day was set by {seconds:+.1f} s"

    seconds: float


@attrs.frozen
class LogExpiredEarly(Event):
    """A file of the log is deleted though its messages are younger than ``fileReservedTime``.

    :ivar age_h: of its newest message, in hours.
    """

    name: ClassVar[str] = "log.expired_early"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = (
        "{path} is deleted {age_h:.1f} h after its newest message, before its {reserved_h:.1f} h: {reason}"
    )

    path: str
    age_h: float
    reserved_h: float
    reason: str


# -- refused and asked ------------------------------------------------------------------------------------------------


@attrs.frozen
class Refusal(Event):
    """The base of what :mod:`rocketha.observe.refusals` logs.

    :ivar role: of the server.
    :ivar what: the request's name, or ``connection``.
    :ivar reason: from a fixed list.
    :ivar version: ``MQVersion`` ordinal, -1 where it is not known.
    :ivar asked: the first fields of the request's header.
    :ivar more: how many like it there were since the last line about them.
    :ivar again: the same in words, empty for 0.
    """

    level: ClassVar[str] = "warn"
    shown: ClassVar[bool] = False

    role: str
    what: str
    reason: str
    peer: str
    client_id: str
    language: str
    version: int
    remark: str
    asked: Mapping[str, str]
    more: int
    again: str


@attrs.frozen
class RequestRefused(Refusal):
    """A request was answered with an error."""

    name: ClassVar[str] = "request.refused"
    message: ClassVar[str] = (
        "{role}: {what} of {peer} (client {client_id}, {language}, version {version}) is refused with {reason}: "
        "{remark}; its header has {asked}{again}"
    )


@attrs.frozen
class ConnectionEnded(Refusal):
    """A connection was ended, or not let in."""

    name: ClassVar[str] = "connection.ended"
    message: ClassVar[str] = (
        "{role}: the connection of {peer} (client {client_id}, {language}, version {version}) is ended, {reason}: "
        "{remark}{again}"
    )


@attrs.frozen
class RowIgnored(Refusal):
    """A part of a request was left out, and the rest of it served."""

    name: ClassVar[str] = "row.ignored"
    message: ClassVar[str] = (
        "{role}: a part of {what} of {peer} (client {client_id}, {language}, version {version}) is ignored, {reason}: "
        "{remark}{again}"
    )


@attrs.frozen
class RefusalsForgotten(Event):
    """Refusals of more kinds than are kept apart."""

    name: ClassVar[str] = "refusals.forgotten"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "{role}: {count} more refusals, of more kinds than are kept apart"

    role: str
    count: int


@attrs.frozen
class OperatorAsked(Event):
    """An operator's request was let in.

    :ivar who: by certificate, address list or user name.
    """

    name: ClassVar[str] = "operator.asked"
    message: ClassVar[str] = "{who} at {peer} asks {request}"
    shown: ClassVar[bool] = False

    who: str
    peer: str
    request: str


# -- learner and witness ----------------------------------------------------------------------------------------------


@attrs.frozen
class WitnessStarted(Event):
    """The witness listens."""

    name: ClassVar[str] = "witness.started"
    message: ClassVar[str] = "witness {id} of {group}"

    id: str
    group: str


@attrs.frozen
class WitnessStopped(Event):
    """The witness has closed its log."""

    name: ClassVar[str] = "witness.stopped"
    message: ClassVar[str] = "witness {id} of {group} stopped"

    id: str
    group: str


@attrs.frozen
class WitnessMistaken(Event):
    """The group takes a witness for an ordinary member."""

    name: ClassVar[str] = "witness.mistaken"
    level: ClassVar[str] = "error"
    message: ClassVar[str] = "{problem}"

    problem: str


@attrs.frozen
class LearnerStarted(Event):
    """The learner has recovered its log and follows."""

    name: ClassVar[str] = "learner.started"
    message: ClassVar[str] = "learner {learner} of {broker} exports to {directory}"

    learner: str
    broker: str
    directory: str


@attrs.frozen
class LearnerStopped(Event):
    """The learner has closed its log.

    :ivar exported: log offset, bytes.
    """

    name: ClassVar[str] = "learner.stopped"
    message: ClassVar[str] = "learner {learner} of {broker} stopped; exported up to {exported}"

    learner: str
    broker: str
    exported: int


@attrs.frozen
class ExportFailed(Event):
    """A learner could not export what is new."""

    name: ClassVar[str] = "export.failed"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "nothing is exported: {problem}"

    problem: str


# -- process ----------------------------------------------------------------------------------------------------------


@attrs.frozen
class ConfigKeyIgnored(Event):
    """A key of a configuration file has no effect here."""

    name: ClassVar[str] = "config.ignored"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "{path}: {key} has no effect: {reason}"

    path: str
    key: str
    reason: str


@attrs.frozen
class ConfigChanged(Event):
    """A key was changed in the running process.

    :ivar peer: who asked for it.
    """

    name: ClassVar[str] = "config.changed"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "{peer} changed {key} from {before} to {after}"
    public: ClassVar[str] = "{key} was changed from {before} to {after}"

    peer: str
    key: str
    before: str
    after: str


@attrs.frozen
class StatusServerStarted(Event):
    """The HTTP port for metrics and health listens."""

    name: ClassVar[str] = "status.started"
    message: ClassVar[str] = "metrics and health on http://{address}/"

    address: str


@attrs.frozen
class LogLevelChanged(Event):
    """An operator changed what this process logs; it is not kept beyond its end."""

    name: ClassVar[str] = "log.level_changed"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "{peer} changed the level of the log from {before} to {now}"
    public: ClassVar[str] = "the level of the log was changed from {before} to {now}"

    before: str
    now: str
    peer: str


@attrs.frozen
class ProcessFails(Event):
    """This process ends because it cannot do what it is for."""

    name: ClassVar[str] = "process.fails"
    level: ClassVar[str] = "critical"
    message: ClassVar[str] = "ending: {reason}"

    reason: str


# -- rocketha-cluster -------------------------------------------------------------------------------------------------


@attrs.frozen
class ProcessStarted(Event):
    """``rocketha-cluster`` started one of its processes."""

    name: ClassVar[str] = "process.started"
    message: ClassVar[str] = "{process} is process {pid}"

    process: str
    pid: int


@attrs.frozen
class ProcessEnded(Event):
    """One of its processes ended, could not be started, or did not stop."""

    name: ClassVar[str] = "process.ended"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "{process} {what}"

    process: str
    what: str


@attrs.frozen
class ClusterServes(Event):
    """``rocketha-cluster``: all brokers are registered and one of them is the master."""

    name: ClassVar[str] = "cluster.serves"
    message: ClassVar[str] = "the group serves after {seconds:.1f} s"

    seconds: float


@attrs.frozen
class ClusterMaster(Event):
    """``rocketha-cluster``: clients find another master.

    :ivar told: what a person is told.
    :ivar epoch: 0 in DLedger mode.
    :ivar without_s: as clients see it; None where that is not known.
    :ivar reason: the controllers'.
    """

    name: ClassVar[str] = "cluster.master"
    message: ClassVar[str] = "{told}"

    told: str
    broker: str
    before: str
    epoch: int
    without_s: float | None
    reason: str


@attrs.frozen
class ClusterInSync(Event):
    """``rocketha-cluster``: another SyncStateSet."""

    name: ClassVar[str] = "cluster.in_sync"
    message: ClassVar[str] = "in sync: {in_sync}"

    in_sync: str


@attrs.frozen
class ClusterLeader(Event):
    """``rocketha-cluster``: another controller leads."""

    name: ClassVar[str] = "cluster.leader"
    message: ClassVar[str] = "{controller} leads the controllers instead of {before}"

    controller: str
    before: str
