"""What operators write alerts on: the names that the log has for a switch."""

from __future__ import annotations

from tests.services.controlled_case import ControlledCase
from tests.services.events_case import events_of


class SwitchTests(ControlledCase):
    """A group of three, whose master goes."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.start_group()
        self.others = [host for host in self.brokers if host is not self.first]
        self.said = events_of(self)

    def until_another_leads(self) -> None:
        self.until("another master", lambda: any(map(self.acknowledges, self.others)))

    def test_killed(self) -> None:
        """The election, at each of the three controllers, and the new master's roles."""
        self.first.kill()
        self.until_another_leads()
        elected = [each for each in self.said if each["event"] == "group.elected" and each["did"] == "elected"]
        self.assertEqual({(each["group"], each["epoch"]) for each in elected}, {("DefaultCluster/g", 2)})
        (leads,) = [each for each in self.said if each["event"] == "master.leads"]
        self.assertEqual((leads["broker_id"], leads["epoch"]), (elected[0]["master"], 2))
        roles = [(each["before"], each["role"]) for each in self.said if each["event"] == "role.changed"]
        self.assertIn(("FENCED", "MASTER"), roles)
        self.assertNotIn("master.retires", {each["event"] for each in self.said})

    def test_stopped(self) -> None:
        """It hands over: it takes no more messages before the other one leads."""
        stopping = self.service(self.first).stopService()
        self.until_another_leads()
        self.await_(stopping)
        names = [each["event"] for each in self.said]
        self.assertLess(names.index("master.retires"), names.index("master.leads"))
