"""Every registered format by name: what the fuzzer attacks, the documentation prints and the property tests cover.

Pure.  A new format is covered by adding it to its codec module's ``FORMATS`` and that module to the list below.
"""

from __future__ import annotations

from rocketha.wire import (
    batch,
    controller_calls,
    controller_log,
    dledger,
    dledger_json,
    dledger_terms,
    epoch_file,
    ha_formats,
    ha_status,
    proxy_header,
    raft_entries,
    raft_frames,
    raft_records,
    record,
    remoting,
    replica_tables,
    store_files,
)
from rocketha.wire.spec.format import Format

_MODULES = (
    remoting,
    proxy_header,
    batch,
    record,
    store_files,
    dledger,
    dledger_json,
    dledger_terms,
    raft_frames,
    controller_log,
    raft_entries,
    raft_records,
    ha_formats,
    epoch_file,
    controller_calls,
    ha_status,
    replica_tables,
)

FORMATS: dict[str, Format] = {item.name: item for module in _MODULES for item in module.FORMATS}
