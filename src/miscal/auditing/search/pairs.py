"""Pairs of columns: which are crossed, by which levels, and what is left out of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from miscal.auditing.search.groups import LARGE, Group, family_of, group_of
from miscal.auditing.search.looking import Looked, Say, Wanted, suspicion
from miscal.auditing.search.parts import Part, coarse_part, some_levels

SUSPECT = 0.25  # a column less surprising than this is not crossed with another that is not either
SAME = 0.6  # share of its information that a column may have in common with another
MOST_CELLS = 1 << 12  # combinations of one pair: as many as a pass over all rows keeps along the score too
MOST_LEVELS, FEWEST = 150, 64  # of a field that are crossed, and of one of two large ones
SUSPECT_LEVELS, SUSPECT_LEVEL = 1 / 3, 0.05  # share of them that goes to levels as suspect alone as this
PAIRS = {"quick": 0, "normal": 200, "deep": 2000}
NOT_ALONE = "neither column is suspect alone (p above 0.25)"
TOO_MANY = "an audit of this effort crosses no more, and the other pairs are more suspect"
MUCH_THE_SAME = "one column nearly tells the other, so that they make no places of their own"
NAME_THEM = "--by with both names: columns that are named are crossed"
JOIN_THEM = "audit a column that joins both: every level of a field is tested"
SMALL_LEVELS = "pairs take of a large field the levels that are suspect alone, and the largest"


@dataclass(frozen=True, eq=False)
class _Side:
    """A column that may be crossed: how it is cut, how suspect it is alone, and its levels, the ones to keep first."""

    part: Part
    suspicion: float
    group: Group
    cut: dict[int, Part] = field(default_factory=dict)

    @cached_property
    def levels(self) -> np.ndarray:
        """Levels that are suspect alone, at most a third of those that are kept, and the others, largest first."""
        group, known = self.group, self.part.known
        chance = np.nan_to_num(group.p_value[:known], nan=1.0)
        most = int(SUSPECT_LEVELS * min(known, MOST_LEVELS))
        suspect = np.argsort(chance, kind="stable")[:most]
        suspect = suspect[chance[suspect] <= SUSPECT_LEVEL]
        largest = np.argsort(-group.raw.weight[:known], kind="stable")
        return np.concatenate([suspect, largest[~np.isin(largest, suspect)]])

    def kept(self, most: int) -> Part:
        """The column with at most so many cells."""
        part = self.part
        if part.count > most and most not in self.cut:
            self.cut[most] = some_levels(part, np.sort(self.levels[: most - part.missing]))
        return self.cut[most] if part.count > most else part


def look_at_pairs(looked: Looked, wanted: Wanted, say: Say) -> None:
    """Cross the columns of which one is suspect by itself; pairs left out are counted as if they were tested.

    Of a large field the levels that are suspect alone are crossed, and the largest; the others count as tested too.
    """
    sides = [
        _Side(coarse_part(group.parts[0], looked.rows.weight), suspicion(result, group), group)
        for _, result, group in looked.columns
    ]
    pairs = [(min(a.suspicion, b.suspicion), a.suspicion + b.suspicion, a, b) for a, b in combinations(sides, 2)]
    pairs.sort(key=lambda entry: entry[:2])
    suspect = [bool(wanted.by) or least <= SUSPECT for least, *_ in pairs]
    done, most = 0, min(PAIRS[wanted.effort], sum(suspect))
    for may, (_, _, one, two) in zip(suspect, pairs, strict=True):
        if not may or done >= most:
            looked.leave_out("pairs", _names(one, two), TOO_MANY if may else NOT_ALONE, NAME_THEM)
            large = any(side.part.count > room for side, room in zip((one, two), _room(one, two), strict=True))
            family = LARGE if large else family_of((one.part, two.part))
            looked.skipped.append((family, _tests(one.part, two.part)))
            continue
        done += 1
        if done % 10 == 1:
            say(f"pairs of columns, {done} of {most}")
        _cross(looked, one, two)
    for side in sides:
        if side.cut:
            every = side.part.known
            kept = [part.known for part in side.cut.values()]
            left = " to ".join(f"{many:,}" for many in sorted({every - max(kept), every - min(kept)}))
            looked.leave_out("levels", f"{side.part.name} ({left} of {every:,} levels)", SMALL_LEVELS, JOIN_THEM)


def _cross(looked: Looked, one: _Side, two: _Side) -> None:
    parts = [side.kept(most) for side, most in zip((one, two), _room(one, two), strict=True)]
    group = group_of(parts, "subpopulation", looked.rows)
    if _one_tells_the_other(group):
        looked.leave_out("pairs", _names(one, two), MUCH_THE_SAME, JOIN_THEM)
        return
    looked.pairs.append(group)
    if group.some:
        looked.skipped.append((family_of(parts), _tests(one.part, two.part) - _tests(*parts)))


def _names(one: _Side, two: _Side) -> str:
    return f"{one.part.name} and {two.part.name}"


def _room(one: _Side, two: _Side) -> tuple[int, int]:
    """How many cells each of two columns may have."""
    sizes = [side.part.count if side.part.ordered else min(side.part.count, MOST_LEVELS) for side in (one, two)]
    larger = int(sizes[1] > sizes[0])
    sizes[larger] = min(sizes[larger], max(MOST_CELLS // max(sizes[1 - larger], 1), FEWEST))
    sizes[1 - larger] = min(sizes[1 - larger], MOST_CELLS // max(sizes[larger], 1))
    return sizes[0], sizes[1]


def _tests(one: Part, two: Part) -> int:
    """How many tests a pair makes: one for every combination of levels, a box in the plane of two variables is one."""
    return math.prod(part.count for part in (one, two) if part.edges is None)


def _one_tells_the_other(group: Group) -> bool:
    """Whether two columns are much the same (a date and its month): crossing them makes no new places."""
    joint = group.raw.weight.reshape(group.shape) / max(float(group.raw.weight.sum()), 1e-300)
    own = [-float(np.sum(m * np.log(np.where(m > 0, m, 1.0)))) for m in (joint.sum(0), joint.sum(1))]
    both = -float(np.sum(joint * np.log(np.where(joint > 0, joint, 1.0))))
    return own[0] + own[1] - both > SAME * min(own)
