"""The request codes that Java's jars serve are those that our tables and docs/divergence.md are compared with."""

from __future__ import annotations

import json
import re
import subprocess
import unittest
from pathlib import Path

from .harness import jars

RECORDED = Path(__file__).parents[1] / "wire/data/java_served_codes.json"


def classes(*names: str) -> dict[str, str]:
    """What javap says of each class, by name."""
    path = ":".join(map(str, jars.jars().glob("rocketmq-*.jar")))
    javap = str(Path(jars.java()).with_name("javap"))  # of a JDK, as its javac, which the harness needs, too
    found = {}
    for name in names:
        done = subprocess.run(
            [javap, "-c", "-p", "-cp", path, f"org.apache.rocketmq.{name}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        found[name] = done.stdout
    return found


def method(text: str, signature: str) -> str:
    """One method of a class."""
    found = re.search(rf"\n  [^\n]*{signature}[^\n]*;\n.*?(?=\n\n|\Z)", text, re.DOTALL)
    assert found is not None, signature
    return found.group()


def cases(text: str) -> set[int]:
    """The cases of the first switch."""
    found = re.search(r"(?:lookup|table)switch.*?\{(.*?)\}", text, re.DOTALL)
    assert found is not None
    return {int(number) for number in re.findall(r"\n\s+(\d+): \d+", found.group(1))}


def constants(text: str) -> set[int]:
    """The numbers that a method names."""
    found = re.finditer(r"(?:bipush|sipush)\s+(\d+)\n|// int (\d+)\n", text)
    return {int(number.group(1) or number.group(2)) for number in found}


class ServedCodesTests(unittest.TestCase):
    def test_the_jars(self) -> None:
        """A broker's processors by code and its default one's switch; the switches of nameserver and controller, and
        the nameserver's one code with a processor of its own (105)."""
        broker, admin, namesrv, controller = classes(
            "broker.BrokerController",
            "broker.processor.AdminBrokerProcessor",
            "namesrv.processor.DefaultRequestProcessor",
            "controller.processor.ControllerRequestProcessor",
        ).values()
        registered = constants(method(broker, r"registerProcessor\(\)"))
        self.assertGreater(len(registered), 30)
        served = {
            "broker": sorted(registered | cases(method(admin, r"processRequest\("))),
            "namesrv": sorted(cases(method(namesrv, r"processRequest\(")) | {105}),
            "controller": sorted(cases(controller)),
        }
        self.assertEqual(served, json.loads(RECORDED.read_text()))
