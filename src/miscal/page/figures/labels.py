"""Labels that do not touch: the important ones first, each at the first of its places that is free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from miscal.page.markup import ellipsis

At = tuple[float, float, str]  # x, baseline, text-anchor
Box = tuple[float, float, float, float]
TALL = 12.0  # pixels of a line
NARROW = frozenset("iIjltfr.,:;'|!()[] -")


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
    for text, places in wanted:
        free = next((at for at in places if _free(box(text, at), limits, used)), None)
        kept.append(free)
        if free is not None:
            used.append(box(text, free))
    return kept


def _free(own: Box, limits: Box, used: Sequence[Box]) -> bool:
    inside = own[0] >= limits[0] and own[1] >= limits[1] and own[2] <= limits[2] and own[3] <= limits[3]
    return inside and not any(touches(own, other) for other in used)
