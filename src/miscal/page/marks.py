"""What every figure is drawn with: scales, marks styled by class alone, and a chart that places marks by their data.

Colours live in the page's style sheet, so that light, dark and print need no second drawing; no mark carries a style
attribute, which the page's content-security policy would refuse.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from miscal.page import words
from miscal.page.entries import Cells
from miscal.page.json import Floats
from miscal.page.markup import Safe, ellipsis, tag

NARROW = frozenset("iIjltfr.,:;'|!()[] -")
Writer = Callable[[float], str]
Kind = Literal["linear", "log", "logit"]
Places = tuple[np.ndarray, np.ndarray]  # across and up, in the data's own numbers


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
        return float(self(value))

    def _warp(self, data: Floats) -> Floats:
        if self.kind == "linear":
            return data
        return np.log(data) - (np.log1p(-data) if self.kind == "logit" else 0.0)

    def ticks(self, spacing: float = 64.0) -> list[float]:
        """Round values inside the domain, at least `spacing` pixels from one another.

        Examples
        --------
        >>> Scale(0.0, 1.0, 0.0, 300.0).ticks()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        if self.kind == "linear":
            return _linear_ticks(self.low, self.high, max(2, int(abs(self.end - self.start) / spacing)))
        every = [m * 10.0**e for m in (1, 2, 5) for e in range(-9, 13)]  # powers of ten first, then what fits between
        if self.kind == "logit":
            every = [0.5, *(tick for near in every if near < 0.5 for tick in (near, 1 - near))]
        kept: list[float] = []
        for tick in every:
            apart = all(abs(self.at(tick) - self.at(other)) >= spacing for other in kept)
            if apart and self.low <= tick <= self.high:
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


def nice(*arrays: ArrayLike, zero: bool | None = None) -> tuple[float, float]:
    """Round ends that hold all known numbers, so that the axis ends on a tick; 0 too unless all are far from it.

    zero : 0 in any case, or in none unless it lies between them

    Examples
    --------
    >>> nice([0.03, 0.47]), nice(0.31, 0.4), nice(0.31, 0.4, zero=True), nice(np.nan)
    ((0.0, 0.5), (0.3, 0.4), (0.0, 0.4), (0.0, 1.0))
    """
    every = np.concatenate([np.ravel(np.asarray(array, dtype=np.float64)) for array in arrays])
    every = every[np.isfinite(every)]
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    if zero or (zero is None and 0 < low < high / 2):
        low, high = min(low, 0.0), max(high, 0.0)
    if not high - low > 1e-9 * max(abs(high), 1e-3):  # rounding, of gaps that are all 0
        pad = abs(low) * 0.5 or 0.5
        low, high = low - pad, high + pad
    ticks = _linear_ticks(low, high, 5)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return round(math.floor(low / step + 1e-9) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)


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


def trail(x: ArrayLike, y: ArrayLike) -> list[str]:
    """Coordinates of the finite points, consecutive ones that fall on the same pixel left out."""
    places = np.stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)], axis=1)
    every = [f"{pixel(a)},{pixel(b)}" for a, b in places[np.isfinite(places).all(axis=1)].tolist()]
    return [one for one, before in zip(every, ["", *every], strict=False) if one != before]


def mark(element: str, class_: str, tip: str = "", **pixels: float) -> Safe:
    """One element of SVG at some pixels, with a tooltip if there is something to say; nothing where it has no place."""
    if not math.isfinite(sum(pixels.values())):
        return Safe("")
    places = {key: pixel(value) for key, value in pixels.items()}
    return tag(element, tag("title", tip) if tip else None, **places, class_=f"mark {class_}" if tip else class_)


def segment(x1: float, y1: float, x2: float, y2: float, class_: str) -> Safe:
    """A straight line between two points."""
    return mark("line", class_, x1=x1, y1=y1, x2=x2, y2=y2)


def bar(x: float, y: float, width: float, height: float, class_: str, tip: str = "") -> Safe:
    """A rectangle."""
    return mark("rect", class_, tip, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0))


def rates(tick: float) -> str:
    """A rate as a percentage, or the mean that it is.

    Examples
    --------
    >>> rates(0.005), rates(-0.2)
    ('0.5%', '−20%')
    """
    return numbers(tick) if words.means() else shares(tick)


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
    return words.MINUS + shown if value < 0 and shown != "0" else shown


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
    cuts = (ellipsis(whole, letters) for letters in range(len(whole), 3, -1))
    return next((cut for cut in cuts if width(cut, size) <= room), ellipsis(whole, 3))


def way(gap: float, beyond: bool) -> str:
    """The class that colours a mark: over-predicted, under-predicted, or within noise."""
    return "noise" if not beyond or not np.isfinite(gap) else "over" if gap > 0 else "under"


def tip(cells: Cells, i: int, what: str) -> str:
    """What a cell's tooltip says."""
    head = f"{ellipsis(what + cells.label[i], 90)}\n" if cells.label[i] else ""
    size = cells.rows[i] if np.isfinite(cells.rows[i]) else cells.weight[i]
    gap = f"\ngap {words.points(cells.gap[i])}" if np.isfinite(cells.gap[i]) else ""
    return f"{head}{both(cells.predicted[i], cells.observed[i])}\n{words.count(size)} rows{gap}"


def both(predicted: float, observed: float) -> str:
    """Both rates in words."""
    return f"{words.percent(predicted)} predicted, {words.percent(observed)} happened"


class Chart:
    """Marks over two scales, each placed by its data; a later one lies over an earlier one."""

    def __init__(self, x: Scale, y: Scale) -> None:
        self.x, self.y = x, y
        self.marks: list[Safe] = []

    def say(self, x: float, y: float, said: str, class_: str = "tick", anchor: str | None = None) -> None:
        """A piece of text at a place in pixels."""
        self.marks.append(tag("text", said, x=pixel(x), y=pixel(y), text_anchor=anchor, class_=class_))

    def span(self, start: tuple[float, float], end: tuple[float, float], class_: str) -> None:
        """A straight line between two places."""
        (x1, x2), (y1, y2) = self.x([start[0], end[0]]), self.y([start[1], end[1]])
        self.marks.append(segment(x1, y1, x2, y2, class_))

    def point(self, x: float, y: float, class_: str, tip: str, radius: float) -> None:
        """A dot, which says something when it is hovered over."""
        self.marks.append(mark("circle", f"point {class_}", tip, cx=self.x.at(x), cy=self.y.at(y), r=radius))

    def level(self, value: float, class_: str = "zero") -> None:
        """A line across the chart at some height."""
        self.span((self.x.low, value), (self.x.high, value), class_)

    def upright(self, value: float, class_: str = "zero") -> None:
        """A line from top to bottom at some place."""
        self.span((value, self.y.low), (value, self.y.high), class_)

    def left(self, label: str, write: Writer = rates, spacing: float = 48.0) -> None:
        """A vertical axis: hairlines at its ticks, and what it shows on top of it."""
        for tick in self.y.ticks(spacing):
            self.level(tick, "grid")
            self.say(self.x.start - 6, self.y.at(tick) + 4, write(tick), "tick", "end")
        self.say(self.x.start, self.y.end - 11, label, "label")

    def bottom(self, label: str = "", write: Writer = rates, spacing: float = 64.0, y: float = 0.0) -> None:
        """A horizontal axis at the foot of the chart or at height `y` in pixels; the label is centred beneath."""
        x, y = self.x, y or max(self.y.start, self.y.end)
        self.marks.append(segment(x.start, y, x.end, y, "axis"))
        for tick in x.ticks(spacing):
            at = x.at(tick)
            self.marks.append(segment(at, y, at, y + 4, "axis"))
            # The last one is pulled inside, so that it cannot be cut off at the edge.
            self.say(at, y + 17, write(tick), "tick", "end" if at > x.end - 4 else "middle")
        if label:
            self.say((x.start + x.end) / 2, y + 36, label, "label", "middle")

    def rows(self, write: Writer, spacing: float) -> None:
        """The axes of a chart with a line a row: hairlines from top to bottom, ticks beneath."""
        for tick in self.x.ticks(spacing):
            self.upright(tick, "grid")
        self.bottom("", write, spacing)

    def names(self, x: ArrayLike, named: Sequence[str], y: float) -> None:
        """Words under an axis: the last one stands, the others join from the left where they touch none."""
        places = np.minimum(self.x(x), self.x.end - 3.2 * np.array([len(word) for word in named])).tolist()
        every = list(zip(places, named, strict=True))
        kept = every[-1:]
        for at, word in every[:-1]:
            if all(abs(at - other) >= 3.4 * (len(word) + len(beside)) + 8 for other, beside in kept):
                kept.append((at, word))
        for at, word in kept:
            self.say(at, y, word, "tick", "middle")

    def line(self, x: ArrayLike, y: ArrayLike, class_: str) -> None:
        """A line through points."""
        points = " ".join(trail(self.x(x), self.y(y)))
        self.marks.append(tag("polyline", points=points, class_=f"line {class_}") if points else Safe(""))

    def band(self, x: ArrayLike, low: ArrayLike, high: ArrayLike) -> None:
        """The area between two lines."""
        known = np.isfinite(low) & np.isfinite(high)
        across, below, above = (scale(values)[known] for scale, values in ((self.x, x), (self.y, low), (self.y, high)))
        points = trail(across, above) + trail(across[::-1], below[::-1])
        self.marks.append(tag("polygon", points=" ".join(points), class_="band") if len(points) > 2 else Safe(""))

    def bars(self, low: ArrayLike, high: ArrayLike, size: Floats, y: float, tall: float) -> None:
        """Bars that stand at height `y` in pixels, the largest so tall."""
        start, end, most = self.x(low), self.x(high), float(np.nanmax(size, initial=0.0))
        height = np.nan_to_num(size) / (most or 1.0) * tall
        self.marks += [
            bar(start[i], y - height[i], end[i] - start[i] - 1.0, height[i], "share")
            for i in np.flatnonzero(height > 0).tolist()
        ]

    def dots(
        self, cells: Cells, level: float, at: Places, ends: tuple[Places, ...] = (), what: str = "", radius: float = 4.0
    ) -> None:
        """A dot a cell, coloured where it is beyond noise, over the line between the ends of its interval."""
        for i, beyond in enumerate(cells.beyond(level)):
            class_ = way(cells.gap[i], beyond)
            if ends:
                (x1, y1), (x2, y2) = ends
                self.span((x1[i], y1[i]), (x2[i], y2[i]), f"whisker {class_}")
            self.point(at[0][i], at[1][i], class_, tip(cells, i, what), radius)
