"""From places to findings: sizes, intervals, parents and the order."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from miscal.auditing.findings import CODES, Finding
from miscal.auditing.search.explain import Explainer, Taken
from miscal.auditing.search.groups import Rows, replace_noise
from miscal.auditing.search.looking import Looked, real_places, score_after
from miscal.auditing.search.places import Multiplicity, Place
from miscal.inference.adjust import shrunken_gap
from miscal.inference.intervals import cell_gap_intervals

CHILDREN = 12  # places listed under the one that explains them; the rest are counted
Ordered = list[tuple[float, list[Finding]]]


def findings_of(looked: Looked, tests: Multiplicity, random_state: int) -> Ordered:
    """Findings of one target, each head with those that it explains, with what orders the heads."""
    real = real_places(looked, tests)
    specific = [place for place in real if place.specific]
    explainer = Explainer(looked.rows, tests, specific, looked.groups)
    taken = explainer.run()
    looked.left = explainer.left
    if not _is_real(looked, tests):
        taken += _as_predicted(looked, tests, real, taken)
    ordered: Ordered = []
    listed = {place.key for item in taken for place in (item.place, *item.explains)}
    for item in taken:
        ordered.append((item.bound, _head(looked, tests, item)))
    general = [place for place in real if place.key not in listed]
    whole = _whole(looked, tests, taken, random_state)
    _spread_general(looked, tests, general, whole, ordered)
    return ordered


def _is_real(looked: Looked, tests: Multiplicity) -> bool:
    return looked.whole is not None and looked.whole.adjusted <= tests.level


def _as_predicted(looked: Looked, tests: Multiplicity, real: list[Place], taken: list[Taken]) -> list[Taken]:
    """The general places that explain the others when the whole table is not off: judged as predicted.

    What the places taken explain as predicted is added to them.
    """
    listed = {place.key for item in taken for place in (item.place, *item.explains)}
    general = [place for place in real if place.key not in listed]
    bare = [replace(place, beyond=place.raw) for place in general]
    original = {id(made): place for made, place in zip(bare, general, strict=True)}
    groups = [replace(group, beyond=group.raw) for group in looked.groups]
    rows = replace(looked.rows, beyond=looked.rows.raw)
    explainer = Explainer(rows, tests, bare, groups, stretches=False)
    for item in taken:
        item.explains += [
            original[id(place)] for place in explainer.put_right(replace(item.place, beyond=item.place.raw))
        ]
    further = explainer.run()
    looked.left += explainer.left
    return [Taken(original[id(f.place)], f.bound, [original[id(p)] for p in f.explains]) for f in further]


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


def _whole(looked: Looked, tests: Multiplicity, taken: list[Taken], random_state: int) -> tuple[float, Finding]:
    """The finding about all rows, and what it is worth; explained by the first place taken if nothing is left."""
    place = looked.whole
    assert place is not None
    found = finding(looked, tests, place, specific=False)
    if not found.real:
        return -math.inf, found
    least = max(found.interval[0], -found.interval[1], 0.0) * found.weight
    low = looked.score.extra["kuiper_noise"]["interval"][0] * found.weight
    after = score_after(looked, [item.place for item in taken], random_state) if taken else 0.0
    if tests.bonferroni(place.family, after) > tests.level:
        return -math.inf, finding(looked, tests, place, specific=False, parent=taken[0].place.words)
    return max(least, low), found


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
            ordered.append((_least(made), [made]))
        else:
            home.append(made)


def _least(found: Finding) -> float:
    low, high = found.interval
    return max(low, -high, 0.0) * found.weight


def finding(looked: Looked, tests: Multiplicity, place: Place, *, specific: bool, parent: str | None = None) -> Finding:
    """One place as a finding."""
    raw, rows = place.raw, looked.rows
    number = tests.severity(place)
    weight = float(raw.weight[0])
    gap = float((raw.predicted - raw.observed)[0]) / weight
    error = math.sqrt(float(_variance(place, rows))) / weight
    interval = _interval(place, rows, number, tests.level, gap, error)
    group = place.group
    name = f"{place.words} (class {looked.name})" if looked.name and place.kind != "score" else place.words
    levels = place.levels or (group.levels(place.box) if group else ())
    real = bool(place.adjusted <= tests.level)
    return Finding(
        code=CODES[place.kind],
        kind=place.kind,
        where=name,
        scope=f"class {looked.name}" if looked.name else "",
        columns=place.names,
        levels=levels,
        rows=int(raw.rows[0]),
        weight=weight,
        predicted=float(raw.predicted[0]) / weight,
        observed=float(raw.observed[0]) / weight,
        gap=gap,
        interval=interval,
        events_off=gap * weight,
        p_value=place.adjusted,
        real=real,
        specific=bool(specific and real),
        parent=parent,
        shrunken=float(shrunken_gap([gap], [error], number, tests.level)[0]) if real else gap,
        condition=tuple(place.conjunction.to_dict()),
        definition=place.condition.words() if place.condition is not None else None,
    )


def _variance(place: Place, rows: Rows) -> float:
    pair = rows.raw
    if pair.cluster is None:
        return float(rows.variance(place.raw)[0])
    members = place.rows
    residual = pair.observed[members] - pair.predicted[members]
    if pair.first is not None:
        residual = residual * pair.first[members]
    return float(np.sum(np.bincount(pair.cluster[members], residual) ** 2))


def _interval(place: Place, rows: Rows, number: int, level: float, gap: float, error: float) -> tuple[float, float]:
    from miscal.inference.adjust import adjusted_z

    if rows.raw.cluster is not None:
        reach = adjusted_z(number, level) * error
        return gap - reach, gap + reach
    low, high = cell_gap_intervals(
        replace_noise(place.raw, rows.spread),
        weighted=rows.raw.weight is not None,
        tests=number,
        level=level,
        null=rows.noise.null,
    )
    return float(low[0]), float(high[0])
