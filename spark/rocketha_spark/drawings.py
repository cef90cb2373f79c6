"""Charts of a report, each an SVG picture: lines along time, and bars of names.

Text comes from topics and groups, so it is taken as it is, never as markup, and cut where it is long.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs
import numpy as np
from matplotlib import dates, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH, HEIGHT, BAR = 9.0, 3.0, 0.28
"""Inches; ``BAR`` is the height that each bar adds."""
ALONE = timedelta(seconds=30)
"""On both sides of a line's only point."""
NAME_MAX = 48
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Of Okabe and Ito, which colour-blind people tell apart; without yellow, which white paper hides."""
DASHES = ("-", "--", ":", "-.")
_STYLE: dict[Any, Any] = {"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "rocketha", "font.size": 9}


def name(text: str) -> str:
    """What a person can read of it, in one line."""
    shown = "".join(each if each.isprintable() else "·" for each in text)
    return shown if len(shown) <= NAME_MAX else f"{shown[: NAME_MAX - 1]}…"


@attrs.frozen
class Line:
    """One, along the time of its points.

    :ivar colour: a number; those of one colour have something in common.
    :ivar dash: likewise.
    """

    label: str
    points: Sequence[tuple[datetime, float]]
    colour: int
    dash: int


def number(value: float) -> str:
    """As a person writes it: three digits that count, or the whole."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def lines(series: Sequence[Line], unit: str, logarithmic: bool = False) -> bytes:
    """All in one picture.

    :param unit: what the upright axis says.
    :param logarithmic: its scale, linear up to 1.
    """
    with rc_context(_STYLE):
        figure, axes = _axes(HEIGHT)
        for each in series:
            axes.plot(
                np.array([at.replace(tzinfo=None) for at, _ in each.points], "datetime64[s]"),
                [value for _, value in each.points],
                marker="." if len(each.points) == 1 else None,
                linewidth=1.2,
                label=name(each.label),
                color=COLOURS[each.colour % len(COLOURS)],
                linestyle=DASHES[each.dash % len(DASHES)],
            )
        values = [value for each in series for _, value in each.points]
        if logarithmic:
            axes.set_yscale("symlog", linthresh=1)
            axes.yaxis.set_major_formatter("{x:,g}")  # its own would be markup
        axes.set_ylim(bottom=min(0, *values, 0), top=1.3 * max(1, *values, 1))
        times = [at.replace(tzinfo=None) for each in series for at, _ in each.points]
        if min(times) == max(times):  # a line of one point has no scale of its own
            axes.set_xlim(dates.date2num(min(times) - ALONE), dates.date2num(max(times) + ALONE))
        axes.set_ylabel(unit)
        locator = dates.AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
        axes.grid(alpha=0.3)
        if len(series) > 1:
            axes.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
        return _svg(figure)


def bars(values: Sequence[tuple[str, float]], unit: str) -> bytes:
    """A bar for each name, the first on top.

    :param unit: what the level axis says.
    """
    with rc_context(_STYLE):
        figure, axes = _axes(0.8 + BAR * len(values))
        drawn = axes.barh(range(len(values)), [value for _, value in values], height=0.7)
        axes.bar_label(drawn, labels=[number(value) for _, value in values], padding=3)
        axes.set_yticks(range(len(values)), [name(label) for label, _ in values])
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.set_xlabel(unit)
        return _svg(figure)


def _axes(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
