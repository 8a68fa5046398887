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
from miscal.engines.buckets import KeyMap
from miscal.engines.distinct import BUCKET, HALF, OUTCOME, PREDICTED, ROWS, SCORE, WEIGHT, DistinctPass
from miscal.engines.keys import Given, Profile, Quantiles
from miscal.engines.rows import Door
from miscal.engines.runners import DEFAULT, restarted, runner_for
from miscal.engines.scan import scan
from miscal.engines.stream import memory_bytes
from miscal.pooling.bins import bin_index, quantile_edges, uniform_edges, warn_of_merged
from miscal.pooling.cells import Ranges
from miscal.recalibrate.base import Recalibrator, Sample
from miscal.recalibrate.by_columns.groups import GroupWise
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.score.histogram import EMPTY_BIN, HistogramBinning
from miscal.recalibrate.state import label_array

BYTES = 160  # of memory for each distinct score, its two outcomes and what sorting them takes
CELLS, GROUP_CELLS = 1 << 14, 1 << 12  # of scores, where distinct ones are too many
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
    if isinstance(model, HistogramBinning):
        return _from_scan(model, runner, door)
    return _from_sums(model, runner, door, most)


def _sums(runner: Any, door: Door, names: tuple[str, ...], most: int, *, halves: bool = False) -> tuple[Any, str]:
    """Sums of the rows by columns, score and outcome, None if there are too many; and from what they are.

    Where distinct scores are too many, scores are taken by cells of about equally many rows.
    """
    scores = [batch.pair.predicted for chunk in runner.sample(door.columns) if (batch := door.open(chunk)) is not None]
    seen = np.concatenate(scores) if scores else np.empty(0)
    different = np.unique(seen).size > ALL_DIFFERENT * seen.size
    if not (different and runner.rows is not None and ALL_DIFFERENT * runner.rows > most):
        table = runner.run(DistinctPass(door, names, 2 * most, halves=halves)).table()
        if table is not None:
            return table, "distinct scores"
    cells = KeyMap.fitted(seen, GROUP_CELLS if names else CELLS)
    limit = 2 * most if names else max(2 * most, 4 * CELLS)
    return runner.run(DistinctPass(door, names, limit, cells, halves=halves)).table(), "sketch"


def _rows_of(table: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Score, outcome, weight and number of rows of each sum; a score of a cell is the cell's mean."""
    outcome, weight, rows = (table[name].to_numpy() for name in (OUTCOME, WEIGHT, ROWS))
    if BUCKET not in table.column_names:
        return table[SCORE].to_numpy(), outcome, weight, rows
    cell = table[BUCKET].to_numpy()
    total = np.bincount(cell, weight)
    means = np.divide(np.bincount(cell, table[PREDICTED].to_numpy()), total, out=np.zeros(total.size), where=total > 0)
    return np.clip(means, 0.0, 1.0)[cell], outcome, weight, rows


def _from_sums(model: Recalibrator, runner: Any, door: Door, most: int) -> Recalibrator:
    table, how = _sums(runner, door, (), most)
    if table is None:
        raise refusal("must have at least one row", where=f"'{runner.words}'", got="it is empty")
    score, outcome, weight, rows = _rows_of(table)
    # The public way to fit: every check, and the state that JSON carries, come from it.
    model.fit(score, outcome, sample_weight=weight)
    model.n_rows_ = int(rows.sum())
    mass = np.bincount(np.unique(score, return_inverse=True)[1], weight)
    share = {"cells": mass.size, "largest_share": float(mass.max() / mass.sum())}
    model.fitted_from_ = {"how": how, **(share if how == "sketch" else {"scores": mass.size})}
    return model


def _from_scan(model: HistogramBinning, runner: Any, door: Door) -> Recalibrator:
    """Edges and rates as all rows give them, in two passes."""

    def requests(key: str, kind: str, profile: Profile, unequal: bool) -> dict[str, Any]:  # noqa: ARG001
        return {"bins": _bins(model, unequal)}

    scanned = scan(runner, door, variables=[], fields=[], requests=requests, sample=0)
    tally = scanned.score.tallies["bins"]
    assert isinstance(tally.cells, Ranges)
    edges, total, how = tally.cells.edges, tally.weight, {"how": "bins"}
    rates = np.divide(tally.observed, total, out=np.full(total.size, EMPTY_BIN), where=total > 0)
    seen = rates[total > 0]
    if (seen == 0.0).all() or (seen == 1.0).all():
        model.fit([0.5], [int(seen[0])])  # says that there is one class only
        model.n_rows_, model.fitted_from_ = scanned.rows, how
        return model
    if parameters.is_whole(model.bins):
        warn_of_merged(int(model.bins), edges.size - 1)
    return _stated(model, {"kept_": np.array([False]), "edges_": [edges], "values_": [rates]}, scanned.rows, how)


def _stated(model: Recalibrator, state: dict[str, Any], rows: int, how: dict[str, Any]) -> Recalibrator:
    """A model with what was learned elsewhere."""
    model._forget()  # noqa: SLF001
    common = {"classes_": label_array([0, 1]), "identity_": False, "n_rows_": rows, "fitted_from_": how}
    for name, value in {**state, **common}.items():
        setattr(model, name, value)
    return model


def _bins(model: HistogramBinning, unequal: bool) -> Given | Quantiles:
    if not parameters.is_whole(model.bins):
        return Given(parameters.edges("bins", model.bins))
    if model.strategy == "uniform":
        return Given(uniform_edges(int(model.bins), 0.0, 1.0))
    return Quantiles(int(model.bins), unequal)


def _fit_groups(model: GroupWise, runner: Any, door: Door, most: int) -> Recalibrator:
    """Fit `GroupWise`; its columns must be named, and what it fits must look at the score alone.

    With ``pooling`` the two halves are told apart by a hash of where a row stands, not by the draw that `fit` makes:
    the maps are those of memory, how strongly they are pooled may differ.
    """
    names = _names(model, runner)
    if model.recalibrator.uses_columns:
        hint = "it needs columns beside the score: load a sample"
        raise refusal("cannot be fitted in parts", where=type(model.recalibrator).__name__, hint=hint)
    runner.check(door.and_columns(names))
    table, how = _sums(runner, door, names, most, halves=bool(model.pooling))
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
) -> Recalibrator:
    score, outcome, weight, times = _rows_of(table)
    columns = Columns({name: _column(name, table[name], runner.kinds[name]) for name in names})
    sample = Sample(score, outcome.astype(np.int64), weight, columns, 2)
    worker = _InParts(**{name: getattr(model, name) for name in model.get_params(deep=False)})
    worker.repeated = door.weight is None
    half = table[HALF].to_numpy() == 0 if model.pooling else None
    if np.unique(outcome).size < 2:
        model.fit(sample.probability, outcome, columns, weight)  # says that there is one class only
        model.n_rows_, model.fitted_from_ = int(times.sum()), how
        return model
    worker._learn(sample, worker._coded(sample), half, times)  # noqa: SLF001
    return _stated(model, {name: getattr(worker, name) for name in model.fields}, int(times.sum()), how)


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
