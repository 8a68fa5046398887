"""The rows of each finding along the score, so that a reader sees which of its scores are off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from miscal.auditing.findings import Finding
from miscal.auditing.search.looking import Looked
from miscal.data.columns import Columns
from miscal.metrics.pooled import pooled
from miscal.pooling.bins import quantile_edges
from miscal.pooling.cells import BinPooling, Ranges
from miscal.pooling.condition import Conjunction

MOST = 60  # findings, the first ones
BINS, LEAST = 10, 30  # bins at most, and rows that each of them has at least
KEPT = ("low", "high", "rows", "predicted", "observed", "gap", "gap_low", "gap_high", "p_adjusted")


def curves_of(looks: Sequence[Looked], found: Iterable[Finding]) -> list[dict[str, Any]]:
    """For each finding beyond noise `where`, `table` (its rows by bins of the score), and `of`, the rows counted.

    Intervals and p-values hold for all bins of one curve at once. Where the rows are a sample, so are the curves; where
    there are none, as with a tally, there is no curve.
    """
    named = {f"class {looked.name}" if looked.name else "": looked for looked in looks}
    columns = Columns({column.name: column for column, _, _ in looks[0].columns})
    made = []
    for finding in list(_beyond_noise(found))[:MOST]:
        looked, where = named.get(finding.scope, looks[0]), Conjunction.from_dict(finding.condition)
        if not where.conditions or any(len(columns.get(name, ())) != looked.rows.raw.rows for name in where.columns):
            continue
        made.append(_curve(finding, looked, np.flatnonzero(where.rows(columns))))
    return made


def _beyond_noise(found: Iterable[Finding]) -> Iterator[Finding]:
    """Findings, each followed by those that it explains."""
    for finding in found:
        if finding.real:
            yield finding
            yield from _beyond_noise(getattr(finding, "explained", ()))


def _curve(finding: Finding, looked: Looked, rows: np.ndarray) -> dict[str, Any]:
    own = looked.rows.raw.take(rows)
    bins = max(min(BINS, own.rows // LEAST), 1)
    null = str(looked.score.settings.get("null", "bernoulli"))
    edges = quantile_edges(own.predicted, bins, own.weight, own.count)
    cells = pooled(own, BinPooling(own.predicted, Ranges(edges, name="score")), null=null, draws=99).columns
    table = {name: np.asarray(cells[name]).tolist() for name in KEPT}
    return {"where": finding.where, "of": own.rows, "table": table}
