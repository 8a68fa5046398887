"""Calibration by the levels of a field, with its noise (paper 003)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.metrics.field.differences import Differences, level_differences
from miscal.metrics.field.shrink import Shrunken, shrink
from miscal.metrics.norms import Norm
from miscal.metrics.pooled import DRAWS, Pooled, pooled, worst_cell
from miscal.metrics.score.binned import Bins
from miscal.pairs import pair
from miscal.pooling.columns import Nested, named_columns, nested_levels
from miscal.results import Result, Table

MOST_VALUES = 20_000_000  # cells times draws: with very many levels the aggregate hardly varies, and fewer draws do
LEAST_DRAWS = 199


def by_field(
    p: Predictions,
    field: str | Sequence[str],
    *,
    parent: str | Sequence[str] | None = None,
    bins: Bins | None = None,
    norm: Norm = "l1",
    target: str | int = "auto",
    null: str = "bernoulli",
    random_state: int = 0,
) -> Result:
    """Calibration by the levels of a field, every level tested; several fields are crossed.

    Each distinct value is a level, missing is one, none is dropped or lumped; crossed fields have the combinations that
    occur. The table has for each level rows, events, predicted, observed, ratio, gap with its simultaneous interval,
    p-value (exact where rows are few) and Holm's; and

    - shrunken, shrunken_low, shrunken_high: the gap drawn towards its parent's (or that of all rows) by as much as its
      noise asks for (empirical Bayes), and the 95% interval of each by itself. Order levels by it: a level of 12 rows
      does not head the list by luck;
    - difference, difference_p, difference_adjusted: what is left of the gap once all predictions are shifted in
      log-odds by one number so that their total is right. It sets a level apart from the others, not from zero.

    `extra` holds noise_share (the noise floor as a share of the value), shrunken_value (the error of the shrunken
    gaps), spread (standard deviation between levels, in log-odds, beyond noise; then between parents, ...) and
    differences (the error after the common shift, its floor and p-value: do levels differ at all?).

    Parameters
    ----------
    field : name of a column, or several to cross
    parent : name of the column the field is nested in; several from the outermost to the nearest, such as
        ["country", "advertiser"]. A level is then its place in the hierarchy, "Acme > summer sale".
    bins : ranges into which numeric columns are cut; None: each number is a level
    norm, target, null, random_state : see `by_score`

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> state = rng.choice(["CA", "NY", "TX"], 3000)
    >>> p = miscal.Predictions(
    ...     rng.random(3000) < np.where(state == "NY", 0.5, 0.3), np.full(3000, 0.3), columns={"state": state}
    ... )
    >>> miscal.by_field(p, "state").table.sort("p_adjusted")["label"][0]
    'NY'
    """
    compared = pair(p, target)
    levels = _levels(p, field, parent, bins)
    draws = draws_for(levels.pooling.cells.count)
    found = pooled(compared, levels.pooling, norm=norm, null=null, random_state=random_state, draws=draws)
    apart = None
    if np.count_nonzero(found.tally.counts) > 1:
        apart = level_differences(compared, levels.pooling, found, norm=norm, draws=draws, random_state=random_state)
    settings = {
        "column": _plain(field), "parent": None if parent is None else _plain(parent),
        "bins": bins if bins is None or isinstance(bins, int) else [float(edge) for edge in bins], "norm": norm,
        "target": compared.target, "random_state": random_state,
    }  # fmt: skip
    return field_result(found, levels, settings, apart)


def _plain(names: str | Sequence[str]) -> str | list[str]:
    return names if isinstance(names, str) else list(names)


def draws_for(cells: int) -> int:
    """How many draws so many levels get."""
    return int(np.clip(MOST_VALUES // max(cells, 1), LEAST_DRAWS, DRAWS))


def field_result(
    found: Pooled, levels: Nested, settings: Mapping[str, Any], apart: Differences | None = None
) -> Result:
    """The record of the levels; `apart`, what sets them apart from one another, needs the rows."""
    shrunken = _shrunken(found, levels, apart)
    field = settings["column"]
    used = {"levels": found.table.rows, "null": found.noise.null, "draws": found.summary.draws}
    return found.result(
        f"Calibration by {field if isinstance(field, str) else ' and '.join(field)}",
        "field",
        {**settings, **used},
        _extra(field, found, levels, shrunken, apart),
        method=found.method + _noise_words(found),
        table=_table(found, levels, shrunken, apart),
    )


def _levels(
    p: Predictions, field: str | Sequence[str], parent: str | Sequence[str] | None, bins: Bins | None
) -> Nested:
    own = named_columns(p.columns, field)
    if not own:
        raise refusal("must name at least one column", where="'field'", got="it is empty")
    above = [] if parent is None else named_columns(p.columns, parent)
    names = [column.name for column in [*above, *own]]
    if len(set(names)) < len(names):
        raise refusal("must name different columns", where="'field' and 'parent'", got=f"they name {', '.join(names)}")
    return nested_levels(own, above, bins)


def _shrunken(found: Pooled, levels: Nested, apart: Differences | None) -> Shrunken:
    """Gaps drawn towards their parents': what all levels share is taken off first, so that the rest is small."""
    sums, rows = (found.tally, found.rows) if apart is None else (apart.sums, apart.rows)
    noise = sums.residual2
    if rows is not None and rows.cluster is not None:
        from miscal.inference.residual import cluster_blocks

        noise = cluster_blocks(rows).squares()
    made = shrink(sums, noise, levels.ancestors)
    shared = found.tally.mean_predicted - sums.mean_predicted
    return replace(made, gap=made.gap + shared, low=made.low + shared, high=made.high + shared)


def _noise_words(found: Pooled) -> str:
    share = _noise_share(found)
    if math.isnan(share):
        return ""
    return f" Calibrated predictions would show {share:.0%} of the value." if share < 1 else " All of it may be noise."


def _noise_share(found: Pooled) -> float:
    value, floor = found.summary.value, found.summary.noise_floor
    return min(1.0, floor / value) if value > 0 else math.nan


def _table(found: Pooled, levels: Nested, shrunken: Shrunken, apart: Differences | None) -> Table:
    nothing = np.full(found.table.rows, np.nan)
    columns: dict[str, Any] = dict(found.table)
    if levels.names:
        columns["parent"] = list(levels.names[0])
    columns |= {
        "events": found.tally.observed,
        "shrunken": shrunken.gap,
        "shrunken_low": shrunken.low,
        "shrunken_high": shrunken.high,
        "difference": nothing if apart is None else apart.gap,
        "difference_p": nothing if apart is None else apart.p_value,
        "difference_adjusted": nothing if apart is None else apart.adjusted,
    }
    return Table(columns)


def _extra(
    field: str | Sequence[str], found: Pooled, levels: Nested, shrunken: Shrunken, apart: Differences | None
) -> Mapping[str, Any]:
    weight = found.tally.weight
    size = np.where(weight > 0, np.abs(shrunken.gap), 0.0)
    extra: dict[str, Any] = {
        "tally": found.tally,
        "worst": worst_cell(found),
        "column": field,
        "noise_share": _noise_share(found),
        "shrunken_value": float(size @ weight / weight.sum()),
        "spread": list(shrunken.spreads),
    }
    if apart is not None:
        extra["differences"] = {
            "shift": apart.shift,
            "value": apart.summary.value,
            "noise_floor": apart.summary.noise_floor,
            "p_value": apart.summary.p_value,
        }
    if levels.parts:
        extra["parts"] = [list(part) for part in levels.parts]
    return extra
