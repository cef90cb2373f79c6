"""The servers: RocketMQ's and ours, with one face each for a nameserver, a broker, a controller and a whole cluster.

A role has a folder (configuration, data, log), ports of its own and `start()`, `stop()`, `kill()`, `signal()` from
Process. `start()` returns when the role has answered a real request; a broker only once its nameservers know it.
Configuration is a dict in RocketMQ's own keys: both implementations read the same properties file, which is half of
what is being proved.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from rocketha.protocols.endpoints import is_loopback

from . import jars, ports, remoting
from .processes import Process, wait_until

ROOT = Path(__file__).resolve().parents[3]
READY_S = float(os.environ.get("ROCKETHA_READY_S", "90"))
GET_BROKER_CLUSTER_INFO, GET_BROKER_RUNTIME_INFO, CONTROLLER_GET_METADATA_INFO = 106, 28, 1005
NO_PERMISSION = 16


def write_properties(path: Path, values: Mapping[str, object]) -> Path:
    """A RocketMQ property file; booleans as Java spells them."""
    lines = [f"{key}={str(value).lower() if isinstance(value, bool) else value}\n" for key, value in values.items()]
    path.write_text("".join(lines))
    return path


def twistd(*arguments: str) -> list[str]:
    """A foreground twistd under this interpreter, whatever PATH says."""
    return [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", *arguments]


def our_environment() -> dict[str, str]:
    """The environment of our processes: the package of this tree, installed or not."""
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


def _answers(address: str, code: int) -> remoting.Reply | None:
    try:
        reply = remoting.call(address, code, timeout_s=2)
    except (OSError, ValueError):
        return None
    return reply if reply.code == 0 else None


class Host(NamedTuple):
    """Where a role runs: its address there, and the command prefix that takes a process there."""

    name: str = "loopback"
    ip: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


LOOPBACK = Host()
LOOPBACK6 = Host("loopback6", "::1")


def bracketed(ip: str) -> str:
    """As it stands before a port, and as Java spells the addresses of its own host."""
    return f"[{ip}]" if ":" in ip else ip


class Role(Process):
    """A server that reads a property file. `extra` overrides any of its keys, before or between starts."""

    kind = ""

    def __init__(
        self, name: str, folder: Path, extra: Mapping[str, object] | None = None, *, host: Host = LOOPBACK
    ) -> None:
        super().__init__(name, folder)
        self.host = host
        self.prefix = host.prefix
        self.port = ports.block()
        self.address = f"{bracketed(host.ip)}:{self.port}"
        self.extra: dict[str, object] = dict(extra or {})
        self.more: tuple[str, ...] = ()  # flags of ours
        self.ready_s = 0.0

    def configuration(self) -> dict[str, object]:
        raise NotImplementedError

    def ready(self) -> object:
        raise NotImplementedError

    def move(self, port: int, host: Host | None = None) -> None:
        """Another port and host, from the next start on."""
        self.port = port
        self.host = host or self.host
        self.address = f"{bracketed(self.host.ip)}:{port}"

    def config_file(self) -> Path:
        return write_properties(self.folder / f"{self.name}.conf", {**self.configuration(), **self.extra})

    def await_ready(self, timeout_s: float = READY_S) -> None:
        try:
            wait_until(f"{self.name} to be ready", self.ready, timeout_s, self.running)
        except AssertionError as why:
            tail = self.tail()
            self.kill()
            raise type(why)(f"{why}\n{tail}") from None

    def start(self, timeout_s: float = READY_S) -> Self:
        """Start and wait until it serves; `ready_s` is how long that took."""
        import time

        self.spawn()
        self.await_ready(timeout_s)
        self.ready_s = time.monotonic() - self.started_at
        return self

    def restart(self, timeout_s: float = READY_S) -> Role:
        return self.start(timeout_s)


# The servers of 4.x do not start without such a file in their home.
LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file>
    <encoder><pattern>%d %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


class _Java:
    """What Java's servers share: their command line and where they log. `version` is the release that runs."""

    main = ""
    version = jars.VERSION
    heap_mb = 256
    quick = False
    flags: tuple[str, ...] = ()

    def command(self) -> list[str]:
        assert isinstance(self, Role)
        return [
            *jars.java_command(
                self.main,
                heap_mb=self.heap_mb,
                home=self.folder / "home",
                quick=self.quick,
                flags=self.flags,
                version=self.version,
            ),
            "-c",
            str(self.config_file()),
        ]

    def environment(self) -> Mapping[str, str]:
        assert isinstance(self, Role)
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        if self.version.startswith("4."):
            (home / "conf").mkdir(exist_ok=True)
            text = LOGBACK.format(file=home / "logs" / f"{self.kind}.log")
            (home / "conf" / f"logback_{self.kind}.xml").write_text(text)
        return {**os.environ, "ROCKETMQ_HOME": str(home)}

    def logs(self) -> list[Path]:
        assert isinstance(self, Role)
        return [self.log_path, *sorted((self.folder / "home" / "logs").rglob(f"{self.kind}.log"))]


def of_release(version: str, processes: Iterable[Process]) -> None:
    """Those of Java's servers among `processes` run this release from their next start on."""
    for process in processes:
        if isinstance(process, _Java):
            process.version = version


# ---- nameservers


class _Namesrv(Role):
    kind = "namesrv"

    def configuration(self) -> dict[str, object]:
        return {"listenPort": self.port}

    def ready(self) -> object:
        return _answers(self.address, GET_BROKER_CLUSTER_INFO)


def listening(host: Host) -> dict[str, object]:
    """Where ours is bound; the hosts of the tests' own networks are nobody else's."""
    return {"bindAddress": host.ip} | ({} if is_loopback(host.ip) else {"insecureNetwork": True})


class JavaNamesrv(_Java, _Namesrv):
    main = "org.apache.rocketmq.namesrv.NamesrvStartup"
    heap_mb = 128
    quick = True


class OurNamesrv(_Namesrv):
    def command(self) -> list[str]:
        return twistd("rocketha-namesrv", "--config", str(self.config_file()), *self.more)

    def configuration(self) -> dict[str, object]:
        return {**super().configuration(), **listening(self.host)}

    def environment(self) -> Mapping[str, str]:
        return our_environment()


# ---- brokers


class _Broker(Role):
    """A master alone. `root` is its store: give two brokers the same one (in turn) to test a drop-in."""

    kind = "broker"

    def __init__(
        self,
        folder: Path,
        namesrv: Sequence[Role] | Role | None,
        extra: Mapping[str, object] | None = None,
        *,
        name: str = "broker-a",
        root: Path | None = None,
        port: int | None = None,
        host: Host = LOOPBACK,
    ) -> None:
        super().__init__(name, folder, extra, host=host)
        if port is not None:
            self.move(port)
        self.namesrvs: list[Role] = [] if namesrv is None else [namesrv] if isinstance(namesrv, Role) else list(namesrv)
        self.root = root or folder / "store"

    def configuration(self) -> dict[str, object]:
        return {
            "brokerClusterName": "DefaultCluster",
            "brokerName": self.name,
            "brokerId": 0,
            "brokerRole": "ASYNC_MASTER",
            "flushDiskType": "ASYNC_FLUSH",
            "listenPort": self.port,
            "haListenPort": self.port + 1,
            "brokerIP1": self.host.ip,
            "brokerIP2": self.host.ip,
            **listening(self.host),
            "namesrvAddr": ";".join(n.address for n in self.namesrvs),
            "storePathRootDir": self.root,
            "storePathCommitLog": self.root / "commitlog",
            "autoCreateTopicEnable": True,
            "autoCreateSubscriptionGroup": True,
            # small files, so that rolling is part of every test and a run stays a few MB
            "mappedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 20 * 4000,
            "maxHashSlotNum": 20000,
            "maxIndexNum": 80000,
            # what is on the machine's disk beside the tests is no reason to delete what they wrote
            "cleanFileForciblyEnable": False,
            # a loaded test machine is not a reason to refuse: Java drops oneway messages silently when it is "busy"
            "waitTimeMillsInSendQueue": 30000,
            "waitTimeMillsInPullQueue": 30000,
            "osPageCacheBusyTimeOutMills": 30000,
            "brokerFastFailureEnable": False,
            "traceTopicEnable": False,
        }

    def ready(self) -> object:
        if _answers(self.address, GET_BROKER_RUNTIME_INFO) is None:
            return None
        for namesrv in self.namesrvs:
            reply = _answers(namesrv.address, GET_BROKER_CLUSTER_INFO)
            if reply is None or f'"{self.address}"'.encode() not in reply.body:
                return None
        return True


class JavaBroker(_Java, _Broker):
    main = "org.apache.rocketmq.broker.BrokerStartup"
    heap_mb = 384

    def configuration(self) -> dict[str, object]:
        ip = bracketed(self.host.ip)
        return {**super().configuration(), "brokerIP1": ip, "brokerIP2": ip}


class OurBroker(_Broker):
    def command(self) -> list[str]:
        return twistd("rocketha-broker", "--config", str(self.config_file()), *self.more)

    def environment(self) -> Mapping[str, str]:
        return our_environment()


# ---- controllers


class _Controller(Role):
    """One controller; `peers` are all of the group including this one, set before start()."""

    kind = "controller"

    def __init__(
        self, name: str, folder: Path, extra: Mapping[str, object] | None = None, *, host: Host = LOOPBACK
    ) -> None:
        super().__init__(name, folder, extra, host=host)
        self.peers: list[_Controller] = [self]

    def group_configuration(self) -> dict[str, object]:
        return {
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": ";".join(f"{p.name}-{p.address}" for p in self.peers),
            "controllerDLegerSelfId": self.name,
            "controllerStorePath": self.folder / "data",
            # Java maps whole files of this size, three times
            "mappedFileSize": 16 << 20,
        }

    def configuration(self) -> dict[str, object]:
        return self.group_configuration()

    def ready(self) -> object:
        return _answers(self.address, CONTROLLER_GET_METADATA_INFO)


class JavaController(_Java, _Controller):
    """Java's controller, DLedger variant."""

    main = "org.apache.rocketmq.controller.ControllerStartup"
    quick = True


class OurController(_Controller):
    """``twistd rocketha-controller`` on the same property file."""

    def configuration(self) -> dict[str, object]:
        keys = super().configuration() | listening(self.host)
        if "insecureNetwork" in keys:
            secret = self.folder / "raft-secret"
            secret.write_text("all controllers know it")
            secret.chmod(0o600)
            keys["raftSecretFile"] = secret
        return keys

    def command(self) -> list[str]:
        return twistd("rocketha-controller", "--config", str(self.config_file()), *self.more)

    def environment(self) -> Mapping[str, str]:
        return our_environment()


class _EmbeddedController(_Controller):
    """A nameserver with a controller inside. `address` is the controller's; `namesrv` speaks for the nameserver."""

    kind = "namesrv"

    def __init__(
        self, name: str, folder: Path, extra: Mapping[str, object] | None = None, *, host: Host = LOOPBACK
    ) -> None:
        super().__init__(name, folder, extra, host=host)
        self.namesrv_port = self.port + 2
        self.namesrv_address = f"{host.ip}:{self.namesrv_port}"

    def configuration(self) -> dict[str, object]:
        return {"listenPort": self.namesrv_port, "enableControllerInNamesrv": True, **self.group_configuration()}

    def ready(self) -> object:
        return _answers(self.namesrv_address, GET_BROKER_CLUSTER_INFO) and super().ready()


class JavaEmbeddedController(_Java, _EmbeddedController):
    main = "org.apache.rocketmq.namesrv.NamesrvStartup"
    quick = True


class OurEmbeddedController(_EmbeddedController):
    def command(self) -> list[str]:
        return twistd("rocketha-namesrv", "--config", str(self.config_file()), *self.more)

    def configuration(self) -> dict[str, object]:
        return {**super().configuration(), **listening(self.host)}

    def environment(self) -> Mapping[str, str]:
        return our_environment()


# ---- a whole cluster


class OurCluster(Role):
    """``twistd rocketha-cluster``: our nameserver and broker in one process, or replicas and controllers with a process
    each; data under `folder`/data. `port` is that of the first broker."""

    kind = "cluster"

    def __init__(
        self,
        folder: Path,
        extra: Mapping[str, object] | None = None,
        *,
        brokers: int = 1,
        controllers: int = 0,
        tls: Path | None = None,
        config: Path | None = None,
    ) -> None:
        super().__init__("cluster", folder, extra)
        self.tls, self.file = tls, config
        self.brokers, self.controllers = brokers, controllers
        if brokers > 1:
            self.move(ports.block(brokers))
        self.namesrv_address = f"127.0.0.1:{ports.block()}"
        self.controller_port = ports.block()

    def configuration(self) -> dict[str, object]:
        return {}

    def command(self) -> list[str]:
        return twistd(
            "rocketha-cluster",
            "--data",
            str(self.folder / "data"),
            "--namesrv-port",
            self.namesrv_address.rsplit(":", 1)[1],
            "--broker-port",
            str(self.port),
            "--brokers",
            str(self.brokers),
            "--controllers",
            str(self.controllers),
            "--controller-port",
            str(self.controller_port),
            *(("--tls", str(self.tls)) if self.tls is not None else ()),
            *(("--config", str(self.file)) if self.file is not None else ()),
        )

    def environment(self) -> Mapping[str, str]:
        return our_environment()

    def ready(self) -> object:
        reply = _answers(self.namesrv_address, GET_BROKER_CLUSTER_INFO)
        addresses = [f'"127.0.0.1:{self.port + 10 * number}"'.encode() for number in range(self.brokers)]
        return (
            reply is not None
            and all(address in reply.body for address in addresses)
            and (_answers(self.address, GET_BROKER_RUNTIME_INFO) or (self.file is not None and self._asks_who()))
        )

    def _asks_who(self) -> bool:
        """Whether the broker serves users who log in."""
        try:
            return remoting.call(self.address, GET_BROKER_RUNTIME_INFO, timeout_s=2).code == NO_PERMISSION
        except (OSError, ValueError):
            return False


NAMESRVS: dict[str, type[_Namesrv]] = {"java": JavaNamesrv, "ours": OurNamesrv}
BROKERS: dict[str, type[_Broker]] = {"java": JavaBroker, "ours": OurBroker}
CONTROLLERS: dict[str, type[_Controller]] = {"java": JavaController, "ours": OurController}
EMBEDDED_CONTROLLERS: dict[str, type[_EmbeddedController]] = {
    "java": JavaEmbeddedController,
    "ours": OurEmbeddedController,
}
