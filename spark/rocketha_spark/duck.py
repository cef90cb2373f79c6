"""Tables of exports in DuckDB, within this process: audits and figures without Spark, and the same answers.

Theory of operation.  Audits and figures are written once, as Spark's DataFrames.  sqlframe has these of DuckDB, too: a
plan becomes SQL when its rows are asked for.  The columns that a plan needs are read from the log into a table of
DuckDB's first, in a file of a temporary directory: a plan may go through them more than once.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import pyarrow as pa

from rocketha.errors import ConfigError
from rocketha.export.target import local_path
from rocketha_spark import arrow
from rocketha_spark.exports import Export
from rocketha_spark.options import Options, parse
from rocketha_spark.plan import chosen
from rocketha_spark.schema import ARROW_TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_CSV = """, header = true, all_varchar = true, delim = ',', quote = '"', escape = '"', comment = '', skip = 0"""
_JSON = "format = 'newline_delimited', dateformat = '~', timestampformat = '~'"
"""No text is a date in these formats."""
_TEXTS = ("UUID", "TIME", "JSON", '"NULL"')
"""What DuckDB makes of texts, of texts among numbers, and of nothing."""


class _Read(NamedTuple):
    of: tuple[tuple[Export, ...], Options]
    columns: frozenset[str]
    name: str


class Duck:
    """A database that is gone when it is closed; one at a time, for sqlframe has one session in a process.

    :param directory: where its file may be; a directory for temporary files without.
    :raises ConfigError: DuckDB or sqlframe is not installed, or another session of sqlframe's is open.
    :raises OSError: the directory cannot be written to.
    """

    _open: ClassVar[bool] = False

    def __init__(self, directory: str | None = None) -> None:
        try:
            import duckdb
            from sqlframe.duckdb import DuckDBSession
        except ImportError as error:
            raise ConfigError(f"{error.name} is missing: pip install 'rocketha[arrow]'") from None
        if Duck._open:
            raise ConfigError("another Duck is open in this process")
        with ExitStack() as held:
            folder = tempfile.mkdtemp(prefix="rocketha-duck-", dir=directory)
            held.callback(shutil.rmtree, folder, ignore_errors=True)
            self._connection = duckdb.connect(f"{folder}/tables.duckdb")
            held.callback(self._connection.close)
            self._connection.execute("SET TimeZone = 'UTC'")
            self._session: Any = DuckDBSession(conn=self._connection)
            if self._session._conn is not self._connection:
                raise ConfigError("sqlframe has a session in this process: stop that first")
            held.callback(self._session.stop)
            self._held = held.pop_all()
        self._held.callback(setattr, Duck, "_open", False)
        Duck._open = True
        self._read: list[_Read] = []
        self._tables = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing of it stays."""
        self._held.close()

    def read(self, path: str, columns: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """The table of some exports: the rows that they have now.

        :raises ConfigError: as :func:`rocketha_spark.arrow.read`.
        :raises CorruptStore: likewise, now.
        """
        given = parse({"path": path, **options})
        exports = chosen(given)
        wanted = set(columns or ARROW_TYPES)
        name = next((each.name for each in self._read if each.of == (exports, given) and wanted <= each.columns), "")
        if not name:
            rows = arrow.rows(exports, given, columns)
            name = self._store_checked(rows)
            self._read.append(_Read((exports, given), frozenset(rows.schema.names), name))
        table = self.table(name)
        return table.select(*columns) if columns else table

    def _store_checked(self, rows: pa.RecordBatchReader) -> str:
        """As :meth:`store`; DuckDB leaves of an error but its text."""
        found: list[BaseException] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from rows
            except BaseException as error:
                found.append(error)
                raise

        try:
            return self.store(pa.RecordBatchReader.from_batches(rows.schema, batches()))
        except Exception:
            if found:
                raise found[0] from None
            raise

    def store(self, rows: pa.RecordBatchReader | pa.Table) -> str:
        """The name of a new table that has these rows."""
        self._connection.register("incoming", rows)
        try:
            return self._store("incoming")
        finally:
            self._connection.unregister("incoming")

    def _store(self, source: str, *given: object) -> str:
        self._tables += 1
        name = f"rows_{self._tables}"
        self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {source}", list(given))
        return name

    def table(self, name: str) -> DataFrame:
        """One that :meth:`store` named."""
        described = self._connection.execute(f"DESCRIBE {name}").fetchall()
        columns = ", ".join("`{}`".format(column.replace("`", "``")) for column, *_ in described)
        return cast("DataFrame", self._session.sql(f"SELECT {columns} FROM {name}", qualify=False))

    def made(self, rows: Iterable[Sequence[object]], schema: pa.Schema) -> DataFrame:
        """A table of these rows."""
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        return self.table(self.store(pa.table([list(each) for each in columns], schema=schema)))

    def file(self, path: str) -> DataFrame:
        """A table of a .csv with names, a .parquet, or JSON lines; or of a directory of such files, as Spark writes it.

        :raises ConfigError: it is on another kind of storage.
        """
        path = local_path(path)
        kind = next((each for each in ("csv", "parquet") if path.endswith(f".{each}")), "json")
        if os.path.isdir(path):
            path = f"{path}/*.{kind}"
        if kind == "json":
            return self.table(self._store(f"read_json(?, columns = ?, {_JSON})", path, self._json_types(path)))
        return self.table(self._store(f"read_{kind}(?{_CSV if kind == 'csv' else ''})", path))

    def _json_types(self, path: str) -> dict[str, str]:
        """Text stays text, whatever it looks like: a key may look like a UUID, which has no case."""
        described = f"DESCRIBE SELECT * FROM read_json(?, sample_size = -1, {_JSON})"
        rows = self._connection.execute(described, [path]).fetchall()
        return {name: "VARCHAR" if type_ in _TEXTS else type_ for name, type_, *_ in rows}
