"""Axes: a few ticks at round values, hairlines, labels written horizontally and none over another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from miscal.page.figures.marks import group, segment, text
from miscal.page.figures.scales import Scale
from miscal.page.markup import Safe, ellipsis
from miscal.page.words import MINUS

At = tuple[float, float, str]  # x, baseline, text-anchor
Box = tuple[float, float, float, float]
TALL = 12.0  # pixels of a line
NARROW = frozenset("iIjltfr.,:;'|!()[] -")
Writer = Callable[[Sequence[float]], list[str]]


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


def bottom(scale: Scale, y: float, label: str = "", write: Writer = rates, spacing: float = 64.0) -> Safe:
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


def left(scale: Scale, x: float, across: float, write: Writer = rates, spacing: float = 48.0) -> Safe:
    """A vertical axis: hairlines from x to `across`, tick labels left of x."""
    ticks = scale.ticks(spacing)
    marks: list[Safe] = []
    for tick, words in zip(ticks, write(ticks), strict=True):
        y = scale.at(tick)
        marks += [segment(x, y, across, y, "grid"), text(x - 6, y + 4, words, "tick", "end")]
    return group(marks)


def upright(scale: Scale, top: float, bottom: float, spacing: float) -> list[Safe]:
    """Hairlines from top to bottom at the ticks of a horizontal axis."""
    return [segment(scale.at(tick), top, scale.at(tick), bottom, "grid") for tick in scale.ticks(spacing)]


def width(text: str, size: float = 11.5) -> float:
    """How wide a text is at most, in pixels: capitals and digits are wider than letters, some letters are narrow.

    >>> width("WWW") > width("aaa") > width("iii")
    True
    """
    ems = (0.36 if c in NARROW else 0.6 if c.isascii() and (c.islower() or c.isdigit()) else 0.8 for c in text)
    return size * sum(ems)


def fitted(text: object, room: float, size: float = 12.0) -> str:
    """A text shortened until it is no wider than the room.

    >>> fitted("AIRBUS INDUSTRIE", 70.0), fitted("origin", 70.0)
    ('AIRB…RIE', 'origin')
    """
    whole = ellipsis(text, 160)
    letters = len(whole)
    while letters > 3 and width(ellipsis(whole, letters), size) > room:
        letters -= 1
    return ellipsis(whole, letters)


def box(text: str, at: At) -> Box:
    """The rectangle that a label covers, roughly: left, top, right, bottom.

    >>> box("ABC", (10.0, 20.0, "end"))[2]
    10.0
    """
    x, y, anchor = at
    wide = width(text)
    left = x - (wide if anchor == "end" else wide / 2 if anchor == "middle" else 0.0)
    return left, y - TALL + 2, left + wide, y + 3


def touches(one: Box, two: Box) -> bool:
    """Whether two rectangles share a point inside both."""
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def placed(wanted: Iterable[tuple[str, Sequence[At]]], limits: Box, taken: Sequence[Box] = ()) -> list[At | None]:
    """Give each label, most important first, the first of its places that is free; None where there is no such place.

    limits : the rectangle that labels stay in;  taken : rectangles that they keep off

    >>> placed([("one", [(0.0, 20.0, "start")]), ("two", [(5.0, 22.0, "start"), (5.0, 40.0, "start")])], (0, 0, 99, 99))
    [(0.0, 20.0, 'start'), (5.0, 40.0, 'start')]
    """
    used = list(taken)
    kept: list[At | None] = []
    for words, places in wanted:
        free = next((at for at in places if _free(box(words, at), limits, used)), None)
        kept.append(free)
        if free is not None:
            used.append(box(words, free))
    return kept


def _free(own: Box, limits: Box, used: Sequence[Box]) -> bool:
    inside = own[0] >= limits[0] and own[1] >= limits[1] and own[2] <= limits[2] and own[3] <= limits[3]
    return inside and not any(touches(own, other) for other in used)
