"""Calibration by neighbourhood with its noise, and the worst neighbourhoods in words."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from miscal.cells.ranges import Bins
from miscal.codes.inference import MethodNote, Null, NullReason
from miscal.data.arrays import Array, Plain
from miscal.data.checks import number, whole
from miscal.data.predictions import Predictions
from miscal.data.target import select_target
from miscal.metrics.inputs import also_of_tables, bins_asked
from miscal.metrics.neighbourhood_errors import Kernel, Neighbourhoods, bandwidth_array, check_kernel
from miscal.metrics.neighbourhood_places import REAL, feature_map, worst_table
from miscal.metrics.score_errors import MEANS, score_bins
from miscal.results import Record, Result, Table, p_text
from miscal.stats.cell_sums import ignore_warnings, seed_of
from miscal.stats.isotonic import cross_fitted_score
from miscal.stats.neighbourhood_null import LocalGaps, LocalNull, neighbourhood_maxima
from miscal.stats.null_draws import ResidualDraws
from miscal.stats.null_model import NullModel, choose_null
from miscal.words import sentence


@dataclass(frozen=True, eq=False)
class LocalMap:
    """What a map of the local error is drawn from, one entry a row."""

    features: Array  # (n, d)
    gap: Array  # signed local error
    error: Array  # its standard error under calibration
    cells: Array  # bins of the score
    edges: Array
    residual: Array  # predicted - observed
    weight: Array


@dataclass(frozen=True)
class MapGrid(Record):
    """A local map over the plane of two columns, as a grid.

    Attributes
    ----------
    x, y : list of float
        Edges of the grid along the two columns.
    gap, deviations, rows : list of list of float
        Mean gap, mean gap in standard errors and number of rows of each cell: one list per range of y.
    """

    x: list[float]
    y: list[float]
    gap: list[list[float]]
    deviations: list[list[float]]
    rows: list[list[float]]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NeighbourhoodResult(Result):
    """Local calibration: the worst soft neighbourhood, which the sentence names.

    Attributes
    ----------
    average : float
        Mean size of the local error over all rows.
    local_map : LocalMap
        The local error of each row.
    largest_deviations : float
        The largest studentised gap of all neighbourhoods.
    null_mean, critical : float
        Its mean for a calibrated model, and the value that a calibrated model exceeds once in 20 times.
    grid : MapGrid or None
        The map of two columns as a grid, in audits.
    """

    kind: str = "neighbourhood"
    average: float
    local_map: LocalMap = field(metadata={"key": "map"})
    largest_deviations: float
    null_mean: float
    critical: float
    grid: MapGrid | None = None

    def sentence(self) -> str:
        """The result in a few sentences."""
        error = f"{self.beside_noise('Maximum local calibration error')}."
        if not self.table.rows:
            words = "Every neighbourhood is too small to judge: widen the bandwidth, or use fewer bins or columns."
            return f"{words} {error}"
        worst = {name: values[0] for name, values in self.table.items()}
        place = f"{worst['label']}, scores {worst['score_low']:.3g} to {worst['score_high']:.3g}"
        mean = ".4g" if self.settings["target"] in MEANS else ".1%"
        compared = (
            f"{worst['predicted']:{mean}} predicted, {worst['observed']:{mean}} observed. "
            f"That is {abs(worst['deviations']):.1f} standard errors, where the largest of {self.settings['tested']:,} "
            f"neighbourhoods would pass {self.critical:.1f} once in 20 times"
        )
        opening, verdict = "", "significant"
        if self.p_value > REAL:
            opening, verdict = "No neighbourhood is significantly miscalibrated. ", "not significant"
        significance = f"{verdict} (p {p_text(self.p_value, self.settings['draws'])})"
        place += f" (about {worst['effective_rows']:,.0f} rows)"
        return f"{opening}The worst neighbourhood is {place}: {compared}: {significance}. {error}"


@also_of_tables
def by_neighbourhood(
    p: Predictions,
    columns: str | Sequence[str] | Array | None = None,
    *,
    bandwidth: float = 0.2,
    reduce: str | None = None,
    dimensions: int | None = None,
    scale: str | None = "standard",
    bins: Bins = 15,
    strategy: str = "uniform",
    kernel: Kernel = "laplacian",
    simulations: int = 999,
    min_information: float = 5.0,
    target: str | int = "auto",
    null: str = "bernoulli",
    random_state: int = 0,
    device: str = "auto",
) -> NeighbourhoodResult:
    r"""Local calibration: the worst soft neighbourhood, whether it is significant, and what sets it apart in words.

    The value is `maximum_local_calibration_error` of features made from the columns. Its p-value is that of the largest
    studentised gap,

    .. math::
        \max_i |z_i|, \qquad z_i = \frac{\sum_j k_{ij} w_j (p_j - y_j)}{\sqrt{\sum_j k_{ij}^2 w_j^2 p_j (1 - p_j)}},

    simulated through the whole maximum, because the plain maximum is always attained where there are few rows. The
    squared kernel is the same kernel with half the bandwidth (Gaussian: over the root of 2).

    Parameters
    ----------
    p : Predictions, or a frame or a path
        A frame or a path needs outcome=, probability= and what else `miscal.read` takes.
    columns : str, sequence of str or array of shape (n, d), default=None
        Names of columns, or features; None for all columns.
        What makes rows near each other. Numbers are standardised, two levels of a category are as far apart as one
        standard deviation, a missing value is a level; the kernel's d is the number of columns. An array is used as
        features (and standardised unless ``scale=None``).
    bandwidth : float, default=0.2
        Scale of the distance between features.
    reduce : {None, "pca"}, default=None
        Reduce the features to principal components first; d is then the number of dimensions.
    dimensions : int, default=None
        Of the reduction: 20 where not given (the paper: 20 for tables, 50 for images).
    scale : {"standard", None}, default="standard"
        Whether numbers are standardised.
    bins, strategy, kernel, device
        As in `local_calibration_error`.
    simulations : int, default=999
        Simulated data sets at most; it stops early once 20 of them reached the data's maximum.
    min_information : float
        Neighbourhoods with (Σk²w²p(1-p))² / Σk⁴w⁴p(1-p) below this are too small to judge and not tested.
    target, null, random_state
        As in `by_score`.

    Returns
    -------
    NeighbourhoodResult
        The table lists at most ten neighbourhoods, worst first, whose cores (the nearest rows that hold half of the
        kernel's mass) share no rows: label (words), the bin of the score, rows of the core, effective rows (Kish),
        kernel-weighted predicted and observed, gap with a simultaneous interval, what is left of it after the score has
        been put right, standard errors, adjusted p-value. With more than 3,000 rows 2,000 random centres are tested,
        and the noise floor is taken over them and the 1,000 centres with the largest standard errors.
        `result.local_map` holds the local error of every row.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> age, state = rng.integers(20, 80, 3000), rng.choice(["CA", "NV", "TX"], 3000)
    >>> truth = 0.3 + 0.4 * ((age > 60) & (state == "CA"))
    >>> p = miscal.Predictions(
    ...     rng.random(3000) < truth, np.full(3000, 0.3), columns={"age": age, "state": state}
    ... )
    >>> result = miscal.by_neighbourhood(p, ["age", "state"], simulations=199)
    >>> result.table["label"][0], result.p_value
    ('state CA more often (87% against 34%), high age (60 to 77)', 0.005)
    """
    check_kernel(kernel, device)
    draws = whole("simulations", simulations, 1)
    number("min_information", min_information, 0.0)
    bandwidths = bandwidth_array(bandwidth, one=True)
    compared = select_target(p, target)
    features, words, names = feature_map(p, columns, compared.mean_weight, reduce, dimensions, scale)
    if kernel == "group":
        features = np.unique(features, axis=0, return_inverse=True)[1].reshape(-1, 1) * 1.0
    pooling = score_bins(compared, bins, strategy)
    cells = pooling.codes()
    problem = Neighbourhoods(
        compared, features, cells, pooling.cells.edges, bandwidths, kernel, True, None, device
    )
    chosen = choose_null(compared, null)
    local = _local_gaps(problem, chosen, min_information)
    residuals = ResidualDraws.of(compared, chosen.null == Null.RESIDUAL, seed_of(random_state), problem.scale)
    noise = neighbourhood_maxima(problem.weights, cells, local, residuals, draws, random_state)
    recalibrated = cross_fitted_score(compared, random_state)
    described = {name: p.columns[name] for name in names or p.columns}
    table = worst_table(problem, local, noise, described, recalibrated)
    settings = {
        "columns": names,
        "features": words,
        "dimensions": features.shape[1],
        "bandwidth": float(bandwidth),
        "bins": bins_asked(bins),
        "strategy": strategy,
        "reduce": reduce,
        "scale": scale,
        "kernel": kernel if isinstance(kernel, str) else "given",
        "null": str(chosen.null),
        "target": compared.label,
        "tested": noise.centres.size,
        "too_small": (~local.judged).sum(),
        "min_information": min_information,
        "draws": noise.plain.draws,
        "random_state": random_state,
    }
    return _result(problem, local, noise, table, settings, chosen.reason)


def _result(
    problem: Neighbourhoods,
    local: LocalGaps,
    noise: LocalNull,
    table: Table,
    settings: Plain,
    reason: NullReason,
) -> NeighbourhoodResult:
    units, weight, tested = problem.pair.units, problem.weight, noise.tested
    gap, error, residual = (values * units.scale for values in (local.gap, local.error, problem.residual))
    rows = problem.pair.rows
    method = [sentence(reason), sentence(MethodNote.FEATURES, features=settings["features"])]
    centres, too_small = settings["tested"], settings["too_small"]
    if centres:
        counts = {"draws": tested.draws, "exceedances": tested.exceedances}
        method.append(sentence(MethodNote.NEIGHBOURHOODS_SIMULATED, centres=centres, **counts))
    method.append(sentence(MethodNote.NEIGHBOURHOODS_TOO_SMALL, count=too_small, rows=rows))
    if centres + too_small < rows:
        method.append(sentence(MethodNote.NEIGHBOURHOODS_SAMPLED))
    return NeighbourhoodResult(
        name="Calibration by neighbourhood",
        **noise.plain.numbers(units.scale) | {"p_value": tested.p_value},
        method=" ".join(method),
        table=table,
        settings=settings,
        average=np.average(np.abs(gap), weights=weight),
        local_map=LocalMap(
            problem.features, gap, error, problem.cells, units.back(problem.edges), residual, weight
        ),
        largest_deviations=tested.value,
        null_mean=tested.noise_floor,
        critical=tested.quantile,
    )


def _local_gaps(problem: Neighbourhoods, chosen: NullModel, min_information: float) -> LocalGaps:
    """Gap, standard error and information around each row; information is that of events at a rate of one half.

    Where outcomes are no events, no neighbourhood counts as quieter than such predictions are in the whole table.
    """
    compared, predicted = problem.pair, problem.pair.predicted
    row_weight = compared.sampling_weight / problem.scale
    noise = compared.trials() * (
        problem.residual**2 if chosen.null == Null.RESIDUAL else predicted * (1.0 - predicted)
    )
    mass, off = problem.gaps()[:, 0]
    squared = _squared(problem)
    squares = squared.sums(noise * row_weight**2)[0, 0]
    usual, stretch = squares, np.ones(squares.size)
    if chosen.residual_variance is not None:
        usual = chosen.residual_variance.of_sum(predicted, *compared.all_weights) / problem.scale**2
        usual = np.maximum(squares, squared.sums(usual)[0, 0])
        stretch = np.sqrt(usual / np.where(squares > 0.0, squares, 1.0))
    masses = squares
    if not compared.binary:  # outcomes that are no events inform as events at a rate of one half would
        noise = 0.25
        masses = squared.sums(noise * row_weight**2)[0, 0]
    powers = _squared(squared).sums(noise * row_weight**4)[0, 0]
    with ignore_warnings():
        gap = np.where(mass > 0, off / mass, np.nan)
        information = np.where(powers > 0, masses**2 / powers, 0.0)
    return LocalGaps(gap, mass, np.sqrt(usual), (information >= min_information) & (masses > 0), stretch)


def _squared(problem: Neighbourhoods) -> Neighbourhoods:
    """The same neighbourhoods with the square of the kernel."""
    kernel = problem.kernel
    if callable(kernel):
        return replace(problem, kernel=lambda a, b: np.asarray(kernel(a, b), float) ** 2)
    if kernel == "group":
        return problem
    return replace(problem, bandwidths=problem.bandwidths / (np.sqrt(2.0) if kernel == "gaussian" else 2.0))
