"""Medians, ratios and a table of them; the figures that issue 3 asks for stand beside what was measured."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from statistics import median
from typing import Any

from .rows import KEYED, Result

# ours/Java, from issue 3: throughput at least, CPU a message at most
THROUGHPUT_MIN = {"sync16": 1.3}
CPU_MAX = {"sync16": 0.4, "async256": 0.4, "batch32": 0.4}
CPU_MAX |= {f"sync16{KEYED}": 0.55, f"async256{KEYED}": 0.55, f"batch32{KEYED}": 0.8, f"batch100{KEYED}": 0.8}
KEYED_CPU_MAX = 1.3
"""Ours with keys and properties, to ours without."""
BEFORE_MIN = 0.97
"""Throughput of ours to that of ours before a change, at least."""
OTHERS = "java", "before"
"""What ours is compared with: the first of these that was measured."""
READY_S_MAX, IDLE_RSS_MIB_MAX, IDLE_CPU_PERCENT_MAX = 1.5, 120, 1.0


def _median(results: list[Result], what: Callable[[Result], float | None]) -> float | None:
    values = [v for v in map(what, results) if v is not None]
    return median(values) if values else None


def _ratio(mine: list[Result], others: list[Result], what: Callable[[Result], float | None]) -> float | None:
    """The median of the rounds' ratios: what changes from round to round, on disk or host, does so for both."""
    rounds = [(what(one), what(other)) for one, other in zip(mine, others, strict=True)]
    ratios = [one / other for one, other in rounds if one is not None and other]
    return median(ratios) if ratios else None


def _rate(result: Result) -> float:
    return result.messages_per_s


def _cpu(result: Result) -> float | None:
    return result.broker_cpu_s_per_million


def summary(results: list[Result]) -> list[dict[str, Any]]:
    """One entry a row and size: both sides' medians, and the ratios.

    :param results: of each side, row and size one of each round, in order.
    """
    found = []
    runs: dict[tuple[str, int, str], list[Result]] = {}
    for result in results:
        runs.setdefault((result.row, result.body_bytes, result.side), []).append(result)
    for row, size in dict.fromkeys((r.row, r.body_bytes) for r in results):
        sides: dict[str, dict[str, Any]] = {}
        for side in (*OTHERS, "ours"):
            mine = runs.get((row, size, side))
            if mine:
                names = (
                    "messages_per_s",
                    "p50_ms",
                    "p99_ms",
                    "p999_ms",
                    "broker_cpu_s_per_million",
                    "rss_bytes",
                    "others_cpu_share",
                    "client_cpu_share",
                )
                sides[side] = {name: _median(mine, attrgetter(name)) for name in names}
                sides[side]["runs"] = len(mine)
                sides[side]["errors"] = sum(r.errors for r in mine)
                sides[side]["spread"] = [min(r.messages_per_s for r in mine), max(r.messages_per_s for r in mine)]
        entry: dict[str, Any] = {"row": row, "body_bytes": size, **sides}
        ours = runs.get((row, size, "ours"))
        other = next((runs[row, size, side] for side in OTHERS if side in sides), None)
        if other is not None and ours is not None:
            entry["throughput_ratio"] = _ratio(ours, other, _rate)
            entry["cpu_ratio"] = _ratio(ours, other, _cpu)
        without = runs.get((row.replace(KEYED, ""), size, "ours"))
        if KEYED in row and ours is not None and without is not None:  # what keys and properties cost our broker
            entry["keyed_ratio"] = _ratio(ours, without, _cpu)
        found.append(entry)
    return found


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def table(entries: list[dict[str, Any]]) -> str:
    """For people. A ratio that misses its target is marked with !"""
    lines = [
        f"{'row':19} {'body':>5}  {'side':6} {'messages/s':>10} {'(least - most)':>17}  "
        f"{'p50':>7} {'p99':>7} {'p99.9':>7} ms"
        f"  {'CPU s/million':>13} {'RSS MiB':>8} {'client':>7} {'others':>7} {'errors':>6}"
    ]
    for entry in entries:
        for side in (*OTHERS, "ours"):
            if side not in entry:
                continue
            m = entry[side]
            lines.append(
                f"{entry['row']:19} {entry['body_bytes']:>5}  {side:6} {m['messages_per_s']:>10,.0f} "
                f"{m['spread'][0]:>8,.0f} -{m['spread'][1]:>7,.0f}  "
                f"{_ms(m['p50_ms']):>7} {_ms(m['p99_ms']):>7} {_ms(m['p999_ms']):>7}   "
                f" {m['broker_cpu_s_per_million']:>13.1f} {m['rss_bytes'] / 2**20:>8.0f} "
                f"{m['client_cpu_share']:>7.0%} {m['others_cpu_share']:>7.0%} {m['errors']:>6.0f}"
            )
        if "throughput_ratio" in entry:
            other, least, most = "Java", THROUGHPUT_MIN.get(entry["row"], 1.0), CPU_MAX.get(entry["row"])
            if "java" not in entry:
                other, least, most = "before", BEFORE_MIN, None
            throughput, cpu = entry["throughput_ratio"] or 0.0, entry["cpu_ratio"]
            mark = " " if throughput >= least else "!"
            line = f"{'':19} {'':5}  ours/{other}: messages/s {throughput:.2f}{mark} (at least {least:.2g})"
            if cpu is not None:
                line += f", CPU a message {cpu:.2f}" + (
                    "" if most is None else f"{' ' if cpu <= most else '!'} (at most {most:.2g})"
                )
            lines.append(line)
        if entry.get("keyed_ratio") is not None:
            ratio = entry["keyed_ratio"]
            mark = " " if ratio <= KEYED_CPU_MAX else "!"
            lines.append(
                f"{'':26} ours: CPU a message {ratio:.2f}{mark} times that without keys (at most {KEYED_CPU_MAX})"
            )
    return "\n".join(lines)


def idle_table(figures: dict[str, dict[str, Any]]) -> str:
    """Start and idle figures of both sides."""
    lines = [f"{'':6}  start to ready s (runs)        idle RSS MiB   idle CPU %"]
    for side, f in figures.items():
        runs = " ".join(f"{s:.2f}" for s in f["ready_s"])
        marks = ["", "", ""]
        if side == "ours":
            limits = (READY_S_MAX, IDLE_RSS_MIB_MAX, IDLE_CPU_PERCENT_MAX)
            values = (median(f["ready_s"]), f["idle_rss_bytes"] / 2**20, f["idle_cpu_percent"])
            marks = [f"{'!' if v > limit else ''} (at most {limit:g})" for v, limit in zip(values, limits, strict=True)]
        lines.append(
            f"{side:6}  {median(f['ready_s']):.2f}{marks[0]} ({runs})   "
            f"{f['idle_rss_bytes'] / 2**20:.0f}{marks[1]}   {f['idle_cpu_percent']:.2f}{marks[2]}"
        )
    return "\n".join(lines)
