"""Recalibrators on tables larger than memory: fitted from sums and samples, applied batch by batch.

Tables that fit the memory limit are fitted as they are. Of more, a map of the score is fitted to a fine grid of the
score over all rows, in which the scores of a cell are taken for their mean; histogram binning has the rates of all rows
within its edges; and `GroupWise` is fitted to a sample of as many rows as fit.
"""

import contextlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import Chunk, ColumnRoles, with_location
from miscal.aggregate.requests import SCORE, RangeCells
from miscal.aggregate.sample import GatheredRows, gather, rows_that_fit
from miscal.aggregate.source import open_source, read_ahead
from miscal.aggregate.streaming import add_up
from miscal.codes.data import Response
from miscal.data.arrays import Plain, flat, named_by
from miscal.data.errors import MiscalError, check_named, refusal, refusing
from miscal.data.files import TypesChanged
from miscal.data.libraries import csv, pa, pq
from miscal.data.outputs import check_file, writing
from miscal.data.sources import probabilities_given
from miscal.metrics.from_sums import grid_rows
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.binning import HistogramBinning
from miscal.recalibrate.by_columns.group_wise import GroupWise

#: Memory limit where none is given.
DEFAULT_MEMORY = "1GB"


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
    model : Recalibrator
        Of the score alone, or `GroupWise` of one, for two classes.
    source : path, frame, lazy frame or Spark DataFrame
        A path is a file, a folder or a pattern.
    outcome, probability : str
        Names of columns.
    weight : str, optional
        Name of a column.
    memory : str or int, optional
        Memory limit, such as "600MB"; it also limits the rows of the sample.
    **options : object
        `positive`, `logit` and `clip`, as in `miscal.read`.

    Returns
    -------
    Recalibrator
        The same model, fitted.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from miscal.recalibrate import HistogramBinning
    >>> from miscal.recalibrate.out_of_core import fit_to
    >>> table = pa.table({"late": [0, 1, 1, 1], "p": [0.1, 0.3, 0.6, 0.8]})
    >>> model = fit_to(HistogramBinning(bins=2), table, outcome="late", probability="p")
    >>> model.predict_proba([0.2])[:, 1], model.fitted_from_
    (array([0.5]), {'how': 'all rows'})
    """
    roles = ColumnRoles(outcome, probability, weight, **options)
    if roles.response != Response.BINARY or Response.BINARY not in model.responses:
        hint = "load a sample and call choose(..., response=...)"
        raise refusal("is fitted in parts to probabilities", type(model).__name__, hint=hint)
    model.check_parameters()
    opening = open_source(source, memory or DEFAULT_MEMORY)
    names = _group_columns(model)
    check_named([*roles.names, *names], opening.kinds, opening.description)
    limit = rows_that_fit(
        memory or DEFAULT_MEMORY, {name: opening.kinds[name] for name in names}, opening.text_bytes
    )
    rows = gather(opening, roles, names, limit=limit, target="positive")
    if rows.complete or names:
        p = rows.predictions
        model.fit(p.probability, p.outcome, p.columns if names else None, sample_weight=p.weight)
        model.fitted_from_ = {"how": "all rows"} if rows.complete else {"how": "sample", "rows": p.rows}
    else:
        model.fitted_from_ = _from_grid(model, rows, opening, roles)
        model.n_rows_ = rows.rows - rows.ignored
    return model


def _group_columns(model: Recalibrator) -> list[str]:
    """Columns that a recalibrator needs beside the score; rejects one that cannot be fitted out of core."""
    inner = model.recalibrator if isinstance(model, GroupWise) else model
    if inner.uses_columns:
        hint = "it needs columns beside the score: load a sample"
        raise refusal("cannot be fitted in parts", type(inner).__name__, hint=hint)
    if not isinstance(model, GroupWise):
        return []
    chosen = [model.columns] if isinstance(model.columns, str) else list(model.columns or ())
    if not chosen or not all(isinstance(name, str) for name in chosen):
        got = f"got {model.columns!r}"
        raise refusal("must name the columns", "'columns'", got=got, hint="of the table")
    return chosen


def _from_grid(model: Recalibrator, rows: GatheredRows, opening: Any, roles: ColumnRoles) -> Plain:
    """Fit to a grid of the score over all rows; rates of bins are those of all rows."""
    grid = rows.scores
    assert grid is not None
    if isinstance(model, HistogramBinning):
        p = rows.predictions
        model.fit(p.probability, p.outcome, sample_weight=p.weight)
        if not model.identity_:
            bins = RangeCells(SCORE, model.edges_)
            tally = add_up(opening, roles, "positive", [bins]).tallies[bins]
            model.values_ = model.rates(tally.observed, tally.weight, tally.rows.sum())
        return {"how": "bins"}
    cells = grid_rows(grid)
    # The public way to fit: every check, and the state that JSON carries, come from it.
    model.fit(cells.predicted, cells.observed, sample_weight=cells.mean_weight)
    share = float(grid.weight.max() / grid.weight.sum())
    return {"how": "grid", "cells": int(np.count_nonzero(grid.weight)), "largest_share": share}


def load_model(path: str | Path) -> Recalibrator:
    """Read a recalibrator that was saved as JSON."""
    check_file(path)
    with refusing("cannot be read", f"'{path}'"):
        text = Path(path).read_text(encoding="utf-8")
    try:
        return model_from(text)
    except MiscalError as error:
        raise error.with_text(f"'{path}': {error.template}") from error


def model_from(text: str) -> Recalibrator:
    """A recalibrator from its JSON, whichever class it is of."""
    model = Recalibrator.from_json(text)
    model.check_fitted()
    return model


def with_columns(
    model: Recalibrator, chunk: Chunk, names: Sequence[str], new_columns: Sequence[str], *, logit: bool
) -> Any:
    """A batch with the recalibrated probabilities (or means) as further columns.

    Parameters
    ----------
    model : Recalibrator
        Fitted.
    chunk : Chunk
        The batch.
    names : sequence of str
        Its columns of predictions.
    new_columns : sequence of str
        Names of the further columns, as `model.output_names` gives them.
    logit : bool
        Whether the columns hold log-odds.

    Returns
    -------
    pyarrow.Table
    """
    table = chunk.table
    try:
        vectors = {name: flat(table[name], f"column '{name}'") for name in names}
        predictions = (
            vectors[names[0]] if model.predicts_means() else probabilities_given(vectors, logit=logit)
        )
        mapped = model.map_checked(model.check_prediction(predictions), table)
    except MiscalError as error:
        raise error.with_text(with_location(error.template, chunk)) from error
    for name, values in zip(
        new_columns, mapped.T[-len(new_columns) :], strict=True
    ):  # of two classes, that of class 1
        table = table.append_column(name, pa.array(values))
    return table


def apply_to(
    model: Recalibrator,
    source: Any,
    probability: Sequence[str],
    out: str | Path,
    *,
    logit: bool = False,
    column: str = "recalibrated",
    memory: Any = None,
) -> int:
    """Write a table with recalibrated probabilities beside its columns, batch by batch, whole or not at all.

    Parameters
    ----------
    model : Recalibrator
        Fitted.
    source : path, frame, lazy frame or Spark DataFrame
        A path is a file, a folder or a pattern.
    probability : sequence of str
        Columns of predictions: one, or one per class.
    out : str or Path
        The file to write: CSV by its suffix, else Parquet.
    logit : bool, default=False
        Whether the columns hold log-odds.
    column : str, default="recalibrated"
        Name of the new column, followed by the class if there are several.
    memory : str or int, optional
        Memory limit, such as "600MB".

    Returns
    -------
    int
        How many rows were written.
    """
    table = open_source(source, memory or DEFAULT_MEMORY)
    known = list(table.kinds)
    probability = [name for pattern in probability for name in named_by(pattern, known)]
    check_named(probability, known, f"'{source}'")
    new_columns = model.output_names(column)
    for name in new_columns:
        if name in known:
            raise refusal(
                "must be a new name", "'column'", got=f"the table has '{name}'", hint="--column NAME"
            )
    table.check_columns([*known, *(name for name, _ in table.excluded)])
    while True:
        chunks = read_ahead(table.batches(known))
        tables = (with_columns(model, chunk, probability, new_columns, logit=logit) for chunk in chunks)
        with contextlib.suppress(TypesChanged):  # of a CSV file: from the start again
            return _written(tables, table.description, Path(out))


def _written(tables: Iterator[Any], words: str, out: Path) -> int:
    """Write under another name, then rename."""
    rows = 0
    first = next(tables, None)
    if first is None:
        raise refusal("must have at least one row", f"'{words}'", got="it is empty")
    # Text as text: batches have dictionaries of their own.
    kinds = (
        each.type.value_type if pa.types.is_dictionary(each.type) else each.type for each in first.schema
    )
    schema = pa.schema(list(zip(first.schema.names, kinds, strict=True)))
    with writing([out]) as (temporary,):
        if out.suffix.lower() == ".csv":
            writer = csv.CSVWriter(str(temporary), schema)
        else:
            writer = pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True)
        with writer:
            for table in chain([first], tables):
                writer.write_table(table.cast(schema))
                rows += table.num_rows
    return rows
