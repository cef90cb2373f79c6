"""The commands rocketha adds to twistd and twist. Data only: the modules named here are imported when one is used.

There must be no __init__.py beside this file or above it: this directory belongs to Twisted. The variables must never
be renamed, because Twisted caches their names (dropin.cache).
"""

from twisted.application.service import ServiceMaker

rocketha_namesrv = ServiceMaker(
    "rocketha nameserver",
    "rocketha.services.namesrv.tap",
    "Apache RocketMQ nameserver: routes for clients and brokers.",
    "rocketha-namesrv",
)
rocketha_broker = ServiceMaker(
    "rocketha broker",
    "rocketha.services.broker.tap",
    "Apache RocketMQ broker, reading RocketMQ's own files.",
    "rocketha-broker",
)
rocketha_cluster = ServiceMaker(
    "rocketha cluster",
    "rocketha.services.cluster.tap",
    "A whole small RocketMQ: nameserver and broker, or replicas and controllers.",
    "rocketha-cluster",
)
rocketha_controller = ServiceMaker(
    "rocketha controller",
    "rocketha.services.controller.tap",
    "Apache RocketMQ controller: elects the masters of broker sets.",
    "rocketha-controller",
)
rocketha_learner = ServiceMaker(
    "rocketha learner",
    "rocketha.services.learner.tap",
    "Copies a master's log without being its replica, and keeps an export of it growing.",
    "rocketha-learner",
)
rocketha_witness = ServiceMaker(
    "rocketha witness",
    "rocketha.services.witness.tap",
    "Votes in a group of brokers in DLedger mode, and keeps no messages.",
    "rocketha-witness",
)
