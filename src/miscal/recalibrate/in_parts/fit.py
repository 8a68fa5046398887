"""Recalibrators fitted to a table of any size.

Rows that fit the ceiling of memory are fitted as they are. Of more, a map of the score is fitted to a fine grid of the
score over all rows, in which the scores of a cell are taken for their mean; histogram binning has the rates of all rows
within its edges; and `GroupWise` is fitted to a sample of as many rows as fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.errors import check_named, refusal
from miscal.engines.adding import SCORE, RangeCells, add_up
from miscal.engines.gathering import Gathered, gather, rows_that_fit
from miscal.engines.roles import Roles
from miscal.engines.source import opened
from miscal.metrics.from_sums import grid_rows
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.by_columns.groups import GroupWise
from miscal.recalibrate.score.histogram import EMPTY_BIN, HistogramBinning

DEFAULT = "1GB"
FROM = "fitted_from_"


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
    """Fit a recalibrator to a table that may be larger than memory.

    ``fitted_from_`` of the model says from what: "all rows"; "bins" (the rates of all rows, edges of equal support from
    a sample); "grid", with the largest share of the rows that one of its cells has: the running total of the isotonic
    values, in order of the score, then differs from the exact one by at most that share of all rows; or "sample".

    Parameters
    ----------
    model : a recalibrator that looks at the score alone, or `GroupWise` of one, for two classes
    source : path (a file, a folder, a pattern), a frame, a lazy frame, or a Spark DataFrame
    outcome, probability, weight : names of columns
    memory : ceiling, such as "600MB"; it also says how many rows are kept
    options : positive, logit and clip, as in `miscal.read`

    Returns
    -------
    Recalibrator
        The same model, fitted.
    """
    roles = Roles(outcome, probability, weight, **options)
    model.check_parameters()
    opening = opened(source, memory or DEFAULT)
    names = _names(model, opening)
    check_named([*roles.columns, *names], opening.kinds, opening.words, opening.kinds)
    kinds = {name: opening.kinds[name] for name in names}
    rows = gather(opening, roles, names, limit=rows_that_fit(memory or DEFAULT, kinds), target="positive")
    if rows.complete or names:
        p = rows.predictions
        model.fit(p.probability, p.outcome, p.columns if names else None, sample_weight=p.weight)
        how: dict[str, Any] = {"how": "all rows"} if rows.complete else {"how": "sample", "rows": p.rows}
    else:
        how = _from_grid(model, rows, opening, roles)
        model.n_rows_ = rows.rows - rows.ignored
    setattr(model, FROM, how)
    return model


def _names(model: Recalibrator, opening: Any) -> list[str]:
    """Columns that a recalibrator needs beside the score."""
    inner = model.recalibrator if isinstance(model, GroupWise) else model
    if inner.uses_columns:
        hint = "it needs columns beside the score: load a sample"
        raise refusal("cannot be fitted in parts", where=type(inner).__name__, hint=hint)
    if not isinstance(model, GroupWise):
        return []
    chosen = [model.columns] if isinstance(model.columns, str) else list(model.columns or ())
    if not chosen or not all(isinstance(name, str) for name in chosen):
        raise refusal("must name the columns", where="'columns'", got=f"got {model.columns!r}", hint="of the table")
    check_named(chosen, opening.kinds, opening.words, opening.kinds)
    return chosen


def _from_grid(model: Recalibrator, rows: Gathered, opening: Any, roles: Roles) -> dict[str, Any]:
    """Fit to a grid of the score over all rows; rates of bins are those of all rows."""
    grid = rows.scores
    assert grid is not None
    if isinstance(model, HistogramBinning):
        p = rows.predictions
        model.fit(p.probability, p.outcome, sample_weight=p.weight)
        if not model.identity_:
            tally = add_up(opening, roles, "positive", [RangeCells(SCORE, model.edges_[0])]).tallies[0]
            assert tally is not None
            total = tally.weight
            model.values_ = [np.divide(tally.observed, total, out=np.full(total.size, EMPTY_BIN), where=total > 0)]
        return {"how": "bins"}
    one = grid_rows(grid)
    # The public way to fit: every check, and the state that JSON carries, come from it.
    model.fit(one.predicted, one.observed, sample_weight=one.first)
    share = float(grid.weight.max() / grid.weight.sum())
    return {"how": "grid", "cells": int((grid.weight > 0).sum()), "largest_share": share}
