"""What deploy/ holds: it can be read by those who are to read it, and the servers take the command lines in it."""

from __future__ import annotations

import io
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any

import yaml

from rocketha.admin import cli
from rocketha.services.broker import tap as broker_tap
from rocketha.services.controller import tap as controller_tap
from rocketha.services.namesrv import tap as namesrv_tap
from tests.tidy.source import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = [path for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) if path.name != "kustomization.yaml"]
OPTIONS: dict[str, Any] = {
    "rocketha-broker": broker_tap.Options,
    "rocketha-controller": controller_tap.Options,
    "rocketha-namesrv": namesrv_tap.Options,
}
WARM = 'python -c "from twisted.plugin import IPlugin, getPlugins; list(getPlugins(IPlugin))"'


def load(path: pathlib.Path) -> list[Any]:
    """The documents of a file of YAML."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def compose_commands() -> Iterator[list[str]]:
    """Of the servers."""
    (file,) = load(DEPLOY / "compose" / "compose.yaml")
    for service in file["services"].values():
        if "rocketha-" in service["command"][0]:
            yield service["command"]


def stateful_sets() -> list[Mapping[str, Any]]:
    return [each for path in MANIFESTS for each in load(path) if each["kind"] == "StatefulSet"]


def pod_commands() -> Iterator[list[str]]:
    """Of all pods, as Kubernetes fills them in."""
    for each in stateful_sets():
        for number in range(1, 1 + each["spec"]["replicas"]):
            values = {"POD_NAME": f"{each['metadata']['name']}-{number}", "POD_INDEX": str(number)}
            (container,) = each["spec"]["template"]["spec"]["containers"]
            arguments = "\n".join(container["args"])
            for name in (variable["name"] for variable in container["env"]):
                arguments = arguments.replace(f"$({name})", values[name])
            yield arguments.split("\n")


def unit_commands() -> Iterator[list[str]]:
    for path in UNITS:
        words = shlex.split(re.findall(r"^ExecStart=(.*)", path.read_text(encoding="utf-8"), re.MULTILINE)[0])
        yield words[words.index("rocketha.observe.logging.json_observer") + 1 :]


def instructions() -> list[tuple[str, str]]:
    """Of the Containerfile, in order."""
    text = (DEPLOY / "image" / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines.splitlines() if line)]


class CommandTests(unittest.TestCase):
    """Each is given to the server's own options, with identities that ``rocketha pki`` made."""

    def setUp(self) -> None:
        self.place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        arguments = ["pki", "cluster", str(self.place / "pki"), "--brokers", "3", "--controllers", "3"]
        with redirect_stdout(io.StringIO()):
            self.assertEqual(cli.main([*arguments, "--host", "127.0.0.1"]), 0)
        for path in (DEPLOY / "conf").glob("*.conf"):
            shutil.copy(path, self.place)

    def take(self, command: list[str]) -> Any:
        """The configuration of a command line."""
        name, *arguments = [each.replace("/etc/rocketha", str(self.place)) for each in command]
        options = OPTIONS[name]()
        options.parseOptions(arguments)
        self.assertEqual(options.loaded.warnings, ())
        self.assertIsNotNone(options.status, "probes ask the status port")
        return options.loaded.config

    def test_compose(self) -> None:
        commands = list(compose_commands())
        self.assertEqual(len(commands), 7)
        for command in commands:
            with self.subTest(command):
                self.assertTrue(self.take(command).remoting.tls.enable)

    def test_pods(self) -> None:
        commands = list(pod_commands())
        self.assertEqual(len(commands), 8)
        for command in commands:
            with self.subTest(command):
                self.assertTrue(self.take(command).remoting.tls.enable)

    def test_units(self) -> None:
        self.assertEqual([self.take(each).bind_address for each in unit_commands()], ["127.0.0.1"] * 3)

    def test_ports(self) -> None:
        """The containers' are those that the servers open."""
        opened = {"namesrv": {9876}, "controller": {9878}, "broker": {10909, 10911, 10912}}
        for each in stateful_sets():
            (container,) = each["spec"]["template"]["spec"]["containers"]
            ports = {port["containerPort"] for port in container["ports"]}
            self.assertEqual(ports, opened[each["metadata"]["name"]] | {8088})
        exposed = [rest.split() for name, rest in instructions() if name == "EXPOSE"]
        self.assertEqual({int(port) for ports in exposed for port in ports}, set().union(*opened.values()) | {8088})


class ManifestTests(unittest.TestCase):
    """Each StatefulSet has what belongs to it."""

    def test_whole(self) -> None:
        """A headless service, a budget of one, probes, time to hand over, and a root that nobody writes to."""
        objects = {(each["kind"], each["metadata"]["name"]): each for path in MANIFESTS for each in load(path)}
        for each in stateful_sets():
            name, template = each["metadata"]["name"], each["spec"]["template"]
            service, budget = objects["Service", name], objects["PodDisruptionBudget", name]
            self.assertEqual((service["spec"]["clusterIP"], each["spec"]["serviceName"]), ("None", name))
            self.assertEqual(budget["spec"]["maxUnavailable"], 1)
            labels = template["metadata"]["labels"]
            matched = each["spec"]["selector"], budget["spec"]["selector"]
            self.assertEqual([labels, labels], [selector["matchLabels"] for selector in matched])
            self.assertEqual(service["spec"]["selector"], labels)
            (container,) = template["spec"]["containers"]
            paths = [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")]
            self.assertEqual(paths, ["/healthz", "/healthz", "/readyz"])
            self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            volumes = {each["name"] for each in template["spec"]["volumes"]}
            claims = {claim["metadata"]["name"] for claim in each["spec"]["volumeClaimTemplates"]}
            self.assertEqual(mounted, volumes | claims)
        grace = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in stateful_sets()}
        self.assertGreaterEqual(grace["broker"]["terminationGracePeriodSeconds"], 60)

    def test_kustomization(self) -> None:
        """It names every file, and the image that they have."""
        (whole,) = load(DEPLOY / "kubernetes" / "kustomization.yaml")
        self.assertEqual(sorted(whole["resources"]), [path.name for path in MANIFESTS])
        images = {each["spec"]["template"]["spec"]["containers"][0]["image"] for each in stateful_sets()}
        self.assertEqual(images, {each["name"] for each in whole["images"]})

    def test_kubectl_reads_them(self) -> None:
        if shutil.which("kubectl") is None:
            raise unittest.SkipTest("kubectl is not here; it reads the kustomization")
        command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("kind: StatefulSet"), 3)


class UnitTests(unittest.TestCase):
    """systemd's own judgment, where there is one."""

    def test_verify(self) -> None:
        if shutil.which("systemd-analyze") is None:
            raise unittest.SkipTest("systemd-analyze is not here; it judges the units")
        with tempfile.TemporaryDirectory() as place:
            copies = []
            for unit in UNITS:
                text = unit.read_text(encoding="utf-8").replace("/opt/rocketha/bin/twistd", sys.executable)
                copies.append(pathlib.Path(place) / unit.name)
                copies[-1].write_text(text, encoding="utf-8")
            command = ["systemd-analyze", "verify", "--man=no", *map(str, copies)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_they_wait_and_watch(self) -> None:
        for unit in UNITS:
            text = unit.read_text(encoding="utf-8")
            for line in ("Type=notify", "NotifyAccess=main", "WatchdogSec=60", "Restart=on-failure"):
                self.assertIn(f"\n{line}\n", text, unit.name)


class ImageTests(unittest.TestCase):
    """There is no builder of images here: the instructions are looked at."""

    def test_the_last_stage(self) -> None:
        """No compiler, no package index, no root; it stops by the signal that hands the role over."""
        said = instructions()
        last = said[max(number for number, (name, _) in enumerate(said) if name == "FROM") :]
        self.assertEqual([rest for name, rest in last if name == "RUN" and re.search("pip|apt|gcc", rest)], [])
        named = dict(last)
        self.assertEqual((named["USER"], named["STOPSIGNAL"]), ("10911:10911", "SIGTERM"))
        compile(json.loads(named["HEALTHCHECK"].partition("CMD ")[2])[2], "healthcheck", "exec")
        self.assertEqual(json.loads(named["ENTRYPOINT"])[0], "twistd")
        self.assertIn(json.loads(named["CMD"])[0], OPTIONS)

    def test_the_plugins_are_listed(self) -> None:
        """With the line that docs/operations.rst gives."""
        self.assertIn(WARM, (ROOT / "docs" / "operations.rst").read_text(encoding="utf-8"))
        self.assertTrue(any(WARM in rest for name, rest in instructions() if name == "RUN"))
