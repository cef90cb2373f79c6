"""The kinds of findings of ``rocketha doctor``: what each is, in a line, and what to do about it.

What it must not know: how one is found (:mod:`rocketha.admin.findings`).  docs/troubleshooting.rst explains each kind.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

import attrs

START = {
    "nameserver": "start it: twistd rocketha-namesrv --config namesrv.conf",
    "controller": "start it: twistd rocketha-controller --config controller.conf",
    "broker": "start it: twistd rocketha-broker --config broker.conf",
}


@attrs.frozen
class Kind:
    """A kind of finding.

    :ivar name: stable; programs and docs refer to it.
    :ivar title: what it is, in a line.
    :ivar to_do: what to do next, in the order in which it is tried; words such as BROKER_NAME stand for what a finding
        names.
    :ivar passing: whether it may be over in a moment, so that it is worth a second look.
    """

    name: str
    title: str
    to_do: tuple[str, ...]
    passing: bool = False


@attrs.frozen
class Finding:
    """One.

    :ivar subject: whom it is about.
    :ivar cause: what is wrong with it.
    :ivar evidence: what was seen.
    :ivar words: what stands for the words in capitals of the kind's ``to_do``.
    """

    kind: Kind
    subject: str
    cause: str
    evidence: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()

    @property
    def to_do(self) -> tuple[str, ...]:
        """The kind's, with the names of this one: as a shell takes them, for peers choose names."""
        words = {place: shlex.quote(value) for place, value in self.words}
        return tuple(_PLACE.sub(lambda found: words.get(found[0], found[0]), text) for text in self.kind.to_do)


_PLACE = re.compile(r"\b(?:BROKER_NAME|ID|GROUP|PEERS|SERVER|HOST:PORT)\b")
"""Words of ``to_do`` that a finding may have a value for."""


def _kinds(*kinds: Kind) -> Mapping[str, Kind]:
    return {kind.name: kind for kind in kinds}


KINDS: Mapping[str, Kind] = _kinds(
    Kind(
        "controller.no_leader",
        "no controller leads: a dead master is not replaced, and masters of rocketha refuse sends after masterLease",
        (
            "start controllers until a majority runs; where disks were lost, all of them",
            "rocketha controller status",
            "if a majority is lost for good: docs/disasters.rst",
        ),
    ),
    Kind(
        "ledger.no_leader",
        "a group in DLedger mode has no leader: it takes no messages",
        ("start members until a majority runs", "rocketha dledger -g GROUP -p PEERS status"),
    ),
    Kind(
        "set.no_master",
        "a broker set has no master: it takes no messages",
        (
            "start a broker of the SyncStateSet: only one that has every acknowledged message may lead",
            "rocketha controller why BROKER_NAME",
            "rocketha controller elect BROKER_NAME, if nobody is in sync (the state was restored or adopted)",
            "if all that are in sync are lost for good: docs/disasters.rst",
        ),
    ),
    Kind(
        "set.unknown",
        "controllers do not know a broker set that is under them: nobody is elected if its master dies",
        (
            "see that a broker of it runs, and that its controllerAddr names these controllers",
            "if its ids are of other controllers: docs/migration.rst, Back to Java's",
        ),
    ),
    Kind(
        "broker.wrong_address",
        "a broker runs, and is registered with an address at which nobody reaches it",
        ("set brokerIP1 (and bindAddress) in its broker.conf to an address that clients reach, and restart it",),
        passing=True,  # a broker that is being stopped closes its port, and is heard for a moment more
    ),
    Kind(
        "broker.unreachable",
        "a broker does not answer",
        (
            START["broker"],
            "its log says why it ended",
            "rocketha controller clean BROKER_NAME ID, if controllers know it and it is gone for good",
        ),
    ),
    Kind(
        "controller.unreachable",
        "a controller does not answer",
        (
            START["controller"],
            "rocketha controller status",
            "rocketha controller remove ID, if it is gone for good and another one leads (docs/disasters.rst)",
        ),
    ),
    Kind(
        "controller.not_member",
        "a controller runs, and the one that leads does not count it among its group",
        ("rocketha controller -a SERVER add ID-HOST:PORT", "stop it, if it was removed"),
    ),
    Kind("nameserver.unreachable", "a nameserver does not answer", (START["nameserver"],)),
    Kind(
        "ledger.member_unreachable",
        "a member of a group in DLedger mode does not answer",
        ("start it", "rocketha dledger -g GROUP -p PEERS status"),
    ),
    Kind(
        "disk.failed",
        "a disk refused something: the broker takes no messages until it is started again",
        ("look at the disk (dmesg, smartctl)", "restart the broker: it looks at what is left of its log"),
    ),
    Kind(
        "disk.full",
        "a disk is full: the broker takes no messages",
        (
            "make room, or let fewer hours of messages stay (fileReservedTime)",
            "mqadmin deleteExpiredCommitLog deletes what has expired at once",
        ),
    ),
    Kind(
        "disk.filling",
        "a disk fills",
        ("make room, or let fewer hours of messages stay (fileReservedTime)",),
    ),
    Kind(
        "disk.slow",
        "a disk is slow: syncs of the log take long, and senders wait for them",
        (
            "look at who else uses the disk (iostat -x 1)",
            "hand the master role to another broker: rocketha broker drain BROKER_NAME --id ID",
        ),
    ),
    Kind(
        "sends.slow",
        "senders wait long, and not for this broker's disk",
        ("look at the replica and the network that the evidence names",),
    ),
    Kind(
        "clock.off",
        "a clock is off: stamps of messages, expiry and signatures go by it",
        ("let the machine follow a time server (chronyc tracking)",),
    ),
    Kind(
        "broker.shared_id",
        "two brokers claim one id of a set",
        (
            "stop the one that should not be there",
            "classic mode: give it another brokerId; controller mode: it runs on a copy of another broker's "
            "directory, remove brokerIdentity from its store, or start it on an empty one",
        ),
    ),
    Kind(
        "epoch.old",
        "a former master has not heard who replaced it",
        (
            "see that it reaches the controllers (controllerAddr): it becomes a slave by itself",
            "rocketha controller why BROKER_NAME",
        ),
    ),
    Kind(
        "broker.fenced",
        "a broker serves nothing: it does not know who is master",
        ("see that it reaches the controllers (controllerAddr)", "rocketha controller status"),
    ),
    Kind(
        "sync_set.stale",
        "a SyncStateSet has a member that is dead or far behind: acknowledgements wait for it, or it could be elected",
        ("start it, or see why it lags", "rocketha controller why BROKER_NAME"),
    ),
    Kind(
        "broker.wrong_nameserver",
        "a broker registers with other nameservers than these",
        ("set namesrvAddr in its broker.conf to the nameservers of this cluster, and restart it",),
    ),
    Kind(
        "broker.not_registered",
        "a broker is not registered with a nameserver: clients that ask there do not find it",
        ("see that namesrvAddr of the broker names every nameserver", "rocketha clients -b SERVER --refused"),
    ),
    Kind(
        "secret.wrong",
        "a member of a Raft group has another secret",
        ("give all members the same raftSecretFile, and restart the one that has another",),
    ),
    Kind(
        "identity.refused",
        "a certificate shows another identity than the request claims, or none",
        ("docs/identities.rst says who may ask what", "rocketha pki show CERTIFICATE"),
    ),
    Kind(
        "permission.refused",
        "a login, a signature or a right was refused",
        ("see user, password and rights of who is named: docs/access.rst", "rocketha clients -b SERVER --refused"),
    ),
    Kind(
        "tls.mismatch",
        "a connection failed over TLS: one side speaks it and the other does not, or a certificate is not trusted",
        ("docs/tls.rst: tls.server.mode of the server, tls.client.* of the other side",),
    ),
    Kind(
        "client.deaf",
        "a consumer is connected and asks for no messages",
        ("restart the consumer; a dump of its threads before that shows what it waits for",),
    ),
    Kind(
        "group.stuck",
        "a consumer group holds queues and consumes nothing",
        ("look at the consumers: a listener that does not return, or fails each time", "restart the consumers"),
    ),
    Kind(
        "group.lag",
        "a consumer group is far behind",
        ("start consumers, or more of them (not more than there are queues)", "rocketha group lag GROUP"),
    ),
    Kind(
        "replica.lag",
        "a replica is far behind its master",
        ("see disk and network of the replica; it copies what it lacks by itself", "rocketha cluster status"),
    ),
    Kind("broker.unready", "a broker says that it is not what it should be", ("rocketha cluster status",)),
    Kind(
        "versions.differ",
        "processes of one kind run different releases",
        ("finish the upgrade, or go back: one release for all is what is tested",),
    ),
    Kind(
        "set.unused_id",
        "a broker set has an id that no broker has any more: that of a disk that is gone",
        ("rocketha controller clean BROKER_NAME ID",),
    ),
    Kind(
        "doctor.not_allowed",
        "a server does not answer this command's questions",
        ("ask as an operator: --tls FILE, --credentials FILE (docs/identities.rst, docs/access.rst)",),
    ),
    Kind(
        "cluster.empty",
        "there is nobody to be judged",
        ("give the nameservers: -n HOST:PORT", "give a broker: -b HOST:PORT", "see that brokers run"),
    ),
)
"""By name, the most urgent first."""
