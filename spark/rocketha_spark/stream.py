"""Where a stream stands: for each replica a log offset, and how many cuts of its export were known there.

Theory of operation: a record belongs to the micro-batch in whose range of log offsets it begins; ends are exclusive,
so no record is read twice, whatever is restarted.  An export whose broker was a replica that cut its log says so in its
manifest: where a cut takes back what was delivered, messages were lost to the reader, and the query ends, unless
``failOnDataLoss`` is false; then what stands there now is delivered too.  With ``onlyConfirmed`` nothing that
was delivered is ever cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rocketha.errors import ConfigError
from rocketha.export.layouts import LAYOUTS
from rocketha_spark.exports import Export, opened
from rocketha_spark.options import Options
from rocketha_spark.plan import bounds_of, chosen, limit

POSITION, CUTS = "position", "cuts"


class Positions:
    """The offsets of a query.

    :param options: of its table.
    """

    def __init__(self, options: Options, names: tuple[str, ...]) -> None:
        if "chain_digest" in names:
            raise ConfigError("chain_digest is made of whole blocks of the log, which a stream has not: read a batch")
        if options.cuts:
            raise ConfigError("cuts are for batches: a stream ends where one takes back what it delivered")
        if options.span.ends:
            raise ConfigError("endingOffsets and endingTimestamp are for batches: a stream goes on")
        self._options = options
        self._target: dict[str, int] | None = None
        self._new: dict[str, Any] | None = None

    def first(self) -> dict[str, Any]:
        """Of a new query."""
        self._new = {each.manifest.replica: _offset(self._first(each), each) for each in chosen(self._options)}
        return self._new

    def _opened(self) -> tuple[Export, ...]:
        return opened(self._options.path, self._options.replica)

    def _first(self, export: Export) -> int:
        """Where a new query begins to read."""
        bounds = bounds_of(export, self._options)
        if self._options.span.latest:
            return limit(export, self._options)
        return max(export.manifest.begin, bounds.phys_low - LAYOUTS[export.manifest.layout].files.head_bytes)

    def end_now(self) -> None:
        """What is there now is all that this query reads."""
        self._target = {each.manifest.replica: limit(each, self._options) for each in self._opened()}

    def latest(self, start: Mapping[str, Any], max_bytes: int | None = None) -> dict[str, Any]:
        """Where the next micro-batch ends.

        :param start: where it begins; what is not known of that is left to :meth:`ranges`.
        :param max_bytes: of log that it has; None without limit.
        :raises ConfigError: what was delivered was cut, or a replica is gone, with ``failOnDataLoss``.
        """
        exports = self._opened()
        end = dict(start)
        missing = sorted(set(start) - {each.manifest.replica for each in exports})
        if missing and self._options.fail_on_data_loss:
            raise ConfigError(f"no export any more of replica {', '.join(missing)} (failOnDataLoss)")
        left = max_bytes
        for behind, export in enumerate(exports):
            begin, last = self._begin(start, export), self._last(export)
            share = None if left is None else -(-left // (len(exports) - behind))
            position = max(begin, last if share is None else min(last, begin + share))
            if left is not None:
                left -= position - begin
            if position > begin or export.manifest.replica not in start or begin != _position(start, export):
                end[export.manifest.replica] = _offset(position, export)
        return end

    def _last(self, export: Export) -> int:
        last = limit(export, self._options)
        if self._target is None:
            return last
        return min(last, self._target.get(export.manifest.replica, export.manifest.begin))

    def _begin(self, start: Mapping[str, Any], export: Export) -> int:
        """Where reading goes on; a replica that is new begins at its begin."""
        manifest = export.manifest
        if manifest.replica not in start:
            return manifest.begin
        position, cuts = _position(start, export), int(start[manifest.replica][CUTS])
        cut = min((each.begin for each in manifest.cuts[cuts:]), default=position)
        if cut < position and self._options.fail_on_data_loss:
            raise ConfigError(
                f"{export.directory}: the log was cut at {cut}, but delivered up to {position} (failOnDataLoss)"
            )
        return min(position, cut)

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Iterator[tuple[Export, int, int]]:
        """What lies between two offsets: the export, from where, to where.

        :raises ConfigError: it is not there any more.
        """
        exports = {each.manifest.replica: each for each in self._opened()}
        for replica in sorted(set(start) - set(end)):  # not where latest knew the start
            raise ConfigError(f"no export any more of replica {replica}")
        for replica in end:
            export = exports.get(replica)
            if export is None:
                if start.get(replica) != end[replica]:
                    raise ConfigError(f"no export any more of replica {replica}")
                continue
            begin, last = self._begin(start, export), _position(end, export)
            if last < begin and start != self._new:  # the same; what is between would be read again
                raise ConfigError(
                    f"{export.directory} has {last} to read up to, and {begin} was reached: it, or onlyConfirmed, is"
                    " not what it was for this query; begin another one, with a new checkpoint"
                )
            cuts = export.manifest.cuts[int(end[replica][CUTS]) :]
            if self._options.fail_on_data_loss and any(each.begin < last for each in cuts):
                raise ConfigError(f"{export.directory}: messages before {last} were cut before they were delivered")
            if begin < last:
                if last > export.manifest.end and self._options.fail_on_data_loss:
                    raise ConfigError(f"{export.directory} ends at {export.manifest.end}, not {last}")
                yield export, begin, last


def _position(offset: Mapping[str, Any], export: Export) -> int:
    return int(offset[export.manifest.replica][POSITION])


def _offset(position: int, export: Export) -> dict[str, int]:
    return {POSITION: position, CUTS: len(export.manifest.cuts)}
