"""One row with its columns, as plain Python: trees, groups and augmented maps without making arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from math import isnan
from typing import Any

from miscal.data.errors import MiscalError
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.export.row import General, Number, Row, code, held, level, number

Beside = Callable[[float, Row], float]


def beside_of(recalibrator: Recalibrator) -> Beside | None:
    """A function from a probability and a row to the event's probability; None where there is none."""
    writer = _WRITERS.get(type(recalibrator).__name__)
    if writer is None or recalibrator.n_classes_ != 2 or recalibrator.identity_:
        return None
    try:
        return writer(recalibrator)
    except (MiscalError, General):
        return None


def _score_map(recalibrator: Recalibrator | None) -> Callable[[float], float]:
    from miscal.recalibrate.export.single import function_of

    if recalibrator is None:
        raise General
    return function_of(nodes.formula(recalibrator))


def _cut_readers(made: Any, missing: Callable[[Any], float]) -> list[Callable[[Row], float]]:
    """Each column as the number that trees cut; `missing` says what a missing number becomes."""
    readers: list[Callable[[Row], float]] = []
    for coding in made._codings():  # noqa: SLF001
        if coding.nominal:
            readers.append(code(coding.name, coding.levels, int(coding.low), int(coding.high)))
        else:
            readers.append(held(number(coding.name), coding.low, coding.high, missing(coding)))
    return readers


def leaf_finder(made: Any) -> Callable[[Row], int]:
    """A function from a row to the leaf of a `VariableTree` that it falls in."""
    readers = _cut_readers(made, lambda _: math.inf)
    column, threshold = made.node_column_.tolist(), made.node_threshold_.tolist()
    left, right = made.node_left_.tolist(), made.node_right_.tolist()

    def find(row: Row) -> int:
        node = 0
        while left[node] >= 0:
            node = left[node] if readers[column[node]](row) <= threshold[node] else right[node]
        return node

    return find


def _tree(made: Any) -> Beside:
    find = leaf_finder(made)
    maps = {node: _score_map(leaf) for node, leaf in enumerate(made.leaves_) if leaf is not None}
    return lambda p, row: maps[find(row)](p)


def _boosted(made: Any) -> Beside:
    """Rounds of trees on the columns and the logit so far, each round scaled."""
    from miscal.recalibrate.by_columns.multicalibration import EDGE

    readers = _cut_readers(made, lambda coding: coding.high + 1.0 + abs(coding.high))
    column, threshold = made.node_column_.tolist(), made.node_threshold_.tolist()
    left, right, value = made.node_left_.tolist(), made.node_right_.tolist(), made.node_value_.tolist()
    ends = [0, *made.ends_.tolist()]
    roots = made.roots_.tolist()
    rounds = [(roots[ends[i] : ends[i + 1]], scale) for i, scale in enumerate(made.scales_.tolist())]
    log, log1p, exp = math.log, math.log1p, math.exp

    def run(p: float, row: Row) -> float:
        if not rounds:
            return p
        held = min(max(p, EDGE), 1.0 - EDGE)
        logit = log(held) - log1p(-held)
        numbers = [read(row) for read in readers]
        numbers.append(logit)
        for trees, scale in rounds:
            numbers[-1] = logit
            for root in trees:
                node = root
                while left[node] >= 0:
                    node = left[node] if numbers[column[node]] <= threshold[node] else right[node]
                logit += value[node]
            logit *= scale
        small = exp(-abs(logit))
        return (1.0 if logit >= 0.0 else small) / (1.0 + small)

    return run


def group_chain(made: Any) -> Callable[[Row], list[tuple[int, float]]]:
    """A function from a row to its groups' maps, from the coarsest to the finest, and what each counts for."""
    if made.handle_unknown not in ("parent", "global"):
        raise General
    width = len(made.names_)
    readers = [level(str(name), levels) for name, levels in zip(made.names_, made.levels_, strict=True)]
    keys = made.keys_.reshape(-1, width).tolist()
    shares = (made.sizes_ / (made.sizes_ + made.strength_)).tolist()
    places = {tuple(key): (place, shares[place]) for place, key in enumerate(keys)}
    depths = [(depth, (-2,) * (width - depth)) for depth in made._depths(width)]  # noqa: SLF001

    def chain(row: Row) -> list[tuple[int, float]]:
        codes = tuple(read(row) for read in readers)
        found = [places.get(codes[:depth] + rest) for depth, rest in depths]
        return [each for each in found if each is not None]

    return chain


def _groups(made: Any) -> Beside:
    chain, whole = group_chain(made), _score_map(made.whole_[0])
    maps = [_score_map(each) for each in made.maps_]

    def run(p: float, row: Row) -> float:
        out = whole(p)
        for place, share in chain(row):
            out = share * maps[place](p) + (1.0 - share) * out
        return out

    return run


def augmented_map(made: Any, k: int) -> Beside:
    """The logistic regression of class k: each column's part of the sum on its own."""
    if bool(made.kept_[k]):
        return lambda p, row: p  # noqa: ARG005
    design, features = made._design(), made._features()  # noqa: SLF001
    own = features.count
    beta = made.coefficients_[k, own:]
    start = float(made.intercepts_[k] - beta @ made.centres_)
    parts: list[Number] = []
    at = 0
    for j, width in enumerate(design.widths):
        parts.append(_part(design, j, beta[at : at + width].tolist()))
        at += width
    score = _score_part(features, made.coefficients_[k, :own].tolist())
    exp = math.exp

    def run(p: float, row: Row) -> float:
        x = start + score(p)
        for part in parts:
            x += part(row)
        small = exp(-abs(x))
        return (1.0 if x >= 0.0 else small) / (1.0 + small)

    return run


def _blend(made: Any) -> Beside:
    """The weighted mean of the members' logits."""
    from miscal.recalibrate.fitting.logistic import LOGIT_CLIP

    members = [_step(member) for member in made.members_]
    weights = made.weights_.tolist()
    log, exp = math.log, math.exp

    def run(p: float, row: Row) -> float:
        x = 0.0
        for weight, member in zip(weights, members, strict=True):
            own = member(p, row)
            x += weight * (log(max(own, LOGIT_CLIP)) - log(max(1.0 - own, LOGIT_CLIP)))
        small = exp(-abs(x))
        return (1.0 if x >= 0.0 else small) / (1.0 + small)

    return run


def _part(design: Any, j: int, beta: list[float]) -> Number:
    if design.nominal[j]:
        count = len(design.levels[j])
        place = code(design.names[j], design.levels[j], -2, -1)
        # Unseen and commonest levels add nothing; missing adds its own coefficient, where fit had missing ones.
        table = [*beta[:count], beta[-1] if design.missing[j] else 0.0, 0.0]
        return lambda row: table[place(row)]
    read, mean, offset, spread = number(design.names[j]), design.means[j], design.offsets[j], design.spreads[j]
    most = 10.0 ** (99.0 / design.degree)
    powers, gone = beta[: design.degree], beta[-1] if design.missing[j] else 0.0

    def run(row: Row) -> float:
        value = read(row)
        absent = isnan(value)
        x = min(max(((mean if absent else value) - offset) / spread, -most), most)
        total, power = gone if absent else 0.0, 1.0
        for factor in powers:
            power *= x
            total += factor * power
        return total

    return run


def _score_part(features: Any, factors: list[float]) -> Callable[[float], float]:
    from miscal.recalibrate.export.single import function_of

    p: Any = nodes.Probability()
    if features.kind == "logit":
        held = nodes.Held(p, nodes.LOGIT_CLIP, 1.0 - nodes.LOGIT_CLIP)
        terms = ((factors[0], nodes.Log(held)), (-factors[0], nodes.Log(held, of_rest=True)))
    elif features.kind == "beta":
        moved = nodes.Moved(p, features.clip)
        terms = ((factors[0], nodes.Log(moved)), (-factors[1], nodes.Log(moved, of_rest=True)))
    else:
        return lambda q: factors[0] * q
    return function_of(nodes.Linear(terms, 0.0))


def _chain(made: Any) -> Beside:
    steps = [_step(step) for step in made.steps_]

    def run(p: float, row: Row) -> float:
        for step in steps:
            p = step(p, row)
        return p

    return run


def _step(made: Recalibrator) -> Beside:
    """A step's function; one of the score does not look at the row."""
    if made.uses_columns and not made.identity_:
        found = beside_of(made)
        if found is None:
            raise General
        return found
    score = _score_map(made)
    return lambda p, row: score(p)  # noqa: ARG005


def _elsewhere(module: str) -> Callable[[Any], Beside]:
    """A writer of another module, which is imported when it is needed."""
    return lambda made: import_module(f"miscal.recalibrate.{module}").one_row(made)


_WRITERS: dict[str, Callable[[Any], Beside]] = {
    "VariableTree": _tree,
    "GroupWise": _groups,
    "MulticalibrationBoost": _boosted,
    "AugmentedLogistic": lambda made: augmented_map(made, 0),
    "AugmentedBeta": lambda made: augmented_map(made, 0),
    "Chain": _chain,
    "Augmentation": _elsewhere("beside_augmentation"),
    "BinAndCycle": _elsewhere("beside_cycle"),
    "LocalRecalibration": _elsewhere("beside_local"),
    "NeuralCalibration": _elsewhere("beside_neural"),
    "Blend": _blend,
}
