"""Feature maps: from columns to the numbers in which rows are near each other or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from miscal.data.columns import Column, Columns
from miscal.data.errors import refusal
from miscal.metrics.neighbourhood.errors import feature_matrix
from miscal.pooling.encoding import Encoding, Floats, mean_and_spread

TABULAR = 20  # principal components where no number is asked for: the paper's for tables
MOST_LEVELS = 50  # of a category; the rarer ones are one level together
ENDS = (-1e90, 1e90)  # features beyond are held there: sums of their distances stay finite


def nearness(columns: Columns, names: Sequence[str], weight: Floats | None, scale: str | None) -> list[Encoding]:
    """What each column contributes to nearness, learned from some rows.

    A missing number takes the mean; where the rows learned from miss some it is 1 away from those that are there.
    Levels are 1 apart, and those not seen away from all.
    """
    options: dict[str, Any] = {"filled": True, "standard": scale == "standard", "ends": ENDS}
    return [Encoding.learned(columns.find(name), weight, **options) for name in names]


def features_of(encodings: Sequence[Encoding], columns: Columns, *, even: bool = True) -> Floats:
    """Features of rows: numbers, and half-height indicators of levels.

    `even`: multiplied so that the kernel's number of dimensions is that of the columns.
    """
    parts: list[np.ndarray] = []
    for each in encodings:
        values = each.read(columns)
        if not each.nominal:
            scaled, absent = each.scaled(values)
            parts += [scaled, absent.astype(np.float64)] if each.missing else [scaled]
        elif len(each.levels) <= 2:  # one column of 0 and 1; an unseen level lies between, half a level from both
            parts.append(np.where(values < 0, 0.5, values))
        else:
            parts += [0.5 * (values == level) for level in range(len(each.levels))]
    made = np.column_stack(parts)
    factor = made.shape[1] / len(encodings) if even else 1.0
    return made if factor == 1.0 else made * factor


def width_of(encodings: Sequence[Encoding]) -> int:
    """How many features the columns give."""
    return sum(
        (1 if len(each.levels) <= 2 else len(each.levels)) if each.nominal else 1 + each.missing for each in encodings
    )


def components(matrix: np.ndarray, wanted: int, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Centre, leading principal directions (d, wanted), and the share of variance they hold.

    The sign of a direction is that of its largest loading.
    """
    centre = np.average(matrix, axis=0, weights=weight)
    off = matrix - centre
    scaled = off if weight is None else off * weight[:, None]
    values, vectors = np.linalg.eigh(scaled.T @ off)
    leading = vectors[:, ::-1][:, :wanted]
    largest = np.take_along_axis(leading, np.abs(leading).argmax(axis=0)[None, :], axis=0)
    held = np.maximum(values[::-1], 0.0)
    share = float(held[:wanted].sum() / held.sum()) if held.sum() > 0 else 1.0
    return centre, np.ascontiguousarray(leading * np.where(largest < 0, -1.0, 1.0)), share


def check_reduction(reduce: Any, dimensions: Any) -> None:
    """Refuse unknown reductions and numbers of dimensions."""
    if reduce not in (None, "pca"):
        hint = "to use another map, give its coordinates as numbers"
        raise refusal("must be None or 'pca'", where="'reduce'", got=f"it is {reduce!r}", hint=hint)
    if dimensions is None:
        return
    whole = isinstance(dimensions, (int, np.integer)) and not isinstance(dimensions, bool)
    if not whole or dimensions < 1:
        raise refusal("must be a whole number of at least 1", where="'dimensions'", got=f"it is {dimensions!r}")
    if reduce is None:
        raise refusal("needs a reduction", where="'dimensions'", got="'reduce' is None", hint="use reduce='pca'")


class FeatureMap(NamedTuple):
    """Features (n, d), in words how they were made, and the columns they came from."""

    values: np.ndarray
    words: str
    names: tuple[str, ...]


def feature_map(
    columns: Columns,
    chosen: Any,
    rows: int,
    weight: np.ndarray | None,
    *,
    reduce: str | None,
    dimensions: int | None,
    scale: str | None,
) -> FeatureMap:
    """Features of named columns, or those given as an array, reduced where asked."""
    check_reduction(reduce, dimensions)
    if scale not in ("standard", None):
        raise refusal("must be 'standard' or None", where="'scale'", got=f"it is {scale!r}")
    names: list[str] = []
    if chosen is None or isinstance(chosen, str) or _are_names(chosen):
        names = [chosen] if isinstance(chosen, str) else list(columns if chosen is None else chosen)
        if not names:
            raise refusal("must name at least one column", where="'columns'", got="there are none")
        pooled, words = _pooled({name: columns.find(name) for name in names}, scale)
        made = features_of(nearness(pooled, names, weight, scale), pooled, even=reduce is None)
    else:
        made = feature_matrix(chosen, "'columns'")
        if len(made) != rows:
            raise refusal(f"must have one row for each of {rows}", where="'columns'", got=f"it has {len(made)}")
        words = f"{made.shape[1]} given features"
        if scale == "standard":
            mean, spread = np.array([mean_and_spread(np.clip(each, *ENDS), weight) for each in made.T]).T
            made, words = (made - mean) / spread, words + ", standardised"
    if reduce is not None:
        wanted = min(dimensions or TABULAR, made.shape[1])
        centre, directions, share = components(made, wanted, None)
        made, words = (
            (made - centre) @ directions,
            f"{words}; {wanted} principal components with {share:.0%} of the variance",
        )
    return FeatureMap(np.ascontiguousarray(made), words, tuple(names))


def _are_names(chosen: Any) -> bool:
    return isinstance(chosen, (list, tuple)) and all(isinstance(item, str) for item in chosen)


def _pooled(columns: Mapping[str, Column], scale: str | None) -> tuple[Columns, str]:
    """The columns with rare levels taken together, and what is said of them."""
    common = {name: _commonest(each) for name, each in columns.items()}
    rare = [name for name, each in columns.items() if common[name] is not each]
    words = f"{len(columns)} columns ({', '.join(columns)})" if len(columns) <= 6 else f"{len(columns)} columns"
    words += ", numbers standardised" if scale == "standard" else ", numbers as they are"
    if rare:
        words += f", levels of {', '.join(rare)} beyond the {MOST_LEVELS} commonest taken together"
    return Columns(common), words


def _commonest(each: Column) -> Column:
    """A category whose levels beyond the commonest are one."""
    counts = np.bincount(each.values[each.values >= 0], minlength=len(each.levels)) if each.nominal else np.empty(0)
    if np.count_nonzero(counts) <= MOST_LEVELS:
        return each
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
    place = np.full(len(each.levels) + 1, MOST_LEVELS)
    place[kept], place[-1] = np.arange(MOST_LEVELS), -1
    return replace(each, values=place[each.values], levels=(*(each.levels[code] for code in kept), "the others"))
