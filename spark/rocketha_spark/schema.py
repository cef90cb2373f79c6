"""The columns of the table, their types in Spark and in Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from rocketha.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TIMES = pa.timestamp("us", tz="UTC")
_MAP = pa.map_(pa.string(), pa.string())

ARROW_TYPES: dict[str, pa.DataType] = {
    "cluster": pa.string(),
    "broker_name": pa.string(),
    "broker_id": pa.int64(),
    "replica": pa.string(),
    "phys_offset": pa.int64(),
    "size": pa.int32(),
    "epoch": pa.int32(),
    "term": pa.int64(),
    "ledger_index": pa.int64(),
    "topic": pa.string(),
    "kind": pa.string(),
    "real_topic": pa.string(),
    "stored_again": pa.bool_(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "msg_id": pa.string(),
    "uniq_key": pa.string(),
    "keys": pa.list_(pa.string()),
    "tags": pa.string(),
    "born_ts": _TIMES,
    "store_ts": _TIMES,
    "born_host": pa.string(),
    "store_host": pa.string(),
    "sys_flag": pa.int32(),
    "flag": pa.int32(),
    "reconsume_times": pa.int32(),
    "prepared_offset": pa.int64(),
    "delay_level": pa.int32(),
    "body": pa.binary(),
    "body_length": pa.int32(),
    "body_codec": pa.string(),
    "properties": _MAP,
    "body_crc": pa.int32(),
    "crc_ok": pa.bool_(),
    "record_digest": pa.binary(),
    "chain_digest": pa.binary(),
    "confirmed": pa.bool_(),
    "source_file": pa.string(),
    "dt": pa.date32(),
    "hour": pa.int32(),
}
"""What each batch has; docs/spark.rst says what each means."""

_SPARK_NAMES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    _TIMES: "timestamp",
    pa.list_(pa.string()): "array<string>",
    _MAP: "map<string,string>",
}


def ddl(names: Sequence[str] = ()) -> str:
    """The table's schema as Spark writes it.

    :param names: its columns; all without.
    :raises ConfigError: one that is not there.
    """
    return ddl_of(arrow_schema([known(name) for name in names or ARROW_TYPES]))


def ddl_of(schema: pa.Schema) -> str:
    """A schema of Arrow's as Spark writes it."""
    return ", ".join(f"{field.name} {_SPARK_NAMES[field.type]}" for field in schema)


def known(name: str) -> str:
    """The name again.

    :raises ConfigError: there is no such column.
    """
    if name not in ARROW_TYPES:
        raise ConfigError(f"no column {name!r}; there are {', '.join(ARROW_TYPES)}")
    return name


def wanted(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that a user gave.

    :raises ConfigError: a column or type that the table does not have.
    """
    for field in schema.fields:
        wants, has = field.dataType.simpleString(), _SPARK_NAMES[ARROW_TYPES[known(field.name)]]
        if wants != has:
            raise ConfigError(f"column {field.name} is {has}, not {wants}")
    return tuple(field.name for field in schema.fields)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """Of the batches."""
    return pa.schema([(name, ARROW_TYPES[name]) for name in names])
