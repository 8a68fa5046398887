"""From places to findings: which explain the others, their sizes, intervals and parents, and the order.

The place with most events off for certain is taken and put right, then the others are looked at again.
"""

import math
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter

import numpy as np

from miscal.auditing.search.build_findings import findings
from miscal.auditing.search.candidates import (
    Candidate,
    Overlap,
    TargetSearch,
    box_place,
    effects,
    plain_chance,
)
from miscal.auditing.search.cell_grids import CellGrid, best_boxes, noise_left
from miscal.auditing.search.score_profiles import mark_decided, mark_tests, see_along
from miscal.data.arrays import Array
from miscal.report.findings import Finding
from miscal.stats.multiplicity import adjusted_z
from miscal.stats.normal import normal_z
from miscal.stats.score_shape import miscalibration_form, shape_test
from miscal.stats.sign_flip import clustered_sum

NEARLY = 0.3  # bounds above this share of the best compete for explaining the same rows
SHARED = 0.5  # places that share this part of the smaller one's weight are about the same rows
MOST_DECIDED = 3  # places that one row decides, which are mentioned: most are the same row again
MOST = 40  # places taken; what is left is counted
INSIDE = 0.5  # of a place that a simpler one must hold
CLEARLY = 1.1  # times the bound of a simpler place, from which a combination is worth its further column
MOST_KINDS = 15  # columns and combinations of columns that they may belong to
ALL = 0.98  # of the weight: a place that holds so much is the whole table under another name
LEAST = 0.03  # a place whose bound is below this share of the first one's is not taken
Ordered = list[tuple[float, Finding]]


class Explainer:
    """The places still open, and what is left of their error after those taken were put right."""

    def __init__(self, looked: TargetSearch, places: list[Candidate], *, beyond: bool = True) -> None:
        self.looked, self.rows, self.tests = looked, looked.rows, looked.tests
        self.open, self.beyond = places, beyond
        self.of = attrgetter("beyond" if beyond else "raw")  # as predicted no new stretches are looked for
        # What others share with a place; the last is kept: what is chosen is put right next.
        self.overlap = lru_cache(1)(partial(Overlap, self.rows))
        self.total = looked.total if beyond else math.inf  # of rows on which the score was put right
        self.critical = adjusted_z(self.tests.total, self.tests.level)
        # What is left of the error of each cell, where stretches are searched.
        self.off = {group: group.beyond.off for group in looked.columns if group.ordered and beyond}
        for place in self.open:
            self._measure(place)

    def _measure(self, place: Candidate) -> None:
        """Note what is left of a place's error, along the score where that is known, and its standard deviation."""
        along = place.along and place.along[self.beyond]
        place.start = (along or self.of(place)).off
        tests = self.tests
        needed = adjusted_z(tests.severity(place), tests.level)
        place.needed = needed, adjusted_z(tests.severity_beyond(place), tests.level)
        if self.rows.raw.cluster is not None:
            place.deviation = max(math.sqrt(clustered_sum(self.of(self.rows), place.rows)[1]), 1e-150)
        else:
            place.deviation = self.rows.deviation(self.of(place), self.total)
        if along:
            variance = along.variance
            place.noise = variance * noise_left(variance.sum(), self.total)
        self._leave(place, place.start)

    def _leave(self, place: Candidate, left: Array) -> None:
        """Note what is left of a place, and how far off that is along the score, in standard deviations of a normal."""
        place.left, place.bent = left, 0.0
        if place.shape and left.size > 1:
            place.bent = float(normal_z(shape_test(left, place.noise).p_value))

    def run(self) -> list[Candidate]:
        """Take places until none is significant any more."""
        taken: list[Candidate] = []
        while True:
            candidates = [place for place in self.open if self._still_off(place)]
            for group in self.off:
                stretch = self._stretch(group)
                if stretch is not None and stretch.key not in {other.key for other in candidates}:
                    candidates.append(stretch)
            if not candidates:
                return taken
            place = self._choose(candidates)
            kinds = {one.group.names for one in (*taken, place)}
            too_many = len(taken) >= MOST or len(kinds) > MOST_KINDS
            if too_many or (taken and self._bound(place) < LEAST * taken[0].certain):
                self.looked.left += len(candidates)
                return taken
            taken.append(self.taken(place))

    def taken(self, place: Candidate) -> Candidate:
        """Take a place, whatever the others are worth."""
        place.certain, place.explains = max(self._bound(place), 0.0), self.put_right(place, place.left)
        return place

    def _still_off(self, place: Candidate) -> bool:
        """Whether a place is as many standard errors off as it takes, allowing for the stretches searched."""
        needed, beyond = place.needed
        return place.z >= needed or (self.beyond and place.bent >= beyond)

    def _stretch(self, group: CellGrid) -> Candidate | None:
        """The worst stretch of a variable in what is left, if it is beyond noise as predicted too."""
        rows, tests, off = self.rows, self.tests, self.off[group]
        best = best_boxes(group, off, self.total, beyond=True)
        if not best:
            return None
        box, z = best[0]
        place = box_place(group, box, group.searched)
        place.specific = True
        place.p_value = plain_chance(place, rows) * group.searched
        place.adjusted = tests.bonferroni(place)
        left = group.summed(off, box)
        too_near = z < adjusted_z(tests.severity(place), tests.level)
        if too_near or left * place.off <= 0 or not place.adjusted <= tests.level:
            return None
        see_along([place], rows)
        if rows.lookup is None:
            mark_decided([place], self.looked)
        self._measure(place)
        place.left = place.start = left.reshape(1)
        return None if place.deciding else place

    def _choose(self, candidates: list[Candidate]) -> Candidate:
        """The largest bound, or the place among those about the same rows that describes it best.

        Among overlapping places with bounds that are not much smaller, the one with the largest z²/2 less the
        logarithm of how many such places there were: what the data say for it, less the freedom of having looked.
        """
        bounds = {p: self._bound(p) for p in candidates}
        cost = {p: math.log(self.tests.severity(p)) for p in candidates}
        top = max(candidates, key=lambda p: (bounds[p], -cost[p]))
        near = [p for p in candidates if bounds[p] >= NEARLY * bounds[top] or cost[p] <= cost[top]]
        near = [p for p in near if p is top or _one_way(p, top)]
        overlap = self.overlap(top)
        overlap.know(near)
        # Those that are about the same rows.
        same = [p for p in near if p is top or overlap.weight(p).sum() >= SHARED * min(p.size, top.size)]
        return self._simpler(max(same, key=lambda p: 0.5 * p.z**2 - cost[p]), bounds)

    def _simpler(self, chosen: Candidate, bounds: dict[Candidate, float]) -> Candidate:
        """A place of fewer of its columns that holds it, if the rest of that place errs alike, or is off by itself.

        Alike: no further apart than noise makes the best of as many parts of it as could have been chosen.
        """
        names, overlap = set(chosen.group.names), self.overlap(chosen)
        alike = adjusted_z(chosen.searched * max(len(self.looked.columns), 1), self.tests.level)
        for wider in sorted(bounds, key=lambda p: len(p.group.names)):
            if not (set(wider.group.names) < names and _one_way(wider, chosen)):
                continue
            share = overlap.weight(wider).sum() / chosen.size
            if share < INSIDE or wider.size <= share * chosen.size:
                continue
            (own, rest), noise = effects(chosen, wider, share, beyond=self.beyond)
            apart = abs(own - rest) / math.hypot(*noise)
            too = own * rest > 0 and abs(rest) >= alike * noise[1]
            if apart <= alike or (too and CLEARLY * bounds[wider] >= bounds[chosen]):
                return wider
        return chosen

    def _bound(self, place: Candidate) -> float:
        """Events off for certain: the smaller of what is left beyond the score and of what was predicted."""
        noise = math.sqrt(self.rows.variance(place.raw)[0])
        left = abs(float(place.left.sum())) - self.critical * place.deviation
        plain = min(left, abs(place.off) - self.critical * noise)
        if place.along is None or not place.bent:
            return plain
        if math.isnan(place.bent_off):
            raw = place.along[0]
            place.bent_off = self._disagreeing(
                raw.off, raw.variance, float(normal_z(shape_test(raw.off, raw.variance).p_value))
            )
        left = self._disagreeing(place.left, place.along[self.beyond].variance, place.bent)
        return max(plain, min(left, place.bent_off))

    def _disagreeing(self, off: Array, variance: Array, bent: float) -> float:
        """Events off for certain in the ranges of the score that disagree, added."""
        _, ends = miscalibration_form(off, variance, average=False, shape=True)
        size = float(sum(abs(off[first : last + 1].sum()) for first, last in ends))
        return size * max(0.0, 1.0 - self.critical / max(bent, 1e-300))

    def put_right(self, place: Candidate, off: Array) -> list[Candidate]:
        """Take the gaps of a place out of its rows; places that are not off any more may be explained by it.

        Explained is what lies in it by at least half of its own rows, erred the same way, and does not once this place
        alone is put right; what it takes several places to explain is listed under none. Where a sample shows which
        rows places share, only what so many of its rows make certain counts: what too few show is not explained.
        """
        overlap = self.overlap(place)
        weight = place.raw.weight
        if place.along is not None and off.size == self.rows.grid.cells > 1:
            weight = place.along[0].weight
        else:
            off = off.sum(keepdims=True)
        gap = off / np.where(weight > 0, weight, math.inf)
        for group, own in self.off.items():
            self.off[group] = own - (gap * overlap.cells(group)).sum(axis=1)
        others = [other for other in self.open if other.key != place.key]
        overlap.know(others)
        still: list[Candidate] = []
        explained: list[Candidate] = []
        for other in others:
            shared = overlap.certain(other)
            change = gap * shared
            if other.left.size != change.size:
                parts = np.ones(1) if other.along is None else other.along[0].weight
                change = change.sum() * parts / parts.sum()
            was = self._still_off(other)
            self._leave(other, other.left - change)
            if was and self._still_off(other):
                still.append(other)
            elif shared.sum() >= SHARED * other.size and _one_way(other, place):
                self._leave(other, other.start - change)  # by this place alone
                explained += [] if self._still_off(other) else [other]
        self.open = still
        return explained


def _one_way(one: Candidate, other: Candidate) -> bool:
    """Whether two places do not err in opposite ways: those that are off on average, by sign."""
    return not (one.average and other.average) or one.off * other.off > 0


def real_places(looked: TargetSearch) -> list[Candidate]:
    """The places beyond noise, each once, with what they are on average and along the score, as predicted and beyond.

    What is nearly the whole table is left to the finding about the whole table. Of several names for the same rows
    (a level, and a pair of columns one of which tells the other) the simplest is kept.
    """
    tests, most = looked.tests, ALL * looked.whole.size
    once: dict[tuple[float, ...], Candidate] = {}
    for place in looked.places:
        if math.isnan(place.adjusted):  # no test of its own: as if it were the first of its family
            place.adjusted = tests.bonferroni(place)
        if not place.adjusted <= tests.level or place.size >= most:
            continue
        sums = place.raw.rows[0], place.raw.predicted[0], place.raw.observed[0]
        other = once.setdefault(sums, place)
        kept = min(other, place, key=lambda one: (len(one.group.names), one.searched, one.adjusted))
        kept.adjusted = min(other.adjusted, place.adjusted)
        once[sums] = kept
    real = list(once.values())
    see_along(real, looked.rows)
    for place in real:
        mark_tests(looked, place)
    mark_decided(real, looked)
    looked.decided = [place for place in real if place.deciding]
    return [place for place in real if not place.deciding]


def findings_of(looked: TargetSearch) -> Ordered:
    """Findings of one target that no other explains, each with those that it explains, and what orders them.

    First the places that are off beyond the score. When they are put right, the whole table if it is still off as
    predicted, and then what is left of the other places, as predicted too.
    """
    real = real_places(looked)
    specific = Explainer(looked, [place for place in real if place.specific])
    taken = specific.run()
    whole = _whole(looked)
    listed = {place.key for one in taken for place in (one, *one.explains)}
    others = [place for place in real if place.key not in listed]
    general = Explainer(looked, [*whole, *others], beyond=False)
    for one in taken:
        # Its average alone where only that is beyond noise.
        off = one.along[0].off if one.along and one.shape else one.raw.off
        one.explains += [place for place in general.put_right(one, off) if place not in whole]
    for place in whole:
        if place in general.open:
            taken.append(general.taken(place))
            if not looked.rows.here:  # sums without rows: what is not off beyond the score is the score's
                taken[-1].explains += general.open
                general.open = []
    taken += general.run()
    ordered = [(place.certain, _head(looked, place)) for place in taken]
    _add_extremes(looked, taken, ordered)
    # Places that one row decides and that no finding may explain: of no column of one, and not most of the table.
    known = {name for place in taken for name in place.group.names}
    most = SHARED * looked.whole.size
    left = [
        p for p in looked.decided if p is looked.whole or (known.isdisjoint(p.group.names) and p.size <= most)
    ]
    decided = sorted(left, key=lambda place: place.adjusted)[:MOST_DECIDED]
    return ordered + [(-1.0, made) for made in findings(looked, decided)]


def _add_extremes(looked: TargetSearch, taken: list[Candidate], ordered: Ordered) -> None:
    """List the ends of the scale: certain rows by themselves, the others under what they are a part of.

    That is the whole table, or the place that holds most of an end, at least half of it.
    """
    ends = [place for place in looked.extremes if place.adjusted <= looked.tests.level]
    for place, found in zip(ends, findings(looked, ends), strict=True):
        low, high = found.interval  # by clusters it may reach over 0, though the test by clusters does not
        made = replace(found, interval=(max(low, 0.0), high) if found.gap > 0 else (low, min(high, 0.0)))
        home = -1
        if place.searched > 1 and looked.whole in taken:
            home = taken.index(looked.whole)
        elif (
            place.searched > 1 and looked.rows.here and taken
        ):  # sums do not tell which rows it shares with a place
            shares = [Overlap(looked.rows, other).weight(place).sum() for other in taken]
            home = int(np.argmax(shares)) if max(shares) >= SHARED * place.size else -1
        if home < 0:
            ordered.append((made.at_least, made))
            continue
        bound, head = ordered[home]
        ordered[home] = bound, replace(head, explained=(*head.explained, replace(made, parent=head.where)))


def _whole(looked: TargetSearch) -> list[Candidate]:
    """The place of all rows, if it is beyond noise by either of its tests."""
    place, bent = looked.whole, looked.bent
    if bent.adjusted < place.adjusted:
        place.adjusted, place.bound = bent.adjusted, bent.bound
    if not place.adjusted <= looked.tests.level:
        return []
    level = looked.tests.level
    place.average = plain_chance(place, looked.rows) <= level
    # Right on average and yet beyond noise: it is off along the score, whatever its mean happens to be.
    place.shape = not place.average
    if place.average and place.along is not None:
        own = place.along.raw
        place.shape = bool(shape_test(own.off, own.variance).p_value <= level)
    mark_decided([place], looked)
    if place.deciding:
        looked.decided.append(place)
        return []
    return [place]


def _head(looked: TargetSearch, place: Candidate) -> Finding:
    """A finding with the places that it explains, each once, the most significant first."""
    head, *others = findings(looked, [place, *sorted(place.explains, key=lambda p: p.adjusted)])
    under = {head.where: head}
    for child in others:
        under.setdefault(child.where, replace(child, parent=head.where))
    return replace(head, explained=tuple(under.values())[1:])
