"""A plane of two columns, each cell shaded by the gap of the rows around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from miscal.page import words
from miscal.page.figures import axes, marks
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale
from miscal.page.markup import Safe
from miscal.page.reading import floats, items, mapping

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 480.0, 54.0, 466.0, 24.0, 364.0
_STEPS = (2.0, 3.0, 4.0)  # standard errors from which a cell is shaded more


def neighbourhood(result: Mapping[str, Any]) -> Figure:
    """Draw the map of a neighbourhood result.

    `extra["grid"]` has x, y (edges), gap, deviations (standard errors) and rows, one list a row of the grid from the
    lowest y up.
    """
    grid = mapping(mapping(result.get("extra")).get("grid"))
    names = [str(name) for name in items(mapping(result.get("settings")).get("columns"))] or ["x", "y"]
    edges = floats(grid.get("x")), floats(grid.get("y"))
    across, up = Scale(edges[0][0], edges[0][-1], _LEFT, _RIGHT), Scale(edges[1][0], edges[1][-1], _BOTTOM, _TOP)
    gaps, sizes, rows = (np.array([floats(line) for line in items(grid.get(k))]) for k in ("gap", "deviations", "rows"))
    drawn: list[Safe] = []
    for i, j in zip(*np.nonzero(rows > 0), strict=True):
        left, right = across(edges[0][j : j + 2])
        low, high = up(edges[1][i : i + 2])
        tip = (
            f"{names[0]} {edges[0][j]:.3g} to {edges[0][j + 1]:.3g}, {names[1]} {edges[1][i]:.3g} to "
            f"{edges[1][i + 1]:.3g}\n{words.points(gaps[i, j])}, {words.count(rows[i, j])} rows"
        )
        drawn.append(marks.bar(left, high, right - left, low - high, _shade(sizes[i, j]), tip))
    description = f"The gap around each place of {names[0]} (across) and {names[1]} (up)."
    parts = [
        *drawn,
        axes.left(up, _LEFT, _LEFT, axes.numbers),
        axes.bottom(across, _BOTTOM, names[0][:40], axes.numbers),
        marks.text(_LEFT, 12, names[1], "label", limit=40),
    ]
    drawing = marks.drawing("neighbourhood", "Map of the gap", description, _WIDTH, 406.0, *parts)
    return Figure("neighbourhood", "Map of the gap", description, drawing, _table(edges, gaps, sizes, rows, names))


def _shade(deviations: float) -> str:
    if not np.isfinite(deviations):
        return "heat none"
    step = sum(abs(deviations) >= limit for limit in _STEPS)
    return f"heat {'over' if deviations > 0 else 'under'}-{step}" if step else "heat within"


def _table(edges: Any, gaps: Any, sizes: Any, rows: Any, names: list[str]) -> dict[str, list[object]]:
    places = list(zip(*np.nonzero(rows > 0), strict=True))
    return {
        f"{names[0]} from": [float(edges[0][j]) for _, j in places],
        f"{names[1]} from": [float(edges[1][i]) for i, _ in places],
        "rows": [float(rows[i, j]) for i, j in places],
        "gap": [float(gaps[i, j]) for i, j in places],
        "standard errors": [float(sizes[i, j]) for i, j in places],
    }
