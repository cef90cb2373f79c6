"""Plug-ins for tests: a feature made of functions, and a broker that has some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from zope.interface import implementer

from rocketha.interfaces import API, FeatureParts, IBrokerFeature, Key
from rocketha.services.broker.service import BrokerService
from rocketha.services.config.loading import load_broker
from rocketha.services.features.finding import Enabled
from tests.services.broker_case import CONFIG, BrokerCase


@implementer(IBrokerFeature)
class Feature:
    """A plug-in that brings what a function says."""

    api = API
    version = "1.0"
    summary = "for a test"

    def __init__(
        self,
        build: Callable[[Any], Any] = lambda context: FeatureParts(),
        name: str = "acme",
        keys: Mapping[str, Key] | None = None,
    ) -> None:
        self.name = name
        self.keys = dict(keys or {})
        self._build = build
        self.contexts: list[Any] = []

    def check_keys(self, keys: Mapping[str, str]) -> list[str]:
        return []

    def build(self, context: Any) -> Any:
        self.contexts.append(context)
        return self._build(context)


class PluginCase(BrokerCase):
    """A broker that has what :meth:`features` gives."""

    features: ClassVar[list[Any]] = []

    def plugins(self) -> list[Feature]:
        """Of this test."""
        return []

    def start(self) -> BrokerService:
        self._port = 40000
        self.enabled = [
            Enabled(each, {name: key.default for name, key in each.keys.items()}) for each in self.plugins()
        ]
        loaded = load_broker((CONFIG + self.config).encode(), environment={"HOME": "/home"})
        self.service = BrokerService(loaded.config, self.platform(), plugins=self.enabled)
        self.service.startService()
        self.started()
        return self.service

    def started(self) -> None:
        """See that it has."""
        self.successResultOf(self.service.started)

    def context(self, number: int = 0) -> Any:
        """The context of a plug-in of this broker."""
        plugin: Feature = self.enabled[number].plugin
        return plugin.contexts[-1]

    def failures(self) -> dict[tuple[str, str], int]:
        """What failed, by plug-in."""
        return dict(self.broker.plugins._failures)
