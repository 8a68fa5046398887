"""Tables for the engines' tests: ties, gaps, rare levels, missing values, and every kind of weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from miscal.engines.keys import Quantiles, VariableRanges
from miscal.engines.plan import SCORE
from miscal.engines.rows import Door

from miscal import Predictions
from miscal.carriers.tally import Tally
from miscal.engines.memory import tally
from miscal.engines.walks import walk
from miscal.metrics.score.binned import score_bins
from miscal.pairs import pair
from miscal.pooling.cells import Levels
from miscal.pooling.columns import level_pooling, range_pooling

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


def requests(key: str, kind: str, profile: Any, unequal: bool) -> dict[str, Any]:
    """What an audit asks of a key."""
    if key == SCORE:
        return {"bins": Quantiles(15, unequal)}
    return {"fine": VariableRanges(40, unequal), "bins": VariableRanges(10, unequal)}


def door(weight: str | None = None) -> Door:
    return Door("y", "p", weight=weight)


def in_memory(made: pa.Table, weight: str | None) -> dict[str, Any]:
    """The same carriers from arrays in memory."""
    names = [*VARIABLES, *FIELDS]
    p = Predictions(made["y"], made["p"], weight=None if weight is None else made[weight], columns=made.select(names))
    compared = pair(p, "auto")
    found: dict[str, Any] = {
        "score": tally(compared, score_bins(compared, 15, "quantile")),
        "score walk": walk(compared, locate=True),
    }
    for name in VARIABLES:
        column = p.columns[name]
        for word, bins in (("fine", 40), ("bins", 10)):
            found[f"{name} {word}"] = tally(compared, range_pooling(column, bins, weight=compared.weight))
        known = np.flatnonzero(~np.isnan(column.values))
        found[f"{name} walk"] = walk(compared.take(known), np.ascontiguousarray(column.values[known]), locate=True)
    for name in FIELDS:
        found[name] = _filled(tally(compared, level_pooling(p.columns[name])))
    return found


def _filled(made: Tally) -> Tally:
    """Without levels of which no row has weight: memory lists them as empty cells, a stream does not."""
    names = made.cells.names
    kept = [i for i in range(len(names)) if made.counts[i]]
    cells = Levels(tuple(names[i] for i in kept), made.cells.missing, made.cells.name)
    groups = np.zeros(made.counts.size, int)
    groups[kept] = np.arange(len(kept))
    groups[len(names) :] = len(kept)
    return made.coarsen(groups, cells)


def of_scan(scanned: Any) -> dict[str, Any]:
    """The carriers of a scan under the same names."""
    found: dict[str, Any] = {"score": scanned.score.tallies["bins"], "score walk": scanned.score.walk}
    for name, each in scanned.variables.items():
        found |= {f"{name} {word}": made for word, made in each.tallies.items()}
        found[f"{name} walk"] = each.walk
    return found | {name: each.tally for name, each in scanned.fields.items()}


def differences(one: dict[str, Any], two: dict[str, Any]) -> dict[str, float]:
    """Largest relative difference by carrier; 0 where the bits are the same."""
    assert one.keys() == two.keys()
    return {
        name: _tallies(one[name], two[name]) if isinstance(one[name], Tally) else _walks(one[name], two[name])
        for name in one
    }


def _tallies(one: Tally, two: Tally) -> float:
    if one == two:
        return 0.0
    assert one.cells.labels() == two.cells.labels()
    assert np.array_equal(one.counts, two.counts)
    return max(_relative(one.column(name), two.column(name)) for name in one.columns)


def _walks(one: Any, two: Any) -> float:
    names = ("total", "highest", "lowest", "weight", "variance", "highest_at", "lowest_at", "first", "last")
    pairs = [(getattr(one, name), getattr(two, name)) for name in names]
    assert (one.rows, one.distinct) == (two.rows, two.distinct)
    if all(a == b for a, b in pairs):
        return 0.0
    scale = max(1.0, abs(one.highest - one.lowest))
    return max(abs(a - b) / scale for a, b in pairs)


def _relative(one: np.ndarray, two: np.ndarray) -> float:
    return float(np.max(np.abs(one - two) / np.maximum(1.0, np.abs(one)), initial=0.0))


def write(made: pa.Table, path: Path, group: int = 1 << 20) -> Path:
    pq.write_table(made, path, row_group_size=group)
    return path
