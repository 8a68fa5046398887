"""Multi-calibration (paper 004): Kuiper's error of every subpopulation, on one scale, and its largest.

Subpopulations come as columns, masks, names, expressions or generators. Weights may emphasise false positives:
proportional (Appendix A) and low prevalence (Appendix B).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.aggregate.subpopulations import Ordered, PathSearch, Search, ordered, ordered_real, search_lists
from miscal.cells import subpopulations as pools
from miscal.cells.parse import rows_where
from miscal.cells.ranges import numbered
from miscal.data.arrays import Array
from miscal.data.checks import number, one_of, probability_matrix, refuse_rows, row_numbers, weights, whole
from miscal.data.columns import Columns, columns_given
from miscal.data.errors import nearest, refusal, refusing, warn
from miscal.data.target import TargetData
from miscal.kernels.subpopulation import CORRECTED, PAPER
from miscal.kernels.threads import over_blocks
from miscal.metrics.inputs import MetricInput
from miscal.stats.cell_sums import seed_of
from miscal.stats.maxima import raise_quiet_variances, scaled_errors
from miscal.stats.null_model import choose_null

VARIANCES = ("residual", "corrected", "paper")
# Each emphasis by the score, and how `proportional_weights` holds its weights finite.
PROPORTIONAL = {"proportional": "max", "proportional_sum": "sum", "inverse_score": "none"}
SMALLEST = 1e-100  # squares of its reciprocal are finite


def nominal_names(columns: Columns, names: list[str], nominal: Any) -> set[str]:
    """Columns without an order: those named, or texts, categories and truth values where nothing is said."""
    if nominal is None:
        return {name for name in names if columns[name].nominal}
    items: list[Any] = [nominal] if isinstance(nominal, (str, int)) else list(nominal)
    if all(str(item) in names for item in items):
        return set(map(str, items))
    requirement = (
        f"must be names or positions of columns, or one truth value for each of the {len(names)} columns"
    )
    with refusing(requirement, "'nominal'", got=f"got {nominal!r}", hint=nearest(str(items[0]), names)):
        return set(np.array(names, object)[items].tolist())


@dataclass(frozen=True, eq=False)
class SubpopulationRequest:
    """What is searched, and among what.

    Attributes
    ----------
    columns : Columns or None
        Of the rows that are measured.
    names : list of str
        The columns that subpopulations are made from.
    n_given : int
        How many rows the user gave, which masks and row numbers refer to.
    kept_rows : array or None
        Those of them that are measured; None for all.
    nominal : object
        Which columns have no order, as the user gave it.
    min_rows : int
        The smallest size of a subpopulation.
    information : float
        The least information at which a subpopulation is tested.
    random_state : int
    """

    columns: Columns | None
    names: list[str]
    n_given: int
    kept_rows: Array | None
    nominal: Any
    min_rows: int
    information: float
    random_state: Any

    def search(self, rows: Ordered, subpopulations: Any) -> Search:
        """Find or take the subpopulations and walk over each."""
        if numbered(subpopulations):
            return self._paths(rows, whole("subpopulations", subpopulations, 0))
        if isinstance(subpopulations, pools.Conjunctions):
            return self._conjunctions(rows, subpopulations)
        masks = []
        for key, item in self._items(subpopulations).items():
            inside = self._belong(item, key)[rows.order]
            name = next((word for word in (key, item) if isinstance(word, str)), f"#{key}")
            masks.append((np.flatnonzero(inside).astype(np.int32), pools.Definition(given=name)))
        return search_lists(rows, masks, self.information)

    def covariates(self, rows: Ordered) -> list[pools.Covariate]:
        """The columns that vary as codes in the order of the score, made on several threads: what to generate from."""
        if self.columns is None or not self.names:
            where = "'features'" if self.columns is None else "'columns'"
            hint = "pass features, or the subpopulations themselves"
            raise refusal("needs columns to make subpopulations from", where, got="got none", hint=hint)
        columns, nominal = self.columns, nominal_names(self.columns, self.names, self.nominal)

        def covariate(start: int, _: int) -> pools.Covariate:
            name = self.names[start]
            return pools.covariate(columns[name], nominal=name in nominal, order=rows.order)

        return [candidate for candidate in over_blocks(len(self.names), covariate, 1) if candidate.count > 1]

    def _paths(self, rows: Ordered, count: int) -> Search:
        covariates = self.covariates(rows) if count else []
        if not covariates:
            return search_lists(rows, [])
        seed = int(seed_of(self.random_state))
        return PathSearch(rows, covariates, seed, self.min_rows, self.information).run(count)

    def _conjunctions(self, rows: Ordered, request: pools.Conjunctions) -> Search:
        depth, ranges = whole("depth", request.depth, 1), whole("ranges", request.ranges, 2)
        covariates = [pools.ranged(candidate, ranges) for candidate in self.covariates(rows)]
        conjunctions = pools.conjunctions_of(covariates, depth, self.min_rows, rows.everyone)
        return search_lists(rows, conjunctions, self.information)

    def _items(self, subpopulations: Any) -> dict[Any, Any]:
        """Subpopulations that the user brought, by name or by number."""
        if isinstance(subpopulations, str):
            subpopulations = [subpopulations]
        if isinstance(subpopulations, Mapping):
            return dict(subpopulations)
        known = isinstance(subpopulations, (list, tuple))
        if isinstance(subpopulations, np.ndarray):
            masks = subpopulations.dtype == np.bool_ and subpopulations.ndim == 2
            known = masks or subpopulations.dtype == object
        if not known:
            lists = "a list of truth values, row numbers or expressions"
            requirement = (
                f"must be a number of subpopulations, truth values of shape (k, {self.n_given}), or {lists}"
            )
            got = f"got {np.asarray(subpopulations).dtype} of shape {np.shape(subpopulations)}"
            raise refusal(requirement, "'subpopulations'", got=got)
        return dict(enumerate(subpopulations))

    def _belong(self, item: Any, key: Any) -> Array:
        """Which of the rows that are measured belong to one subpopulation."""
        if isinstance(item, str):
            if self.columns is None:
                raise refusal("needs features", f"the expression {item!r}", got="got none")
            return rows_where(item, self.columns)
        mask = np.zeros(self.n_given, bool)
        mask[row_numbers(item, self.n_given, f"subpopulation {key!r}")] = True
        return mask if self.kept_rows is None else mask[self.kept_rows]


def multicalibration_error(
    y_true: Any,
    y_prob: Any,
    features: Any = None,
    *,
    subpopulations: Any = 1000,
    min_size: int = 10,
    min_information: float = 0.0,
    nominal: Any = None,
    normalise: bool = True,
    response: str = "binary",
    variance: str = "residual",
    exposure: Any = None,
    emphasis: str | None = None,
    rho: float = 0.01,
    random_state: Any = 0,
    sample_weight: Any = None,
    target: str | int = "auto",
) -> float:
    r"""Largest Kuiper calibration error over subpopulations, each scaled by its noise (paper 004, eq. 4).

    .. math:: M = \max_k D_k \frac{\sigma_0}{\sigma_k}, \quad D_k = \max_j C_j^k - \min_j C_j^k, \quad
        \sigma_k = \frac{\sqrt{\sum_{i \in k} w_i^2 p_i (1 - p_i)}}{\sum_{i \in k} w_i}

    where :math:`C_j^k` are the cumulative differences of subpopulation k, its rows in the order of the score. The full
    population is always k = 0, whose term is exactly its Kuiper error. Partial sums are taken only between distinct
    scores, so that neither ties nor the order of the rows change a bit of the result.

    Parameters
    ----------
    y_true, y_prob, target, sample_weight
        As in `expected_calibration_error`.
    features : array-like of shape (n,) or (n, d), or mapping of str to array-like
        What subpopulations are made from. Missing values are a level of their own.
    subpopulations : int, or the subpopulations themselves
        A number: that many by Algorithm 1 (fewer where there are no more), corrected as described in the docs; or
        `Conjunctions(depth, ranges)`; or truth values (k, n), or a list of truth values, row
        numbers or expressions such as ``"age < 31 and state in {CA, NV}"``, or a mapping of names to these.
    min_size : int
        Fewest rows of a generated subpopulation; those that are given count whatever their size.
    min_information : float
        Leave out subpopulations with Σw²p(1-p) below this times their largest squared weight; of real responses and
        counts, generated subpopulations of fewer than four times as many rows.
    nominal : sequence of str, int or bool, default=None
        Columns whose values have no order. None: texts, categories and truth values; whole numbers have an order.
    normalise : bool
        False: the largest D_k, without the scale ("multi-ablate" in the paper).
    response : {"binary", "real", "count"}
        "real": any responses and scores (Appendix C). "count": the same of counts and their means.
    variance : {"residual", "corrected", "paper"}
        How σ_k is estimated where p(1-p) is not the variance of a response. "residual", for real responses, counts, and
        weights that depend on the outcome: Σw²(y-p)², and never less than what is usual for such predictions among all
        rows. The other two take Σw²p(1-p) for every binary response, and for real responses and counts differences of
        neighbours in the order of the score: "paper" is eq. 6, which is too low for uneven weights, and "corrected" is
        unbiased. With either, a subpopulation that by chance has no events or no large amounts decides the maximum.
    exposure : (n,) numbers above 0, optional
        Of real responses and counts: what the outcome was collected over, such as years. Predictions are then rates per
        unit of exposure.
    emphasis : {None, "proportional", "proportional_sum", "inverse_score", "low_prevalence"}
        Of binary responses: what sampling weights are multiplied by, to emphasise false positives. The first three
        are `proportional_weights` (Appendix A): 1/max(p, rho), 1/(p + rho) and 1/p. The last is
        `low_prevalence_weights` (Appendix B), which depend on the outcome: eq. 4 and 5 need ``variance="paper"``.
    rho : float
        Above 0: what holds proportional weights finite.

    Returns
    -------
    float
        0/0 counts as 0; a subpopulation with σ = 0 whose outcomes contradict its predictions gives infinity, with a
        warning. It can exceed 1.

    Examples
    --------
    >>> from miscal.metrics import multicalibration_error
    >>> y_true, y_prob = [0, 0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.6, 0.7, 0.8]
    >>> round(multicalibration_error(y_true, y_prob, subpopulations=[[0, 1, 3], [2, 4, 5]]), 10)
    0.2517244713
    """
    one_of("variance", variance, VARIANCES)
    inputs = MetricInput(y_true, y_prob, sample_weight, response, exposure)
    compared, columns = emphasised(inputs.pair(target), emphasis, rho), None
    min_rows, information = least_rows(compared, min_size, min_information)
    if features is not None:
        columns = columns_given(features, "'features'", inputs.rows, "must have one value a row")
        columns = columns if inputs.kept is None else columns.take(inputs.kept)
    among = columns, list(columns or ()), inputs.rows, inputs.kept
    rows = ordered_by_score(compared, variance)
    search = SubpopulationRequest(*among, nominal, min_rows, information, random_state).search(
        rows, subpopulations
    )
    stats, spread = search.stats, choose_null(compared, "bernoulli").residual_variance
    if variance == "residual" and spread is not None:
        stats, _ = raise_quiet_variances(rows, search, spread)
    values = scaled_errors(stats, normalise=bool(normalise))
    warn_of_infinite(values, binary=compared.binary)
    return float(values.max()) * inputs.scale


def least_rows(compared: TargetData, min_size: Any, min_information: Any) -> tuple[int, float]:
    """Fewest rows of a generated subpopulation, and least information of any.

    Information is that of events. Of other outcomes as many rows are needed as have it at a rate of one half.
    """
    min_rows, information = whole("min_size", min_size, 1), number("min_information", min_information, 0.0)
    if compared.binary:
        return min_rows, information
    return max(min_rows, math.ceil(4.0 * information)), 0.0


def ordered_by_score(compared: TargetData, variance: str) -> Ordered:
    """The rows in the order of the score, and how the variance of real responses is estimated from neighbours."""
    if compared.binary:
        return ordered(compared)
    formula = PAPER if variance == "paper" else CORRECTED
    return ordered_real(compared.predicted, compared.observed, compared.mean_weight, formula)


def warn_of_infinite(values: Array, *, binary: bool = True) -> None:
    """Say so where an error is infinite."""
    if np.isinf(values).any():
        cause = "a subpopulation's predictions are all 0 or 1, and an outcome contradicts them"
        if not binary:
            cause = "a subpopulation's neighbouring residuals are all equal, and their sum is not 0"
        warn(f"{cause}: its error is infinite")


def proportional_weights(y_prob: Any, *, rho: float = 0.01, regularise: str = "max") -> Array:
    r"""Weights inversely proportional to the score (paper 004, Appendix A; La Cava and others).

    They depend on the scores alone, so p-values hold with them.

    Parameters
    ----------
    y_prob : array-like of shape (n,) or (n, 2)
        Of two columns the second is used.
    rho : float
        Above 0. Not used where `regularise` is "none".
    regularise : {"max", "sum", "none"}
        "max": 1/max(p, rho). "sum": 1/(p + rho). "none": 1/p, for which every p must be above 0.

    Returns
    -------
    (n,) array of float

    Examples
    --------
    >>> proportional_weights([0.001, 0.5], rho=0.01).tolist()
    [100.0, 2.0]
    >>> proportional_weights([0.25], rho=0.25, regularise="sum").tolist()
    [2.0]
    >>> proportional_weights([0.001, 0.5], regularise="none").tolist()
    [1000.0, 2.0]
    """
    number("rho", rho, 0.0, above=True, hint="regularise='none' is 1/p, where no score is 0")
    one_of("regularise", regularise, ("max", "sum", "none"))
    score = probability_matrix(y_prob, "'y_prob'")[0]
    score = score[:, 1] if score.ndim == 2 else score
    if regularise == "none":
        hint = "regularise='max' or 'sum' hold the weights finite"
        refuse_rows(score < SMALLEST, "must be above 0 for weights of 1/p", "'y_prob'", score, hint)
        return np.asarray(1.0 / score)
    return np.asarray(1.0 / (np.maximum(score, rho) if regularise == "max" else score + rho))


def low_prevalence_weights(y_true: Any, sample_weight: Any = None) -> Array:
    """1/prevalence for events, 1 for others (Appendix B).

    They depend on the outcomes: with them calibrated predictions read as far from calibrated (87 standard deviations in
    one trial), so nothing measured with them has a p-value. Compare models by them, never a model with calibration.

    Examples
    --------
    >>> low_prevalence_weights([1, 0, 0, 0]).tolist()
    [4.0, 1.0, 1.0, 1.0]
    """
    outcome = np.asarray(y_true)
    if outcome.ndim != 1 or outcome.size == 0 or not np.isin(outcome, (0, 1)).all():
        raise refusal("must hold 0 and 1", "'y_true'", got=f"its shape is {outcome.shape}")
    weight = None if sample_weight is None else weights(sample_weight, "'sample_weight'")
    prevalence = float(np.average(outcome.astype(float), weights=weight))
    return np.where(outcome > 0, 1.0 / prevalence, 1.0) if prevalence > 0.0 else np.ones(outcome.size)


def emphasised(pair: TargetData, emphasis: str | None, rho: float) -> TargetData:
    """The pair with its sampling weights multiplied by those of an emphasis."""
    if emphasis is None:
        return pair
    one_of("emphasis", emphasis, (*PROPORTIONAL, "low_prevalence"))
    if not pair.binary:
        raise refusal("is for binary responses", "'emphasis'", got=f"the response is {pair.label!r}")
    if emphasis in PROPORTIONAL:
        extra = proportional_weights(pair.predicted, rho=rho, regularise=PROPORTIONAL[emphasis])
    else:
        extra = low_prevalence_weights(pair.observed, pair.mean_weight)
    return replace(pair, weight=pair.sampling_weight * extra)
