"""What every figure is drawn with: scales, marks styled by class alone, and axes whose labels never touch.

Colours live in the page's style sheet, so that light, dark and print need no second drawing; no mark carries a style
attribute, which the page's content-security policy would refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from miscal.page.json import Floats
from miscal.page.markup import Safe, ellipsis, tag
from miscal.page.words import MINUS, means

At = tuple[float, float, str]  # x, baseline, text-anchor
Box = tuple[float, float, float, float]
TALL = 12.0  # pixels of a line
NARROW = frozenset("iIjltfr.,:;'|!()[] -")
Writer = Callable[[float], str]
Kind = Literal["linear", "log", "logit"]
_SMALLEST = 1e-9
_BELOW_HALF = [m * 10.0**e for e in range(-8, -1) for m in (1, 2, 5)] + [0.1, 0.2, 0.3]
_LOGIT_TICKS = [*_BELOW_HALF, 0.5, *(1 - t for t in reversed(_BELOW_HALF))]


@dataclass(frozen=True)
class Scale:
    """A monotone map from [low, high] of the data to [start, end] in pixels; what lies outside is moved to the end.

    Examples
    --------
    >>> Scale(0.0, 10.0, 100.0, 200.0)([0, 5, 20])
    array([100., 150., 200.])
    """

    low: float
    high: float
    start: float
    end: float
    kind: Kind = "linear"

    def __call__(self, values: ArrayLike) -> Floats:
        """The values' pixels."""
        data = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        low, high = self._warp(np.array([self.low, self.high]))
        share = (self._warp(data) - low) / (high - low) if high > low else np.full(data.shape, 0.5)
        return np.asarray(self.start + share * (self.end - self.start), dtype=np.float64)

    def at(self, value: float) -> float:
        """One value's pixel."""
        return float(self(np.array([value]))[0])

    def _warp(self, data: Floats) -> Floats:
        if self.kind == "linear":
            return data
        if self.kind == "log":
            return np.log(np.maximum(data, _SMALLEST))
        inside = np.clip(data, _SMALLEST, 1 - _SMALLEST)
        return np.asarray(np.log(inside) - np.log1p(-inside), dtype=np.float64)

    def ticks(self, spacing: float = 64.0) -> list[float]:
        """Round values inside the domain, at least `spacing` pixels from one another.

        Examples
        --------
        >>> Scale(0.0, 1.0, 0.0, 300.0).ticks()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        room = abs(self.end - self.start)
        if self.kind == "linear":
            return _linear_ticks(self.low, self.high, max(2, int(room / spacing)))
        every, rank = _LOGIT_TICKS, _logit_roundness
        if self.kind == "log":
            low, high = (math.log10(max(end, _SMALLEST)) for end in (self.low, self.high))
            powers = range(math.floor(low), math.ceil(high) + 1)
            every, rank = [m * 10.0**e for e in powers for m in (1, 2, 5)], _roundness
        kept: list[float] = []  # the roundest first, then whatever fits between them
        for tick in sorted((t for t in every if self.low <= t <= self.high), key=lambda t: (rank(t), t)):
            if all(abs(self.at(tick) - self.at(other)) >= spacing for other in kept):
                kept.append(tick)
        return sorted(kept)


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def _roundness(tick: float) -> int:
    """0 for a power of ten, 1 for the others."""
    return 0 if abs(math.log10(tick) - round(math.log10(tick))) < 1e-9 else 1


def _logit_roundness(tick: float) -> int:
    near = min(tick, 1 - tick)
    return 0 if near == 0.5 else _roundness(near) if near < 0.3 else 2


def nice(low: float, high: float) -> tuple[float, float]:
    """Widen a range to round ends, so that the axis ends on a tick.

    Examples
    --------
    >>> nice(0.03, 0.47)
    (0.0, 0.5)
    """
    if not high - low > 1e-9 * max(abs(high), 1e-3):  # rounding, of gaps that are all 0
        pad = abs(low) * 0.5 or 0.5
        low, high = low - pad, high + pad
    ticks = _linear_ticks(low, high, 5)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return round(math.floor(low / step + 1e-9) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)


def known(*arrays: ArrayLike) -> Floats:
    """All numbers of some arrays that are finite."""
    every = np.concatenate([np.atleast_1d(np.asarray(array, dtype=np.float64)) for array in arrays])
    return np.asarray(every[np.isfinite(every)])


def rate_ends(*arrays: ArrayLike) -> tuple[float, float]:
    """Round ends of an axis of rates: from 0 unless all are far from it.

    Examples
    --------
    >>> rate_ends([0.1, 0.4]), rate_ends([0.31, 0.4])
    ((0.0, 0.4), (0.3, 0.4))
    """
    drawn = known(*arrays)
    if not len(drawn):
        return 0.0, 1.0
    least, most = float(drawn.min()), float(drawn.max())
    return nice(0.0 if least < most / 2 else least, most)


@dataclass(frozen=True)
class Figure:
    """A drawing with its words, which a screen reader speaks, and the data behind it; of no marks, its description."""

    name: str
    title: str
    description: str
    size: tuple[float, float]
    marks: Sequence[Safe] = ()
    table: dict[str, list[object]] = field(default_factory=dict)
    note: str = ""

    @cached_property
    def svg(self) -> Safe:
        width, height = map(pixel, self.size)
        made = tag(
            "svg",
            tag("title", self.title),
            tag("desc", self.description),
            self.marks,
            viewBox=f"0 0 {width} {height}",
            role="img",
            tabindex="0",
            class_=f"figure {self.name}",
            aria_label=f"{self.title}. {self.description}",
        )
        return made if self.marks else Safe("")


def pixel(value: float) -> str:
    """A coordinate with one decimal, as short as can be.

    Examples
    --------
    >>> pixel(12.04), pixel(3.26)
    ('12', '3.3')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _trail(x: ArrayLike, y: ArrayLike) -> list[str]:
    """Coordinates of the finite points, consecutive ones that fall on the same pixel left out."""
    pairs = zip(np.asarray(x, dtype=float).tolist(), np.asarray(y, dtype=float).tolist(), strict=True)
    trail: list[str] = []
    for a, b in pairs:
        if math.isfinite(a) and math.isfinite(b):
            text = f"{pixel(a)},{pixel(b)}"
            if not trail or trail[-1] != text:
                trail.append(text)
    return trail


def line(x: ArrayLike, y: ArrayLike, class_: str) -> Safe:
    """A line through points."""
    trail = _trail(x, y)
    return tag("polyline", points=" ".join(trail), class_=f"line {class_}") if trail else Safe("")


def segment(x1: float, y1: float, x2: float, y2: float, class_: str) -> Safe:
    """A straight line between two points; nothing where one is not known."""
    if not math.isfinite(x1 + y1 + x2 + y2):
        return Safe("")
    return _mark("line", class_, x1=x1, y1=y1, x2=x2, y2=y2)


def band(x: ArrayLike, low: ArrayLike, high: ArrayLike, class_: str = "band") -> Safe:
    """The area between two lines."""
    across, below, above = (np.asarray(v, dtype=float) for v in (x, low, high))
    known = np.isfinite(below) & np.isfinite(above)
    trail = _trail(across[known], above[known]) + _trail(across[known][::-1], below[known][::-1])
    return tag("polygon", points=" ".join(trail), class_=class_) if len(trail) > 2 else Safe("")


def bar(x: float, y: float, width: float, height: float, class_: str, tip: str = "") -> Safe:
    """A rectangle, with a tooltip if there is something to say."""
    told = f"{class_} mark" if tip else class_
    return _mark("rect", told, tip, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0))


def point(x: float, y: float, class_: str, tip: str = "", radius: float = 4.0) -> Safe:
    """A dot with a tooltip; nothing where it has no place."""
    if not math.isfinite(x + y):
        return Safe("")
    return _mark("circle", f"point mark {class_}", tip, cx=x, cy=y, r=radius)


def _mark(element: str, class_: str, tip: str = "", **pixels: float) -> Safe:
    """One element of SVG at some pixels."""
    places = {key: pixel(value) for key, value in pixels.items()}
    return tag(element, tag("title", tip) if tip else None, **places, class_=class_)


def text(x: float, y: float, words: object, class_: str = "", anchor: str = "start", limit: int = 0) -> Safe:
    """A piece of text, shortened to `limit` characters if one is given."""
    shown = ellipsis(words, limit) if limit else str(words)
    return tag(
        "text", shown, x=pixel(x), y=pixel(y), text_anchor=None if anchor == "start" else anchor, class_=class_ or None
    )


def rates(tick: float) -> str:
    """A rate as a percentage, or the mean that it is.

    Examples
    --------
    >>> rates(0.005), rates(-0.2)
    ('0.5%', '−20%')
    """
    return numbers(tick) if means() else shares(tick)


def shares(tick: float) -> str:
    """A share of rows, in percent whatever is predicted."""
    return f"{plain(100 * tick)}%"


def signed(tick: float) -> str:
    """A gap with its sign, so that an axis of them is not taken for one of rates.

    Examples
    --------
    >>> signed(-0.1), signed(0.0), signed(0.1)
    ('−10%', '0%', '+10%')
    """
    return ("+" if tick > 0 else "") + rates(tick)


def numbers(tick: float) -> str:
    """A plain number, thousands as k and millions as M.

    Examples
    --------
    >>> numbers(10), numbers(2000), numbers(1500000)
    ('10', '2k', '1.5M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(tick) >= size:
            return f"{plain(tick / size)}{letter}"
    return plain(tick)


def plain(value: float) -> str:
    """A number without separators or trailing zeros, with a true minus sign."""
    shown = f"{abs(value):.6g}" if abs(value) >= 1e-4 or value == 0 else f"{abs(value):.0e}"
    return MINUS + shown if value < 0 and shown != "0" else shown


def bottom(scale: Scale, y: float, label: str = "", write: Writer = rates, spacing: float = 64.0) -> Safe:
    """A horizontal axis: ticks under the line at height y, the label centred beneath."""
    drawn = [segment(scale.start, y, scale.end, y, "axis")]
    for tick in scale.ticks(spacing):
        x = scale.at(tick)
        last = x > scale.end - 4 and scale.end > scale.start  # pulled inside, so that it cannot be cut off at the edge
        drawn += [segment(x, y, x, y + 4, "axis"), text(x, y + 17, write(tick), "tick", "end" if last else "middle")]
    if label:
        drawn.append(text((scale.start + scale.end) / 2, y + 36, label, "label", "middle"))
    return tag("g", drawn)


def left(scale: Scale, x: float, across: float, write: Writer = rates, spacing: float = 48.0) -> Safe:
    """A vertical axis: hairlines from x to `across`, tick labels left of x."""
    drawn: list[Safe] = []
    for tick in scale.ticks(spacing):
        y = scale.at(tick)
        drawn += [segment(x, y, across, y, "grid"), text(x - 6, y + 4, write(tick), "tick", "end")]
    return tag("g", drawn)


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
