"""The marks of every figure: lines, bands, steps, bars, points, whiskers and text, styled by class alone.

Colours live in the page's style sheet, so that light, dark and print need no second drawing; no mark carries a style
attribute, which the page's content-security policy would refuse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from miscal.page.markup import Safe, ellipsis, join, tag


@dataclass(frozen=True)
class Figure:
    """A drawing with its words and the data behind it."""

    name: str
    title: str
    description: str
    svg: Safe
    table: dict[str, list[object]] = field(default_factory=dict)
    note: str = ""


def drawn(
    name: str,
    title: str,
    description: str,
    size: tuple[float, float],
    marks: Sequence[Safe],
    table: dict[str, list[object]] | None = None,
    note: str = "",
) -> Figure:
    """A figure with a title and a description that a screen reader speaks; of no marks, what its description says."""
    width, height = map(pixel, size)
    svg = tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        marks,
        viewBox=f"0 0 {width} {height}",
        role="img",
        tabindex="0",
        class_=f"figure {name}",
        aria_label=f"{title}. {description}",
    )
    return Figure(name, title, description, svg if marks else Safe(""), table or {}, note)


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
    return tag("line", x1=pixel(x1), y1=pixel(y1), x2=pixel(x2), y2=pixel(y2), class_=class_)


def band(x: ArrayLike, low: ArrayLike, high: ArrayLike, class_: str = "band") -> Safe:
    """The area between two lines."""
    across, below, above = (np.asarray(v, dtype=float) for v in (x, low, high))
    known = np.isfinite(below) & np.isfinite(above)
    trail = _trail(across[known], above[known]) + _trail(across[known][::-1], below[known][::-1])
    return tag("polygon", points=" ".join(trail), class_=class_) if len(trail) > 2 else Safe("")


def step(edges: ArrayLike, heights: ArrayLike, class_: str) -> Safe:
    """A staircase: one level between each two edges."""
    return line(
        np.repeat(np.asarray(edges, dtype=float), 2)[1:-1], np.repeat(np.asarray(heights, dtype=float), 2), class_
    )


def bar(x: float, y: float, width: float, height: float, class_: str, tip: str = "") -> Safe:
    """A rectangle, with a tooltip if there is something to say."""
    return tag(
        "rect",
        tag("title", tip) if tip else None,
        x=pixel(x),
        y=pixel(y),
        width=pixel(max(width, 0.0)),
        height=pixel(max(height, 0.0)),
        class_=f"{class_} mark" if tip else class_,
    )


def point(x: float, y: float, class_: str, tip: str = "", radius: float = 4.0) -> Safe:
    """A dot with a tooltip; nothing where it has no place."""
    if not math.isfinite(x + y):
        return Safe("")
    return tag(
        "circle",
        tag("title", tip) if tip else None,
        cx=pixel(x),
        cy=pixel(y),
        r=pixel(radius),
        class_=f"point mark {class_}",
    )


def text(x: float, y: float, words: object, class_: str = "", anchor: str = "start", limit: int = 0) -> Safe:
    """A piece of text, shortened to `limit` characters if one is given."""
    shown = ellipsis(words, limit) if limit else str(words)
    return tag(
        "text", shown, x=pixel(x), y=pixel(y), text_anchor=None if anchor == "start" else anchor, class_=class_ or None
    )


def group(*marks: Safe | Sequence[Safe]) -> Safe:
    """Marks kept together."""
    return tag("g", join(*marks))


def thinned(y: ArrayLike, most: int = 400) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Indices of a shorter line that looks the same: the highest and lowest point of each stretch, and the ends."""
    heights = np.asarray(y, dtype=float)
    many = len(heights)
    if many <= most:
        return np.arange(many)
    cuts = np.linspace(0, many, most // 2 + 1).astype(np.intp)
    keep = {0, many - 1}
    for start, stop in pairwise(cuts.tolist()):
        if stop > start and np.isfinite(heights[start:stop]).any():
            keep.add(int(start + np.nanargmax(heights[start:stop])))
            keep.add(int(start + np.nanargmin(heights[start:stop])))
    return np.array(sorted(keep), dtype=np.intp)
