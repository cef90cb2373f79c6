"""``rocketha dledger`` against a group of brokers."""

from __future__ import annotations

import contextlib
import io

from twisted.internet import defer

from rocketha.admin import dledger
from rocketha.admin.client import NoRoute, RequestFailed
from rocketha.admin.dledger import Ledger
from rocketha.errors import ConfigError
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from tests.admin.parsing import parsed
from tests.services.dledger_case import RAFT_PORT, DLedgerCase


class LedgerTests(DLedgerCase):
    """A group of ours, on simulated hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.leader = self.start_group()
        self.peers = {host.name: f"{host.address}:{RAFT_PORT}" for host in self.brokers}

    def ledger(self, group: str = "g", **more: str) -> Ledger:
        process = self.client_host.process
        assert process is not None
        client = RemotingClient(Dialer(process.reactor))
        self.addCleanup(client.close)
        return Ledger(client, group, self.peers | more)

    def do(self, coroutine: object) -> object:
        """Its result."""
        return self.await_(defer.ensureDeferred(coroutine), 20)  # type: ignore[arg-type]

    def status(self, ledger: Ledger) -> tuple[int, list[str]]:
        """The code, and what stands in the columns behind the address."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            action, given = parsed(dledger.command, "-g", "g", "-p", "n0-a:1", "status")
            code = self.do(action(dledger.Group(ledger, self.world.scheduler), given))
        assert isinstance(code, int)
        return code, [" ".join(line.split()[2:]) for line in out.getvalue().splitlines()]

    def test_status(self) -> None:
        """A line a member."""
        name = self.leader.name
        self.assertEqual(self.status(self.ledger()), (0, ["SPEAKS LEADER", *[f"ours {name}"] * 3]))

    def test_status_without_a_majority(self) -> None:
        """What is wrong with each; the code says that nobody leads."""
        for host in self.followers():
            host.kill()
        self.run_for(3)
        code, lines = self.status(self.ledger())
        self.assertEqual(code, 1)
        self.assertEqual(lines.count("ours none"), 1)
        self.assertEqual(len([line for line in lines if "refused" in line]), 2)

    def test_transfer(self) -> None:
        """Returns when the other one leads."""
        other = self.followers()[0]
        self.do(self.ledger().transfer(other.name))
        self.until("the other one", lambda: self.masters() == [other])
        self.assertEqual(self.acknowledged(other, 10), 10)

    def test_a_transfer_that_is_refused(self) -> None:
        """In words."""
        for to, why in (("n9", "it is no member"), (self.leader.name, "it leads already")):
            with self.assertRaises(RequestFailed) as caught:
                self.do(self.ledger().transfer(to))
            self.assertIn(why, str(caught.exception))

    def test_nobody_to_ask(self) -> None:
        """Another group's name, or all are gone."""
        with self.assertRaises(NoRoute) as caught:
            self.do(self.ledger("h").transfer("n1"))
        self.assertIn("the group has another name there", str(caught.exception))
        for host in self.brokers:
            host.kill()
        with self.assertRaises(NoRoute):
            self.do(self.ledger().transfer("n1"))

    def test_arguments(self) -> None:
        """As dLegerPeers has them."""
        _, given = parsed(dledger.command, "-g", "g", "-p", "n0", "status")
        with self.assertRaises(ConfigError), dledger._opened(None, given):
            pass
