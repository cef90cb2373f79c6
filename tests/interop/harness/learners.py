"""Our servers beside brokers: a learner, with the export that grows with it, and a witness."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from pathlib import Path

from rocketha.errors import CorruptStore
from rocketha.export.manifest import FILE_BYTES_MAX, NAME, Manifest, decode

from .processes import wait_until
from .roles import READY_S, Role, our_environment, twistd


class _WithStatus(Role):
    """Its address is that of its status port."""

    def environment(self) -> Mapping[str, str]:
        return our_environment()

    def ready(self) -> object:
        """Whether it does what it is for."""
        return self.get("/readyz")[0] == 200

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of its status port; 0 where it does not answer."""
        connection = http.client.HTTPConnection(self.address, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()


class OurWitness(_WithStatus):
    """``twistd rocketha-witness``, a member of a group that runs."""

    kind = "witness"

    def __init__(self, folder: Path, group: str, peers: str, name: str) -> None:
        super().__init__(name, folder)
        self.group, self.peers = group, peers
        self.root = folder / "store"

    def configuration(self) -> dict[str, object]:
        return {
            "dLegerGroup": self.group,
            "dLegerPeers": self.peers,
            "dLegerWitness": self.name,
            "raftJoinExisting": True,
            "storePathRootDir": self.root,
        }

    def command(self) -> list[str]:
        return twistd("rocketha-witness", "--config", str(self.config_file()), "--http", self.address)


class OurLearner(_WithStatus):
    """``twistd rocketha-learner``; its export is in ``export``."""

    kind = "learner"

    def __init__(
        self,
        folder: Path,
        namesrv: str,
        broker_name: str,
        flags: Sequence[str] = (),
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__("learner", folder, extra)
        self.namesrv = namesrv
        self.broker_name = broker_name
        self.flags = flags
        self.export = folder / "export"

    def configuration(self) -> dict[str, object]:
        return {
            "brokerClusterName": "DefaultCluster",
            "brokerName": self.broker_name,
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self.folder / "store",
            "mappedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 20 * 4000,
            "maxHashSlotNum": 20000,
            "maxIndexNum": 80000,
        }

    def command(self) -> list[str]:
        return twistd(
            "rocketha-learner",
            "--config",
            str(self.config_file()),
            "--export",
            str(self.export),
            "--every",
            "0.3",
            "--http",
            self.address,
            *self.flags,
        )

    @property
    def manifest(self) -> Manifest | None:
        """Of its export; None before the first one."""
        try:
            data = (self.export / NAME).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return decode(data[:FILE_BYTES_MAX], NAME)
        except CorruptStore:
            raise AssertionError(f"{self.export} has a manifest that is none") from None

    def await_exported(self, end: int, timeout_s: float = READY_S) -> Manifest:
        """Until a run of the export has ended there: while one is under way, its manifest knows the log's new end, but
        its epochs and what is confirmed are those of the run before."""
        seen: list[int] = []

        def there() -> Manifest | None:
            manifest = self.manifest
            if manifest is None or manifest.end != end:
                return None
            seen.append(manifest.exported_ms)
            return manifest if manifest.exported_ms > seen[0] else None

        found = wait_until(f"an export up to {end}", there, timeout_s, self.running)
        assert isinstance(found, Manifest)
        return found
