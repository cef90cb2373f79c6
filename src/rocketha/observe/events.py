"""Things that happen to a service and that somebody may want to find again: values with a name, not sentences.

Pure.  A test compares them, the log writes them (``observe.logging.emit``) with ``event`` = the name, so that an alert
can be written on the name. Names are stable once released; attributes may be added.
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
    """

    name: ClassVar[str] = ""
    level: ClassVar[str] = "info"
    message: ClassVar[str] = ""


@attrs.frozen
class NameserverStarted(Event):
    """The nameserver listens."""

    name: ClassVar[str] = "namesrv.started"
    message: ClassVar[str] = "nameserver listens on {address}"

    address: str


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
class GroupElected(Event):
    """Controllers changed who is master of a broker group, or who is in sync with him; each of them says so.

    :ivar index: of the log entry that decided it: the same at all controllers.
    :ivar did: what was decided: ``elected``, ``unseated``, ...
    :ivar master: the broker's id; None: there is no master.
    """

    name: ClassVar[str] = "group.elected"
    message: ClassVar[str] = "entry {index}: {group} {did}; master {master} in epoch {epoch}, in sync {in_sync}"

    index: int
    group: str
    did: str
    master: int | None
    epoch: int | None
    in_sync: list[int]


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
    decisions.

    :ivar epoch: the newest in the broker's epoch file.
    :ivar known: the set's master epoch as the controllers have it.
    """

    name: ClassVar[str] = "controllers.behind"
    level: ClassVar[str] = "error"
    message: ClassVar[str] = (
        "broker {broker} has epoch {epoch}, the controllers know of none after {known}: decisions are lost "
        "(docs/disasters.rst)"
    )

    broker: str
    epoch: int
    known: int


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
    """Nothing was done for a while in which sends waited: this process had no time, or something in it took long."""

    name: ClassVar[str] = "reactor.stalled"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "this process did nothing for {stalled_ms} ms; whoever asked meanwhile waited"

    stalled_ms: int


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
class StatusServerStarted(Event):
    """The HTTP port for metrics and health listens."""

    name: ClassVar[str] = "status.started"
    message: ClassVar[str] = "metrics and health on http://{address}/"

    address: str


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
class OperatorAsked(Event):
    """An operator's request was let in.

    :ivar who: by certificate, address list or user name.
    """

    name: ClassVar[str] = "operator.asked"
    message: ClassVar[str] = "{who} at {peer} asks {request}"

    who: str
    peer: str
    request: str


@attrs.frozen
class LogLevelChanged(Event):
    """An operator changed what this process logs; it is not kept beyond its end."""

    name: ClassVar[str] = "log.level_changed"
    level: ClassVar[str] = "warn"
    message: ClassVar[str] = "{peer} changed the level of the log from {before} to {now}"

    before: str
    now: str
    peer: str
