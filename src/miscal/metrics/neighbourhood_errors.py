"""Local calibration error: gaps between prediction and outcome in soft neighbourhoods of feature space.

Two rows are neighbours when their scores fall in the same bin and their features are close.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from miscal.cells.ranges import Bins, bin_index
from miscal.data import responses
from miscal.data.arrays import Array, named_columns
from miscal.data.checks import check_lengths, one_of, probability_matrix, refuse_rows
from miscal.data.columns import Column, column
from miscal.data.errors import refusal, refusing
from miscal.data.target import TargetData
from miscal.kernels.neighbours import device_available, local_sums, scales_of
from miscal.metrics.inputs import MetricInput
from miscal.metrics.score_errors import score_bins

KERNELS = {"laplacian": "cityblock", "gaussian": "sqeuclidean", "group": "hamming"}  # and their distances
LARGEST = 1e150  # squares of features and their sums must stay finite

Kernel = str | Callable[[Array, Array], Any]


def feature_matrix(features: Any, where: str = "'features'", width: int = 0) -> Array:
    """Finite numbers as (n, d) float64, used as given; (n,) is one feature."""
    columns = _columns(features, where, width)
    for words, feature in columns.items():
        if hint := feature.type.feature_hint:
            raise refusal("must hold numbers", words, got=f"its kind is {feature.kind}", hint=hint)
        hint = "fill in the missing values, or leave these rows out"
        refuse_rows(feature.missing, "must not be missing", words, hint=hint)
        refuse_rows(
            np.abs(feature.values) > LARGEST, "must be finite numbers below 1e150", words, feature.values
        )
    return np.ascontiguousarray(np.column_stack([feature.values for feature in columns.values()]), float)


def _columns(features: Any, where: str, width: int = 0) -> dict[str, Column]:
    """The columns of a frame or an array, by words that say which; as many as `width`, or one at least."""
    named = named_columns(features, where)
    if not named or len(named) != (width or len(named)):
        wanted = f"must have {width} columns" if width else "must have at least one column"
        raise refusal(wanted, where, got=f"it has {len(named)}")
    columns = {
        (place := f"{where} column '{name}'"): column(name, values, place) for name, values in named.items()
    }
    check_lengths(columns)
    return columns


def group_matrix(features: Any, query_features: Any) -> tuple[Array, Array | None]:
    """Levels as whole numbers, the same numbers for the queries; missing is a level of its own."""
    levels = [levelled.as_levels() for levelled in _columns(features, "'features'").values()]
    coded = np.column_stack([levelled.values.astype(float) for levelled in levels])
    if query_features is None:
        return coded, None
    query_codes = []
    queries = _columns(query_features, "'queries' features", len(levels)).values()
    for levelled, query in zip(levels, map(Column.as_levels, queries), strict=True):
        known = {level: code for code, level in enumerate(levelled.levels)}
        # Of others: a number that no row has.
        codes = [known.get(level, len(known)) for level in query.levels]
        query_codes.append(np.array([*codes, -1.0])[query.values])
    return coded, np.column_stack(query_codes)


def bandwidth_array(bandwidth: Any, *, one: bool = False) -> Array:
    """Bandwidths as (b,), or where only one makes sense as (1,)."""
    requirement = "must be a number above 0" if one else "must be a number or numbers above 0"
    with refusing(requirement, "'bandwidth'", got=f"it is {bandwidth!r}"):
        values = np.asarray(bandwidth, float)
        if values.ndim > (0 if one else 1) or values.size == 0 or not (values > 0).all():
            raise ValueError(bandwidth)
    return values.reshape(-1)


def check_kernel(kernel: Any, device: Any) -> None:
    """Refuse a kernel that is neither known by name nor a function, and a device that is unknown or not here."""
    if not callable(kernel):
        one_of("kernel", kernel, [*KERNELS, "a function of two sets of points"])
    one_of("device", device, ("auto", "cpu", "cuda"))
    if device == "cuda" and not device_available():
        hint = "use device='auto', or install torch and triton on a machine with a GPU"
        raise refusal("cannot be 'cuda'", "'device'", got="there is no GPU that torch can use", hint=hint)


def query_predictions(query_prob: Any, target: str, n_classes: int) -> Array:
    """The predicted values of queries under the target that the data have."""
    where = "'queries' probabilities"
    probability, _ = probability_matrix(query_prob, where)
    matrix = probability if probability.ndim == 2 else np.column_stack([1.0 - probability, probability])
    if matrix.shape[1] != n_classes:
        raise refusal(f"must have {n_classes} columns", where, got=f"its shape is {probability.shape}")
    if target == "top":
        return np.asarray(matrix.max(axis=1))
    return np.ascontiguousarray(matrix[:, 1 if target == "positive" else int(target)])


@dataclass(frozen=True)
class Neighbourhoods:
    """Checked inputs of one call: who is compared with whom."""

    pair: TargetData
    features: Array  # (n, d)
    cells: Array  # (n,) bins of the score
    edges: Array  # of these bins
    bandwidths: Array
    kernel: Kernel
    own: bool
    queries: tuple[Array, Array] | None
    device: str

    @cached_property
    def weight(self) -> Array:
        """Weight of each row, of mean 1 so that no scale of weights matters."""
        return self.pair.all_weights[0] / self.scale

    @cached_property
    def scale(self) -> float:
        """The mean weight of a row."""
        return float(self.pair.all_weights[0].mean())

    @cached_property
    def residual(self) -> Array:
        """Predicted minus observed."""
        return self.pair.predicted - self.pair.observed

    def gaps(self) -> Array:
        """Kernel-weighted sums of the weight and of the residual around each query, (2, bandwidths, queries)."""
        return self.sums(self.weight, self.weight * self.residual)

    def weights(self, centres: Array, rows: Array) -> Array:
        """Weights of some rows around others by the kernel alone, (centres, rows)."""
        around, points = self.features[centres], self.features[rows]
        if callable(self.kernel):
            return np.asarray(self.kernel(around, points), float)
        from scipy.spatial.distance import cdist

        scale = scales_of(self.bandwidths, points.shape[1], self.kernel)[0]
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(-cdist(around, points, KERNELS[self.kernel]) * scale))

    def sums(self, *columns: Array) -> Array:
        """Kernel-weighted sums of columns around each query, (columns, bandwidths, queries)."""
        rows = self.features, self.cells, np.column_stack(columns), self.bandwidths
        with refusing("must give a weight of 0 or more for each pair", "'kernel'"):
            sums = local_sums(
                *rows, kernel=self.kernel, queries=self.queries, own=self.own, device=self.device
            )
        return np.moveaxis(sums, -1, 0)


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
    response: str = "binary",
) -> Array:
    r"""Gap between prediction and outcome around each row, in features and score (LCE).

    .. math::
        \mathrm{LCE}(x) = \Big|\frac{\sum_{i \in B(x)} w_i\,k(x, x_i)\,(\hat p_i - y_i)}
        {\sum_{i \in B(x)} w_i\,k(x, x_i)}\Big|, \qquad
        k(x, x') = \exp\Big(-\frac{\lVert x - x' \rVert_1}{d\,\gamma}\Big)

    with :math:`B(x)` the rows whose score lies in the same bin, :math:`\gamma` the bandwidth and d the number of
    features. A bandwidth of infinity gives each bin's gap, and a bandwidth near 0 each row's own.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: booleans, 0 and 1, or class numbers from 0 to K - 1.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of class 1, or of each class; rows of several classes sum to 1.
    features : array-like of shape (n, d)
        Numbers, used without scaling; for ``kernel="group"`` labels.
    bandwidth : float or sequence of float
        Above 0; infinity is allowed.
    bins : int or array-like
        Number of bins of the score, or their increasing edges.
    strategy : {"uniform", "quantile"}
        Bins of equal width over [0, 1], or of equal support.
    kernel : {"laplacian", "gaussian", "group"} or callable, default="laplacian"
        "gaussian" is :math:`\exp(-\lVert x - x'\rVert_2^2 / (2 d \gamma^2))`; "group" is 1 for rows whose features are
        all equal, else 0. A function takes features (a, d) and (b, d) and returns weights (a, b) of 0 or more. The last
        two have no bandwidth.
    signed : bool, default=False
        Whether the sign is kept: positive where too much is predicted.
    leave_one_out : bool, default=False
        Whether each row is left out of its own neighbourhood.
    queries : (array, array), default=None
        Probabilities and features of rows at which the error is evaluated in place of the data; their bins are the
        data's.
    target : {"top", "auto", "positive"} or int or str, default="top"
        The most probable class (confidence against correctness), the positive class, or a class against the rest.
    sample_weight : array-like of shape (n,), default=None
        Sampling weights; rows of weight 0 are ignored, and their error is NaN.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where pairs of rows are computed.
    response : {"binary", "real", "count"}, default="binary"
        "real" where outcomes and predictions are any numbers, "count" where they are counts and their means.
        (with ``target="auto"``; bins of equal width then reach from the smallest to the largest prediction)

    Returns
    -------
    (n,) for a single bandwidth, (len(bandwidth), n) for several; NaN where a row has no neighbour (an empty bin, a row
    left out of a neighbourhood of its own). When all weights underflow, the nearest rows count: the ratio's limit.

    Notes
    -----
    In one and two dimensions the Laplacian's sums are exact in O(n log^(d-1) n) by divide and conquer; otherwise all
    pairs are visited, in O(n) memory.

    Examples
    --------
    >>> from miscal.metrics import local_calibration_error
    >>> outcomes, scores, ages = [1, 1, 0, 0], [0.8, 0.8, 0.8, 0.8], [[20.0], [21.0], [60.0], [61.0]]
    >>> local_calibration_error(outcomes, scores, ages, bandwidth=2.0, signed=True).round(3)
    array([-0.2, -0.2,  0.8,  0.8])
    """
    check_kernel(kernel, device)
    bandwidths = bandwidth_array(bandwidth)
    asked_prob = asked_features = None
    if queries is not None:
        if leave_one_out:
            raise refusal(
                "cannot go with 'queries'", "'leave_one_out'", hint="queries are not among the data"
            )
        got = f"got a {type(queries).__name__}"
        with refusing("must be (probabilities, features)", "'queries'", got=got):
            asked_prob, asked_features = queries
    inputs, binary = MetricInput(y_true, y_prob, sample_weight, response), response == "binary"
    if kernel == "group":
        matrix, query_matrix = group_matrix(features, asked_features)
    else:
        matrix, query_matrix = feature_matrix(features), None
        if queries is not None:
            query_matrix = feature_matrix(asked_features, "'queries' features", matrix.shape[1])
    matrix = inputs.kept_rows(matrix, "'features'")
    pair = inputs.pair(target if binary else "auto")
    pooling, where = score_bins(pair, bins, strategy), None
    if query_matrix is not None:
        if binary:
            predicted = query_predictions(asked_prob, pair.label, inputs.predictions.n_classes)
        else:
            predicted = pair.units.inside(responses.numbers(asked_prob, "'queries' predictions"))
        check_lengths({"'queries' probabilities": predicted, "'queries' features": query_matrix})
        where = (query_matrix, bin_index(predicted, pooling.cells.edges))
    rows = pair, matrix, pooling.codes(), pooling.cells.edges
    problem = Neighbourhoods(*rows, bandwidths, kernel, not leave_one_out, where, device)
    mass, gap = problem.gaps()
    error = np.divide(gap * inputs.scale, mass, out=np.full_like(gap, np.nan), where=mass > 0)
    error = error if signed else np.abs(error)
    if queries is None and inputs.kept is not None:  # rows of weight 0 have their place, as NaN
        error, known = np.full((len(error), inputs.rows), np.nan), error
        error[:, inputs.kept] = known
    return np.asarray(error if np.ndim(bandwidth) else error[0])


def maximum_local_calibration_error(
    y_true: Any, y_prob: Any, features: Any, *, sample_weight: Any = None, **options: Any
) -> float | Array:
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
    options |= {"sample_weight": sample_weight}
    error = local_calibration_error(y_true, y_prob, features, signed=False, **options)
    return _plain(np.fmax.reduce(error, axis=-1, initial=np.nan))


def average_local_calibration_error(
    y_true: Any, y_prob: Any, features: Any, *, sample_weight: Any = None, **options: Any
) -> float | Array:
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
    options |= {"sample_weight": sample_weight}
    error = local_calibration_error(y_true, y_prob, features, signed=False, **options)
    weight = sample_weight if options.get("queries") is None else None
    average = np.ma.average(np.ma.masked_invalid(error), axis=-1, weights=weight)
    return _plain(np.ma.filled(average, np.nan))


def _plain(values: Array) -> float | Array:
    return values if np.ndim(values) else float(values)
