"""Recalibrators fitted from carriers: one scan of a table of any size in place of its rows in memory.

Histogram binning is exact: its edges and rates are those that all rows in memory give. Every other recalibrator of the
score alone is fitted to a sketch, tens of thousands of cells of about equally many rows in which scores are taken for
their mean; a cell spans about 1/16,000 of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.engines.batches import batches_of
from miscal.engines.keys import Given, Profile, Quantiles
from miscal.engines.rows import Door
from miscal.engines.scan import Scanned, scan
from miscal.engines.stream import Stream, batch_rows, memory_bytes
from miscal.kernels.threads import thread_count
from miscal.metrics.streamed import sketch_pair
from miscal.pooling.bins import uniform_edges
from miscal.pooling.cells import Ranges
from miscal.recalibrate import parameters
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.histogram import EMPTY_BIN, HistogramBinning

DEFAULT = "1GB"


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
    """Fit a recalibrator of the score to a table that is read in parts.

    Parameters
    ----------
    model : a recalibrator that looks at the score alone, for two classes
    source : path (a file, a folder, a pattern), a lazy frame, or a Spark DataFrame
    outcome, probability, weight : names of columns
    memory : ceiling, such as "600MB"
    options : positive, logit and clip, as in `miscal.read`

    Returns
    -------
    Recalibrator
        The same model, fitted.
    """
    if model.uses_columns:
        name = type(model).__name__
        raise refusal("cannot be fitted in parts", where=name, hint="it needs columns beside the score: load a sample")
    door = Door(outcome, probability, weight, target="positive", **options)
    model.check_parameters()

    def requests(key: str, kind: str, profile: Profile, unequal: bool) -> dict[str, Any]:  # noqa: ARG001
        return {"bins": _bins(model, unequal)} if isinstance(model, HistogramBinning) else {}

    scanned = scan(_runner(source, memory), door, variables=[], fields=[], requests=requests, sample=0)
    rows = sketch_pair(scanned.sketch)
    # The public way to fit: every check, and the state that JSON carries, come from it.
    model.fit(rows.predicted, rows.observed, sample_weight=rows.first)
    if isinstance(model, HistogramBinning) and not model.identity_:
        _exact(model, scanned)
    model.n_rows_ = scanned.rows
    return model


def _runner(source: Any, memory: Any) -> Any:
    from miscal.data.vectors import library_of

    if library_of(source) == "pyspark":
        from miscal.engines.spark import Cluster

        return Cluster(source)
    threads = thread_count()
    return Stream(batches_of(source, batch_rows(memory_bytes(memory or DEFAULT), 3, threads)), threads)


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
