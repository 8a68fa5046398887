"""Local calibration error: gaps between prediction and outcome in soft neighbourhoods of feature space.

Two rows are neighbours when their scores fall in the same bin and their features are close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

from miscal.data.errors import refusal
from miscal.metrics.arrays import Given
from miscal.metrics.neighbourhood import inputs
from miscal.pairs import Pair
from miscal.pooling.bins import bin_index, edges_for

Bins = int | Sequence[float] | np.ndarray
Kernel = str | Callable[[np.ndarray, np.ndarray], Any]


class Options(TypedDict, total=False):
    """What the maximum and the average take beside the data: see `local_calibration_error`."""

    bandwidth: float | Sequence[float]
    bins: Bins
    strategy: str
    kernel: Kernel
    leave_one_out: bool
    queries: tuple[Any, Any] | None
    target: str | int
    device: str


@dataclass(frozen=True)
class Neighbourhoods:
    """Checked inputs of one call: who is compared with whom."""

    pair: Pair
    features: np.ndarray  # (n, d)
    cells: np.ndarray  # (n,) bins of the score
    bandwidths: np.ndarray
    single: bool
    kernel: Kernel
    own: bool
    queries: tuple[np.ndarray, np.ndarray] | None
    device: str

    def weight(self) -> np.ndarray:
        """Weight of each row, of mean 1 so that no scale of weights matters."""
        first = self.pair.first
        return np.ones(self.pair.rows) if first is None else first / first.mean()

    def residual(self) -> np.ndarray:
        """Predicted minus observed."""
        return np.asarray(self.pair.predicted - self.pair.observed)

    def sums(self, columns: Sequence[np.ndarray]) -> Any:
        """Kernel-weighted sums of columns around each query: `kernels.neighbours.LocalSums`."""
        from miscal.kernels.neighbours import local_sums

        try:
            return local_sums(
                self.features,
                self.cells,
                np.column_stack(columns),
                self.bandwidths,
                kernel=self.kernel,
                queries=self.queries,
                own=self.own,
                device=self.device,
            )
        except (TypeError, ValueError) as error:
            if callable(self.kernel):
                what = "must give a weight of 0 or more for each pair"
                raise refusal(what, where="'kernel'", got=str(error)) from error
            raise

    def signed_error(self) -> np.ndarray:
        """Gap around each query, (bandwidths, queries); NaN where it has no neighbour."""
        weight = self.weight()
        values = self.sums((weight, weight * self.residual())).values
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(values[..., 0] > 0, values[..., 1] / values[..., 0], np.nan)


def local_calibration_error(
    y_true: Any,
    y_prob: Any,
    features: Any,
    *,
    bandwidth: float | Sequence[float] = 0.2,
    bins: Bins = 15,
    strategy: str = "uniform",
    kernel: Kernel = "laplacian",
    signed: bool = False,
    leave_one_out: bool = False,
    queries: tuple[Any, Any] | None = None,
    target: str | int = "top",
    sample_weight: Any = None,
    device: str = "auto",
) -> np.ndarray:
    r"""Gap between prediction and outcome around each row, in features and score (LCE).

    .. math::
        \mathrm{LCE}(x) = \Big|\frac{\sum_{i \in B(x)} w_i\,k(x, x_i)\,(\hat p_i - y_i)}
        {\sum_{i \in B(x)} w_i\,k(x, x_i)}\Big|, \qquad
        k(x, x') = \exp\Big(-\frac{\lVert x - x' \rVert_1}{d\,\gamma}\Big)

    with :math:`B(x)` the rows whose score lies in the same bin, :math:`\gamma` the bandwidth and d the number of
    features. A bandwidth of infinity gives each bin's gap, and a bandwidth near 0 each row's own.

    Parameters
    ----------
    y_true : (n,) booleans, 0/1, or class numbers 0..K-1
    y_prob : (n,) probability of class 1, (n, 2), or (n, K) with rows that sum to 1
    features : (n, d) array or numeric frame, used as given, never scaled here; for ``kernel="group"`` labels
    bandwidth : number above 0, or several; infinity is allowed
    bins : number of bins of the score, or increasing edges
    strategy : "uniform" (equal width over [0, 1]) or "quantile" (equal support)
    kernel : "laplacian", "gaussian" (:math:`\exp(-\lVert x - x'\rVert_2^2 / (2 d \gamma^2))`), "group" (1 for rows
        whose features are all equal, else 0), or a function of (a, d) and (b, d) features that gives (a, b) weights
        of 0 or more; the last two know no bandwidth
    signed : keep the sign: positive where too much is predicted
    leave_one_out : leave each row out of its own neighbourhood
    queries : (probabilities, features) of rows at which to evaluate in place of the data; their bins are the data's
    target : "top" (confidence against correctness), "auto", "positive", or a class against the rest
    sample_weight : (n,) sampling weights; rows of weight 0 are ignored, and their error is NaN
    device : "auto", "cpu" or "cuda"; where pairs are computed

    Returns
    -------
    (n,) for a single bandwidth, (len(bandwidth), n) for several; NaN where a row has no neighbour (an empty bin, a row
    left out of a neighbourhood of its own). When all weights underflow, the nearest rows count: the ratio's limit.

    Notes
    -----
    In one to three dimensions the Laplacian's sums are exact in O(n log^(d-1) n) by divide and conquer; otherwise all
    pairs are visited, in O(n) memory.

    Examples
    --------
    >>> from miscal.metrics import local_calibration_error
    >>> outcomes, scores, ages = [1, 1, 0, 0], [0.8, 0.8, 0.8, 0.8], [[20.0], [21.0], [60.0], [61.0]]
    >>> local_calibration_error(outcomes, scores, ages, bandwidth=2.0, signed=True).round(3)
    array([-0.2, -0.2,  0.8,  0.8])
    """
    given = Given(y_true, y_prob, sample_weight)
    problem = neighbourhoods(
        given, features, bandwidth=bandwidth, bins=bins, strategy=strategy, kernel=kernel,
        leave_one_out=leave_one_out, queries=queries, target=target, device=device,
    )  # fmt: skip
    error = problem.signed_error()
    error = error if signed else np.abs(error)
    if queries is None:
        error = _all_rows(given, error)
    return np.asarray(error[0] if problem.single else error)


def neighbourhoods(
    given: Given,
    features: Any,
    *,
    bandwidth: float | Sequence[float] = 0.2,
    bins: Bins = 15,
    strategy: str = "uniform",
    kernel: Kernel = "laplacian",
    leave_one_out: bool = False,
    queries: tuple[Any, Any] | None = None,
    target: str | int = "top",
    device: str = "auto",
) -> Neighbourhoods:
    """Check everything a neighbourhood metric was given."""
    inputs.check_kernel(kernel)
    inputs.check_device(device)
    bandwidths, single = inputs.bandwidth_array(bandwidth)
    if leave_one_out and queries is not None:
        raise refusal("cannot go with 'queries'", where="'leave_one_out'", hint="queries are not among the data")
    asked_prob, asked_features = _split_queries(queries)
    if kernel == "group":
        matrix, asked = inputs.group_matrix(features, asked_features)
    else:
        matrix = inputs.feature_matrix(features)
        asked = None if queries is None else inputs.feature_matrix(asked_features, "'queries' features")
    matrix = given.kept_rows(matrix, "'features'")
    pair = given.pair(target)
    edges = edges_for(pair.predicted, bins, strategy, low=0.0, high=1.0, weight=pair.weight, count=pair.count)
    where = None
    if asked is not None:
        predicted = inputs.query_predictions(asked_prob, pair.target, given.predictions.n_classes)
        _check_queries(matrix, asked, predicted)
        where = (asked, bin_index(predicted, edges))
    cells = bin_index(pair.predicted, edges)
    return Neighbourhoods(pair, matrix, cells, bandwidths, single, kernel, not leave_one_out, where, device)


def _split_queries(queries: tuple[Any, Any] | None) -> tuple[Any, Any]:
    if queries is None:
        return None, None
    if not isinstance(queries, (tuple, list)) or len(queries) != 2:
        raise refusal("must be (probabilities, features)", where="'queries'", got=f"got a {type(queries).__name__}")
    return queries[0], queries[1]


def _check_queries(features: np.ndarray, asked: np.ndarray, predicted: np.ndarray) -> None:
    where, width = "'queries' features", features.shape[1]
    if asked.shape[1] != width:
        raise refusal(f"must have {width} columns", where=where, got=f"it has {asked.shape[1]}")
    if len(asked) != len(predicted):
        got = f"{len(asked)} rows and {len(predicted)} probabilities"
        raise refusal("must have as many rows as probabilities", where=where, got=got)


def _all_rows(given: Given, error: np.ndarray) -> np.ndarray:
    """Give the rows of weight 0 their place back, as NaN."""
    if given.kept is None:
        return error
    full = np.full((len(error), given.rows), np.nan)
    full[:, given.kept] = error
    return full


def maximum_local_calibration_error(
    y_true: Any,
    y_prob: Any,
    features: Any,
    *,
    sample_weight: Any = None,
    **options: Unpack[Options],
) -> float | np.ndarray:
    """Largest local calibration error over the rows, or over the queries (MLCE).

    Parameters are those of `local_calibration_error` but `signed`. Rows without a neighbour do not count; NaN if no
    row has one.
    It falls from the worst single row (bandwidth near 0) to the maximum calibration error of the bins (infinity).

    Returns
    -------
    float, or (len(bandwidth),) for several bandwidths

    Examples
    --------
    >>> from miscal.metrics import maximum_local_calibration_error
    >>> outcomes, scores, ages = [1, 1, 0, 0], [0.8, 0.8, 0.8, 0.8], [[20.0], [21.0], [60.0], [61.0]]
    >>> maximum_local_calibration_error(outcomes, scores, ages, bandwidth=[1e-3, 1e3]).round(3)
    array([0.8 , 0.31])
    """
    problem = neighbourhoods(Given(y_true, y_prob, sample_weight), features, **options)
    return _one_or_all(np.fmax.reduce(np.abs(problem.signed_error()), axis=1, initial=np.nan), problem.single)


def average_local_calibration_error(
    y_true: Any,
    y_prob: Any,
    features: Any,
    *,
    sample_weight: Any = None,
    **options: Unpack[Options],
) -> float | np.ndarray:
    """Mean local calibration error over the rows, weighted by `sample_weight`, or over the queries.

    Parameters are those of `local_calibration_error` but `signed`. Rows without a neighbour do not count; NaN if no
    row has one.

    Returns
    -------
    float, or (len(bandwidth),) for several bandwidths

    Examples
    --------
    >>> from miscal.metrics import average_local_calibration_error
    >>> outcomes, scores, ages = [1, 1, 0, 0], [0.8, 0.8, 0.8, 0.8], [[20.0], [21.0], [60.0], [61.0]]
    >>> round(average_local_calibration_error(outcomes, scores, ages, bandwidth=2.0), 3)
    0.5
    """
    problem = neighbourhoods(Given(y_true, y_prob, sample_weight), features, **options)
    error = np.abs(problem.signed_error())
    weight = np.ones(error.shape[1]) if problem.queries is not None else problem.weight()
    weights = np.where(np.isnan(error), 0.0, weight)
    with np.errstate(invalid="ignore"):
        average = (weights * np.nan_to_num(error)).sum(axis=1) / weights.sum(axis=1)
    return _one_or_all(average, problem.single)


def _one_or_all(values: np.ndarray, single: bool) -> float | np.ndarray:
    return float(values[0]) if single else values


__all__ = [
    "average_local_calibration_error",
    "local_calibration_error",
    "maximum_local_calibration_error",
]
