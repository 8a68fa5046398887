"""How much noisier the cells of a saved audit are because rows come in clusters; tallies alone know of rows only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from miscal.page.reading import floats


def clustered(audit: Any) -> bool:
    """Whether rows of the audited table come in clusters."""
    document = audit.document
    methods = [str(entry.get("method")) for entry in document["sections"]["score"]]
    return document["data"].get("cluster") is not None or any("one sign a cluster" in method for method in methods)


def spread_of(audit: Any, name: str) -> np.ndarray | None:
    """Variance over clusters relative to that over rows, at least 1, for each cell of a carrier; None without clusters.

    The tables keep it: with clusters the standard error of a cell's gap is sqrt(ΣD²)/Σw, D a cluster's residual. The
    columns of a single class have no table; their rows are in the same cells, so the ratio is that of all classes.
    """
    result, tally = _result(audit.document, name), audit.carriers[name]
    if result is None:
        base = re.sub(r" \(class .*?\):", ":", name, count=1)
        result, tally = _result(audit.document, base), audit.carriers.get(base)
    if result is None or tally is None or "cluster" not in str(result.get("method")):
        return None
    error = floats(result["table"].get("error"))
    if error.size != tally.residual2.size:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (error * tally.weight) ** 2 / tally.residual2
    return np.maximum(np.where(np.isfinite(ratio), ratio, 1.0), 1.0)


def _result(document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The result whose tally a carrier is."""
    kind, _, column = name.partition(":")
    if not column:
        title = name.replace("score (class ", "Calibration by score, class ").removesuffix(")")
        title = "Calibration by score" if name == "score" else title
        return next((r for r in document["sections"].get("score", []) if r["name"] == title), None)
    return next((r for r in document["sections"].get(kind, []) if r["settings"].get("column") == column), None)
