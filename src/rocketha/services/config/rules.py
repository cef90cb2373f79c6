"""Rules between keys of a broker that are not about replication; for those see ``roles``.

What somebody set counts, and what nobody set follows it.  So a file that sets one key of a pair always starts, as it
does with Java, and a warning says what became of the other.  Of two that are set and contradict each other Java's
effect holds, with a warning; refused is only what no broker could run with.  None of these keys is live: an update
could break a rule.
"""

from __future__ import annotations

from collections.abc import Collection

from rocketha.errors import ConfigError
from rocketha.services.config.keys import BrokerConfig, StoreSettings
from rocketha.services.config.settings import INT_MAX
from rocketha.wire.limits import SEND_HEADER_BYTES_MAX
from rocketha.wire.record import RECORD_BYTES_MAX

RECORD_ROOM = 40 << 10
"""Bytes that the longest topic and properties, the other fields of a record and the end of a file need at most."""
RECORD_OVERHEAD = 64 << 10
"""Bytes of a record beside its body, as the store bounds them."""
_RATIO_MIN, _RATIO_MAX = 10, 95
_PERIOD_MIN_MS, _PERIOD_MAX_MS = 10_000, 60_000


def fit_broker(config: BrokerConfig, given: Collection[str], name: str, warnings: list[str]) -> None:
    """Let keys follow those that were set, and say so.

    :param given: names of the keys that somebody set.
    :param name: of the file, for messages.
    :raises ConfigError: no broker could run with these.
    """
    _fit_ports(config, given, name, warnings)
    _fit_sizes(config, name, warnings)
    _fit_ratios(config.store, warnings)
    period = config.register_name_server_period
    config.register_name_server_period = min(max(period, _PERIOD_MIN_MS), _PERIOD_MAX_MS)
    if config.register_name_server_period != period:
        warnings.append(f"registerNameServerPeriod={period} counts as {config.register_name_server_period}, as in Java")


def _fit_ports(config: BrokerConfig, given: Collection[str], name: str, warnings: list[str]) -> None:
    if not config.fast_port_enable or config.listen_port >= 3:
        return
    if "fastPortEnable" in given:
        raise ConfigError(
            f"{name}: listenPort={config.listen_port} leaves no fast port two below, allowed is 3 to 65535"
        )
    config.fast_port_enable = False
    warnings.append(f"there is no fast port: listenPort={config.listen_port} leaves none two below")


def _fit_sizes(config: BrokerConfig, name: str, warnings: list[str]) -> None:
    """A message fits into a file of the log and into a frame; an index file's size is an int."""
    store = config.store
    file, frame = store.mapped_file_size_commit_log, config.remoting.frame_max_length
    for place, size, room in (
        (f"a file of mappedFileSizeCommitLog={file}", file, RECORD_ROOM),
        (f"a frame of frameMaxLength={frame}", frame, SEND_HEADER_BYTES_MAX),
        (f"a record of {RECORD_BYTES_MAX}", RECORD_BYTES_MAX, RECORD_OVERHEAD),
    ):
        longest = max(size - room, 1)
        if store.max_message_size > longest:
            warnings.append(
                f"maxMessageSize={store.max_message_size} counts as {longest}: more does not fit into {place} bytes"
            )
            store.max_message_size = longest
    index_bytes = 40 + 4 * store.max_hash_slot_num + 20 * store.max_index_num
    if index_bytes > INT_MAX:
        raise ConfigError(
            f"{name}: maxHashSlotNum={store.max_hash_slot_num} and maxIndexNum={store.max_index_num} "
            f"make an index file of {index_bytes} bytes, allowed is up to {INT_MAX}"
        )


def _fit_ratios(store: StoreSettings, warnings: list[str]) -> None:
    """What is done where the three do not rise is in :mod:`rocketha.store.expiry`; here it is said."""
    expire = store.disk_max_used_space_ratio
    store.disk_max_used_space_ratio = min(max(expire, _RATIO_MIN), _RATIO_MAX)
    if store.disk_max_used_space_ratio != expire:
        warnings.append(f"diskMaxUsedSpaceRatio={expire} counts as {store.disk_max_used_space_ratio}, as in Java")
        expire = store.disk_max_used_space_ratio
    force, full = store.disk_space_clean_forcibly_ratio, store.disk_space_warning_level_ratio
    effect = "the oldest files go, expired or not" if store.clean_file_forcibly_enable else "expired files go"
    if expire > min(force, full):
        lower = min(force, full)
        warnings.append(
            f"diskMaxUsedSpaceRatio={expire} has no effect: from {lower} % on {effect} "
            f"(diskSpaceCleanForciblyRatio={force}, diskSpaceWarningLevelRatio={full})"
        )
    elif force > full:
        warnings.append(
            f"diskSpaceCleanForciblyRatio={force} has no effect: from diskSpaceWarningLevelRatio={full} on {effect}"
        )
