"""Recalibrators fitted from carriers: passes over a table of any size in place of its rows in memory.

Histogram binning is exact: its edges and rates are those that all rows in memory give. Every other recalibrator of the
score is fitted to the sums of each distinct score, which is exact too, as long as these fit the ceiling of memory; else
to a sketch, tens of thousands of cells of about equally many rows in which scores are taken for their mean. `GroupWise`
is fitted to the sums of each distinct score in each group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.errors import check_named, refusal
from miscal.data.sizes import memory_bytes
from miscal.engines.distinct import OUTCOME, SCORE, WEIGHT, DistinctPass
from miscal.engines.keys import Given, Profile, Quantiles
from miscal.engines.rows import Door
from miscal.engines.runners import DEFAULT, restarted, runner_for
from miscal.engines.scan import Scanned, scan
from miscal.metrics.streamed import sketch_pair
from miscal.pooling.bins import uniform_edges
from miscal.pooling.cells import Ranges
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.by_columns.groups import GroupWise
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.in_parts.fit_groups import fit_groups
from miscal.recalibrate.score.histogram import EMPTY_BIN, HistogramBinning

BYTES = 160  # of memory for each distinct score, its two outcomes and what sorting them takes
ALL_DIFFERENT = 0.9  # share of a sample from which on scores are taken to be all different


def fit_to(
    model: Recalibrator,
    source: Any,
    *,
    outcome: str,
    probability: str,
    weight: str | None = None,
    memory: Any = None,
    **options: Any,
) -> Recalibrator:
    """Fit a recalibrator to a table that is read in parts.

    ``fitted_from_`` of the model says from what: "bins" or "distinct scores" (the same as from all rows), or "sketch"
    with the largest share of the rows that one of its cells has. The running total of the isotonic values, in order of
    the score, then differs from the exact one by at most that share of all rows.

    Parameters
    ----------
    model : a recalibrator that looks at the score alone, or `GroupWise` of one, for two classes
    source : path (a file, a folder, a pattern), a lazy frame, or a Spark DataFrame
    outcome, probability, weight : names of columns
    memory : ceiling, such as "600MB"; it also says how many distinct scores are kept
    options : positive, logit and clip, as in `miscal.read`

    Returns
    -------
    Recalibrator
        The same model, fitted.
    """
    if model.uses_columns and not isinstance(model, GroupWise):
        name = type(model).__name__
        raise refusal("cannot be fitted in parts", where=name, hint="it needs columns beside the score: load a sample")
    door = Door(outcome, probability, weight, target="positive", **options)
    model.check_parameters()
    runner = runner_for(source, memory)
    check_named(door.columns, runner.kinds, runner.words, runner.kinds)
    runner.check(door.columns)
    most = memory_bytes(memory or DEFAULT) // (BYTES * getattr(runner, "threads", 1))
    return restarted(runner, lambda: _fitted(model, runner, door, most))


def _fitted(model: Recalibrator, runner: Any, door: Door, most: int) -> Recalibrator:
    if isinstance(model, GroupWise):
        return fit_groups(model, runner, door, most)
    if not isinstance(model, HistogramBinning) and _from_scores(model, runner, door, most):
        return model
    return _from_scan(model, runner, door)


def _from_scores(model: Recalibrator, runner: Any, door: Door, most: int) -> bool:
    """Fit from the sums of each distinct score; whether there were few enough."""
    scores = [batch.pair.predicted for chunk in runner.sample(door.columns) if (batch := door.open(chunk)) is not None]
    seen = np.concatenate(scores) if scores else np.empty(0)
    many = np.unique(seen).size > ALL_DIFFERENT * seen.size
    if many and runner.rows is not None and ALL_DIFFERENT * runner.rows > most:
        return False
    table = runner.run(DistinctPass(door, most=2 * most)).table()
    if table is None:
        return False
    score, outcome, weight, rows = (table[name].to_numpy() for name in (SCORE, OUTCOME, WEIGHT, "__rows__"))
    model.fit(score, outcome, sample_weight=weight)
    model.n_rows_ = int(rows.sum())
    setattr(model, FROM, {"how": "distinct scores", "scores": int(np.unique(score).size)})
    return True


def _from_scan(model: Recalibrator, runner: Any, door: Door) -> Recalibrator:
    def requests(key: str, kind: str, profile: Profile, unequal: bool) -> dict[str, Any]:  # noqa: ARG001
        return {"bins": _bins(model, unequal)} if isinstance(model, HistogramBinning) else {}

    scanned = scan(runner, door, variables=[], fields=[], requests=requests, sample=0)
    rows = sketch_pair(scanned.sketch)
    # The public way to fit: every check, and the state that JSON carries, come from it.
    model.fit(rows.predicted, rows.observed, sample_weight=rows.first)
    share = float(scanned.sketch.weight.max() / scanned.sketch.weight.sum())
    how: dict[str, Any] = {"how": "sketch", "cells": int((scanned.sketch.weight > 0).sum()), "largest_share": share}
    if isinstance(model, HistogramBinning) and not model.identity_:
        _exact(model, scanned)
        how = {"how": "bins"}
    model.n_rows_ = scanned.rows
    setattr(model, FROM, how)
    return model


FROM = "fitted_from_"


def _bins(model: HistogramBinning, unequal: bool) -> Given | Quantiles:
    if not parameters.is_whole(model.bins):
        return Given(parameters.edges("bins", model.bins))
    if model.strategy == "uniform":
        return Given(uniform_edges(int(model.bins), 0.0, 1.0))
    return Quantiles(int(model.bins), unequal)


def _exact(model: HistogramBinning, scanned: Scanned) -> None:
    """Put the edges and rates of all rows in place of the sketch's."""
    tally = scanned.score.tallies["bins"]
    assert isinstance(tally.cells, Ranges)
    total = tally.weight
    model.edges_ = [tally.cells.edges]
    model.values_ = [np.divide(tally.observed, total, out=np.full(total.size, EMPTY_BIN), where=total > 0)]
