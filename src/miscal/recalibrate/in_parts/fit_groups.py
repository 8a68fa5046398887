"""A recalibrator within groups, fitted in parts: from the sums of each distinct score in each group."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.columns import Column, Columns, column
from miscal.data.errors import check_named, refusal
from miscal.engines.buckets import KeyMap
from miscal.engines.crowd_search import score_sample
from miscal.engines.distinct import BUCKET, HALF, OUTCOME, PREDICTED, ROWS, SCORE, WEIGHT, DistinctPass
from miscal.engines.rows import Door
from miscal.pooling.bins import bin_index, quantile_edges
from miscal.recalibrate.base import Recalibrator, Sample
from miscal.recalibrate.by_columns.groups import GroupWise
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.score.histogram import EMPTY_BIN, HistogramBinning
from miscal.recalibrate.state import label_array

BUCKETS = 1 << 12


def fit_groups(model: GroupWise, runner: Any, door: Door, most: int) -> GroupWise:
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
    return _fitted(model, table, names, {"how": how, "combinations": int(table.num_rows)}, runner, door)


def _names(model: GroupWise, runner: Any) -> tuple[str, ...]:
    chosen = [model.columns] if isinstance(model.columns, str) else list(model.columns or ())
    if not chosen or not all(isinstance(name, str) for name in chosen):
        raise refusal("must name the columns", where="'columns'", got=f"got {model.columns!r}", hint="of the table")
    check_named(chosen, runner.kinds, runner.words, runner.kinds)
    return tuple(chosen)


def _fitted(
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
