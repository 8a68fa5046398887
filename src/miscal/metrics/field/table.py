"""The table by which the paper compares methods: seven numbers for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from miscal.data.errors import refusal
from miscal.engines.memory import mean_tally, tally
from miscal.metrics.arrays import Given
from miscal.metrics.decision import area_under_curve
from miscal.metrics.field.errors import given_levels, probability_error, relative_error
from miscal.metrics.norms import aggregate
from miscal.metrics.score.binned import Bins
from miscal.metrics.score.losses import pooled_scores
from miscal.pooling.cells import LevelPooling, Numbered
from miscal.results import Table

COLUMNS = (
    "auc",
    "log_loss",
    "brier",
    "probability_error",
    "field_error",
    "field_relative_error",
    "ratio",
)


def field_table(
    y_true: Any,
    y_prob: Any,
    field: Any,
    *,
    bins: Bins | None = None,
    probability_bins: Bins = 15,
    epsilon: float = 0.01,
    zero: str = "epsilon",
    target: str | int = "auto",
    sample_weight: Any = None,
) -> Table:
    """Compare methods as Tables 1 to 5 of the paper do: seven numbers for each set of predictions.

    Columns: method, auc (ties count half), log_loss, brier, probability_error (Prob-ECE), field_error (Field-ECE),
    field_relative_error (Field-RCE), ratio (predicted / observed). Several classes are compared by `target`.

    Parameters
    ----------
    y_prob : probabilities, or a mapping of a method's name to its probabilities
    probability_bins : bins of the probability-level error
    epsilon, zero : see `field_relative_calibration_error`

    Examples
    --------
    >>> from miscal.metrics import field_table
    >>> table = field_table([0, 1, 1, 0], {"model": [0.2, 0.7, 0.6, 0.4], "rate": [0.5] * 4}, ["a", "a", "b", "b"])
    >>> table["method"].tolist(), table["field_error"].round(3).tolist(), table["auc"].tolist()
    (['model', 'rate'], [0.025, 0.0], [1.0, 0.5])
    """
    from miscal.metrics.field.errors import _check_zero

    _check_zero(epsilon, zero)
    named = dict(y_prob) if isinstance(y_prob, Mapping) else {"model": y_prob}
    if not named:
        raise refusal("must hold at least one method", where="'y_prob'", got="it is empty")
    rows: dict[str, list[Any]] = {name: [] for name in ("method", *COLUMNS)}
    levels: LevelPooling | None = None
    for name, probability in named.items():
        given = Given(y_true, probability, sample_weight)
        levels = given_levels(given, field, bins) if levels is None else levels
        pair = given.pair(target)
        whole = tally(pair, _everything(pair.rows))
        by_level = mean_tally(pair, levels)
        values = (
            area_under_curve(*pooled_scores(pair)[1:]),
            float(whole.log_loss[0] / whole.weight[0]),
            float(whole.squared_error[0] / whole.weight[0]),
            probability_error(pair, probability_bins, "l1"),
            float(aggregate(by_level.gap, by_level.weight)),
            relative_error(by_level, epsilon, zero, "l1"),
            float(whole.predicted[0] / whole.observed[0]) if whole.observed[0] > 0 else float("nan"),
        )
        for column, value in zip(rows, (str(name), *values), strict=True):
            rows[column].append(value)
    return Table(rows)


def _everything(rows: int) -> LevelPooling:
    import numpy as np

    return LevelPooling(np.broadcast_to(np.int64(0), rows), Numbered(1))
