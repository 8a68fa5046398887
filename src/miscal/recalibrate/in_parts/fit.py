"""Recalibrators fitted from carriers: passes over a table of any size in place of its rows in memory.

Histogram binning is exact: its edges and rates are those that all rows in memory give. Every other recalibrator of the
score is fitted to the sums of each distinct score, which is exact too, as long as these fit the ceiling of memory; else
to a sketch, tens of thousands of cells of about equally many rows in which scores are taken for their mean. `GroupWise`
is fitted to the sums of each distinct score in each group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.columns import Column, Columns, column
from miscal.data.errors import check_named, refusal
from miscal.data.sizes import memory_bytes
from miscal.engines.buckets import KeyMap
from miscal.engines.crowd_search import score_sample
from miscal.engines.distinct import BUCKET, HALF, OUTCOME, PREDICTED, ROWS, SCORE, WEIGHT, DistinctPass
from miscal.engines.keys import Given, Profile, Quantiles
from miscal.engines.rows import Door
from miscal.engines.runners import DEFAULT, restarted, runner_for
from miscal.engines.scan import Scanned, scan
from miscal.metrics.streamed import sketch_pair
from miscal.pooling.bins import bin_index, quantile_edges, uniform_edges
from miscal.pooling.cells import Ranges
from miscal.recalibrate.base import Recalibrator, Sample
from miscal.recalibrate.by_columns.groups import GroupWise
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.score.histogram import EMPTY_BIN, HistogramBinning
from miscal.recalibrate.state import label_array

BYTES = 160  # of memory for each distinct score, its two outcomes and what sorting them takes
BUCKETS = 1 << 12  # of scores in groups, where distinct ones are too many
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
        return _fit_groups(model, runner, door, most)
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
    score, outcome, weight, rows = (table[name].to_numpy() for name in (SCORE, OUTCOME, WEIGHT, ROWS))
    model.fit(score, outcome, sample_weight=weight)
    model.n_rows_ = int(rows.sum())
    model.fitted_from_ = {"how": "distinct scores", "scores": int(np.unique(score).size)}
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
    model.fitted_from_ = how
    return model


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


def _fit_groups(model: GroupWise, runner: Any, door: Door, most: int) -> GroupWise:
    """Fit `GroupWise`; its columns must be named, and what it fits must look at the score alone.

    With ``pooling`` the two halves are told apart by a hash of where a row stands, not by the draw that `fit` makes:
    the maps are those of memory, how strongly they are pooled may differ.
    """
    names = _names(model, runner)
    if model.recalibrator.uses_columns:
        hint = "it needs columns beside the score: load a sample"
        raise refusal("cannot be fitted in parts", where=type(model.recalibrator).__name__, hint=hint)
    job = DistinctPass(door, names, 2 * most, halves=bool(model.pooling))
    runner.check(job.columns)
    table = runner.run(job).table()
    how = "distinct scores"
    if table is None:
        _, scores = score_sample(runner, door)
        made = KeyMap.fitted(scores, BUCKETS)
        table = runner.run(DistinctPass(door, names, 2 * most, made, halves=bool(model.pooling))).table()
        how = "sketch"
    if table is None:
        raise refusal(
            "have too many levels to be fitted in parts", where=", ".join(f"'{name}'" for name in names),
            got=f"more than {2 * most:,} combinations of group and score", hint="allow more memory, or group coarser",
        )  # fmt: skip
    return _fitted_groups(model, table, names, {"how": how, "combinations": int(table.num_rows)}, runner, door)


def _names(model: GroupWise, runner: Any) -> tuple[str, ...]:
    chosen = [model.columns] if isinstance(model.columns, str) else list(model.columns or ())
    if not chosen or not all(isinstance(name, str) for name in chosen):
        raise refusal("must name the columns", where="'columns'", got=f"got {model.columns!r}", hint="of the table")
    check_named(chosen, runner.kinds, runner.words, runner.kinds)
    return tuple(chosen)


def _fitted_groups(
    model: GroupWise, table: Any, names: tuple[str, ...], how: dict[str, Any], runner: Any, door: Door
) -> GroupWise:
    weight = table[WEIGHT].to_numpy()
    by_bucket = BUCKET in table.column_names
    score = table[PREDICTED].to_numpy() / weight if by_bucket else table[SCORE].to_numpy()
    outcome = table[OUTCOME].to_numpy().astype(np.int64)
    columns = Columns({name: _column(name, table[name], runner.kinds[name]) for name in names})
    sample = Sample(np.clip(score, 0.0, 1.0), outcome, weight, columns, 2)
    worker = _InParts(**{name: getattr(model, name) for name in model.get_params(deep=False)})
    worker.repeated = door.weight is None
    times = table[ROWS].to_numpy()
    half = table[HALF].to_numpy() == 0 if model.pooling else None
    if np.unique(outcome).size < 2:
        model.fit(sample.probability, outcome, columns, weight)  # says that there is one class only
        model.n_rows_, model.fitted_from_ = int(times.sum()), how
        return model
    worker._learn(sample, worker._coded(sample), half, times)  # noqa: SLF001
    model._forget()  # noqa: SLF001
    for name in model.fields:
        setattr(model, name, getattr(worker, name))
    model.classes_, model.identity_, model.n_rows_ = label_array([0, 1]), False, int(times.sum())
    model.fitted_from_ = how
    return model


def _column(name: str, values: Any, kind: str) -> Column:
    if kind in ("category", "boolean"):
        made = column(name, values)
        if kind == "boolean":
            codes = np.where(made.values >= 0, np.array([*(lev == "True" for lev in made.levels), 0])[made.values], -1)
            return Column(name, "boolean", codes.astype(np.int32), (False, True))
        return made
    numbers = values.to_numpy().astype(np.float64)
    return Column(name, "date" if kind == "date" else "numeric", numbers, integer=kind == "integer")


class _InParts(GroupWise):
    """The same, on rows that stand for several."""

    repeated: bool = True  # weights are numbers of rows

    def _one(self, part: Sample) -> Recalibrator:
        made = super()._one(part)
        assert part.weight is not None
        quantile = isinstance(made, HistogramBinning) and parameters.is_whole(made.bins) and made.strategy == "quantile"
        if quantile and self.repeated and not made.identity_:
            _repeated_edges(made, part)
        made.n_rows_ = int(part.weight.sum()) if self.repeated else made.n_rows_
        return made


def _repeated_edges(made: HistogramBinning, part: Sample) -> None:
    """Equal-support edges as all rows give them, one by one: interpolated between ranks."""
    assert part.weight is not None
    edges = quantile_edges(part.probability, int(made.bins), count=part.weight.astype(np.int64))
    codes = bin_index(part.probability, edges)
    total = np.bincount(codes, weights=part.weight, minlength=edges.size - 1)
    events = np.bincount(codes, weights=part.weight * part.outcome, minlength=edges.size - 1)
    made.edges_ = [edges]
    made.values_ = [np.divide(events, total, out=np.full(total.size, EMPTY_BIN), where=total > 0)]
