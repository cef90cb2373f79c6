"""The page of requests is what the code does now, and docutils can read it."""

from __future__ import annotations

import docutils.core
from twisted.trial.unittest import SynchronousTestCase

from rocketha.admin import requests
from rocketha.admin.cli import main
from rocketha.broker import routes as of_brokers
from rocketha.broker.role import Gate
from rocketha.controller import routes as of_controllers
from rocketha.namesrv import routes as of_nameservers
from tests.tidy.source import ROOT


class RequestsTests(SynchronousTestCase):
    """``rocketha requests``."""

    def test_docs_are_fresh(self) -> None:
        """docs/requests.rst is what the rows say now: run `rocketha requests --rst docs/requests.rst`."""
        self.assertEqual((ROOT / "docs" / "requests.rst").read_text(encoding="utf-8"), requests.page())

    def test_written(self) -> None:
        path = self.mktemp()
        self.assertEqual(main(["requests", "--rst", path]), 0)
        with open(path, encoding="utf-8") as page:
            self.assertEqual(page.read(), requests.page())

    def test_all_is_there(self) -> None:
        """Every code, every gate, and no warning of docutils."""
        page = requests.page()
        for server in (of_brokers, of_controllers, of_nameservers):
            for route in server.ROUTES.values():
                self.assertIn(f"``{route.code.name}``", page)
        for gate in Gate:
            self.assertIn(gate.value, page)
        docutils.core.publish_doctree(page, settings_overrides={"halt_level": 2, "report_level": 5})

    def test_one(self) -> None:
        """By code and by name: what each role does with it, of each server that answers it."""
        pull = list(requests.described("11"))
        self.assertEqual(pull, [line for line in requests.described("pull_message") if "LITE" not in line][: len(pull)])
        self.assertIn("11 PULL_MESSAGE, answered by a broker; asked by producers and consumers", pull[0])
        self.assertIn("    without a role: refused (2): its role is not known yet", pull)
        self.assertTrue(any("pass it on to the master" in line for line in pull))
        elect = list(requests.described("1002"))
        self.assertEqual(elect[1], "    only the controller that leads answers")
        answering = [line for line in requests.described("heart") if not line.startswith(" ")]
        self.assertEqual([line.split(";")[0] for line in answering][:1], ["34 HEART_BEAT, answered by a broker"])

    def test_every_row_can_be_described(self) -> None:
        for server in (of_brokers, of_controllers, of_nameservers):
            for code, route in server.ROUTES.items():
                self.assertIn(f"{code} {route.name}, answered by", "".join(requests.described(str(code))))

    def test_none(self) -> None:
        """A code that nobody answers, and a word in no name: exit 1 with a reason."""
        for word in ("999", "no_such_name"):
            self.assertEqual(main(["requests", word]), 1)
