"""Feature maps: from columns to the numbers in which rows are near each other or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.data.errors import MissingExtra, refusal
from miscal.metrics.neighbourhood.inputs import feature_matrix

REDUCTIONS = (None, "pca", "tsne")
TABULAR = 20  # dimensions of a principal component map where none are asked for: the paper's for tables
EMBEDDED = 2  # and of t-SNE
MOST_LEVELS = 50  # of a category; the rarer ones are one level together
LARGEST = 1e100  # columns beyond it are held there


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """The features, and in words how they were made."""

    values: np.ndarray  # (n, d)
    words: str
    names: tuple[str, ...]


def feature_map(
    columns: Mapping[str, Column],
    chosen: Any,
    rows: int,
    weight: np.ndarray | None,
    *,
    reduce: str | None,
    dimensions: int | None,
    scale: str | None,
    random_state: Any,
) -> FeatureMap:
    """Features of named columns, or those given as an array, reduced where asked."""
    _check(reduce, dimensions, scale)
    if _is_names(chosen):
        names = [chosen] if isinstance(chosen, str) else list(columns if chosen is None else chosen)
        if not names:
            raise refusal("must name at least one column", where="'columns'", got="there are none")
        made, words = encoded({name: _found(columns, name) for name in names}, weight, scale)
        if reduce is None:
            made = made * (made.shape[1] / len(names))
    else:
        made, names = feature_matrix(chosen, "'columns'"), []
        if len(made) != rows:
            raise refusal(f"must have one row for each of {rows}", where="'columns'", got=f"it has {len(made)}")
        words = f"{made.shape[1]} given features"
        if scale == "standard":
            made, words = np.column_stack([standardised(each, weight) for each in made.T]), words + ", standardised"
    if reduce is not None:
        made, how = reduced(made, reduce, dimensions, random_state)
        words = f"{words}; {how}"
    return FeatureMap(np.ascontiguousarray(made), words, tuple(names))


def _found(columns: Mapping[str, Column], name: str) -> Column:
    finder = getattr(columns, "find", None)
    return finder(name) if finder is not None else columns[name]


def _is_names(chosen: Any) -> bool:
    if chosen is None or isinstance(chosen, str):
        return True
    return isinstance(chosen, (list, tuple)) and all(isinstance(item, str) for item in chosen)


def _check(reduce: Any, dimensions: Any, scale: Any) -> None:
    if reduce not in REDUCTIONS:
        raise refusal("must be None, 'pca' or 'tsne'", where="'reduce'", got=f"it is {reduce!r}")
    if scale not in ("standard", None):
        raise refusal("must be 'standard' or None", where="'scale'", got=f"it is {scale!r}")
    if dimensions is None:
        return
    whole = isinstance(dimensions, (int, np.integer)) and not isinstance(dimensions, bool)
    if not whole or dimensions < 1:
        raise refusal("must be a whole number of at least 1", where="'dimensions'", got=f"it is {dimensions!r}")
    if reduce is None:
        raise refusal("needs a reduction", where="'dimensions'", got="'reduce' is None", hint="use reduce='pca'")


def encoded(columns: Mapping[str, Column], weight: np.ndarray | None, scale: str | None) -> tuple[np.ndarray, str]:
    """Numbers (standardised), and indicators of levels such that two levels are 1 apart, like one deviation.

    A missing number takes the mean and is 1 away from those that are there. Where nothing is reduced, features are then
    multiplied so that the kernel's number of dimensions is that of the columns, however many indicators they have.
    """
    parts: list[np.ndarray] = []
    pooled: list[str] = []
    for name, each in columns.items():
        if each.nominal:
            made, rare = _indicators(each)
            parts += made
            pooled += [name] if rare else []
        else:
            parts += _numbers(each, weight, scale)
    matrix = np.column_stack(parts)
    words = f"{len(columns)} columns ({', '.join(columns)})" if len(columns) <= 6 else f"{len(columns)} columns"
    words += ", numbers standardised" if scale == "standard" else ", numbers as they are"
    if pooled:
        words += f", levels of {', '.join(pooled)} beyond the {MOST_LEVELS} commonest taken together"
    return matrix, words


def _numbers(each: Column, weight: np.ndarray | None, scale: str | None) -> list[np.ndarray]:
    values = np.clip(each.values, -LARGEST, LARGEST)
    absent = np.isnan(values)
    if absent.all():
        return [np.zeros(len(values))]
    mean = np.average(values[~absent], weights=None if weight is None else weight[~absent])
    filled = np.where(absent, mean, values)
    made = [standardised(filled, weight) if scale == "standard" else filled]
    return [*made, absent.astype(np.float64)] if absent.any() else made


def standardised(values: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Mean 0 and deviation 1; a constant becomes 0."""
    size = float(np.abs(values).max()) or 1.0
    part = values / size
    mean = np.average(part, weights=weight)
    spread = float(np.sqrt(np.average((part - mean) ** 2, weights=weight)))
    if spread <= 1e-14 * max(abs(mean), 1e-300):
        return np.zeros(len(values))
    return np.asarray((part - mean) / spread)


def _indicators(each: Column) -> tuple[list[np.ndarray], bool]:
    """Half-height indicators (1 apart in L1); missing is a level of its own."""
    codes = np.where(each.values < 0, len(each.levels), each.values)
    counts = np.bincount(codes, minlength=len(each.levels) + 1)
    present = np.flatnonzero(counts)
    common = present[np.argsort(-counts[present], kind="stable")][:MOST_LEVELS]
    rare = present.size > common.size
    if present.size <= 2:
        return [(codes == present[-1]).astype(np.float64)], False
    made = [0.5 * (codes == level) for level in common]
    return ([*made, 0.5 * ~np.isin(codes, common)] if rare else made), rare


def reduced(matrix: np.ndarray, reduce: str, dimensions: int | None, random_state: Any) -> tuple[np.ndarray, str]:
    """Fewer dimensions, by principal components or by t-SNE."""
    if reduce == "pca":
        wanted = min(dimensions or TABULAR, matrix.shape[1])
        made, share = principal_components(matrix, wanted)
        return made, f"{wanted} principal components with {share:.0%} of the variance"
    wanted = dimensions or EMBEDDED
    if wanted > 3:
        raise refusal("must be 1 to 3 for t-SNE", where="'dimensions'", got=f"it is {wanted}", hint="use reduce='pca'")
    return embedded(matrix, wanted, random_state), f"t-SNE to {wanted} dimensions"


def principal_components(matrix: np.ndarray, dimensions: int) -> tuple[np.ndarray, float]:
    """Scores on the leading components and the share of variance they hold; signs are fixed by the largest loading."""
    centred = matrix - matrix.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    leading = vectors[:, ::-1][:, :dimensions]
    largest = np.take_along_axis(leading, np.abs(leading).argmax(axis=0)[None, :], axis=0)
    total = float(np.maximum(values, 0.0).sum())
    share = float(np.maximum(values[::-1][:dimensions], 0.0).sum()) / total if total > 0 else 1.0
    return np.asarray(centred @ (leading * np.where(largest < 0, -1.0, 1.0))), share


def embedded(matrix: np.ndarray, dimensions: int, random_state: Any) -> np.ndarray:
    """Embed by t-SNE (openTSNE); all rows together, since the map knows no other rows."""
    try:
        from openTSNE import TSNE
    except ImportError as error:
        raise MissingExtra("reduce='tsne'", "openTSNE", "tsne") from error
    rows = len(matrix)
    if rows < 8:
        raise refusal("needs at least 8 rows", where="reduce='tsne'", got=f"there are {rows}")
    distinct = float(np.ptp(matrix, axis=0).max(initial=0.0)) > 0
    if not distinct:
        return np.zeros((rows, dimensions))
    seed = random_state if isinstance(random_state, (int, np.integer)) else 0
    method = "fft" if dimensions <= 2 and rows >= 2000 else "bh"
    made = TSNE(
        n_components=dimensions,
        perplexity=min(30.0, (rows - 1) / 3.0),
        negative_gradient_method=method,
        initialization="pca" if matrix.shape[1] >= dimensions else "random",
        random_state=int(seed),
        n_jobs=1,
    ).fit(matrix)
    return np.ascontiguousarray(np.asarray(made, dtype=np.float64))


def describe_columns(chosen: Sequence[str], columns: Mapping[str, Column]) -> list[str]:
    """Names of the columns that describe neighbourhoods: those the features came from, else all there are."""
    return list(chosen) if chosen else list(columns)
