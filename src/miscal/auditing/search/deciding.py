"""Does one row decide a place? An amount of a million can put any place beyond noise that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from miscal.auditing.search.along import tested
from miscal.auditing.search.groups import Rows
from miscal.auditing.search.places import Multiplicity, Place
from miscal.inference.sums import Sums
from miscal.pooling.bins import bin_index


def mark_decided(places: Sequence[Place], rows: Rows, tests: Multiplicity) -> None:
    """Note the row without which a place is within noise, where there is one; outcomes that are events have none.

    Among all that was tested; where that is too severe for the place as it is, as much less likely as it gets. A
    p-value at the end of its simulations' scale says nothing of that.
    """
    if rows.noise.binary or not places:
        return
    for place, row in zip(places, rows.largest(places), strict=True):
        before, after = (_chance(place, rows, one) for one in (None, row))
        severity = float(tests.severity(place))
        if before * severity > tests.level:
            severity = 0.0 if place.bound else place.adjusted / max(before, 1e-300)
        if after * severity > tests.level:
            place.deciding = float(row[1]), float(row[2])


def _chance(place: Place, rows: Rows, row: np.ndarray | None) -> float:
    """The smaller of the p-values by which a place was judged, without a row (its weight, prediction, outcome)."""
    found = []
    if place.average:
        found.append(rows.p_values(place.raw if row is None else _without(place.raw, row))[0])
    if place.shape and place.along is not None and rows.grid is not None:
        along = place.along[0]
        if row is not None:
            weight, predicted, observed = row
            given = (1.0, weight, weight * predicted, weight * observed, (weight * (observed - predicted)) ** 2, 0.0)
            cell = int(bin_index(np.array([predicted]), rows.grid.edges)[0])
            names = ("rows", "weight", "predicted", "observed", "noise", "usual")
            less = {name: getattr(along, name).copy() for name in names}
            for name, value in zip(names, given, strict=True):
                less[name][cell] -= value
            along = replace(along, **less)
        found.append(tested(along, rows).p_value)
    return float(np.nan_to_num(min(found, default=np.float64(1.0)), nan=1.0))


def _without(sums: Sums, row: np.ndarray) -> Sums:
    weight, predicted, observed = row
    residual = (weight * (observed - predicted)) ** 2
    given = (1.0, weight, weight**2, weight * predicted, weight * observed, 0.0, residual)
    return Sums(*(values - less for values, less in zip(vars(sums).values(), given, strict=True)))
