"""From places to findings: which explain the others, their sizes, intervals and parents, and the order.

The place with most events off for certain is taken and put right, then the others are looked at again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np

from miscal.auditing.findings import CODES, Finding
from miscal.auditing.search.groups import Group, Rows, best_boxes, cluster_sums, crossed_codes
from miscal.auditing.search.looking import Looked, real_places, score_after
from miscal.auditing.search.places import Multiplicity, Own, Place, box_place, deviation_beyond
from miscal.inference.adjust import adjusted_z, shrunken_gap

NEARLY = 0.3  # bounds above this share of the best compete for explaining the same rows
SHARED = 0.5  # places that share this part of the smaller one's weight are about the same rows
MOST = 40  # places taken; what is left is listed under the one taken that it shares most rows with
MOST_KINDS = 15  # columns and combinations of columns that they may belong to
LEAST = 0.03  # a place whose bound is below this share of the first one's is not taken
CHILDREN = 12  # places listed under the one that explains them; the rest are counted
Ordered = list[tuple[float, list[Finding]]]


@dataclass(eq=False)
class Taken:
    """A place that was taken, the lower bound of its events off, and the places that it explains."""

    place: Place
    bound: float
    explains: list[Place] = field(default_factory=list)


class Explainer:
    """The places still open, and what is left of their error after those taken were put right."""

    def __init__(
        self, rows: Rows, tests: Multiplicity, places: Sequence[Place], groups: Sequence[Group], *, beyond: bool = True
    ) -> None:
        self.rows, self.tests = rows, tests
        self.of = attrgetter("beyond" if beyond else "raw")  # as predicted no new stretches are looked for
        self.open = list(places)
        self.left = 0  # places still off when the list was stopped
        self.total = float(rows.variance(self.of(groups[0])).sum()) if groups else 1.0
        self.critical = adjusted_z(tests.total, tests.level)
        self.searched = [g for g in groups if g.ordered and beyond]
        self.off = {id(g): g.beyond.off for g in self.searched}
        self.noise = {id(g): rows.variance(g.beyond) for g in self.searched}
        for place in self.open:
            self._measure(place, float(self.of(place).off[0]))

    def _measure(self, place: Place, left: float) -> None:
        """Note what is left of a place's error, and its standard deviation."""
        place.left = left
        if self.rows.raw.cluster is not None:
            place.deviation = max(math.sqrt(cluster_sums(self.of(self.rows), place.rows)[1]), 1e-150)
        else:
            place.deviation = deviation_beyond(float(self.rows.variance(self.of(place))[0]), self.total)

    def run(self) -> list[Taken]:
        """Take places until none is significant any more."""
        taken: list[Taken] = []
        kinds: set[tuple[str, ...]] = set()
        while candidates := self._candidates():
            place, bound = self._choose(candidates)
            too_many = len(taken) >= MOST or (place.group.names not in kinds and len(kinds) >= MOST_KINDS)
            if too_many or (taken and bound < LEAST * taken[0].bound):
                self.left = len(candidates)
                break
            kinds.add(place.group.names)
            taken.append(Taken(place, bound, self.put_right(place, place.left)))
        self._share_out(taken)
        return taken

    def _share_out(self, taken: list[Taken]) -> None:
        """List what is left under the place taken that holds most of its rows."""
        if not (taken and self.open):
            return
        overlaps = [Overlap(self.rows, item.place.rows) for item in taken]
        shared = [[overlap.weight(p) for p in self.open] for overlap in overlaps]
        for place, home in zip(self.open, np.argmax(np.array(shared), axis=0), strict=True):
            taken[int(home)].explains.append(place)
        self.open = []

    def _candidates(self) -> list[Place]:
        found = [place for place in self.open if self._still_off(place)]
        for group in self.searched:
            place = self._stretch(group)
            if place is not None and place.key not in {other.key for other in found}:
                found.append(place)
        return found

    def _still_off(self, place: Place) -> bool:
        """Whether a place is as many standard errors off as it takes, allowing for the stretches searched."""
        return place.z >= adjusted_z(self.tests.severity(place), self.tests.level)

    def _stretch(self, group: Group) -> Place | None:
        """The worst stretch of a variable in what is left, if it is beyond noise as predicted too."""
        off = self.off[id(group)]
        best = best_boxes(off, self.noise[id(group)], (group.ordered,), self.total, beyond=True)
        if not best:
            return None
        place = box_place(group, best[0].box, None, best[0].searched, self.rows, "columns")
        if best[0].z < adjusted_z(self.tests.severity(place), self.tests.level):
            return None
        place.specific = True
        place.adjusted = self.tests.bonferroni("columns", place.p_value)
        left = float(group.inside(off, best[0].box).sum())
        if left * place.off <= 0 or not place.adjusted <= self.tests.level:
            return None
        self._measure(place, left)
        return place

    def _choose(self, candidates: list[Place]) -> tuple[Place, float]:
        """The largest bound, or the place among those about the same rows that describes it best.

        Among overlapping places with bounds that are not much smaller, the one with the largest z²/2 less the
        logarithm of how many such places there were: what the data say for it, less the freedom of having looked.
        """
        bounds = {id(p): self._bound(p) for p in candidates}
        cost = {id(p): math.log(self.tests.severity(p)) for p in candidates}
        top = max(candidates, key=lambda p: (bounds[id(p)], -cost[id(p)]))
        near = [p for p in candidates if bounds[id(p)] >= NEARLY * bounds[id(top)] or cost[id(p)] <= cost[id(top)]]
        overlap = Overlap(self.rows, top.rows)
        sign = math.copysign(1.0, top.left)
        size = float(top.raw.weight[0])
        same = [
            p
            for p in near
            if sign * p.left > 0 and (p is top or overlap.weight(p) >= SHARED * min(float(p.raw.weight[0]), size))
        ]
        chosen = max(same, key=lambda p: 0.5 * p.z**2 - cost[id(p)])
        return chosen, bounds[id(chosen)]

    def _bound(self, place: Place) -> float:
        """Events off for certain: the smaller of what is left beyond the score and of what was predicted."""
        left = abs(place.left) - self.critical * place.deviation
        return min(left, abs(place.off) - self.critical * math.sqrt(float(self.rows.variance(place.raw)[0])))

    def put_right(self, place: Place, off: float) -> list[Place]:
        """Take the gap of a place out of its rows; the places that are not off any more are explained by it."""
        gap = off / float(place.raw.weight[0])
        overlap = Overlap(self.rows, place.rows)
        for group in self.searched:
            self.off[id(group)] = self.off[id(group)] - gap * overlap.cells(group)
        explained: list[Place] = []
        still: list[Place] = []
        for other in self.open:
            if other is place or other.key == place.key:
                continue
            was = self._still_off(other)
            other.left -= gap * overlap.weight(other)
            (explained if was and not self._still_off(other) else still).append(other)
        self.open = still
        return explained


class Overlap:
    """Weights of the rows that places share with some rows: one count a group serves all its cells."""

    def __init__(self, rows: Rows, members: np.ndarray) -> None:
        self.rows, self.members = rows, members
        self.own = None if rows.weight is None else rows.weight[members]
        self.counted: dict[int, np.ndarray] = {}
        self.inside: np.ndarray | None = None

    def cells(self, group: Group) -> np.ndarray:
        """Shared weight of every cell of a group."""
        if id(group) not in self.counted:
            self.counted[id(group)] = np.bincount(crossed_codes(group.parts, self.members), self.own, group.count)
        return self.counted[id(group)]

    def weight(self, place: Place) -> float:
        """Shared weight of a place."""
        if isinstance(place.group, Group):
            return float(place.group.inside(self.cells(place.group), place.box).sum())
        if self.inside is None:
            self.inside = np.zeros(self.rows.raw.rows, bool)
            self.inside[self.members] = True
        shared = place.rows[self.inside[place.rows]]
        return float(shared.size if self.rows.weight is None else self.rows.weight[shared].sum())


def findings_of(looked: Looked, tests: Multiplicity, random_state: int) -> Ordered:
    """Findings of one target, each head with those that it explains, with what orders the heads."""
    real = real_places(looked, tests)
    specific = [place for place in real if place.specific]
    explainer = Explainer(looked.rows, tests, specific, looked.groups)
    taken = explainer.run()
    looked.left = explainer.left
    assert looked.whole is not None
    if not looked.whole.adjusted <= tests.level:
        taken += _as_predicted(looked, tests, real, taken)
    ordered: Ordered = [(item.bound, _head(looked, tests, item)) for item in taken]
    whole = _whole(looked, looked.whole, tests, taken, random_state)
    _spread_general(looked, tests, _others(real, taken), whole, ordered)
    _add_extremes(looked, tests, whole[1], taken, ordered)
    return ordered


def _add_extremes(looked: Looked, tests: Multiplicity, whole: Finding, taken: list[Taken], ordered: Ordered) -> None:
    """List the ends of the scale: certain rows by themselves, the others under what they are a part of."""
    for place in looked.extremes:
        if not place.adjusted <= tests.level:
            continue
        made = finding(looked, tests, place, specific=False)
        low, high = made.interval  # by clusters it may reach over 0, though the test by clusters does not
        made = replace(made, interval=(max(low, 0.0), high) if made.gap > 0 else (low, min(high, 0.0)))
        home = next((items for _, items in ordered if items[0].where == whole.where and whole.real), None)
        if place.searched > 1 and home is None:
            shares = [Overlap(looked.rows, item.place.rows).weight(place) for item in taken]
            most = int(np.argmax(shares)) if shares else 0
            home = ordered[most][1] if shares and shares[most] >= SHARED * made.weight else None
        if place.searched > 1 and home is not None:
            home.append(replace(made, parent=home[0].where))
        else:
            ordered.append((made.at_least, [made]))


def _as_predicted(looked: Looked, tests: Multiplicity, real: list[Place], taken: list[Taken]) -> list[Taken]:
    """The general places that explain the others when the whole table is not off: judged as predicted.

    What the places taken explain as predicted is added to them.
    """
    explainer = Explainer(looked.rows, tests, _others(real, taken), looked.groups, beyond=False)
    for item in taken:
        item.explains += explainer.put_right(item.place, item.place.off)
    further = explainer.run()
    looked.left += explainer.left
    return further


def _others(places: list[Place], taken: list[Taken]) -> list[Place]:
    """The places that were neither taken nor explained by one taken."""
    listed = {place.key for item in taken for place in (item.place, *item.explains)}
    return [place for place in places if place.key not in listed]


def _head(looked: Looked, tests: Multiplicity, item: Taken) -> list[Finding]:
    head = finding(looked, tests, item.place, specific=item.place.specific)
    seen = {head.where}
    children: list[Finding] = []
    for place in sorted(item.explains, key=lambda p: p.adjusted):
        if len(children) >= CHILDREN:
            break
        child = finding(looked, tests, place, specific=place.specific, parent=head.where)
        same_rows = (child.rows, child.weight, child.predicted) == (head.rows, head.weight, head.predicted)
        if child.where not in seen and not same_rows:
            seen.add(child.where)
            children.append(child)
    return [replace(head, explains=len(item.explains)), *children]


def _whole(
    looked: Looked, place: Place, tests: Multiplicity, taken: list[Taken], random_state: int
) -> tuple[float, Finding]:
    """The finding about all rows, and what it is worth; explained by the first place taken if nothing is left."""
    found = finding(looked, tests, place, specific=False)
    if not found.real:
        return -math.inf, found
    low = looked.score.extra["kuiper_noise"]["interval"][0] * found.weight
    after = score_after(looked, [item.place for item in taken], random_state) if taken else 0.0
    if tests.bonferroni(place.family, after) > tests.level:
        return -math.inf, finding(looked, tests, place, specific=False, parent=taken[0].place.words)
    return max(found.at_least, low), found


def _spread_general(
    looked: Looked, tests: Multiplicity, general: list[Place], whole: tuple[float, Finding], ordered: Ordered
) -> None:
    """List general findings under the whole table, or under what explains the whole table."""
    bound, found = whole
    parent = found.parent
    if parent is not None:
        home = ordered[0][1]
        home.append(found)
    else:
        heads = list(ordered)
        ordered.append((bound, [found]))
        home, parent = ordered[-1][1], found.where if found.real else None
        if parent is None and heads:  # the total is right: what is not specific belongs to the first place that is
            home = heads[0][1]
            parent = home[0].where
    seen = {item.where for _, items in ordered for item in items}
    for place in sorted(general, key=lambda p: p.adjusted)[: 2 * CHILDREN]:
        if parent is not None and sum(item.parent == parent for item in home) >= CHILDREN:
            break
        made = finding(looked, tests, place, specific=False, parent=parent)
        if made.where in seen:
            continue
        seen.add(made.where)
        if parent is None:
            ordered.append((made.at_least, [made]))
        else:
            home.append(made)


def finding(looked: Looked, tests: Multiplicity, place: Place, *, specific: bool, parent: str | None = None) -> Finding:
    """One place as a finding."""
    raw, rows, group = place.raw, looked.rows, place.group
    number = tests.severity(place)
    weight = float(raw.weight[0])
    gap = place.off / weight
    if rows.raw.cluster is None:
        error = math.sqrt(float(rows.variance(raw)[0])) / weight
        interval = rows.gap_interval(raw, number, tests.level)
    else:
        error = math.sqrt(cluster_sums(rows.raw, place.rows)[1]) / weight
        reach = adjusted_z(number, tests.level) * error
        interval = gap - reach, gap + reach
    own_class = bool(looked.name) and group.kind != "score"
    real = bool(place.adjusted <= tests.level)
    searched = group.kind == "neighbourhood" or (isinstance(group, Own) and group.condition is not None)
    return Finding(
        code=getattr(group, "code", None) or CODES[group.kind],
        kind=group.kind,
        where=f"{place.words} (class {looked.name})" if own_class else place.words,
        scope=f"class {looked.name}" if looked.name else "",
        columns=group.names,
        levels=group.levels(place.box),
        rows=int(raw.rows[0]),
        weight=weight,
        predicted=float(raw.predicted[0]) / weight,
        observed=float(raw.observed[0]) / weight,
        gap=gap,
        interval=interval,
        events_off=gap * weight,
        p_value=place.adjusted,
        bound=place.bound,
        real=real,
        specific=bool(specific and real),
        parent=parent,
        shrunken=float(shrunken_gap([gap], [error], number, tests.level)[0]) if real else gap,
        condition=tuple(place.conjunction.to_dict()),
        definition=place.conjunction.words() if searched else None,
    )
