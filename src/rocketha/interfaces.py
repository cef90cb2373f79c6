"""What a plug-in may bring to a broker, and what it gets: the public interfaces of rocketha.

Only this module and :mod:`rocketha.testing` are public.  Names, arguments and meanings here stay as they are within one
:data:`API` number; what is new comes as an optional field of :class:`FeatureParts` or as a further method of
:class:`IBrokerContext`.  A deprecation lasts two minor releases and a year.  docs/plugins.rst has the guide.

A plug-in is an object at module level of a module in the package ``rocketha.plugins``, which any distribution may add
modules to.  A broker uses those that its configuration names (``plugins = NAME, NAME``), in that order.

Everything runs in the reactor's thread.  Whoever blocks it stops the broker: use
:func:`twisted.internet.threads.deferToThread` for what takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire.codes import PLUGIN_CODE_MAX, PLUGIN_CODE_MIN, ResponseCode
from rocketha.wire.spec.format import Format

API = 1
"""The number that a plug-in's ``api`` must have."""

REQUEST_CODE_MIN, REQUEST_CODE_MAX = PLUGIN_CODE_MIN, PLUGIN_CODE_MAX
"""Request codes for plug-ins.  RocketMQ uses none of these; rocketha's own are 11001 to 11010."""

FormatError = RemoteProtocolError
"""What a wire format's reader raises for bytes that it does not take."""

WireFormat = Format
"""One wire or disk format: a construct declaration, and the code that reads and writes it."""


class Refused(RequestRefused):
    """Raised to refuse a request.

    :param remark: the reason, for a person.
    :param code: a RocketMQ response code.
    """

    def __init__(self, remark: str, code: int = ResponseCode.SYSTEM_ERROR) -> None:
        super().__init__(int(code), remark)


class BrokerRole(Enum):
    """What a broker is in its group at a moment."""

    FENCED = "it does not know what it is, and serves neither producers nor consumers"
    SLAVE = "it copies its master's log"
    MASTER = "it takes messages"


# --- values


@attrs.frozen
class Key:
    """A configuration key of a plug-in, written ``NAME.KEY = VALUE`` where NAME is the plug-in's.  A key begins with a
    letter; letters, digits and ``_``, ``.``, ``-`` may follow.

    :ivar default: its text where the configuration does not have it.
    :ivar doc: one sentence for ``rocketha check``.
    """

    default: str
    doc: str


@attrs.frozen
class Request:
    """A client's request.

    :ivar fields: the header's custom fields.
    :ivar peer: ``host:port`` of the client, or what a listed proxy says it is; ``:NAME`` where plug-in NAME asks
        through its own ``messages``.
    :ivar language: of the client, as RocketMQ names it; None where it is unknown.
    :ivar version: of the client, RocketMQ's ``MQVersion`` ordinal.
    """

    code: int
    fields: Mapping[str, str]
    body: bytes
    peer: str
    language: str | None = None
    version: int = 0


@attrs.frozen
class Reply:
    """The answer to a request."""

    code: int = 0
    remark: str | None = None
    fields: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""


@attrs.frozen
class Message:
    """A stored message.

    :ivar offset: in its queue.
    :ivar log_offset: of its record, in bytes from the beginning of the commit log.
    :ivar size: of its record, bytes.
    :ivar body: as it is stored.
    :ivar compression: how the producer compressed the body: ``zlib``, ``lz4``, ``zstd`` or ``unknown``; empty if it did
        not.
    :ivar born_ms: when the producer made it, by the producer's clock, ms since 1970.
    :ivar stored_ms: when the master stored it, ms since 1970.
    """

    topic: str
    queue_id: int
    offset: int
    log_offset: int
    size: int
    body: bytes
    properties: Mapping[str, str]
    born_ms: int
    stored_ms: int
    compression: str = ""


@attrs.frozen
class Placed:
    """Where a message was put.

    :ivar message_id: the offset message id, as in the answer to a producer.
    :ivar status: 0, or why the acknowledgement is weaker than configured: 10 FLUSH_DISK_TIMEOUT, 12 FLUSH_SLAVE_TIMEOUT
        or 11 SLAVE_NOT_AVAILABLE, as in RocketMQ.  The message is stored in all these cases.
    """

    queue_id: int
    offset: int
    message_id: str
    status: int = 0


@attrs.frozen
class Pulled:
    """What a pull found.

    :ivar next_offset: where the next pull goes on.
    :ivar min_offset: of the oldest message of the queue.
    :ivar max_offset: that the next message of the queue will get.
    """

    messages: Sequence[Message]
    next_offset: int
    min_offset: int
    max_offset: int


# --- what a feature is made of


class ServedBy(Enum):
    """Which brokers answer a request, or run a timer.

    A master has 2.7 s for a request that another broker passes on to it; a client that gets no answer in time is told
    that it may have been carried out.
    """

    ANY = "every broker, in every role"
    MASTER = "a master; another broker passes the request on to it, or refuses"


@attrs.frozen
class Route:
    """A request code and what answers it.

    :ivar code: within :data:`REQUEST_CODE_MIN` and :data:`REQUEST_CODE_MAX`.
    :ivar name: in capitals, for metrics and logs, such as ``ACME_COUNT``.
    :ivar respond: gives the :class:`Reply`, or a Deferred of it.  It raises :class:`Refused` to refuse; any other
        exception is logged and answered with SYSTEM_ERROR.
    """

    code: int
    name: str
    respond: Callable[[Request], Reply | Deferred[Reply]]
    served_by: ServedBy = ServedBy.ANY


@attrs.frozen
class Timer:
    """Something to do again and again, first after ``every_s``.

    :ivar run: may give a Deferred; the next run waits for it.  An exception is logged, and the timer goes on.
    :ivar by: MASTER: only while this broker is master.
    """

    name: str
    every_s: float
    run: Callable[[], Any]
    by: ServedBy = ServedBy.ANY


@attrs.frozen
class Listener:
    """A port of its own, with a protocol of its own; open while the broker serves.

    :ivar endpoint: a Twisted server endpoint string, such as ``tcp:7000:interface=127.0.0.1``.  A port that is taken
        stops the broker's start, and so does the private key of an ``ssl:`` endpoint that others can read.
    :ivar factory: a :class:`twisted.internet.interfaces.IProtocolFactory`.
    """

    name: str
    endpoint: str
    factory: Any


@attrs.frozen
class Topic:
    """A topic that the feature needs; a master makes it where it is missing."""

    name: str
    queues: int = 1


@attrs.frozen
class File:
    """Something to remember over a restart, in ``config/plugin-NAME.json`` below the store, any bytes;
    :meth:`IBrokerContext.save` writes it.  It belongs to this broker: it is not copied to others.

    :ivar dump: the whole content.
    :ivar load: gets what the file has, before anything else of the feature runs.  If it raises it gets the file's
        backup, what was there before the last save; if it raises then, too, the broker does not start.
    """

    dump: Callable[[], bytes]
    load: Callable[[bytes], None]


class IMessageFilter(Interface):
    """Decides on the broker which messages a consumer gets.  A pull whose filter fails is refused; no message counts as
    "no match" because of it."""

    expression_type = Attribute("What consumers name it by: ``SQL92``, or a word of its own.  Not ``TAG``.")

    def compile(expression: str) -> Callable[[Mapping[str, str]], bool]:
        """A function that says of a message's properties whether they match.  It is cached: it must not keep state.

        :raises ValueError: the expression is wrong; its text goes to the client.
        """


class IHealthCheck(Interface):
    """Tells whether this broker can do its work.  What it finds is in ``/readyz`` and in ``rocketha_healthy``."""

    name = Attribute("In small letters, for the metric and for people.")
    every_s = Attribute("Seconds between two checks.")
    timeout_s = Attribute("A check that takes longer counts as unhealthy.")
    hands_over = Attribute("Whether an unhealthy master gives its role to another broker, where controllers elect.")

    def check() -> str | Deferred[str | None] | None:
        """None, or what is wrong.  An exception counts as unhealthy."""


class IStoreObserver(Interface):
    """Provisional.  Sees the messages that are confirmed, in the order of the log, beside the send path: no producer
    waits for it, and it can refuse nothing.  It sees only what is confirmed after this start, each message at most
    once.  After three failures in a row it sees no more until the next start."""

    name = Attribute("In small letters, for logs and metrics.")

    def confirmed(messages: Sequence[Message]) -> None:
        """These are confirmed: enough replicas have them, where controllers elect; else this broker has them, under
        SYNC_FLUSH on its disk.  On a slave: what it has of its master's."""


class IAuthenticator(Interface):
    """Provisional.  Asked before each request on the broker's ports for clients, also before one is passed on to the
    master, which asks its own.  One that fails denies."""

    name = Attribute("In small letters, for logs.")

    def denies(request: Request) -> str | None:
        """None, or why the peer may not ask this: answered with NO_PERMISSION (16).  Returns at once; a Deferred counts
        as a denial."""


@attrs.frozen
class FeatureParts:
    """What a feature brings: everything is empty unless given.

    :ivar on_role: told each change of the role, with the new one; called once before anything is served.
    :ivar on_disconnect: told the peer of each client that is gone.
    :ivar on_stop: called when the broker stops.  The feature's own listeners and timers are stopped by then, and
        observers are shown nothing more; ``messages`` still works.  It may give a Deferred, which is waited for up to
        5 s; ``on_role`` may follow.
    """

    routes: Sequence[Route] = ()
    timers: Sequence[Timer] = ()
    listeners: Sequence[Listener] = ()
    topics: Sequence[Topic] = ()
    file: File | None = None
    filters: Sequence[Any] = ()
    health: Sequence[Any] = ()
    observers: Sequence[Any] = ()
    authenticators: Sequence[Any] = ()
    on_role: Callable[[BrokerRole], None] | None = None
    on_disconnect: Callable[[str], None] | None = None
    on_stop: Callable[[], Any] | None = None


# --- what a feature gets


class IMessages(Interface):
    """Producing and consuming within the broker: the same path, checks and acknowledgements as for a client.  Each
    Deferred fails with :class:`Refused` where the broker refuses."""

    def put(
        topic: str, body: bytes, properties: Mapping[str, str] | None = None, queue_id: int | None = None
    ) -> Deferred[Placed]:
        """Store a message.  Under controllers a broker that is not the master forwards it to the master; otherwise it
        fails with :class:`Refused`.

        :param properties: ``TAGS``, ``KEYS``, ``DELAY`` and the application's own.
        :param queue_id: None leaves the choice to the broker.
        """

    def pull(topic: str, queue_id: int, offset: int, count: int = 32, wait_s: float = 0.0) -> Deferred[Pulled]:
        """Messages of a queue from an offset on.

        :param wait_s: how long to wait for the next message where there is none.
        """

    def queues(topic: str) -> int:
        """How many queues a topic has for consumers; 0 where there is no such topic."""

    def follow(topic: str, receive: Callable[[Message], Any], from_begin: bool = False) -> IFollowing:
        """Call ``receive`` with each message of a topic, queue by queue in order.  It may give a Deferred; the next one
        of the queue waits for it.  An exception is logged, and the next message follows.

        :param from_begin: with the oldest message; else with the next that is stored.
        """


class IFollowing(Interface):
    """A topic that is followed."""

    def stop() -> None:
        """Receive no more."""


class ICounter(Interface):
    """A number in ``/metrics`` that only grows."""

    value = Attribute("Add to it: ``counter.value += 1``.")


class IBrokerContext(Interface):
    """What a feature works with."""

    keys = Attribute("Its configuration keys: name to text, defaults filled in.")
    cluster = Attribute("The cluster's name.")
    broker = Attribute("The broker group's name.")
    address = Attribute("host:port that clients are told.")
    clock = Attribute("The reactor: a :class:`twisted.internet.interfaces.IReactorTime`.  It is monotonic.")
    log = Attribute("A logger: ``log.info('{what} came', what=...)``, also ``debug``, ``warn`` and ``error``.")
    messages = Attribute("An :class:`IMessages`.  Until the broker serves calls fail; ``follow`` keeps trying.")

    def role() -> BrokerRole:
        """What this broker is now."""

    def wall_ms() -> int:
        """The time of day, ms since 1970: for what is written down."""

    def save() -> Deferred[None]:
        """Write the feature's :class:`File`.  Fires when it is on the disk; fails where the disk refused."""

    def counter(name: str, doc: str) -> ICounter:
        """A counter, shown as ``rocketha_plugin_PLUGIN_NAME_total``: PLUGIN has underscores for hyphens."""

    def gauge(name: str, doc: str, ask: Callable[[], float]) -> None:
        """A value that is asked when metrics are read, shown as ``rocketha_plugin_PLUGIN_NAME``."""


# --- plug-ins


class IPlugin(Interface):
    """What every plug-in has."""

    name = Attribute("Small letters, digits and hyphens; begins with a letter, at most 40: what ``plugins`` names.")
    api = Attribute("The :data:`API` that it was written for.")
    version = Attribute("Its own version, a text.")
    summary = Attribute("One line for people.")


class IBrokerFeature(IPlugin):
    """A capability of brokers."""

    keys = Attribute("Its configuration keys: name to :class:`Key`.")

    def check_keys(keys: Mapping[str, str]) -> Sequence[str]:
        """One sentence for each problem with these values, or nothing.  It must have no side effects: it is called
        before anything is opened, and more than once."""

    def build(context: IBrokerContext) -> FeatureParts:
        """What it brings to one broker.  It may read values of the context and register counters and gauges; it must
        not open or start anything, nor use ``messages`` or ``save``.  Called once for each broker of a process."""


class IWireFormat(IPlugin):
    """Formats for ``rocketha formats`` and ``rocketha fuzz``, with ``--plugins NAME``.  Brokers do not use it."""

    def formats() -> Sequence[WireFormat]:
        """See :class:`rocketha.interfaces.WireFormat`; a name begins with the plug-in's."""
