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
