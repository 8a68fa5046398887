"""From places to findings: sizes, intervals, parents and the order."""

from __future__ import annotations

import math
from dataclasses import replace

from miscal.auditing.findings import CODES, Finding
from miscal.auditing.search.explain import Explainer, Taken
from miscal.auditing.search.groups import cluster_sums
from miscal.auditing.search.looking import Looked, real_places, score_after
from miscal.auditing.search.places import Multiplicity, Own, Place
from miscal.inference.adjust import adjusted_z
from miscal.inference.ranking import shrunken_gap

CHILDREN = 12  # places listed under the one that explains them; the rest are counted
Ordered = list[tuple[float, list[Finding]]]


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
    return ordered


def _as_predicted(looked: Looked, tests: Multiplicity, real: list[Place], taken: list[Taken]) -> list[Taken]:
    """The general places that explain the others when the whole table is not off: judged as predicted.

    What the places taken explain as predicted is added to them.
    """
    explainer = Explainer(looked.rows, tests, _others(real, taken), looked.groups, beyond=False)
    for item in taken:
        item.explains += explainer.put_right(item.place)
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
    condition = group.condition if isinstance(group, Own) else None
    return Finding(
        code=CODES[group.kind],
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
        real=real,
        specific=bool(specific and real),
        parent=parent,
        shrunken=float(shrunken_gap([gap], [error], number, tests.level)[0]) if real else gap,
        condition=tuple(place.conjunction.to_dict()),
        definition=None if condition is None else condition.words(),
    )
