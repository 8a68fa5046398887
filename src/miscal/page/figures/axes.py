"""Axes: a few ticks at round values, hairlines, labels written horizontally."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from miscal.page.figures.marks import group, segment, text
from miscal.page.figures.scales import Scale
from miscal.page.markup import Safe
from miscal.page.words import MINUS


def rates(ticks: Sequence[float]) -> list[str]:
    """Percentages with the same number of decimals, as many as the closest two need.

    Examples
    --------
    >>> rates([0.0, 0.005, 0.01]), rates([-0.2, 0.0])
    (['0%', '0.5%', '1%'], ['−20%', '0%'])
    """
    return [f"{plain(100 * tick)}%" for tick in ticks]


def signed(ticks: Sequence[float]) -> list[str]:
    """Gaps with their sign, so that an axis of them is not taken for one of rates.

    Examples
    --------
    >>> signed([-0.1, 0.0, 0.1])
    ['−10%', '0%', '+10%']
    """
    return [("+" if tick > 0 else "") + word for tick, word in zip(ticks, rates(ticks), strict=True)]


def numbers(ticks: Sequence[float]) -> list[str]:
    """Plain numbers, thousands as k and millions as M.

    Examples
    --------
    >>> numbers([10, 2000, 1500000])
    ['10', '2k', '1.5M']
    """
    return [_short(tick) for tick in ticks]


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{plain(value / size)}{letter}"
    return plain(value)


def plain(value: float) -> str:
    """A number without separators or trailing zeros, with a true minus sign."""
    shown = f"{abs(value):.6g}" if abs(value) >= 1e-4 or value == 0 else f"{abs(value):.0e}"
    return MINUS + shown if value < 0 and shown != "0" else shown


def bottom(
    scale: Scale,
    y: float,
    label: str = "",
    write: Callable[[Sequence[float]], list[str]] = rates,
    spacing: float = 64.0,
) -> Safe:
    """A horizontal axis: ticks under the line at height y, the label centred beneath."""
    ticks = scale.ticks(spacing)
    marks = [segment(scale.start, y, scale.end, y, "axis")]
    for tick, words in zip(ticks, write(ticks), strict=True):
        x = scale.at(tick)
        marks += [segment(x, y, x, y + 4, "axis"), text(x, y + 17, words, "tick", _anchor(x, scale))]
    if label:
        marks.append(text((scale.start + scale.end) / 2, y + 36, label, "label", "middle"))
    return group(marks)


def _anchor(x: float, scale: Scale) -> str:
    """The last label is pulled inside, so that it cannot be cut off at the figure's edge."""
    return "end" if x > scale.end - 4 and scale.end > scale.start else "middle"


def left(
    scale: Scale,
    x: float,
    across: float,
    write: Callable[[Sequence[float]], list[str]] = rates,
    spacing: float = 48.0,
) -> Safe:
    """A vertical axis: hairlines from x to `across`, tick labels left of x."""
    ticks = scale.ticks(spacing)
    marks: list[Safe] = []
    for tick, words in zip(ticks, write(ticks), strict=True):
        y = scale.at(tick)
        marks += [segment(x, y, across, y, "grid"), text(x - 6, y + 4, words, "tick", "end")]
    return group(marks)
