"""Which counts may be shown together, so that sums and differences of them give no small one away.

A place is a box: a set of values in each of some columns. Places that differ in one column only lie on a line, along
which a difference of two is a place again. A count is shown only if no place that follows from it, along any line,
holds some rows and fewer than the limit.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise
from typing import Any

from miscal.pooling.condition import LARGEST, NOMINAL, Condition, level_text

Piece = tuple[Any, ...]  # ("span", from, to), ("set", levels) or ("not", piece): values of one column
Box = frozenset[tuple[str, Piece]]
Line = dict[Piece, int]
Chain = list[tuple[float, int]]  # ends, each with the rows before it
EVERYTHING: Box = frozenset()
MISSING = None  # the level of missing values; along a span they come after every number
EVERY_VALUE = ("span", -math.inf, math.inf)


class Shown:
    """The counts that are shown, and what follows from them.

    >>> shown = Shown(10)
    >>> state = lambda name: frozenset({("state", ("set", frozenset({name})))})
    >>> [shown.show(*fact) for fact in ((EVERYTHING, 103), (state("CA"), 60), (state("NY"), 40), (state("WY"), 3))]
    [True, True, False, False]
    """

    def __init__(
        self, below: int, levels: Mapping[str, frozenset[Any]] | None = None, named: Iterable[tuple[str, Piece]] = ()
    ) -> None:
        self.below = below
        self.levels = dict(levels or {})  # of each column: what is not among the others is the last one
        self.named = set(named)  # ranges that other places speak of: of them alone is it followed what others hold
        self.known: dict[Box, int] = {}
        self.lines: defaultdict[Box, defaultdict[str, Line]] = defaultdict(lambda: defaultdict(dict))
        self.alone: Counter[tuple[Box, str]] = Counter()  # rows of the single levels of a line
        self.added: list[Box] = []
        self.crossed: list[tuple[Box, int]] = []  # places of several columns that are shown

    def show(self, box: Box | None, rows: int) -> bool:
        """Whether a count may be shown beside those shown before; from now on it is one of them."""
        if box is None or self._small(rows):
            return False
        self.added = []
        if self._nested_are_safe(box, rows) and self._add(box, rows):
            self.crossed += [(box, rows)] if len(box) > 1 else []
            return True
        for each in self.added:
            self._forget(each)
        return False

    def _nested_are_safe(self, box: Box, rows: int) -> bool:
        """Whether no place within another, cut off in several columns, leaves few rows of it."""
        wider = [frozenset(some) for k in range(len(box)) for some in combinations(box, k)] if len(box) > 1 else []
        if any(some in self.known and self._small(self.known[some] - rows) for some in wider):
            return False
        return not any(
            self._small(abs(rows - other_rows))
            for other, other_rows in self.crossed
            if within(*((box, other) if rows < other_rows else (other, box)))
        )

    def _add(self, box: Box, rows: int) -> bool:
        """Note a count and all that follows from it; whether nothing small does."""
        waiting = [(box, rows)]
        while waiting:
            box, rows = waiting.pop()
            if box in self.known:
                continue
            if self._small(rows):
                return False
            self._note(box, rows)
            parts = [(box, column, piece) for column, line in self.lines[box].items() for piece in line]
            for line in [*((box - {place}, *place) for place in box), *parts]:
                follows = self._line(*line)
                if follows is None:
                    return False
                waiting += follows
        return True

    def _note(self, box: Box, rows: int) -> None:
        self.known[box] = rows
        self.added.append(box)
        for column, piece in box:
            around = box - {(column, piece)}
            self.lines[around][column][piece] = rows
            self.alone[around, column] += rows if _single(piece) else 0

    def _line(self, around: Box, column: str, piece: Piece) -> list[tuple[Box, int]] | None:
        """What follows from a line with a new piece; None where that is a small count."""
        line, full = self.lines[around][column], self.known.get(around)
        if piece[0] == "span":
            spans = [(*each[1:], rows) for each, rows in line.items() if each[0] == "span"]
            chains = chains_of(spans if full is None else [*spans, (*EVERY_VALUE[1:], full)])
            safe, follows = spans_are_safe(chains, self.below), self._spans(column, chains)
            if full is not None:
                follows += [(opposite(("span", start, end)), full - rows) for start, end, rows in spans]
        else:
            alone = self.alone[around, column]
            safe = self._sets_are_safe(line, alone, full)
            follows = self._sets(line, alone, full, piece, self.levels.get(column, frozenset()))
        made = [(around if each == EVERY_VALUE else around | {(column, each)}, rows) for each, rows in follows]
        return made if safe else None

    def _spans(self, column: str, chains: list[Chain]) -> list[tuple[Piece, int]]:
        """Ranges whose rows follow from those of a line, among those that other places speak of; and all of it."""
        made: list[tuple[Piece, int]] = []
        for chain in chains:
            for (start, before), (end, after) in combinations(chain, 2):
                if (column, ("span", start, end)) in self.named or (start, end) == EVERY_VALUE[1:]:
                    made.append((("span", start, end), after - before))
        return made

    def _sets(
        self, line: Line, alone: int, full: int | None, piece: Piece, levels: frozenset[Any]
    ) -> list[tuple[Piece, int]]:
        """Sets of levels whose rows follow: all others, the last one of a column, all of them."""
        other = opposite(piece, levels)
        missing = levels  # single levels whose rows are not known
        if len(line) >= len(levels) - 1:
            missing = levels.difference(*(each[1] for each in line if _single(each)))
        if full is None:
            everything = other in line or (len(levels) > 0 == len(missing))
            return [(EVERY_VALUE, line[piece] + line[other] if other in line else alone)] if everything else []
        made = [(other, full - line[piece])]
        return [*made, (("set", missing), full - alone)] if len(missing) == 1 < len(levels) else made

    def _sets_are_safe(self, line: Line, alone: int, full: int | None) -> bool:
        """Whether no set of levels holds few rows beside the single levels in it, and beside another set in it."""
        if full is not None and self._small(full - alone):
            return False
        several = {each[1]: rows for each, rows in line.items() if each[0] == "set" and len(each[1]) > 1}
        for levels, rows in several.items():
            inside = {level: line.get(("set", frozenset({level})), 0) for level in levels}
            left = rows - sum(inside.values())
            if self._small(left) or (full is not None and self._small(full - alone - left)):
                return False
            if any(other < levels and self._small(rows - count) for other, count in several.items()):
                return False
        return True

    def _small(self, rows: int) -> bool:
        return 0 < rows < self.below

    def _forget(self, box: Box) -> None:
        rows = self.known.pop(box)
        for column, piece in box:
            around = box - {(column, piece)}
            del self.lines[around][column][piece]
            self.alone[around, column] -= rows if _single(piece) else 0


def _single(piece: Piece) -> bool:
    return piece[0] == "set" and len(piece[1]) == 1


def within(one: Box, other: Box) -> bool:
    """Whether a box lies within another."""
    pieces = dict(one)
    return all(column in pieces and _piece_within(pieces[column], piece) for column, piece in other)


def _piece_within(one: Piece, other: Piece) -> bool:
    if one[0] == other[0] == "span":
        return bool(other[1] <= one[1] and one[2] <= other[2])
    if one[0] == "set":
        return bool(one[1] <= other[1] if other[0] == "set" else other[0] == "not" and not one[1] & other[1][1])
    return one == other


def opposite(piece: Piece, levels: frozenset[Any] = frozenset()) -> Piece:
    """All other values of the column; said as a range, or as a level, where it is one."""
    if piece[0] == "not":
        return piece[1]  # type: ignore[no-any-return]
    if piece[0] == "set":
        other = levels - piece[1]
        return ("set", other) if len(other) == 1 and piece[1] < levels else ("not", piece)
    if piece[1] == -math.inf:
        return ("span", piece[2], math.inf)
    return ("span", -math.inf, piece[1]) if piece[2] == math.inf else ("not", piece)


def spans_are_safe(chains: list[Chain], below: int) -> bool:
    """Whether ranges along one column, and all of it, give no small range away.

    Ranges that share an end make a chain, whose ends all have a known number of rows before them; so has a chain that
    lies within two ends of another one.

    >>> spans_are_safe(chains_of([(0, 5, 30), (0, 7, 33)]), 10)
    False
    """
    for chain in chains:
        others = [(other[0][0], other[-1][0], other[-1][1] - other[0][1]) for other in chains if other is not chain]
        for i, (start, before) in enumerate(chain):
            for end, after in chain[i + 1 :]:
                inside = _most([each for each in others if start <= each[0] and each[1] <= end])
                if 0 < after - before < below or 0 < after - before - inside < below:
                    return False
                if not others:
                    break  # neighbours suffice: what lies further apart holds more
    return True


def chains_of(spans: list[tuple[float, float, int]]) -> list[Chain]:
    """Ends that hang together, each with the rows before it, in their order."""
    chain_of: dict[float, dict[float, int]] = {}
    for start, end, rows in spans:
        one, two = chain_of.setdefault(start, {start: 0}), chain_of.setdefault(end, {end: 0})
        if one is two:
            continue
        shift = one[start] + rows - two[end]
        for place, before in two.items():
            one[place] = before + shift
            chain_of[place] = one
    distinct = {id(chain): chain for chain in chain_of.values()}
    return [sorted(chain.items()) for chain in distinct.values()]


def joined_ends(spans: list[tuple[float, float, int]]) -> dict[float, float]:
    """Ends of ranges between which there is no row, so that both say the same; each with the one that stands for it.

    >>> joined_ends([(-math.inf, 5.0, 30), (2.0, 4.0, 30)])
    {2.0: -inf, 4.0: 5.0}
    """
    made: dict[float, float] = {}
    changed = True
    while changed:
        now = {(made.get(start, start), made.get(end, end), rows) for start, end, rows in spans}
        same = {
            inner: outer
            for one in now
            for other in now
            if one != other and other[2] == one[2] and other[0] <= one[0] and one[1] <= other[1]
            for inner, outer in ((one[0], other[0]), (one[1], other[1]))
            if inner != outer
        }
        for chain in chains_of(list(now)):
            for (start, before), (end, after) in pairwise(chain):
                if before == after:
                    same |= {start: end} if end == math.inf else {end: start}
        for inner, outer in same.items():
            made = {end: outer if stands == inner else stands for end, stands in made.items()} | {inner: outer}
        made = {end: stands for end, stands in made.items() if end != stands}
        changed = bool(same)
    return made


def _most(spans: list[tuple[float, float, int]]) -> int:
    """The most rows that ranges without overlap hold together."""
    best: list[tuple[float, int]] = [(-math.inf, 0)]
    for start, end, rows in sorted(spans, key=lambda span: span[1]):
        before = max(held for at, held in best if at <= start)
        best.append((end, max(best[-1][1], before + rows)))
    return best[-1][1]


def box_of(conditions: Iterable[Condition]) -> Box | None:
    """The box of a conjunction; None where it is none, or where a column has two conditions."""
    made: dict[str, Piece] = {}
    for condition in conditions:
        piece = _piece(condition)
        if piece is None or condition.column in made:
            return None
        if piece != EVERY_VALUE:
            made[condition.column] = piece
    return frozenset(made.items())


def _piece(condition: Condition) -> Piece | None:
    if condition.kind in NOMINAL:
        if condition.levels is None and condition.excluded is None:
            return EVERY_VALUE if condition.missing else ("not", ("set", frozenset({MISSING})))
        if condition.levels is not None:
            return ("set", frozenset(map(level_text, condition.levels)) | ({MISSING} if condition.missing else set()))
        out = frozenset(map(level_text, condition.excluded or ()))
        return ("not", ("set", out | (set() if condition.missing else {MISSING})))
    if condition.levels == () and condition.missing:
        return ("span", LARGEST, math.inf)
    if not (condition.ranged or condition.known) or (condition.missing and condition.high is not None):
        return None
    low = -math.inf if condition.low is None else condition.low
    last = math.inf if condition.missing else LARGEST
    return ("span", low, last if condition.high is None else condition.high)
