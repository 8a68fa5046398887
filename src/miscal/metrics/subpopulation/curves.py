"""Cumulative differences of subpopulations, for figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.engines.subpopulations import Ordered, Search

POINTS = 400


def cumulative_curves(rows: Ordered, found: Search, worst: np.ndarray) -> list[dict[str, Any]]:
    """Curves of the full population and of the worst: running total of predicted minus observed, with its band."""
    chosen = np.unique(np.append(0, worst), return_index=True)
    wanted = np.append(0, worst)[np.sort(chosen[1])][: max(worst.size, 1)]
    lists = found.lists(wanted)
    return [
        {"label": found.define(int(k)).name, **cumulative_curve(rows, lists.list(place))}
        for place, k in enumerate(wanted)
    ]


def cumulative_curve(rows: Ordered, members: np.ndarray, points: int = POINTS) -> dict[str, Any]:
    """One curve at no more than `points` ends of blocks of equal scores, its extremes among them.

    x is the share of the weight so far, y the running total of predicted - observed over the total weight, score the
    score there, band the half-width of the pointwise 95% band of y under calibration.
    """
    signed = rows.signed[members]
    if signed.size == 0:
        return {"x": [0.0], "y": [0.0], "score": [0.0], "band": [0.0]}
    outcome = ~np.signbit(signed)
    score = np.abs(signed, out=signed)
    weight = rows.weight[members] if rows.weight.size else None
    # One array of running totals at a time: a million rows are not held six times over.
    running = np.subtract(score, outcome)
    running = np.cumsum(running if weight is None else running * weight, out=running)
    ends = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    some = np.linspace(0, ends.size - 1, min(points, ends.size)).astype(int)
    extremes = [int(np.argmax(running[ends])), int(np.argmin(running[ends]))]
    some = ends[np.unique(np.concatenate([some, extremes]))]
    y = running[some]
    np.subtract(1.0, score, out=running)
    running *= score
    if weight is not None:
        running *= rows.second[members]
    band = np.sqrt(np.cumsum(running, out=running)[some])
    x = some + 1.0 if weight is None else np.cumsum(weight)[some]
    total = float(score.size if weight is None else weight.sum())
    return {
        "x": [0.0, *(x / total).tolist()],
        "y": [0.0, *(y / total).tolist()],
        "score": [float(score[0]), *score[some].tolist()],
        "band": [0.0, *(1.96 * band / total).tolist()],
    }
