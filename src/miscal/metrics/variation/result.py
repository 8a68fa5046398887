"""Calibration by variation with its noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.inference.adjust import holm
from miscal.inference.aggregates import NullSummary, summary_of_draws
from miscal.inference.variation import Draws, matched_size
from miscal.metrics.norms import Norm, aggregate, norm_power
from miscal.metrics.pooled import DRAWS, choose_null
from miscal.metrics.variation.error import bin_variations, uncertainty_gaps, variation_gaps
from miscal.metrics.variation.measures import Measure, Variation, bias_corrected, check_correction, measure_of
from miscal.metrics.variation.sums import Bins, Ranked, RankSums, group_residuals, rank_sums, ranked
from miscal.pooling.cells import Ranges
from miscal.results import Result, Table

NO_INTERVAL = "No interval: the error is not a norm of the residuals."


def by_variation(
    p: Predictions,
    *,
    variation: Variation = "entropy",
    bins: Bins = 10,
    strategy: str = "uniform",
    range: tuple[float, float] | None = None,  # noqa: A002
    norm: Norm = "l1",
    bias_correction: bool = False,
    target: str = "auto",
    null: str = "bernoulli",
    random_state: int = 0,
) -> Result:
    """Calibration of the predictions' variation: the error with its noise floor, p-value and bins.

    The noise floor and the p-value come from drawing the ranks' frequencies of each bin from a multinomial with the
    bin's mean ranked probabilities, which is conservative, and computing the whole error on each draw; with clusters or
    weights that depend on the outcome the multinomial is as noisy as the residuals are. With few rows in a bin the
    observed entropy is low by itself: the noise floor holds that bias.

    Parameters
    ----------
    p : Predictions
    variation, bins, strategy, range, norm, bias_correction : as in `variation_calibration_error`
    target : "auto"
        The ranks of all classes are compared: there is no other target.
    null : "bernoulli" or "residual"
    random_state : seed of the simulation

    Returns
    -------
    Result
        The table has one row a bin: predicted and observed variation, their gap, the band in which 95% of calibrated
        predictions would lie, p-values (alone, and by Holm's rule), and the mean ranked probabilities beside the
        frequencies of the ranks. For the entropy `extra["uncertainty"]` holds the bins of the uncertainty calibration
        error, which has no p-value because it is not 0 for calibrated predictions.

    Examples
    --------
    >>> import miscal
    >>> data = miscal.datasets.calibrated_classes(5000)
    >>> result = miscal.by_variation(miscal.Predictions(data.y_true, data.y_prob))
    >>> result.p_value > 0.05, result.table["predicted_ranks"][5].round(2).tolist()
    (True, [0.78, 0.18, 0.04])
    """
    measure = measure_of(variation)
    corrected = check_correction(measure, bias_correction)
    norm_power(norm)
    if target != "auto":
        what = "must be 'auto': the variation compares the ranks of all classes"
        raise refusal(what, where="'target'", got=f"it is {target!r}", hint="confidence is variation='confidence'")
    rows = ranked(p, measure, bins, strategy, range)
    sums = rank_sums(rows)
    noise = choose_null(rows.weights(), null)
    drawn = _draws(rows, sums, noise.null, random_state, corrected=corrected)
    summary = _summary(sums, measure, drawn, norm, corrected=corrected)
    return Result(
        name=f"Calibration by variation ({measure.name.replace('_', ' ')})",
        kind="variation",
        value=summary.value,
        noise_floor=summary.noise_floor,
        p_value=summary.p_value,
        interval=(np.nan, np.nan),
        method=f"{noise.reason} {summary.draws} multinomial draws of the ranks. {NO_INTERVAL}",
        table=_table(sums, measure, drawn, corrected=corrected),
        settings={
            "variation": measure.name,
            "bins": bins if isinstance(bins, int) else list(np.asarray(bins, dtype=float)),
            "bins_used": int(np.count_nonzero(sums.weight > 0)),
            "strategy": strategy,
            "range": None if range is None else [float(end) for end in range],
            "norm": norm,
            "bias_correction": corrected,
            "target": "ranks",
            "null": noise.null,
            "random_state": random_state,
            "draws": summary.draws,
        },
        extra=_extra(sums, measure),
    )


def _draws(rows: Ranked, sums: RankSums, null: str, random_state: int, *, corrected: bool) -> np.ndarray:
    """Observed variations of the filled bins in draws under the null, (draws, bins)."""
    filled = np.flatnonzero(sums.weight > 0)
    made = Draws(sums.predicted[filled], sums.size[filled])
    if null == "residual":
        residual = group_residuals(rows)[:, filled]
        size = matched_size(residual, made.shares, sums.weight[filled], made.size, sums.rows[filled])
        slope = rows.measure.slope(made.shares, size)
        made = Draws(made.shares, size, (residual * slope).sum(axis=2) / sums.weight[filled], slope)

    def variation(shares: np.ndarray) -> np.ndarray:
        plain = rows.measure(shares)
        return bias_corrected(rows.measure, plain, shares, made.size) if corrected else plain

    return made.observed(variation, DRAWS, random_state)


def _summary(sums: RankSums, measure: Measure, drawn: np.ndarray, norm: Norm, *, corrected: bool) -> NullSummary:
    filled = sums.weight > 0
    predicted, _ = bin_variations(sums, measure)
    weight = sums.weight[filled]
    value = aggregate(variation_gaps(sums, measure, bias_correction=corrected)[filled], weight, norm)
    return summary_of_draws(float(value), aggregate(predicted[filled] - drawn, weight, norm), method="simulation")


def _table(sums: RankSums, measure: Measure, drawn: np.ndarray, *, corrected: bool) -> Table:
    filled = sums.weight > 0
    predicted, observed = bin_variations(sums, measure, bias_correction=corrected)
    low, high, p_value = (np.full(filled.size, np.nan) for _ in "123")
    low[filled], high[filled] = np.quantile(drawn, [0.025, 0.975], axis=0)
    slack = 1e-12 * np.maximum(np.abs(observed[filled]), 1.0)
    tails = [(drawn <= observed[filled] + slack), (drawn >= observed[filled] - slack)]
    rarer = np.minimum(*[(1.0 + tail.sum(axis=0)) / (1.0 + drawn.shape[0]) for tail in tails])
    p_value[filled] = np.minimum(2.0 * rarer, 1.0)
    return Table(
        {
            "label": Ranges(sums.edges).labels(),
            "low": sums.edges[:-1],
            "high": sums.edges[1:],
            "rows": sums.rows,
            "weight": sums.weight,
            "predicted": predicted,
            "observed": observed,
            "gap": variation_gaps(sums, measure, bias_correction=corrected),
            "band_low": low,
            "band_high": high,
            "p_value": p_value,
            "p_adjusted": holm(p_value),
            "predicted_ranks": sums.predicted,
            "observed_ranks": sums.observed,
        }
    )


def _extra(sums: RankSums, measure: Measure) -> dict[str, Any]:
    """Rank distributions of all rows together, and for the entropy what the uncertainty calibration error compares."""
    filled, weight = sums.weight > 0, sums.weight
    share = weight[filled] / weight.sum()
    extra: dict[str, Any] = {
        "predicted_ranks": (share[:, np.newaxis] * sums.predicted[filled]).sum(axis=0),
        "observed_ranks": (share[:, np.newaxis] * sums.observed[filled]).sum(axis=0),
    }
    if measure.name == "entropy" and measure.kind >= 0:
        error = 1.0 - sums.predicted[:, 0]  # what calibrated predictions would show, and its noise
        noise = 1.96 * np.sqrt(np.clip(error * (1.0 - error), 0.0, 0.25) / np.maximum(sums.size, 1.0))
        extra["uncertainty_error"] = float(aggregate(uncertainty_gaps(sums), weight, "l1"))
        extra["uncertainty"] = Table(
            {
                "rows": sums.rows,
                "uncertainty": sums.mean_variation,
                "error": 1.0 - sums.observed[:, 0],
                "band_low": np.clip(error - noise, 0.0, 1.0),
                "band_high": np.clip(error + noise, 0.0, 1.0),
            }
        )
    return extra
