"""Tables for the engines' tests: ties, gaps, rare levels, missing values, and every kind of weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from miscal import Predictions
from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.in_memory import tally
from miscal.aggregate.requests import SCORE, CrossedCells, LevelCells, RangeCells, Request
from miscal.aggregate.streaming import StreamedSums, add_up
from miscal.aggregate.tally import Tally
from miscal.cells.coding import crossed, level_pooling
from miscal.cells.partitions import OF_SCORE, BinPooling, Ranges
from miscal.data.target import select_target

VARIABLES = ["skewed", "whole", "tied"]
FIELDS = ["state", "flag"]


def table(rows: int, seed: int = 0) -> pa.Table:
    """A table with every difficulty at once."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 6, rows)
    p[rng.random(rows) < 0.1] = 0.125  # a tie
    skewed = np.where(rng.random(rows) < 0.4, 0.0, rng.lognormal(0, 3, rows) * rng.choice([-1, 1], rows))
    skewed[rng.random(rows) < 0.03] = np.nan
    state = np.array([f"s{i}" for i in range(700)], object)[(rng.pareto(0.8, rows) * 3).astype(int) % 700]
    state[rng.random(rows) < 0.01] = None
    return pa.table(
        {
            "y": (rng.random(rows) < p).astype(np.int8),
            "p": p,
            "skewed": skewed,
            "whole": rng.integers(-5, 60, rows),
            "tied": np.round(rng.normal(size=rows), 1),
            "state": pa.array(state),
            "flag": pa.array(rng.random(rows) < 0.3),
            "whole_weight": rng.integers(0, 5, rows).astype(float),
            "real_weight": rng.exponential(size=rows),
            "trials": rng.integers(0, 4, rows),
        }
    )


def edges() -> dict[str, np.ndarray]:
    """Edges for the score and the variables: thousands for one, few for others."""
    rng = np.random.default_rng(5)
    skewed = np.unique(np.round(rng.lognormal(0, 3, 3_000) * rng.choice([-1, 1], 3_000), 3))
    few = {"whole": np.array([-6.0, 0.0, 7.0, 60.0]), "tied": np.array([-9.0, -1.0, 0.0, 0.5, 9.0])}
    return {SCORE: np.linspace(0.0, 1.0, 5_001), "skewed": skewed, **few}


def requests() -> tuple[Request, ...]:
    """Ranges of the score and of every variable, levels of every field."""
    return (*(RangeCells(name, cuts) for name, cuts in edges().items()), *(LevelCells(name) for name in FIELDS))


def added(source: Any, weight: str | None = None) -> StreamedSums:
    """All rows of a source in these cells."""
    return add_up(source, ColumnRoles("y", "p", weight), "auto", requests())


def differences(made: pa.Table, source: Any, weight: str | None = None) -> list[float]:
    """For each request, how far the sums of a source are from those of the same rows in memory."""
    names = [*VARIABLES, *FIELDS]
    p = Predictions(made["y"], made["p"], weight=None if weight is None else made[weight], columns=made.select(names))
    compared = select_target(p, "auto")
    tallies = added(source, weight).tallies
    assert len(tallies) == len(requests())
    return [
        difference(tally(compared, pooling(p.columns, compared, request)), streamed)
        for request, streamed in tallies.items()
    ]


def pooling(columns: Any, compared: Any, request: Any) -> Any:
    """How rows in memory find the cells of a request."""
    if isinstance(request, CrossedCells):
        return crossed([pooling(columns, compared, part) for part in request.parts])
    if isinstance(request, LevelCells):
        return level_pooling(columns[request.name])
    values = compared.predicted if request.name == SCORE else columns[request.name].values
    return BinPooling(values, Ranges(request.edges, bool(np.isnan(values).any()), request.name or OF_SCORE))


def difference(one: Tally, two: Tally) -> float:
    """Largest relative difference; 0 where the bits are the same."""
    if one == two:
        return 0.0
    assert one.cells.describe() == two.cells.describe()
    assert np.array_equal(one.counts, two.counts)
    return max(_relative(one.column(name), two.column(name)) for name in one.columns)


def _relative(one: np.ndarray, two: np.ndarray) -> float:
    return float(np.max(np.abs(one - two) / np.maximum(1.0, np.abs(one)), initial=0.0))


def write(made: pa.Table, path: Path, group: int = 1 << 20) -> Path:
    pq.write_table(made, path, row_group_size=group)
    return path
