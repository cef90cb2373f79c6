"""Real RocketMQ processes and ours for tests: what later tests import. See each module's own words.

jars       where Java comes from; skips where it cannot come
processes  one child process: log, signals, /proc, never left behind
ports      blocks of loopback ports
roles      JavaNamesrv, JavaBroker, JavaController, OurNamesrv, OurBroker, OurCluster
clients    JavaClient (producers and consumers), Admin, mqadmin(), records()
foreign    clients of other languages, of Java's 4.x line, and with the binary header
remoting   a bare request, independent of our wire code
disk       an independent reader of store folders, for comparisons
replica_files  what replicas' files must have in common: logs byte for byte, queues, epochs, acknowledged messages
pairs      ClassicPair, a master and a slave; waiting until replicas are equal
links      who is connected to a port, and whether that was one connection all along
controllers  Controllers (Java's or ours, alone or embedded) and ReplicaGroup, brokers of both in controller mode
faults     what can be done to such a group; resets of connections
ledger     Load, Watch and the checker: what was acknowledged and is lost, and why
case       InteropCase, PairCase, for_pairs()
"""

from . import disk as disk
from . import remoting as remoting
from .case import FULL, PAIRS, InteropCase, PairCase, for_pairs
from .clients import Admin, ClientError, JavaClient, mqadmin, records
from .processes import NotReady, Process, scratch, wait_until
from .roles import BROKERS, NAMESRVS, JavaBroker, JavaController, JavaNamesrv, OurBroker, OurCluster, OurNamesrv, Role

__all__ = [
    "BROKERS",
    "FULL",
    "NAMESRVS",
    "PAIRS",
    "Admin",
    "ClientError",
    "InteropCase",
    "JavaBroker",
    "JavaClient",
    "JavaController",
    "JavaNamesrv",
    "NotReady",
    "OurBroker",
    "OurCluster",
    "OurNamesrv",
    "PairCase",
    "Process",
    "Role",
    "for_pairs",
    "mqadmin",
    "records",
    "scratch",
    "wait_until",
]
