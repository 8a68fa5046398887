"""One row among those that `LocalRecalibration` keeps, which are laid out once by bin and by column."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from miscal.metrics.neighbourhood.features import LARGEST
from miscal.recalibrate.base import Array, Floats
from miscal.recalibrate.export.row import Code, General, Row, level, number

Rate = Callable[[float, Row], float | None]
STEEPEST = 1e300


def one_row(made: Any) -> Callable[[float, Row], float]:
    """A function from a probability and a row to the event's probability."""
    rate, top = rate_of(made), bool(made.top_)

    def run(p: float, row: Row) -> float:
        score = max(p, 1.0 - p) if top else p
        found = rate(score, row)
        changed = score if found is None else found
        return 1.0 - changed if top and p <= 1.0 - p else changed

    return run


def several(made: Any) -> Callable[[Sequence[float], Row], tuple[float, ...]]:
    """A function from the probabilities of several classes and a row to better ones."""
    from miscal.recalibrate.by_columns.local import spread_rest

    rate = rate_of(made)

    def run(p: Sequence[float], row: Row) -> tuple[float, ...]:
        whole = np.array([p])
        found = rate(max(p), row)
        total = whole.sum()
        if abs(total - 1.0) > 1e-12:
            whole /= total
        changed = max(p) if found is None else found
        return tuple(spread_rest(whole, np.array([changed]))[0].tolist())

    return run


def rate_of(made: Any) -> Rate:
    """A function from a score and a row to the observed rate around it, None where there is no row to learn from."""
    if callable(made.kernel):
        raise General
    edges = made.edges_[1:-1].tolist()
    weight = made.weight_ if made.weight_.size else np.ones(len(made.bin_))
    if made.kernel == "group":
        return _group_rate(made, weight, edges)
    cells = len(made.edges_) - 1
    order = np.argsort(made.bin_, kind="stable")
    starts = np.searchsorted(made.bin_[order], np.arange(cells + 1)).tolist()
    values = np.ascontiguousarray(np.stack([weight, weight * made.observed_])[:, order])
    square = made.kernel == "gaussian"
    layout = _reduced(made) if made.reduce == "pca" else _laid_out(made, square)
    numbers = np.ascontiguousarray(layout.numbers[:, order])
    codes = np.ascontiguousarray(layout.codes[:, order])
    width, bandwidth = made.features_.shape[1], float(made.bandwidth)
    with np.errstate(divide="ignore", over="ignore"):
        steep = 1.0 / np.float64(2.0 * width * bandwidth**2 if square else width * bandwidth)
    scale, apart, unknown, place = float(min(steep, STEEPEST)), layout.apart, layout.unknown, layout.place

    from miscal.kernels.single import row_sums

    def rate(score: float, row: Row) -> float | None:
        cell = bisect_left(edges, score)
        start, stop = starts[cell], starts[cell + 1]
        point, levels = place(row)
        if start == stop:
            return None
        total, events = row_sums(
            numbers, codes, values, start, stop, point, levels, apart, unknown, scale, square
        )  # fmt: skip
        return min(max(events / total, 0.0), 1.0) if total > 0.0 else None

    return rate


def _group_rate(made: Any, weight: Floats, edges: list[float]) -> Rate:
    """Rates by bin and group, looked up."""
    readers = [level(name, levels) for name, levels in zip(map(str, made.names_), made.levels_, strict=True)]
    keys = np.column_stack([made.bin_, made.features_.astype(np.int64)])
    groups, place = np.unique(keys, axis=0, return_inverse=True)
    total = np.bincount(place.reshape(-1), weight)
    rates = np.clip(np.bincount(place.reshape(-1), weight * made.observed_) / np.maximum(total, 1e-300), 0.0, 1.0)
    table = {tuple(key): rate for key, rate, mass in zip(groups.tolist(), rates.tolist(), total, strict=True) if mass}
    return lambda score, row: table.get((bisect_left(edges, score), *(read(row) for read in readers)))


@dataclass(frozen=True)
class _Layout:
    """Rows fitted on as numbers (a, n) and codes of levels (b, n), and a function that lays out one row alike.

    Two levels of column j are apart[j] apart; an unseen level is unknown[j] away from each.
    """

    numbers: Floats
    codes: Array
    apart: Floats
    unknown: Floats
    place: Callable[[Row], tuple[Floats, Array]]


@dataclass(frozen=True)
class _Column:
    """One column of a row: a scaled number with a flag of missing, or the place of a level."""

    start: int  # of its features
    levels: int
    flagged: bool
    number: Callable[[Row], tuple[float, bool]] | None
    code: Code | None

    @property
    def width(self) -> int:
        """How many features it gives."""
        if self.number is not None:
            return 1 + int(self.flagged)
        return 1 if self.levels <= 2 else self.levels


def _columns(made: Any) -> list[_Column]:
    found: list[_Column] = []
    factor = made._map_of_columns().width / len(made.names_)  # noqa: SLF001
    for j, name in enumerate(map(str, made.names_)):
        start = found[-1].start + found[-1].width if found else 0
        if made.nominal_[j]:
            found.append(_Column(start, len(made.levels_[j]), False, None, level(name, made.levels_[j])))
        else:
            read = _scaled(name, float(made.means_[j]), float(made.spreads_[j]), factor)
            found.append(_Column(start, 0, bool(made.missing_[j]), read, None))
    return found


def _scaled(name: str, mean: float, spread: float, factor: float) -> Callable[[Row], tuple[float, bool]]:
    read = number(name)

    def scaled(row: Row) -> tuple[float, bool]:
        value = read(row)
        absent = isnan(value)
        value = min(max(mean if absent else value, -LARGEST), LARGEST)
        return factor * (value if spread == 1.0 else (value - mean) / spread), absent

    return scaled


def _laid_out(made: Any, square: bool) -> _Layout:
    """Codes in place of indicators: a distance then costs one comparison a column."""
    features, columns, power = made.features_, _columns(made), 2 if square else 1
    factor = features.shape[1] / len(columns)
    numbers: list[Floats] = []
    codes: list[Array] = []
    apart: list[float] = []
    for one in columns:
        part = features[:, one.start : one.start + one.width]
        if one.number is not None:
            numbers += list(part.T)
            continue
        few = one.levels <= 2
        found = np.rint(part[:, 0] / factor) if few else part.argmax(axis=1)
        again = found[:, None] * factor if few else 0.5 * (found[:, None] == np.arange(one.levels)) * factor
        if not np.array_equal(part, again):
            raise General  # not what fit makes
        codes.append(found)
        apart.append(factor**power if few else 2.0 * (0.5 * factor) ** power)
    wide, deep, rows = len(numbers), len(codes), len(features)

    def place(row: Row) -> tuple[Floats, Array]:
        point, levels = np.empty(wide), np.empty(deep, np.int32)
        i = k = 0
        for one in columns:
            if one.code is not None:
                levels[k] = one.code(row)
                k += 1
            elif one.number is not None:
                point[i], absent = one.number(row)
                if one.flagged:
                    point[i + 1] = factor if absent else 0.0
                i += 1 + one.flagged
        return point, levels

    laid = np.array(codes, np.int32).reshape(-1, rows)
    unknown = np.full(deep, (0.5 * factor) ** power)
    return _Layout(np.array(numbers).reshape(-1, rows), laid, np.array(apart), unknown, place)


def _reduced(made: Any) -> _Layout:
    """Principal components: nothing but numbers."""
    columns, centre, components = _columns(made), made.centre_, made.components_
    factor, nothing = len(centre) / len(columns), np.empty(0, np.int32)

    def place(row: Row) -> tuple[Floats, Array]:
        raw = np.zeros(len(centre))
        for one in columns:
            if one.number is not None:
                raw[one.start], absent = one.number(row)
                if one.flagged:
                    raw[one.start + 1] = factor if absent else 0.0
            elif one.code is not None:
                code = one.code(row)
                if one.levels <= 2:
                    raw[one.start] = factor * (0.5 if code < 0 else code)
                elif code >= 0:
                    raw[one.start + code] = 0.5 * factor
        return (raw - centre) @ components, nothing

    rows = len(made.features_)
    return _Layout(made.features_.T, np.empty((0, rows), np.int32), np.empty(0), np.empty(0), place)
