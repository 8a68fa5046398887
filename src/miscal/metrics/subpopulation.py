"""Search subpopulations, say which is worst, and whether it is worse than noise (paper 004)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.aggregate.subpopulations import Ordered, Search, information
from miscal.cells.subpopulations import Conjunctions, Definition
from miscal.codes.inference import Method, MethodNote, Null
from miscal.data.arrays import Array, Plain
from miscal.data.checks import one_of, whole
from miscal.data.predictions import Predictions
from miscal.data.responses import Units
from miscal.data.target import TargetData, select_target
from miscal.kernels.subpopulation import HIGH_AT, LOW_AT, PREDICTED, ROWS, TOTAL, WEIGHT
from miscal.metrics.inputs import also_of_tables
from miscal.metrics.score import POINTS, cumulative_curve
from miscal.metrics.score_errors import MEANS
from miscal.metrics.subpopulation_errors import (
    VARIANCES,
    SubpopulationRequest,
    emphasised,
    least_rows,
    ordered_by_score,
    warn_of_infinite,
)
from miscal.results import CumulativeCurve, Record, Result, Table, p_text
from miscal.stats import maxima
from miscal.stats.cell_sums import EFFECTIVE_EVENTS
from miscal.stats.kuiper import RANGE_MEAN
from miscal.stats.multiplicity import POWER
from miscal.stats.null_model import NullModel, ResidualVariance, choose_null
from miscal.words import sentence

NAMED = 10  # worst subpopulations described in full
DRAWN = 4  # and drawn
UNEVEN = 3.0  # a heaviest weight of this many means is what makes subpopulations too small
REAL = 0.05


@dataclass(frozen=True, eq=False)
class Definitions:
    """Which rows the subpopulations of a result have, in the order of its table; JSON has no such object."""

    ordered: list[Definition]


@dataclass(frozen=True)
class DescribedSubpopulation(Record):
    """A subpopulation in full: its row of the table, and its definition in words.

    Attributes
    ----------
    label, rows, weight, predicted, observed, gap, events_off, kuiper, deviation, deviations, scaled, expected,
    score_low, score_high, interval_off, detectable, information, p_adjusted
        As in the table.
    definition : str
        The definition with all digits.
    weighted : bool
        Whether `interval_off` is a sum of weights.
    """

    label: str
    rows: int
    weight: float
    predicted: float
    observed: float
    gap: float
    events_off: float
    kuiper: float
    deviation: float
    deviations: float
    scaled: float
    expected: float
    score_low: float
    score_high: float
    interval_off: float
    detectable: float
    information: float
    p_adjusted: float
    definition: str
    weighted: bool

    @classmethod
    def of(cls, table: Table, row: int, definition: str, *, weighted: bool) -> "DescribedSubpopulation":
        """A row of the table as a record."""
        cells = {name: column[row] for name, column in table.items()}
        plain = {name: cell.item() if isinstance(cell, np.generic) else cell for name, cell in cells.items()}
        return cls(**plain, definition=definition, weighted=weighted)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SubpopulationResult(Result):
    """Multi-calibration: the worst subpopulation, which the sentence names.

    Attributes
    ----------
    worst : list of DescribedSubpopulation
        The first ten of the table.
    full : DescribedSubpopulation
        The full population.
    deviation : float
        Standard deviation of the cumulative differences' end over all rows, for a calibrated model.
    expectation : float
        Their expected range, 1.6 times that.
    ratio : float
        The value over that expectation.
    null_mean, null_critical : float
        Mean for a calibrated model of the largest range of all subpopulations, in standard deviations, and the value
        that a calibrated model exceeds once in 20 times.
    no_p_value : str
        Why there is no p-value; empty where there is one.
    detectable : float
        The error in the full population that would be found 4 times in 5.
    too_small : Table
        Subpopulations that have too little information to be tested.
    definitions : Definitions
    cumulative : list of CumulativeCurve
        Cumulative differences of the full population and of the worst subpopulations.
    """

    kind: str = "subpopulation"
    worst: list[DescribedSubpopulation]
    full: DescribedSubpopulation
    deviation: float
    expectation: float
    ratio: float
    null_mean: float
    null_critical: float
    no_p_value: str
    detectable: float
    too_small: Table
    definitions: Definitions
    cumulative: list[CumulativeCurve]

    def sentence(self) -> str:
        """The result in a few sentences."""
        worst, tested = self.worst[0], self.settings["tested"]
        size = f"{self.beside_noise('Multi-calibration error')}."
        parts = [self._opening(worst, tested), self._significance(worst, tested), size, self._missed(worst)]
        return " ".join(part for part in parts if part)

    def _opening(self, worst: DescribedSubpopulation, tested: int) -> str:
        format_mean = "{:.4g}".format if self.settings["target"] in MEANS else percent
        means = f"{format_mean(worst.predicted)} predicted, {format_mean(worst.observed)} observed"
        where = f"{worst.label} ({worst.rows:,} rows; {means})"
        if tested == 1:
            return f"Only the full population could be tested: {excess(worst)} ({means})."
        if self.p_value > REAL:
            opening = "No subpopulation is significantly miscalibrated."
            return f"{opening} The worst of {tested:,} is {where}: {excess(worst)}."
        return f"The worst of {tested:,} subpopulations is {where}: {excess(worst)}."

    def _missed(self, worst: DescribedSubpopulation) -> str:
        """What a search that found nothing could have found."""
        if not self.p_value > REAL or math.isnan(worst.detectable):
            return ""
        error = f"a Kuiper error of {worst.detectable:.3g}"
        return f"In a subpopulation like the worst {error} would be found 4 times in 5."

    def _significance(self, worst: DescribedSubpopulation, tested: int) -> str:
        text = f"Its range is {worst.deviations:.1f} standard deviations"
        if math.isnan(self.null_mean):
            return f"{text}; {self.no_p_value}."
        subject = f"the largest of all {tested:,}" if tested > 1 else "it"
        compared = (
            f", where {subject} would be {self.null_mean:.1f} on average for calibrated predictions and pass "
            f"{self.null_critical:.1f} once in 20 times"
        )
        verdict = ": significant" if self.p_value <= REAL else ": not significant"
        return f"{text}{compared}{verdict} (p {p_text(self.p_value, self.settings.get('draws'))})."


def percent(share: float) -> str:
    """A mean of probabilities in percent, three digits.

    >>> percent(0.3506), percent(0.000123), percent(3.0)
    ('35.1%', '0.0123%', '3')
    """
    return f"{100.0 * share:.3g}%" if 0.0 <= share <= 1.0 else f"{share:.3g}"


def excess(worst: DescribedSubpopulation) -> str:
    """How many more or fewer were predicted, and in which range of scores."""
    off = worst.interval_off
    if not off:
        return "as many predicted as observed"
    amount = f"{abs(off):,.0f}" if abs(off) >= 10 else f"{abs(off):.2g}"
    weighted = " (weighted)" if worst.weighted else ""
    direction = "more predicted than observed" if off > 0 else "fewer predicted than observed"
    place = f"with scores from {worst.score_low:.3g} to {worst.score_high:.3g}"
    return f"{amount} {direction}{weighted} among its rows {place}"


@also_of_tables
def by_subpopulation(
    p: Predictions,
    columns: str | Sequence[str] | None = None,
    *,
    subpopulations: Any = 1000,
    simulations: int = 999,
    min_size: int = 10,
    min_information: float = 5.0,
    nominal: Any = None,
    emphasis: str | None = None,
    rho: float = 0.01,
    variance: str = "residual",
    target: str | int = "auto",
    null: str = "bernoulli",
    random_state: Any = 0,
) -> SubpopulationResult:
    """Multi-calibration: the worst of many subpopulations, with a p-value that survives having searched them all.

    The value is that of `multicalibration_error` with the same options. The p-value comes from repeating the whole
    search on simulated outcomes, p = (1 + #{M* >= M}) / (1 + simulations), stopped early once 20 simulations reached M;
    where rows times simulations exceed 2e8, from Bonferroni's inequality over the Brownian range. Clusters, real
    responses, counts, and weights that depend on the outcome call for sign flips in place of drawn outcomes.

    Parameters
    ----------
    columns : str or sequence of str, default=None
        What subpopulations are made from; None: all columns.
    subpopulations
        As in `multicalibration_error`.
    simulations : int, default=999
        0: no p-value.
    min_size, nominal
        As in `multicalibration_error`.
    variance : {"residual", "corrected", "paper"}
        As in `multicalibration_error`. The p-value is valid with each; "residual" has more power where amounts are
        skewed or events are rare.
    emphasis : {None, "proportional", "proportional_sum", "inverse_score", "low_prevalence"}
        As in `multicalibration_error`. The first three depend on the scores alone, and the p-value holds. With
        "low_prevalence" weights, which depend on the outcomes, calibrated predictions look far from calibrated: there
        is no p-value.
    rho : float
        As in `multicalibration_error`.
    min_information : float
        Subpopulations with Σw²p(1-p) below this times their largest squared weight are listed as too small
        (``result.too_small``): among thousands of them one is always far off, and nothing else could be seen.

    Returns
    -------
    SubpopulationResult
        Its table has a row a subpopulation, worst first: label, rows, weight, predicted, observed, gap, kuiper (D),
        deviation (σ), deviations (D/σ), scaled (M_k), expected (1.6 σ), the scores between which the range is attained
        and how many more were predicted than observed there (interval_off), detectable, p_adjusted.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> age, state = rng.integers(20, 80, 5000), rng.choice(["CA", "NV", "TX"], 5000)
    >>> truth = 0.3 + 0.3 * ((age < 50) & (state == "CA"))
    >>> p = miscal.Predictions(
    ...     rng.random(5000) < truth, np.full(5000, 0.3), columns={"age": age, "state": state}
    ... )
    >>> result = miscal.by_subpopulation(p, subpopulations=100, simulations=199)
    >>> result.table["label"][0], result.p_value
    ('age < 50 and state = CA', 0.005)
    """
    draws = whole("simulations", simulations, 0)
    one_of("variance", variance, VARIANCES)
    names = [columns] if isinstance(columns, str) else list(p.columns if columns is None else columns)
    for name in names:
        p.columns.find(name)
    compared = emphasised(select_target(p, target), emphasis, rho)
    fewest, needed = least_rows(compared, min_size, min_information)
    rows = ordered_by_score(compared, variance)
    request = SubpopulationRequest(p.columns, names, p.rows, None, nominal, fewest, needed, random_state)
    chosen = choose_null(compared, null)
    search, stretch = _with_noise(rows, request.search(rows, subpopulations), compared, chosen, variance)
    values = maxima.scaled_errors(search.stats)
    warn_of_infinite(values, binary=compared.binary)
    not_tested = None if draws else Method.NO_SIMULATIONS
    if not compared.binary and np.isinf(values).any():
        not_tested = Method.EQUAL_RESIDUALS
    if emphasis == "low_prevalence":
        not_tested = Method.LOW_PREVALENCE_WEIGHTS
    if not_tested is not None:
        noise = maxima.MaximumNull.unknown(values, not_tested)
    else:
        test_settings = chosen.test_settings(residual_scale=stretch, random_state=random_state)
        noise = maxima.subpopulation_null(rows, search, values, compared, test_settings, draws=draws)
    settings = {
        "columns": names, "subpopulations": _asked_words(subpopulations), "simulations": draws,
        "min_size": int(min_size), "min_information": float(min_information), "emphasis": emphasis,
        "rho": float(rho), "variance": variance, "random_state": random_state,
        "null": str(chosen.null), "target": compared.label, "draws": noise.summary.draws,
    }  # fmt: skip
    method = _method_words(chosen, noise)
    # Exposure alone is no weight.
    weighted = bool(rows.weight.size) if compared.binary else p.weight is not None
    return SearchOutcome(rows, search, values, noise, p.units).result(settings, method, weighted=weighted)


def _method_words(null_model: NullModel, noise: maxima.MaximumNull) -> str:
    summary, counts = noise.summary, {"draws": noise.summary.draws, "exceedances": noise.summary.exceedances}
    if summary.method is Method.BONFERRONI:
        text = sentence(MethodNote.SEARCH_BONFERRONI, tests=noise.n_tests, events=EFFECTIVE_EVENTS)
    elif summary.draws:
        text = sentence(MethodNote.SEARCH_SIMULATED, method=sentence(summary.method), **counts)
    else:
        text = sentence(MethodNote.NO_TEST, reason=sentence(summary.method))
    return f"{sentence(null_model.reason)} {text}" if null_model.null == Null.RESIDUAL else text


def _with_noise(
    rows: Ordered, search: Search, compared: TargetData, chosen: NullModel, variance: str
) -> tuple[Search, Array | float]:
    """The search with the variances of M, and by how much the draws of each subpopulation are widened.

    Clusters widen the draws, not M: it compares the errors that the rows show.
    """
    if chosen.residual_variance is None:
        return search, 1.0
    stats, stretch = maxima.raise_quiet_variances(rows, search, chosen.residual_variance)
    if variance != "residual":
        return search, stretch
    if compared.cluster is not None and not compared.binary:
        stats, _ = maxima.raise_quiet_variances(
            rows, search, ResidualVariance.of(replace(compared, cluster=None))
        )
    return replace(search, stats=stats), stretch


def _asked_words(subpopulations: Any) -> Any:
    if isinstance(subpopulations, (int, np.integer, str)):
        return subpopulations
    return str(subpopulations) if isinstance(subpopulations, Conjunctions) else f"{len(subpopulations)} given"


@dataclass(frozen=True, eq=False)
class SearchOutcome:
    """What a search found and what is known of its noise, worst first, for people."""

    rows: Ordered
    search: Search
    values: Array
    noise: maxima.MaximumNull
    units: Units

    def result(self, settings: Plain, method: str, *, weighted: bool) -> SubpopulationResult:
        """The record of the search."""
        values, summary, scale = self.values, self.noise.summary, self.units.scale
        order = np.argsort(-values, kind="stable")
        unit = float(maxima.deviations(self.search.stats)[0])
        per_unit = unit or math.nan
        critical, largest, expectation = summary.quantile / per_unit, float(values.max()), RANGE_MEAN * unit
        # In the search's order: it keeps what it named last.
        named = [self.search.define(k) for k in range(order.size)]
        often = Counter(
            definition.name for definition in named
        )  # those called alike say all of their numbers
        names = [
            definition.name if often[definition.name] == 1 else definition.words() for definition in named
        ]
        defined = [named[k] for k in order]
        table = Table({"label": [names[k] for k in order], **self._cells(order, critical, per_unit)})
        place = int(order.argmin())  # of the full population
        if not np.isfinite(values).all():
            summary = replace(summary, interval=(math.nan, math.nan))
        return SubpopulationResult(
            name=f"Multi-calibration error over {values.size:,} subpopulations",
            **summary.numbers(scale) | {"value": largest * scale},
            method=method + self._too_small_words(),
            table=table,
            settings={**settings, "tested": values.size, "too_small": len(self.search.too_small)},
            worst=[
                DescribedSubpopulation.of(table, row, definition.words(), weighted=weighted)
                for row, definition in enumerate(defined[:NAMED])
            ],
            full=DescribedSubpopulation.of(
                table, place, "full population", weighted=bool(self.rows.weight.size)
            ),
            deviation=unit * scale,
            expectation=expectation * scale,
            ratio=largest / expectation if unit > 0 else math.nan,
            null_mean=summary.noise_floor / per_unit,
            null_critical=critical,
            no_p_value=sentence(summary.method) if math.isnan(summary.p_value) else "",
            detectable=(critical + POWER) * unit * scale,
            too_small=self._small_table(),
            definitions=Definitions(defined),
            cumulative=self._curves(order[:DRAWN], names),
        )

    def _cells(self, order: Array, critical: float, unit: float) -> Plain:
        """Columns of the table: the subpopulations in order."""
        stats, units = self.search.stats[order], self.units
        # The walk goes from one end of its range to the other between two scores.
        ends = stats[:, [HIGH_AT, LOW_AT]].astype(np.int64)
        low, high = np.abs(self.rows.signed)[np.sort(ends, axis=1).clip(0)].T
        falls = ends[:, 0] < ends[:, 1]
        off = np.where(falls, 1.0, -1.0) * maxima.spans(stats)
        deviation = maxima.deviations(stats)
        columns = {
            **_means(stats),
            "kuiper": maxima.kuiper_errors(stats),
            "deviation": deviation,
            "deviations": self.values[order] / unit,
            "scaled": self.values[order],
            "expected": RANGE_MEAN * deviation,
            "score_low": units.back(low),
            "score_high": units.back(high),
            "interval_off": off,
            "detectable": (critical + POWER) * deviation,
            "information": information(stats),
            "p_adjusted": self.noise.adjusted[order],
        }
        return units.of_cells(columns)

    def _too_small_words(self) -> str:
        count, largest = len(self.search.too_small), self.rows.largest
        if not count:
            return ""
        words = f" {sentence(MethodNote.SEGMENTS_TOO_SMALL, count=count)}"
        if largest.size and largest.max() > UNEVEN * largest.mean():
            words += f" {sentence(MethodNote.UNEVEN_WEIGHTS)}"
        return words

    def _small_table(self) -> Table:
        stats, first = self.search.too_small, len(self.values)
        means = _means(stats)
        shown = {name: means[name] for name in ("rows", "predicted", "observed")}
        labels = [self.search.define(k).name for k in range(first, first + len(stats))]
        return Table(self.units.of_cells({"label": labels, **shown, "information": information(stats)}))

    def _curves(self, worst: Array, names: Sequence[str]) -> list[CumulativeCurve]:
        """Cumulative differences of the full population and of the worst subpopulations."""
        curves = []
        for k in np.append(0, worst[worst != 0])[: max(worst.size, 1)]:
            curve = subpopulation_curve(self.rows, self.search.members(k), self.units)
            curves.append(replace(curve, label=names[k]))
        return curves


def _means(stats: Array) -> dict[str, Array]:
    rows, weight, predicted, total = stats[:, [ROWS, WEIGHT, PREDICTED, TOTAL]].T
    known = np.where(weight > 0, weight, np.nan)
    return {
        "rows": rows.astype(np.int64),
        "weight": weight,
        "predicted": predicted / known,
        "observed": (predicted + total) / known,
        "gap": -total / known,
        "events_off": -total,
    }


def subpopulation_curve(rows: Ordered, members: Array, units: Units, points: int = POINTS) -> CumulativeCurve:
    """The `cumulative_curve` of a subpopulation."""
    signed = rows.signed[members]
    score, ones = np.abs(signed), np.ones(signed.size)
    weight, second = (values[members] if values.size else ones for values in (rows.weight, rows.second))
    if rows.observed.size:  # the noise of outcomes that are no events is what they show
        observed = rows.observed[members]
        variance = second * (observed - score) ** 2
    else:
        observed = ~np.signbit(signed)
        variance = second * score * (1.0 - score)
    return cumulative_curve(score, weight, weight * observed, variance, units, points=points)
