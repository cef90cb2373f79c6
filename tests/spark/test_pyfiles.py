"""A cluster where rocketha is not installed: ``spark-submit --py-files`` of what ``rocketha pyfiles`` wrote.

The real spark-submit, with an executor in a JVM of its own (``local-cluster``), and a Python that has numpy and pyarrow
only: Spark copies the zip to the executor's folder, as it does between machines.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import tempfile
import unittest
import venv
from collections.abc import Mapping
from pathlib import Path

import numpy
import pyarrow
import pyspark

from tests.admin.test_cli import run
from tests.export.stores import Store, made
from tests.interop.harness.processes import Process, wait_until
from tests.tidy.source import ROOT

SUBMIT_S = 300
LEAVES_OUT = {"orjson", "jinja2", "matplotlib"}
"""What only some jobs need, on the driver."""

JOB = """
import json, runpy, sys
from pyspark.sql import SparkSession, functions as sql

spark = SparkSession.builder.getOrCreate()

from rocketha_spark.audits import audit
from rocketha_spark.source import RockethaSource

spark.dataSource.register(RockethaSource)
path, main = sys.argv[1:]

def where(rows):
    import rocketha, sys
    yield from (rocketha.__file__, sys.executable)

table = spark.read.format("rocketha").load(path)
count, length, topics = table.agg(
    sql.count("*"), sql.sum("body_length"), sql.sort_array(sql.collect_set("topic"))
).first()
lost = [(row.topic, row.queue_id, row.first, row.last) for row in audit(spark, "loss", path).collect()]
places = spark.sparkContext.range(1, numSlices=1).mapPartitions(where).collect()
native = sorted({"orjson", "matplotlib", "jinja2", "twisted"} & set(sys.modules))
print("FOUND", json.dumps([count, length, topics, lost, native, *places]), flush=True)

sys.argv = [main, "loss", path]
runpy.run_path(main, run_name="__main__")
"""


def linked(folder: Path, *modules: object) -> None:
    """Symlinks to the packages, and to libraries that wheels bring beside them."""
    for module in modules:
        place = Path(str(module.__file__)).parent  # type: ignore[attr-defined]
        for each in (place, place.with_name(f"{place.name}.libs")):
            if each.exists():
                (folder / each.name).symlink_to(each)


class Cluster:
    """A Python with what a cluster's has, a Spark, and the zip.

    :ivar python: of a virtual environment with numpy and pyarrow.
    :ivar spark: the Spark that is installed here, so that it writes into a folder of ours.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        venv.create(root / "image", symlinks=True, with_pip=False)
        self.python = root / "image" / "bin" / "python"
        (packages,) = (root / "image").glob("lib/python*/site-packages")
        linked(packages, numpy, pyarrow)
        self.spark = root / "spark"
        self.spark.mkdir()
        for each in Path(str(pyspark.__file__)).parent.iterdir():
            if each.name != "work":
                (self.spark / each.name).symlink_to(each)
        self.archive = root / "rocketha.zip"
        code, _, err = run("pyfiles", self.archive)
        assert code == 0, err

    def environment(self) -> dict[str, str]:
        """Of this process, but for what would lead to the Python of this process."""
        kept = {name: value for name, value in os.environ.items() if not re.match("(PY|SPARK|VIRTUAL_ENV)", name)}
        return {
            **kept,
            "SPARK_HOME": str(self.spark),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.root / "local"),
            "PYSPARK_PYTHON": str(self.python),
        }

    def call(self, program: str, *path: Path) -> subprocess.CompletedProcess[str]:
        """A program in that Python."""
        environment = {**self.environment(), "PYTHONPATH": os.pathsep.join(map(str, path))}
        command = [str(self.python), "-c", program]
        return subprocess.run(command, env=environment, cwd=self.root, capture_output=True, text=True, timeout=60)

    def processes(self) -> list[int]:
        """Those that are left of it; they all have its folder in their command line.  Looks in /proc."""
        found = []
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if os.fsencode(self.root) in each.read_bytes():
                    found.append(int(each.parent.name))
            except OSError:
                continue  # it ended
        return found

    def end(self) -> None:
        """Nothing of it is left."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Submitted(Process):
    """spark-submit, which is the driver too."""

    def __init__(self, cluster: Cluster, *job: object) -> None:
        super().__init__("spark-submit", cluster.root / "submit")
        self.cluster = cluster
        self.job = job

    def command(self) -> list[str]:
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1",
            "spark.log.level": "ERROR",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # it does not live long
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
        flags = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        submit = [self.cluster.spark / "bin" / "spark-submit", "--master", "local-cluster[1,1,1024]", *flags]
        return [str(each) for each in (*submit, "--py-files", self.cluster.archive, *self.job)]

    def environment(self) -> Mapping[str, str]:
        return self.cluster.environment()


class PyfilesTests(unittest.TestCase):
    """One cluster, and an export with a hole of which the test knows."""

    root: Path
    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-pyfiles-", ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name).resolve()
        cls.cluster = Cluster(cls.root)
        cls.addClassCleanup(cls.cluster.end)

    def test_it_suffices(self) -> None:
        """Each of its modules can be imported from it, but for three packages that some jobs want besides, in a Python
        that has none of it otherwise."""
        for name in ("rocketha", "rocketha_spark", "attr", "construct", "pyspark", "orjson"):
            done = self.cluster.call(f"import {name}")
            self.assertIn(f"No module named '{name}'", done.stderr)
        program = (
            "import importlib, json, sys, zipfile\n"
            "lacking = {}\n"
            "for file in zipfile.ZipFile(sys.path[1]).namelist():\n"
            "    name = file.removesuffix('.py').removesuffix('/__init__').replace('/', '.')\n"
            "    if file.endswith('.py'):\n"
            "        try: importlib.import_module(name)\n"
            "        except ImportError as error: lacking[name] = error.name\n"
            "print(json.dumps(lacking))\n"
        )
        done = self.cluster.call(
            program, self.cluster.archive, *sorted((self.cluster.spark / "python/lib").glob("*.zip"))
        )
        lacking = json.loads(done.stdout or done.stderr)
        self.assertLessEqual(set(lacking.values()), LEAVES_OUT, lacking)
        self.assertEqual(lacking["rocketha_spark.report"], "jinja2")
        self.assertEqual({"rocketha_spark.source", "rocketha_spark.audits", "pyspark_rocketha"} & set(lacking), set())

    def export(self) -> tuple[Path, Store, tuple[str, int, int, int]]:
        """It, of what, and the offsets that no message has."""
        chance = random.Random(5)
        store = Store(self.root / "store")
        store.append([made(chance) for _ in range(200)])
        after = store.queues["A", 1]
        store.queues["A", 1] += 3
        store.append([made(chance, "A", 1) for _ in range(2)])
        store.confirm(store.end)
        store.export(self.root / "export")
        return self.root / "export", store, ("A", 1, after, after + 2)

    def test_spark_submit(self) -> None:
        """Count, sum, topics and an audit are right, with modules from the executor's own copy of the zip; then the two
        lines of docs/spark.rst are the job, which ends with the audit's status."""
        path, store, hole = self.export()
        page = (ROOT / "docs" / "spark.rst").read_text(encoding="utf-8")
        lines = re.search(r"^    (from rocketha_spark.__main__ import main)\n    (.*main\(\).*)$", page, re.MULTILINE)
        assert lines is not None, "docs/spark.rst has no job for a cluster"
        main = self.root / "audit.py"
        main.write_text("\n".join(lines.groups()))
        job = self.root / "job.py"
        job.write_text(JOB)
        submitted = Submitted(self.cluster, job, path, main)
        self.addCleanup(submitted.kill)
        submitted.spawn()
        assert submitted.child is not None
        status = submitted.child.wait(SUBMIT_S)
        log = submitted.log()
        answer = re.search("^FOUND (.*)$", log, re.MULTILINE)
        assert answer is not None, log
        count, length, topics, lost, native, place, python = json.loads(answer[1])
        records = store.records.values()
        self.assertEqual(count, len(records))
        self.assertEqual(length, sum(len(each.body) for each in records))
        self.assertEqual(topics, sorted({each.topic for each in records}))
        self.assertEqual([tuple(each) for each in lost], [hole])
        self.assertEqual((native, python), ([], str(self.cluster.python)))
        self.assertTrue(place.endswith("rocketha.zip/rocketha/__init__.py"), place)
        self.assertNotIn(str(self.cluster.archive), place)
        self.assertIn(f'"topic":"A","queue_id":1,"first":{hole[2]},"last":{hole[3]},"missing":3', log)
        self.assertIn("\nloss: 1 findings\n", log)
        self.assertEqual(status, 1, log)
        wait_until("an end of all processes", lambda: not self.cluster.processes(), 30)


if __name__ == "__main__":
    unittest.main()
