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
    score = np.abs(signed)
    weight = rows.weight[members] if rows.weight.size else np.ones(score.size)
    second = rows.second[members] if rows.second.size else weight
    if score.size == 0:
        return {"x": [0.0], "y": [0.0], "score": [0.0], "band": [0.0]}
    ends = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    total = float(weight.sum())
    outcome = ~np.signbit(signed)
    y = np.cumsum(weight * (score - outcome))[ends] / total
    x = np.cumsum(weight)[ends] / total
    band = 1.96 * np.sqrt(np.cumsum(second * score * (1 - score))[ends]) / total
    some = np.linspace(0, ends.size - 1, min(points, ends.size)).astype(int)
    some = np.unique(np.concatenate([some, [int(np.argmax(y)), int(np.argmin(y))]]))
    return {
        "x": [0.0, *x[some].tolist()],
        "y": [0.0, *y[some].tolist()],
        "score": [float(score[0]), *score[ends][some].tolist()],
        "band": [0.0, *band[some].tolist()],
    }
