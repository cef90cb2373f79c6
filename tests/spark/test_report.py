"""The report of a log, opened in Chromium: what a person sees, and that the page brings along all that it shows."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import random
import re
import shutil
import tempfile
import unittest
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By

from rocketha_spark import __main__ as command
from rocketha_spark.duck import Duck
from rocketha_spark.figures import PERCENTILES
from rocketha_spark.report import BARS, FINDINGS, write_report
from tests.export.stores import made
from tests.spark.logs import TOPICS, filled
from tests.spark.session import session

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--window-size=1100,3200",
)


@unittest.skipUnless(shutil.which("chromium") and shutil.which("chromedriver"), "needs Debian's chromium-driver")
class ReportTests(unittest.TestCase):
    """A replica and one that parted from it, with names that are markup."""

    @classmethod
    def setUpClass(cls) -> None:
        session()  # before the command, which takes the one that there is
        folder = tempfile.TemporaryDirectory(prefix="rocketha-report-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        for name, seed, number in (("a", 1, 1), ("b<i>&$x$", 2, 2)):
            store = filled(cls.root / f"store{number}", seed, 300)
            config = cls.root / f"store{number}" / "config"
            config.mkdir(exist_ok=True)
            offsets = ",".join(f'"{topic}@<b>group</b>":{{0:1,1:0}}' for topic in TOPICS)
            (config / "consumerOffset.json").write_text(f'{{"offsetTable":{{{offsets}}}}}')
            store.export(cls.root / f"export{number}", name, number)
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in FLAGS:
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={cls.root}/profile")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        cls.browser = webdriver.Chrome(options, service)
        cls.addClassCleanup(cls.browser.quit)

    def opened(self, exports: str, name: str) -> None:
        page = self.root / name
        with Duck(str(self.root)) as duck:
            self.found = {each.name: each for each in write_report(duck, str(self.root / exports), str(page))}
        text = page.read_text()
        self.assertNotIn("<script", text)
        self.assertNotIn("http://", text)
        self.assertNotIn("https://", text)
        self.browser.get(page.as_uri())
        self.assertEqual(self.browser.get_log("browser"), [])  # what a console would show

    def pictures(self) -> dict[str, tuple[int, int]]:
        for each in (images := self.browser.find_elements(By.CSS_SELECTOR, ".chart img")):
            self.assertTrue(self.browser.execute_script("return arguments[0].complete", each))
        return {
            str(each.get_attribute("alt")).partition(":")[0]: (
                self.browser.execute_script("return arguments[0].naturalWidth", each),
                self.browser.execute_script("return arguments[0].naturalHeight", each),
            )
            for each in images
        }

    def test_two_replicas(self) -> None:
        """Charts have a size, audits their findings, names are text."""
        self.opened("export[12]", "two.html")
        pictures = self.pictures()
        self.assertEqual(list(pictures), ["Messages", "Delay", "Bytes", "Skew", "Consumers"])
        for name, (width, height) in pictures.items():
            self.assertGreater(min(width, height), 100, name)
        self.assertIn("b<i>&$x$", self.browser.find_element(By.TAG_NAME, "h1").text)
        rows = self.browser.find_elements(By.CSS_SELECTOR, "#exports tr")
        self.assertEqual(len(rows), 3)
        self.assertIn("300", rows[1].text)
        parted = self.browser.find_element(By.ID, "audit-divergence")
        self.assertIn(f"{len(self.found['divergence'].findings)} found", parted.text)
        self.assertIn("nothing found", self.browser.find_element(By.ID, "audit-corrupt").text)
        self.assertTrue(self.found["loss"].findings or self.found["duplicates"].findings)
        self.assertTrue(all(len(each.findings) <= FINDINGS for each in self.found.values()))
        self.assertGreater(BARS, 0)
        if folder := os.environ.get("ROCKETHA_PICTURES"):
            self.browser.save_screenshot(f"{folder}/report.png")

    def test_command(self) -> None:
        """``python -m rocketha_spark report`` writes it; a target that cannot be written is an error."""
        export, page = str(self.root / "export1"), self.root / "one.html"
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(command.main(["report", export, str(page), "--engine", "spark"]), 0)
            self.assertIn(str(page), out.getvalue())
            self.assertTrue(page.read_text().endswith("</html>"))
            with contextlib.redirect_stderr(io.StringIO()) as errors:
                self.assertEqual(command.main(["report", export, str(self.root / "no" / "page.html")]), 2)
            self.assertIn("No such file", errors.getvalue())


class DrawnTests(unittest.TestCase):
    """What the pictures say."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-report-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def texts(self, exports: str) -> dict[str, list[str]]:
        """By the chart's title."""
        page = self.root / "page.html"
        with Duck(str(self.root)) as duck:
            write_report(duck, str(self.root / exports), str(page))
        found = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]*)" alt="([^:]*):', page.read_text())
        return {
            title: re.findall(r"<text[^>]*>([^<]*)</text>", base64.b64decode(picture).decode())
            for picture, title in found
        }

    def test_replicas(self) -> None:
        """Those that are equal are one; what only one of them says has its name."""
        store = filled(self.root / "store", 1, 300)
        for number, name in enumerate(("a", "b", "c")):
            store.export(self.root / f"export-{name}", name, number)
        equal = self.texts("export-[ab]")
        labels = [f"{percentile} all replicas" for percentile in PERCENTILES]
        self.assertEqual([text for text in equal["Delay"] if text[0] == "p"], labels)
        self.assertEqual(len(equal["Bytes"]), len(set(equal["Bytes"])))
        self.assertIn("KiB", equal["Bytes"])
        store.append([made(random.Random(2), "A", 0)._replace(sys_flag=0)])
        store.confirm(store.end)
        store.export(self.root / "export-c", "c", 2)
        apart = self.texts("export-*")
        self.assertLess({"a, b", "c"}, set(apart["Messages"]))
        self.assertEqual([text for text in apart["Bytes"] if text.startswith("A")], ["A (a)", "A (b)", "A (c)"])


if __name__ == "__main__":
    unittest.main()
