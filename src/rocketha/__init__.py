"""rocketha: Apache RocketMQ's nameserver and broker, and later its high availability, as Twisted services.

The way of the data, and so the direction of imports: wire -> (raft, replication, controller, namesrv, broker, store)
-> protocols -> services -> twisted/plugins. See docs/architecture.rst.
"""

__version__ = "0.1.0"
