"""Results from carriers alone: what `by_score`, `by_variable` and `by_field` say, without the rows.

Tallies, walks and what is read off them are exact. What needs the whole order of the scores (slope, SmoothECE, the
parts of the losses, the area under the curve) comes from a sketch of the score: tens of thousands of cells of about
equally many rows, in which scores are taken for their mean.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from miscal.carriers.tally import Tally
from miscal.carriers.walk import Walk
from miscal.inference.aggregates import NullSummary
from miscal.inference.smooth import smooth_noise
from miscal.inference.sums import CellRows, Sums, effective_events, rows_of_cells
from miscal.inference.walks import kuiper_p_value
from miscal.metrics.decision import area_under_curve
from miscal.metrics.field import result as fields
from miscal.metrics.field.shrink import shrink
from miscal.metrics.pooled import DRAWS, Noise, Pooled, p_floor, pooled_of, with_missing, worst_cell
from miscal.metrics.score.losses import isotonic_rates
from miscal.metrics.score.regression import slope_intercept
from miscal.metrics.score.result import noise_of
from miscal.metrics.score.smooth import smooth_error
from miscal.pairs import Pair
from miscal.pooling.cells import Ranges
from miscal.pooling.levels import Nested
from miscal.results import Result

CROWDED = 0.05
HISTOGRAM = 40
POINTS = 400
FROM_SKETCH = ("smooth", "slope", "intercept", "in_the_large", "auc", "brier", "log_loss", "histogram", "cumulative")


def stream_noise(*, outcome_weights: bool, null: str = "bernoulli") -> Noise:
    """Which null a stream uses, and why in words."""
    if outcome_weights:
        return Noise("residual", "Sign-flip null, because the weights depend on the outcome.", outcome_weights=True)
    if null == "residual":
        return Noise("residual", "Sign-flip null.")
    return Noise("bernoulli", "Noise of outcomes drawn from the predictions.")


def mended_scores(sketch: Tally) -> np.ndarray:
    """The score of each cell of a sketch after isotonic recalibration; empty cells lie between their neighbours."""
    filled = np.flatnonzero(sketch.weight > 0)
    rates = isotonic_rates(sketch.weight[filled], sketch.observed[filled])
    return np.ascontiguousarray(np.interp(np.arange(sketch.counts.size), filled, rates))


def walk_noise(
    walk: Walk, totals: Tally, noise: Noise, random_state: int = 0, ties: Tally | None = None
) -> NullSummary:
    """How the range of a walk compares with noise.

    totals : its first cell is the sum of the walk's rows;  ties : sums of each distinct key, where there are few
    """
    events = min(walk.expected)
    if totals.weighted:
        events = float(effective_events(totals)[0])
    return kuiper_p_value(
        walk.range,
        weight=walk.weight,
        variance=float(totals.residual2[0]) if noise.null == "residual" else walk.variance,
        distinct=walk.distinct,
        events=events,
        null=noise.null,
        ties=None if ties is None else _known(ties),
        weighted=totals.weighted,
        random_state=random_state,
    )


def _known(ties: Tally) -> Sums:
    """The sums without the cell of missing keys."""
    cells = ties.cells
    count = cells.count - (isinstance(cells, Ranges) and cells.missing)
    names = ("rows", "weight", "weight2", "predicted", "observed", "variance", "residual2")
    return Sums(*(np.asarray(getattr(ties, name))[:count] for name in names))


def score_result(
    sums: Tally,
    sketch: Tally,
    walk: Walk | None,
    totals: Tally,
    noise: Noise,
    *,
    target: str,
    random_state: int = 0,
    ties: Tally | None = None,
) -> Result:
    """Calibration by score; without a walk (carriers added up) Kuiper's error is read off the borders of the sketch."""
    found = pooled_of(sums, noise, random_state=random_state)
    settings = found.settings(found.table.rows, "quantile", "l1", target, random_state)
    settings |= {"bins_used": found.table.rows, "draws": found.summary.draws}
    extra = {"tally": sums, **_score_extras(sketch, walk, totals, noise, random_state, ties)}
    return found.result("Calibration by score", "score", settings, extra)


def sketch_walk(sketch: Tally, totals: Tally) -> tuple[Walk, float]:
    """The walk at the borders of a sketch, and how much further it may reach between them."""
    filled = sketch.weight > 0
    steps = -sketch.events_off[filled]
    ends, keys = np.cumsum(steps), sketch.mean_predicted[filled]
    high, low = int(np.argmax(ends)), int(np.argmin(ends))
    weight, predicted = float(totals.weight[0]), float(totals.predicted[0])
    made = Walk(
        total=float(ends[-1]),
        highest=max(0.0, float(ends[high])),
        lowest=min(0.0, float(ends[low])),
        weight=weight,
        variance=float(totals.variance[0]),
        rows=int(totals.counts[0]),
        expected=(predicted, weight - predicted),
        distinct=int(filled.sum()),
        highest_at=float(keys[high]) if ends[high] > 0 else math.nan,
        lowest_at=float(keys[low]) if ends[low] < 0 else math.nan,
        first=float(keys[0]),
        last=float(keys[-1]),
    )
    # Inside a cell the walk rises by at most its events and falls by at most its predictions.
    return made, float((np.max(sketch.observed[filled]) + np.max(sketch.predicted[filled])) / weight)


def _score_extras(
    sketch: Tally, walk: Walk | None, totals: Tally, noise: Noise, random_state: int, ties: Tally | None
) -> dict[str, Any]:
    bound = 0.0
    if walk is None:
        walk, bound = sketch_walk(sketch, totals)
    kuiper = walk_noise(walk, totals, noise, random_state, ties)
    pair = sketch_pair(sketch)
    fit, smooth = slope_intercept(pair), smooth_error(pair)
    weight, events = sketch.weight[sketch.weight > 0], sketch.observed[sketch.weight > 0]
    total = float(totals.weight[0])
    return {
        "predicted": float(totals.predicted[0] / total),
        "observed": float(totals.observed[0] / total),
        "kuiper": walk.range,
        "kuiper_noise": {
            "noise_floor": kuiper.noise_floor,
            "p_value": kuiper.p_value,
            "interval": list(kuiper.interval),
            "method": kuiper.method,
            "from": walk.highest_at,
            "to": walk.lowest_at,
        },
        "kuiper_short_by_at_most": bound,
        "smooth": smooth,
        "smooth_noise": noise_of(smooth_noise(pair, smooth, noise.null, random_state=random_state))
        if not sketch.weighted
        else {},
        **{
            name: _numbers(getattr(fit, name), known=not sketch.weighted)
            for name in ("slope", "intercept", "in_the_large", "ratio")
        },
        "brier": _parts(sketch, "brier", float(totals.squared_error[0] / total)),
        "log_loss": _parts(sketch, "log", float(totals.log_loss[0] / total)),
        "auc": area_under_curve(weight, events),
        "axis": "logit" if _crowded(sketch) else "linear",
        "histogram": _histogram(sketch),
        "cumulative": _cumulative(sketch, walk.deviation),
        "from_sketch": {"cells": int((sketch.weight > 0).sum()), "names": list(FROM_SKETCH)},
    }


def sketch_pair(sketch: Tally) -> Pair:
    """Events and non-events of each cell at its mean score, as aggregated rows."""
    filled = np.flatnonzero(sketch.weight > 0)
    mean = np.clip(np.repeat(sketch.mean_predicted[filled], 2), 0.0, 1.0)
    observed = np.tile(np.array([1, 0], np.uint8), filled.size)
    size = np.stack([sketch.observed[filled], sketch.weight[filled] - sketch.observed[filled]], axis=1).reshape(-1)
    kept = size > 0
    if sketch.weighted:
        return Pair(mean[kept], observed[kept], weight=size[kept])
    return Pair(mean[kept], observed[kept], count=np.rint(size[kept]).astype(np.int64))


def _numbers(estimate: Any, *, known: bool) -> dict[str, Any]:
    """A number with its interval; with weights cells do not tell the rows' noise, and there is none."""
    return {"value": estimate.value, "interval": [estimate.low, estimate.high] if known else [math.nan, math.nan]}


def _parts(sketch: Tally, loss: str, own: float) -> dict[str, float]:
    """The decomposition of a loss: its mean is exact, the isotonic fit is that of the cells."""
    filled = sketch.weight > 0
    weight, events = sketch.weight[filled], sketch.observed[filled]
    fitted = _mean_loss(isotonic_rates(weight, events), weight, events, loss)
    constant = _mean_loss(np.full(weight.size, events.sum() / weight.sum()), weight, events, loss)
    return {
        "score": own, "miscalibration": own - fitted, "discrimination": constant - fitted, "uncertainty": constant
    }  # fmt: skip


def _mean_loss(rate: np.ndarray, weight: np.ndarray, events: np.ndarray, loss: str) -> float:
    others = weight - events
    if loss == "brier":
        return float((events * (1 - rate) ** 2 + others * rate**2).sum() / weight.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.where(events > 0, -events * np.log(rate), 0.0) + np.where(others > 0, -others * np.log1p(-rate), 0.0)
    return float(cost.sum() / weight.sum())


def _crowded(sketch: Tally) -> bool:
    below = sketch.mean_predicted < CROWDED
    return bool(sketch.weight[below].sum() > 0.5 * sketch.weight.sum())


def _histogram(sketch: Tally) -> dict[str, list[float]]:
    edges = np.linspace(0.0, 1.0, HISTOGRAM + 1)
    filled = sketch.weight > 0
    rows, _ = np.histogram(sketch.mean_predicted[filled], bins=edges, weights=sketch.weight[filled])
    return {"edges": edges.tolist(), "rows": rows.astype(float).tolist()}


def _cumulative(sketch: Tally, deviation: float) -> dict[str, Any]:
    """The running total at some borders of the sketch, exact there."""
    filled = np.flatnonzero(sketch.weight > 0)
    last = np.unique(np.linspace(0, filled.size - 1, min(POINTS, filled.size)).astype(int))
    share, off, noise = (
        np.cumsum(values[filled])[last] for values in (sketch.weight, sketch.events_off, sketch.variance)
    )
    total = float(sketch.weight.sum())
    scores = sketch.mean_predicted[filled]
    return {
        "x": [0.0, *(share / total).tolist()],
        "y": [0.0, *(off / total).tolist()],
        "score": [float(scores[0]), *scores[last].tolist()],
        "band": [0.0, *(1.96 * np.sqrt(noise) / total).tolist()],
        "deviation": deviation,
    }


def variable_result(
    name: str,
    sums: Tally,
    walk: Walk | None,
    totals: Tally,
    noise: Noise,
    *,
    kind: str,
    target: str,
    random_state: int = 0,
    extra: dict[str, Any] | None = None,
    ties: Tally | None = None,
) -> Result:
    """Calibration along a variable; without a walk the p-value is that of the error over the ranges."""
    found = pooled_of(sums, noise, random_state=random_state)
    more: dict[str, Any] = {"tally": sums, "worst": worst_cell(found), "column": name}
    more |= {"column_kind": "date" if kind == "date" else "numeric", "integer": kind == "integer"}
    p_value, least, method = found.summary.p_value, p_floor(found.summary), found.method
    if walk is not None:
        p_value, least, words, place = _along(walk, totals, found, noise, random_state, ties)
        more |= place
        method = f"{noise.reason} p-value: walk along the variable ({words})."
    settings = {"column": name, **found.settings(found.table.rows, "quantile", "l1", target, random_state)}
    more |= extra or {}
    return found.result(
        f"Calibration by {name}", "variable", settings, more, p_value=p_value, method=method, least=least
    )


def _along(
    walk: Walk, totals: Tally, found: Pooled, noise: Noise, random_state: int, ties: Tally | None
) -> tuple[float, float, str, dict[str, Any]]:
    summary = walk_noise(walk, totals, noise, random_state, ties)
    p_value, least = summary.p_value, p_floor(summary)
    if isinstance(found.tally.cells, Ranges) and found.tally.cells.missing:
        p_value, least = with_missing(summary, float(found.tests.p_value[-1]))
    ends = sorted(walk.first if math.isnan(end) else end for end in (walk.highest_at, walk.lowest_at))
    place = {"kuiper": walk.range, "kuiper_noise_floor": summary.noise_floor, "range": ends}
    return p_value, least, summary.method, place


def field_result(
    name: str, sums: Tally, noise: Noise, rows: CellRows | None = None, *, target: str, random_state: int = 0
) -> Result:
    """Calibration by the levels of a field; what sets levels apart from each other needs the rows and is left out."""
    draws = int(np.clip(fields.MOST_VALUES // max(sums.counts.size, 1), fields.LEAST_DRAWS, DRAWS))
    found = pooled_of(sums, noise, rows, random_state=random_state, draws=draws)
    shrunken = shrink(sums, sums.residual2)
    levels = Nested(SimpleNamespace(cells=sums.cells))
    compared: Any = SimpleNamespace(target=target)
    return found.result(
        f"Calibration by {name}",
        "field",
        fields._settings(name, None, None, "l1", compared, found, random_state),  # noqa: SLF001
        fields._extra(name, found, levels, shrunken, None),  # noqa: SLF001
        method=found.method + fields._noise_words(found),  # noqa: SLF001
        table=fields._table(found, levels, shrunken, None),  # noqa: SLF001
    )


def small_rows(sums: Tally, small: dict[str, np.ndarray]) -> CellRows | None:
    """The rows of small cells, as a stream pulled them."""
    if not small:
        return None
    return rows_of_cells(
        small["cell"],
        sums.counts.size,
        small["predicted"],
        small["observed"].astype(np.float64),
        weight=small.get("weight"),
        count=small.get("count"),
    )
