"""``mqadmin deleteSubGroup -c`` deletes a group's topics at every member, and ends with the first that refuses."""

from __future__ import annotations

from rocketha.broker.role import Role
from rocketha.simulation.host import Host
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.broker.support import topic_fields
from tests.services.controlled_case import ControlledCase
from tests.services.dledger_case import DLedgerCase
from tests.services.replication_case import ReplicationCase

RETRY = "%RETRY%G"


class _Members(ReplicationCase):
    """A master and its slaves."""

    def check(self, master: Host, slaves: list[Host]) -> None:
        """A slave agrees and keeps the topic until its master has none; any other change is the master's alone."""
        self.ask(master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(RETRY, 1))
        self.until("all have it", lambda: all(self.has(host) for host in slaves))
        for host in slaves:
            self.assertEqual(self.delete(host), ResponseCode.SUCCESS)
            self.assertEqual(
                self.ask(host, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("New", 1)).code,
                ResponseCode.SERVICE_NOT_AVAILABLE,
            )
        self.run_for(2)
        self.assertTrue(all(self.has(host) for host in (master, *slaves)))
        self.assertEqual(self.delete(master), ResponseCode.SUCCESS)
        self.until("it is gone", lambda: not any(self.has(host) for host in (master, *slaves)))

    def delete(self, host: Host) -> int:
        return self.ask(host, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": RETRY}).code

    def has(self, host: Host) -> bool:
        return RETRY in self.service(host).broker.state.topics


class ControlledTests(_Members, ControlledCase):
    controllers_count = 1
    brokers_count = 2

    def test_every_member(self) -> None:
        master = self.start_group()
        self.check(master, [host for host in self.brokers if host is not master])

    def test_who_is_neither(self) -> None:
        """A broker without a role does not agree: it may have been the master."""
        master = self.start_group()
        for host in self.controllers:
            host.kill()
        self.stop(master)
        self.restart(master)
        self.run_for(1)
        self.assertIs(self.service(master).broker.replication.role, Role.FENCED)
        self.assertEqual(self.delete(master), ResponseCode.SERVICE_NOT_AVAILABLE)


class DLedgerTests(_Members, DLedgerCase):
    def test_every_member(self) -> None:
        master = self.start_group()
        self.check(master, [host for host in self.brokers if host is not master])
