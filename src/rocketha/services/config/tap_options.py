"""What the options of all commands have in common: flags over a file, endpoint strings, and errors with their place.

Nothing is opened but the configuration file; what is wrong is a ``usage.UsageError`` before anything starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from twisted.internet.endpoints import serverFromString
from twisted.internet.testing import MemoryReactor
from twisted.python import usage

from rocketha.errors import ConfigError
from rocketha.services.config import loading, views
from rocketha.services.config.checks import key_and_value
from rocketha.services.config.exposure import check_exposure
from rocketha.services.config.tls import TlsConfig
from rocketha.services.process.secret_file import refuse_readable_key
from rocketha.services.process.status import check_status_options


class KeyOptions(usage.Options):
    """Options that are configuration keys.

    :cvar key_of_option: option -> the key it stands for.
    :ivar flags: keys given on the command line.
    :ivar listen: endpoint strings.
    :ivar status: where the status port is to be, if there is to be one.
    :ivar tls: that of its ports.
    """

    key_of_option: ClassVar[Mapping[str, str]] = {}
    synopsis = "[options]"

    def __init__(self) -> None:
        super().__init__()
        self.flags: dict[str, str] = {}
        self.listen: list[str] = []
        self.status: str | None = None
        self.tls = TlsConfig()

    def opt_set(self, pair: str) -> None:
        """KEY=VALUE: one configuration key; may be repeated."""
        try:
            key, value = key_and_value(pair)
        except ConfigError as problem:
            raise usage.UsageError(str(problem)) from None
        if any(key.endswith(secret) for secret in loading.SECRETS):  # of all brokers of a group, or of one
            raise usage.UsageError(f"--set {key}: everybody sees the arguments of a process; let it stand in a file")
        self.flags[key] = value

    opt_s = opt_set

    def load(self) -> None:
        """Make the configuration of file and flags.

        :raises ConfigError: something in them is wrong.
        """
        raise NotImplementedError

    def file(self, name: str) -> tuple[bytes, str]:
        """Content and path of ``--config``; without one nothing, and this name for it.

        :raises ConfigError: it cannot be read.
        """
        path = self["config"]
        return (loading.read_file(path), path) if path is not None else (b"", name)

    def postOptions(self) -> None:
        """Check everything that can be checked without opening anything but the file."""
        for option, key in self.key_of_option.items():
            if self[option] is not None:
                self.flags[key] = self[option]
        try:
            self.load()
        except ConfigError as problem:
            raise usage.UsageError(str(problem)) from None
        self.status = check_status_options(self)
        for description in self.listen:
            _check_endpoint(description)
            self._check_exposure(description, f"--listen {description}")
        if not self.listen:
            for address in self.bound():
                self._check_exposure(views.endpoint(address, 0), f"bindAddress={address}")

    def bound(self) -> Iterable[str]:
        """The IP addresses that the configuration has ports on."""
        return ()

    def _check_exposure(self, description: str, what: str) -> None:
        try:
            check_exposure(description, self.tls, what)
        except ConfigError as problem:
            raise usage.UsageError(str(problem)) from None


class ListenOptions(KeyOptions):
    """The same with ``--listen``, for a server with an address of its own.

    :ivar loaded: its configuration.
    """

    loaded: loading.Loaded[Any] | None = None

    def bound(self) -> Iterable[str]:
        return () if self.loaded is None else (self.loaded.config.bind_address,)

    def opt_listen(self, description: str) -> None:
        """An endpoint string to listen on instead, such as tcp:9876:interface=127.0.0.1; may be repeated."""
        self.listen.append(description)

    opt_l = opt_listen


def _check_endpoint(description: str) -> None:
    """Whether an endpoint string can be understood; nothing is opened."""
    try:
        serverFromString(MemoryReactor(), description)
        refuse_readable_key(description)
    except Exception as problem:
        raise usage.UsageError(f"--listen {description}: {problem}") from None
