"""What the handlers of administrative requests see of the broker's configuration.

Pure.  The service owns the configuration (files, flags, which keys may change); handlers show it and ask for changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from rocketha.broker.data_version import DataVersion
from rocketha.errors import ConfigError


class ConfigView(Protocol):
    """The whole configuration as text, by Java's key names."""

    @property
    def version(self) -> DataVersion:
        """Moves on with every change of a running broker."""

    def texts(self) -> Mapping[str, str]:
        """Every key with its present value."""

    def change(self, changes: Mapping[str, str], wall_ms: int) -> None:
        """Change live keys, all or none.

        :raises ConfigError: changes are switched off, a key is unknown, not live, or its value is refused.
        """


@attrs.define
class FixedConfig:
    """A configuration that nobody may change: the default, and what tests use."""

    values: Mapping[str, str] = attrs.field(factory=dict)
    version: DataVersion = attrs.field(factory=DataVersion)

    def texts(self) -> Mapping[str, str]:
        """Every key with its present value."""
        return self.values

    def change(self, changes: Mapping[str, str], wall_ms: int) -> None:
        """:raises ConfigError: always."""
        raise ConfigError("this broker's configuration can not be changed while it runs")
