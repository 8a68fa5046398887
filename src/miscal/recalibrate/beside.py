"""One row with its columns, as plain Python: trees, groups and augmented maps without making arrays.

Values of another type than fit had, and everything else that is not plain, raise `General`: the caller then takes the
general way, which converts, or refuses in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any

from miscal.data.errors import MiscalError
from miscal.recalibrate import formula as nodes
from miscal.recalibrate.base import Recalibrator

Row = Mapping[str, Any]
Beside = Callable[[float, Row], float]
Number = Callable[[Row], float]
Code = Callable[[Row], int]


class General(Exception):
    """A row needs the general way; not an error."""


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
    from miscal.recalibrate.single import function_of

    if recalibrator is None:
        raise General
    return function_of(nodes.formula(recalibrator))


def _number(name: str) -> Number:
    """The row's number, NaN where it is missing."""

    def read(row: Row) -> float:
        value = row[name]
        kind = type(value)
        if kind is float and not math.isinf(value):
            return float(value)
        if kind is int and abs(value) < 2**53:
            return float(value)
        if value is None:
            return math.nan
        raise General

    return read


def _code(name: str, levels: Sequence[Any], missing: int, unseen: int) -> Code:
    """The place of the row's word among the levels."""
    known = [level for level in levels if level is not None]
    if not all(type(level) is str for level in known):
        raise General
    place = {level: i for i, level in enumerate(levels) if level is not None}

    def read(row: Row) -> int:
        value = row[name]
        if type(value) is str:
            return place.get(value, unseen)
        if value is None:
            return missing
        raise General

    return read


def _level(name: str, levels: Sequence[Any]) -> Code:
    """The place of the row's word or number among the levels of a group; unseen ones are -1."""
    known = [level for level in levels if level is not None]
    if all(type(level) is str for level in known) and known:
        return _code(name, known, len(known) if None in levels else -1, -1)
    if not all(type(level) in (int, float) for level in known):
        raise General
    place = {float(level): i for i, level in enumerate(known)}
    number, missing = _number(name), len(known) if None in levels else -1

    def read(row: Row) -> int:
        value = number(row)
        return missing if isnan(value) else place.get(value, -1)

    return read


def _cut_readers(made: Any, missing: Callable[[Any], float]) -> list[Callable[[Row], float]]:
    """Each column as the number that trees cut; `missing` says what a missing number becomes."""
    readers: list[Callable[[Row], float]] = []
    for coding in made._codings():  # noqa: SLF001
        if coding.nominal:
            readers.append(_code(coding.name, coding.levels, int(coding.low), int(coding.high)))
        else:
            readers.append(_held(_number(coding.name), coding.low, coding.high, missing(coding)))
    return readers


def _tree(made: Any) -> Beside:
    readers = _cut_readers(made, lambda _: math.inf)
    maps = [None if leaf is None else _score_map(leaf) for leaf in made.leaves_]
    column, threshold = made.node_column_.tolist(), made.node_threshold_.tolist()
    left, right = made.node_left_.tolist(), made.node_right_.tolist()

    def run(p: float, row: Row) -> float:
        node = 0
        while left[node] >= 0:
            node = left[node] if readers[column[node]](row) <= threshold[node] else right[node]
        leaf = maps[node]
        assert leaf is not None
        return leaf(p)

    return run


def _held(number: Number, low: float, high: float, missing: float) -> Number:
    def read(row: Row) -> float:
        value = number(row)
        return missing if isnan(value) else min(max(value, low), high)

    return read


def _boosted(made: Any) -> Beside:
    """Rounds of trees on the columns and the logit so far, each round scaled."""
    from miscal.recalibrate.multicalibration import EDGE

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


def _groups(made: Any) -> Beside:
    if made.handle_unknown not in ("parent", "global"):
        raise General
    names, width = [str(name) for name in made.names_], len(made.names_)
    readers = [_level(name, levels) for name, levels in zip(names, made.levels_, strict=True)]
    keys = made.keys_.reshape(-1, width).tolist()
    shares = (made.sizes_ / (made.sizes_ + made.strength_)).tolist()
    maps = {tuple(key): (_score_map(each), share) for key, each, share in zip(keys, made.maps_, shares, strict=True)}
    whole = _score_map(made.whole_[0])
    depths = [(depth, (-2,) * (width - depth)) for depth in made._depths(width)]  # noqa: SLF001

    def run(p: float, row: Row) -> float:
        codes = tuple(read(row) for read in readers)
        out = whole(p)
        for depth, rest in depths:
            found = maps.get(codes[:depth] + rest)
            if found is not None:
                out = found[1] * found[0](p) + (1.0 - found[1]) * out
        return out

    return run


def _augmented(made: Any) -> Beside:
    """The design's features of one row, each column's part of the sum on its own."""
    design, features = made._design(), made._features()  # noqa: SLF001
    own = features.count
    beta = made.coefficients_[0, own:]
    start = float(made.intercepts_[0] - beta @ made.centres_)
    parts: list[Number] = []
    at = 0
    for j, width in enumerate(design.widths):
        parts.append(_part(design, j, beta[at : at + width].tolist()))
        at += width
    score = _score_part(features, made.coefficients_[0, :own].tolist())
    if bool(made.kept_[0]):
        raise General
    exp = math.exp

    def run(p: float, row: Row) -> float:
        x = start + score(p)
        for part in parts:
            x += part(row)
        small = exp(-abs(x))
        return (1.0 if x >= 0.0 else small) / (1.0 + small)

    return run


def _part(design: Any, j: int, beta: list[float]) -> Number:
    if design.nominal[j]:
        count = len(design.levels[j])
        code = _code(design.names[j], design.levels[j], -2, -1)
        # Unseen and commonest levels add nothing; missing adds its own coefficient, where fit had missing ones.
        table = [*beta[:count], beta[-1] if design.missing[j] else 0.0, 0.0]
        return lambda row: table[code(row)]
    number, mean, offset, spread = _number(design.names[j]), design.means[j], design.offsets[j], design.spreads[j]
    most = 10.0 ** (99.0 / design.degree)
    powers, gone = beta[: design.degree], beta[-1] if design.missing[j] else 0.0

    def run(row: Row) -> float:
        value = number(row)
        absent = isnan(value)
        x = min(max(((mean if absent else value) - offset) / spread, -most), most)
        total, power = gone if absent else 0.0, 1.0
        for factor in powers:
            power *= x
            total += factor * power
        return total

    return run


def _score_part(features: Any, factors: list[float]) -> Callable[[float], float]:
    from miscal.recalibrate.single import function_of

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


_WRITERS: dict[str, Callable[[Any], Beside]] = {
    "VariableTree": _tree,
    "GroupWise": _groups,
    "MulticalibrationBoost": _boosted,
    "AugmentedLogistic": _augmented,
    "AugmentedBeta": _augmented,
}
