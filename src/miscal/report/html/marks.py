"""Scales, marks and charts of all figures of the report.

A chart positions marks by their data. A mark has a class and never a style attribute, which the content-security policy
of the report would block: colours are in the style sheet, so that light, dark and print share one drawing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miscal.report import wording
from miscal.report.html.markup import Safe, ellipsis, tag
from miscal.report.result_tables import Cells
from miscal.report.values import Data, Ends, Floats

MANY = 60  # cells from which on dots are small
Writer = Callable[[float], str]
Points = tuple[np.ndarray, np.ndarray]  # x and y, or low and high, in the units of the data


@dataclass(frozen=True)
class Scale:
    """A linear map from [low, high] of the data to [start, end] in pixels; what lies outside is moved to the end.

    Attributes
    ----------
    low, high : float
        The domain.
    start, end : float
        The pixels of its ends.
    tick_values : sequence of float
        Where ticks may stand, most important first, for a scale on which round values are not evenly spaced.

    Examples
    --------
    >>> Scale(0.0, 10.0, 100.0, 200.0)([0, 5, 20])
    array([100., 150., 200.])
    """

    low: float
    high: float
    start: float
    end: float
    tick_values: Sequence[float] = ()

    def __call__(self, values: ArrayLike) -> Any:
        """The values' pixels, or one value's."""
        return np.interp(values, [self.low, self.high], [self.start, self.end])  # type: ignore[arg-type]

    def ticks(self, spacing: float = 64.0) -> list[float]:
        """Round values inside the domain, at least `spacing` pixels from one another.

        Examples
        --------
        >>> Scale(0.0, 1.0, 0.0, 300.0).ticks()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        if not self.high > self.low:
            return [self.low]
        ticks: list[float] = []
        for tick in self.tick_values:
            has_space = all(abs(self(tick) - self(other)) >= spacing for other in ticks)
            if has_space and self.low <= tick <= self.high:
                ticks.append(tick)
        if ticks:
            return ticks
        step = _step(self.low, self.high, max(2, int(abs(self.end - self.start) / spacing)))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def _step(low: float, high: float, most: int) -> float:
    """A round distance of ticks, of which so many at most lie between two ends."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)


def nice(*arrays: ArrayLike) -> Ends:
    """Round ends that hold all known numbers, so that the axis ends on a tick; 0 too unless all are far from it.

    Examples
    --------
    >>> nice([0.03, 0.47]), nice(0.31, 0.4), nice(0.31, 0.4, 0.0), nice(np.nan)
    ((0.0, 0.5), (0.3, 0.4), (0.0, 0.4), (0.0, 1.0))
    """
    values = np.concatenate([np.ravel(array) for array in arrays])
    values = values[np.isfinite(values)]
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    if 0 < low < high / 2:
        low = 0.0
    if not high - low > 1e-9 * max(abs(high), 1e-3):  # rounding, of gaps that are all 0
        pad = abs(low) * 0.5 or 0.5
        low, high = low - pad, high + pad
    step = _step(low, high, 5)
    return round(math.floor(low / step + 1e-9) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)


@dataclass(frozen=True)
class Figure:
    """A drawing with its words, which a screen reader speaks, and the data behind it; of no marks, its description."""

    name: str
    title: str
    description: str
    size: Ends
    marks: Sequence[Safe] = ()
    table: Data = field(default_factory=dict)
    note: str = ""

    @cached_property
    def svg(self) -> Safe:
        if not self.marks:
            return Safe("")
        width, height = map(pixel, self.size)
        return tag(
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


def pixel(value: float) -> str:
    """A coordinate with one decimal, as short as can be.

    Examples
    --------
    >>> pixel(12.04), pixel(3.26)
    ('12', '3.3')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def trail(x: Floats, y: Floats) -> list[str]:
    """Coordinates of the finite points, consecutive ones that fall on the same pixel left out."""
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    points = (f"{pixel(across)},{pixel(up)}" for across, up in pairs if math.isfinite(across + up))
    return [point for point, _ in groupby(points)]


def rates(tick: float) -> str:
    """A rate as a percentage, or the mean that it is.

    Examples
    --------
    >>> rates(0.005), rates(-0.2)
    ('0.5%', '−20%')
    """
    return numbers(tick) if wording.means() else shares(tick)


def shares(tick: float) -> str:
    """A share of rows, in percent whatever is predicted."""
    return f"{numbers(100 * tick)}%"


def signed(tick: float) -> str:
    """A gap with its sign, in percentage points; the axis names the unit.

    Examples
    --------
    >>> signed(-0.1), signed(0.0), signed(0.1)
    ('−10', '0', '+10')
    """
    return ("+" if tick > 0 else "") + differences(tick)


def signed_points(tick: float) -> str:
    """A gap with its sign and its unit, for an axis without a label.

    Examples
    --------
    >>> signed_points(-0.1), signed_points(0.0)
    ('−10 pp', '0 pp')
    """
    return signed(tick) + ("" if wording.means() else " pp")


def differences(tick: float) -> str:
    """A difference of rates in percentage points without the unit, which the axis names; of means as it is.

    Examples
    --------
    >>> differences(-0.1), differences(0.005)
    ('−10', '0.5')
    """
    return numbers(tick if wording.means() else 100 * tick)


def numbers(tick: float) -> str:
    """A plain number without trailing zeros, with a true minus sign.

    Examples
    --------
    >>> numbers(10.0), numbers(-2000.0), numbers(0.25)
    ('10', '−2,000', '0.25')
    """
    return f"{tick:,.9g}".replace("-", wording.MINUS)


def way(gap: float, significant: bool) -> str:
    """The class that colours a mark: over-predicted, under-predicted, or not significant."""
    return "noise" if not significant or not np.isfinite(gap) else "over" if gap > 0 else "under"


def tip(cells: Cells, i: int, what: str) -> str:
    """What a cell's tooltip says."""
    lines = [ellipsis(what + cells.label[i], 90)] if cells.label[i] else []
    lines += [both(cells.predicted[i], cells.observed[i]), wording.rows(cells.rows[i])]
    if np.isfinite(cells.gap[i]):
        lines.append(f"gap {wording.points(cells.gap[i])}")
    return "\n".join(lines)


def both(predicted: float, observed: float) -> str:
    """Both rates in words."""
    return f"{wording.percent(predicted)} predicted, {wording.percent(observed)} observed"


class Chart:
    """Marks over two scales, positioned by their data; later ones are drawn over earlier ones."""

    def __init__(self, x: Scale, y: Scale) -> None:
        self.x, self.y = x, y
        self.marks: list[Safe] = []

    def mark(self, element: str, class_: str, tip: str = "", **pixels: float) -> None:
        """One element at some pixels, with a tooltip if there is one; nothing where a coordinate is not known."""
        if not math.isfinite(sum(pixels.values())):
            return
        coordinates = {key: pixel(value) for key, value in pixels.items()}
        title = tag("title", tip) if tip else None
        self.marks.append(tag(element, title, **coordinates, class_=f"mark {class_}" if tip else class_))

    def stroke(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> None:
        """A straight line between two points in pixels."""
        self.mark("line", class_, x1=x1, y1=y1, x2=x2, y2=y2)

    def bar(self, x: float, y: float, width: float, height: float, class_: str, tip: str = "") -> None:
        """A rectangle at a point in pixels."""
        self.mark("rect", class_, tip, x=x, y=y, width=max(width, 0.0), height=height)

    def say(self, x: float, y: float, text: str, class_: str = "tick", anchor: str | None = None) -> None:
        """A piece of text at a point in pixels."""
        self.marks.append(tag("text", text, x=pixel(x), y=pixel(y), text_anchor=anchor, class_=class_))

    def span(self, x: Ends, y: Ends, class_: str) -> None:
        """A straight line between two ends across and two ends up."""
        x1, x2 = self.x(x)
        y1, y2 = self.y(y)
        self.stroke(x1, y1, x2, y2, class_)

    def point(self, x: float, y: float, class_: str, tip: str, radius: float = 4.0) -> None:
        """A dot with a tooltip."""
        self.mark("circle", f"point {class_}", tip, cx=self.x(x), cy=self.y(y), r=radius)

    def level(self, value: float, class_: str = "zero") -> None:
        """A line across the chart at some height."""
        self.span((self.x.low, self.x.high), (value, value), class_)

    def left(self, label: str, write: Writer) -> None:
        """A vertical axis: hairlines at its ticks, and what it shows on top of it."""
        x, y = self.x.start, self.y
        for tick in y.ticks(36.0):
            self.level(tick, "grid")
            self.say(x - 6, y(tick) + 4, write(tick), "tick", "end")
        self.say(x, y.end - 11, label, "label")

    def bottom(self, label: str, write: Writer, y: float = 0.0) -> None:
        """A horizontal axis at the foot of the chart or at height `y` in pixels; the label is centred beneath."""
        x = self.x
        y = y or max(self.y.start, self.y.end)
        self.stroke(x.start, y, x.end, y, "axis")
        for tick in x.ticks():
            at = x(tick)
            self.stroke(at, y, at, y + 4, "axis")
            # The last one is pulled inside, so that it cannot be cut off at the edge.
            self.say(at, y + 17, write(tick), "tick", "end" if at > x.end - 4 else "middle")
        self.say((x.start + x.end) / 2, y + 36, label, "label", "middle")

    def rows(self, labels: Sequence[str], write: Writer) -> None:
        """The axes of a chart with one line per row: the rows' names, lines from top to bottom, ticks beneath."""
        for tick in self.x.ticks():
            self.span((tick, tick), (self.y.low, self.y.high), "grid" if tick else "zero")
        self.bottom("", write)
        for row, word in enumerate(labels):
            self.say(self.x.start - 12, self.y(row + 0.5) + 4, word, "tick", "end")

    def pair(self, row: int, ring: float, dot: float, ends: Ends, class_: str, tips: tuple[str, str]) -> None:
        """A ring and a dot on one row, a bar between them, and the interval of the dot."""
        middle = row + 0.5
        left, right = sorted(self.x([ring, dot]))
        self.bar(left, self.y(middle) - 3.5, right - left, 7.0, f"between {class_}")
        self.span(ends, (middle, middle), f"whisker {class_}")
        self.point(ring, middle, "ring", tips[0], 5.0)
        self.point(dot, middle, class_, tips[1], 5.0)

    def names(self, x: ArrayLike, labels: Sequence[str], y: ArrayLike, class_: str = "tick") -> None:
        """Labels at heights in pixels: the last one is drawn, and each other in turn unless it would touch another."""
        half = np.array([3.4 * len(word) for word in labels])
        centres = np.clip(self.x(x), half, self.x.end + 3.0 - half)
        candidates = list(zip(centres, np.broadcast_to(y, half.shape), labels, strict=True))
        drawn = candidates[-1:]
        for at, up, word in candidates[:-1]:
            level = [other for other in drawn if abs(up - other[1]) < 22]
            if not any(abs(at - other) < 3.4 * len(word + beside) + 8 for other, _, beside in level):
                drawn.append((at, up, word))
        for at, up, word in drawn:
            self.say(at, up, word, class_, "middle")

    def line(self, x: ArrayLike, y: ArrayLike, class_: str) -> None:
        """A line through points."""
        points = trail(self.x(x), self.y(y))
        if points:
            self.marks.append(tag("polyline", points=" ".join(points), class_=f"line {class_}"))

    def band(self, x: ArrayLike, low: Floats, high: Floats) -> None:
        """The area between two lines."""
        known = ~np.isnan(low + high)
        across, below, above = self.x(x)[known], self.y(low)[known], self.y(high)[known]
        points = trail(across, above) + trail(across[::-1], below[::-1])
        if len(points) > 2:
            self.marks.append(tag("polygon", points=" ".join(points), class_="band"))

    def bars(self, low: ArrayLike, high: ArrayLike, size: Floats, y: float, tall: float) -> None:
        """Bars that stand at height `y` in pixels, the largest so tall."""
        start, end = self.x(low), self.x(high)
        height = np.nan_to_num(size) / (np.nanmax(size, initial=0.0) or 1.0) * tall
        for i in np.flatnonzero(height):
            self.bar(start[i], y - height[i], end[i] - start[i] - 1.0, height[i], "share")

    def dots(self, cells: Cells, at: Points, ends: Points | None = None, what: str = "") -> None:
        """One dot per cell, coloured where its gap is significant, over the line between the ends of its interval."""
        radius = 4.0 if len(cells) <= MANY else 2.4
        for i, (x, y) in enumerate(zip(*at, strict=True)):
            class_ = way(cells.gap[i], cells.beyond[i])
            if ends is not None:
                self.span((x, x), (ends[0][i], ends[1][i]), f"whisker {class_}")
            self.point(x, y, class_, tip(cells, i, what), radius)
