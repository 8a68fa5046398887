"""Labels that do not touch: the important ones first, each at the first of its places that is free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

At = tuple[float, float, str]  # x, baseline, text-anchor
Box = tuple[float, float, float, float]
WIDE, TALL = 6.4, 12.0  # pixels of a letter, rounded up, and of a line


def box(text: str, at: At) -> Box:
    """The rectangle that a label covers, roughly: left, top, right, bottom.

    >>> box("ABC", (10.0, 20.0, "end"))[2]
    10.0
    """
    x, y, anchor = at
    width = WIDE * len(text)
    left = x - (width if anchor == "end" else width / 2 if anchor == "middle" else 0.0)
    return left, y - TALL + 2, left + width, y + 3


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
    for text, places in wanted:
        free = next((at for at in places if _free(box(text, at), limits, used)), None)
        kept.append(free)
        if free is not None:
            used.append(box(text, free))
    return kept


def _free(own: Box, limits: Box, used: Sequence[Box]) -> bool:
    inside = own[0] >= limits[0] and own[1] >= limits[1] and own[2] <= limits[2] and own[3] <= limits[3]
    return inside and not any(touches(own, other) for other in used)
