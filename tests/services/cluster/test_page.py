"""The status page in Chromium: what a person sees, with eyes, ears and keys; and a switch of a group that runs."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.interop.harness import ports
from tests.interop.harness.foreign import installed, tool
from tests.services.cluster.page_server import LONG, MARKUP
from tests.services.cluster.test_processes import Group
from tests.spark.test_report import FLAGS
from tests.tidy.source import ROOT

PATIENCE_S = 20
SEEN_WITHIN_S = 2.0
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@unittest.skipUnless(shutil.which("chromium") and shutil.which("chromedriver"), "needs Debian's chromium-driver")
class BrowserCase(unittest.TestCase):
    """One browser for the tests of a class."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-page-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in FLAGS:
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={cls.root}/profile")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        cls.addClassCleanup(cls.browser.quit)

    def look(self, scheme: str = "light", width: int = 1300, height: int = 1900) -> None:
        """The colours that the browser asks for, and its window."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def opened(self, port: int) -> None:
        """The page, filled."""
        self.browser.get(f"http://127.0.0.1:{port}/")
        self.until("return document.getElementById('link')?.textContent === 'Live'")

    def until(self, script: str, patience_s: float = PATIENCE_S) -> Any:
        """What a script returns, once it is true."""
        deadline = time.monotonic() + patience_s
        while True:
            found = self.browser.execute_script(script)
            if found:
                return found
            if time.monotonic() > deadline:
                self.fail(f"{script}\n{self.browser.find_element(By.TAG_NAME, 'body').text}")
            time.sleep(0.02)  # the driver has no event for what a page shows

    def clean(self) -> None:
        """Nothing was refused by the page's own policy, nothing failed."""
        self.assertEqual(self.browser.get_log("browser"), [])


class PageTests(BrowserCase):
    """A process that knows a great deal, and of which some names are markup."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        command = [sys.executable, "-m", "tests.services.cluster.page_server"]
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
        )
        assert process.stdin is not None
        assert process.stdout is not None
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.stdout.close)
        cls.addClassCleanup(process.stdin.close)
        cls.port = int(process.stdout.readline())

    def test_no_violation(self) -> None:
        """axe-core finds nothing, light and dark, wide and narrow; a picture of each for a person."""
        folder = installed("axe", [tool("npm"), "ci", "--silent", "--ignore-scripts"])
        axe = (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
        for scheme, width in (("light", 1300), ("dark", 1300), ("light", 420), ("dark", 420)):
            with self.subTest(scheme=scheme, width=width):
                self.look(scheme, width)
                self.opened(self.port)
                if pictures := os.environ.get("ROCKETHA_PICTURES"):
                    self.browser.save_screenshot(f"{pictures}/page-{scheme}-{width}.png")
                wide = self.browser.execute_script("return document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width, "the page itself is not scrolled sideways")
                self.browser.execute_script(axe)
                found = self.browser.execute_async_script(
                    "const done = arguments[1]; axe.run(document, {runOnly: arguments[0]}).then(done)", TAGS
                )
                told = [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]
                self.assertEqual(told, [])
                self.assertGreater(len(found["passes"]), 30)
        self.clean()

    def test_names_are_text(self) -> None:
        """Whatever a peer calls itself."""
        self.look()
        self.opened(self.port)
        self.assertEqual(self.browser.title, "! controller n1")
        text = self.browser.find_element(By.TAG_NAME, "body").text
        for name in (MARKUP, LONG, f"C/{MARKUP}:3"):
            self.assertIn(name, text)
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "img, body script"), [])
        self.assertEqual(self.browser.find_element(By.ID, "reason").text, "no controller leads")
        self.clean()

    def focus(self) -> str:
        """What has the focus."""
        script = "const e = document.activeElement; return e.id || e.textContent.trim() || e.getAttribute('aria-label')"
        return str(self.browser.execute_script(script))

    def test_keyboard(self) -> None:
        """First the link past the head; then everything, in order; all of it can be done with keys."""
        self.look()
        self.opened(self.port)
        press = ActionChains(self.browser)
        press.send_keys(Keys.TAB).perform()
        self.assertEqual(self.focus(), "Skip to the content")
        self.assertTrue(self.browser.execute_script("return document.activeElement.getBoundingClientRect().left >= 0"))
        press.send_keys(Keys.ENTER).perform()
        self.assertEqual(self.focus(), "main")
        script = (
            "return [...document.querySelectorAll('main a, main input, main [tabindex=\"0\"]')]"
            ".filter(e => e.offsetParent).length"
        )
        for _ in range(int(self.browser.execute_script(script))):
            press.send_keys(Keys.TAB).perform()
            inside = "return document.activeElement.closest('main') !== null"
            self.assertTrue(self.browser.execute_script(inside), self.focus())
            outline = "return getComputedStyle(document.activeElement).outlineStyle"
            self.assertEqual(self.browser.execute_script(outline), "solid", self.focus())
        press.send_keys(Keys.TAB).perform()
        self.assertEqual(self.focus(), "overview.json")
        pause = self.browser.find_element(By.ID, "pause")
        self.browser.execute_script("arguments[0].focus()", pause)
        press.send_keys(Keys.SPACE).perform()
        self.assertEqual(pause.get_attribute("aria-pressed"), "true")
        press.send_keys(Keys.SPACE).perform()
        self.assertEqual(pause.get_attribute("aria-pressed"), "false")
        self.until("return document.getElementById('link').textContent === 'Live'")
        self.browser.find_element(By.ID, "topics-filter").send_keys("ORDERS-1")
        rows = self.browser.find_elements(By.CSS_SELECTOR, "#topics tbody tr")
        self.assertEqual([row.text.split()[0] for row in rows], ["orders-1", *(f"orders-{n}" for n in range(10, 18))])
        self.clean()

    def test_news_are_said(self) -> None:
        """A live region has what is new, once, and nothing at the start; what has the focus keeps it."""
        self.look()
        self.opened(self.port)
        self.browser.execute_script("document.querySelector('#groups .scroll').focus()")
        script = "return document.getElementById('news').textContent"
        before = self.browser.execute_script(script)
        if "broker.cleared" not in self.browser.find_element(By.ID, "moments").text:
            self.assertEqual(before, "")
            said = self.until(script)
            self.assertEqual(said, "broker.cleared: broker C/broker-a:2 is not given up: its port answers.")
        label = self.browser.execute_script("return document.activeElement.getAttribute('aria-label')")
        self.assertEqual(label, "Replicas of C/broker-a")


class SwitchTests(BrowserCase):
    """``rocketha-cluster``, whose master is killed."""

    def test_a_killed_master(self) -> None:
        """Who follows, why, and the new SyncStateSet are on the page in two seconds; a planned hand-over says so."""
        http = ports.block(1)
        group = Group(self, self.root / "data", 2, 1, "--http", str(http))
        words = group.words()
        self.look()
        self.opened(http)
        self.until("return document.querySelectorAll('#groups .badge.good').length === 3")  # a master, two in sync
        number, pid = re.findall(r"broker-(\d) .* pid (\d+)  master", words)[0]
        os.kill(int(pid), signal.SIGKILL)
        killed_s = time.monotonic()
        other = group.broker + 10 * (2 - int(number))
        follows = rf"\d \(127.0.0.1:{other}\)"
        elected = f"elected: master {follows} in epoch 2, in sync {follows}PORT_REFUSED"
        self.until(
            "const at = (id) => document.getElementById(id).textContent;"
            f"return /{elected}/.test(at('moments')) && /Master {follows}/.test(at('groups'))"
        )
        self.assertLess(time.monotonic() - killed_s, SEEN_WITHIN_S)
        moments = self.browser.find_element(By.ID, "moments").text
        self.assertIn(f"broker-{number} ended: killed by SIGKILL", moments)
        self.assertRegex(moments, r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d\d\d")
        self.until("return document.querySelectorAll('#groups .badge.good').length === 3")  # it is back, and in sync
        lines = map(json.loads, group.log.read_text(encoding="utf-8").splitlines())
        pids = {each["process"]: each["pid"] for each in lines if each.get("event") == "process.started"}
        pid = pids[f"broker-{3 - int(number)}"]
        os.kill(int(pid), signal.SIGTERM)
        self.until(
            "return /HANDED_OVER: broker \\d \\(.*\\) was stopping and handed over to broker \\d/"
            ".test(document.getElementById('moments').textContent)"
        )
        if pictures := os.environ.get("ROCKETHA_PICTURES"):
            self.browser.save_screenshot(f"{pictures}/page-switch.png")
        self.clean()
        self.assertEqual(group.stop(signal.SIGTERM), -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
