"""Local regression in one dimension, evaluated exactly at a set of points.

The tricube weight (1 - |t|^3)^3, t = (x - point) / bandwidth, is a polynomial on each side of the point. So the sums a
local fit needs are sums of polynomials over rows, and a cell of rows that lies on one side of the point inside its
window can be replaced, without any error but rounding, by a few Chebyshev nodes (`loess_cells`). Rows with the same x
are pooled first; `mass` is the sum of weights at each distinct x and `moment` the sum of weight times response.

An evaluation point is described by its window [first, last) in distinct values, 1 / bandwidth, a centre and three
coefficients: row j enters the fit with tricube(t) * (a + b (t - centre) + c (t - centre)^2) times its weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miscal.kernels.jit import inlined
from miscal.kernels.loess_cells import SLOTS, lanes, pieces, summing

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BLOCK = 256  # rows summed at once: the buffers stay in the first cache and blocks make the sums two-level
SAFE = 1e-5  # a pivot below this share of its column is recomputed by orthogonalisation
SINGULAR = 1e-26  # below this share (the square of about 1e-13) the local design has lost a degree


@lanes
def bandwidths(x: Floats, ends: Integers, points: Floats, wanted: int, bandwidth: Floats) -> None:
    """Distance from each of the sorted points to its `wanted`-th nearest row; `ends` counts rows up to each value."""
    rows = ends[-1]
    low, left, right = 0, 0, 0
    while right < x.size and ends[right] <= wanted:
        right += 1
    for i in range(points.size):
        point = points[i]
        while low + wanted < rows and point - x[left] > x[right] - point:
            step = min(ends[left] - low, ends[right] - low - wanted)
            low += step
            if low == ends[left]:
                left += 1
            if low + wanted == ends[right]:
                right += 1
        before = ends[right - 1] if right > 0 else 0
        last = right - 1 if low + wanted == before else right
        bandwidth[i] = max(point - x[left], x[last] - point)


@lanes
def windows(x: Floats, points: Floats, bandwidth: Floats, first: Integers, last: Integers, inverse: Floats) -> None:
    """Find the values strictly inside each window; if there is none, the values on its rim, equally weighted."""
    low, high = 0, 0
    for i in range(points.size):
        point, width = points[i], bandwidth[i]
        while low > 0 and point - x[low - 1] < width:
            low -= 1
        while low < x.size and point - x[low] >= width:
            low += 1
        high = max(high, low)
        while high > low and x[high - 1] - point >= width:
            high -= 1
        while high < x.size and x[high] - point < width:
            high += 1
        first[i], last[i] = low, high
        if low < high:
            inverse[i] = 1.0 / width
            continue
        inverse[i] = 0.0
        while first[i] > 0 and point - x[first[i] - 1] <= width:
            first[i] -= 1
        while last[i] < x.size and x[last[i]] - point <= width:
            last[i] += 1


@summing
def add_moments(
    x: Floats, mass: Floats, moment: Floats, begin: int, end: int, point: float, inverse: float,
    sums: Floats, products: Floats, work: Floats,
) -> None:  # fmt: skip
    """Add the weighted sums of t^0..t^4 to `sums` and of t^0..t^2 times each response to `products`."""
    for start in range(begin, end, BLOCK):
        stop = min(start + BLOCK, end)
        s0, s1, s2, s3, s4 = 0.0, 0.0, 0.0, 0.0, 0.0
        part, masses = x[start:stop], mass[start:stop]
        for j in range(stop - start):
            t = (part[j] - point) * inverse
            r = abs(t)
            v = 1.0 - r * r * r
            k = v * v * v
            w = k * masses[j]
            work[0, j] = k
            work[1, j] = k * t
            work[2, j] = k * t * t
            s0 += w
            s1 += w * t
            s2 += w * t * t
            s3 += w * t * t * t
            s4 += w * t * t * t * t
        sums[0] += s0
        sums[1] += s1
        sums[2] += s2
        sums[3] += s3
        sums[4] += s4
        for k in range(moment.shape[0]):
            response = moment[k, start:stop]
            s0, s1, s2 = 0.0, 0.0, 0.0
            for j in range(stop - start):
                s0 += work[0, j] * response[j]
                s1 += work[1, j] * response[j]
                s2 += work[2, j] * response[j]
            products[k, 0] += s0
            products[k, 1] += s1
            products[k, 2] += s2


@summing
def add_squares(
    x: Floats, values: Floats, begin: int, end: int, point: float, inverse: float, centre: float, solution: Floats,
    fourth: bool, out: Floats, work: Floats,
) -> None:  # fmt: skip
    """Add the sums of squared (or fourth powers of) operator weights times each row of `values`."""
    a, b, c = solution[0], solution[1], solution[2]
    for start in range(begin, end, BLOCK):
        stop = min(start + BLOCK, end)
        part = x[start:stop]
        for j in range(stop - start):
            t = (part[j] - point) * inverse
            r = abs(t)
            v = 1.0 - r * r * r
            t -= centre
            w = v * v * v * (a + t * (b + t * c))
            work[0, j] = w * w * w * w if fourth else w * w
        for k in range(values.shape[0]):
            row = values[k, start:stop]
            total = 0.0
            for j in range(stop - start):
                total += work[0, j] * row[j]
            out[k] += total


@inlined
def solve(sums: Floats, degree: int, solution: Floats) -> float:
    """Solve the local fit from its moments; return the smallest pivot as a share of its column (0: singular)."""
    s0 = sums[0]
    solution[0], solution[1], solution[2] = 0.0, 0.0, 0.0
    if not s0 > 0.0:
        return 0.0
    solution[0] = 1.0 / s0
    if degree == 0:
        return 1.0
    mean = sums[1] / s0
    v1 = sums[2] - mean * sums[1]
    share = v1 / sums[2] if sums[2] > 0.0 else 0.0
    if not share > 0.0:
        return 0.0
    solution[0] += mean * mean / v1
    solution[1] = -mean / v1
    if degree == 1:
        return share
    tilt = (sums[3] - mean * sums[2]) / v1
    level = tilt * mean - sums[2] / s0
    v2 = sums[4] - sums[2] * sums[2] / s0 - tilt * tilt * v1
    share = min(share, v2 / sums[4])
    if not share > 0.0:
        return 0.0
    solution[0] += level * level / v2
    solution[1] -= level * tilt / v2
    solution[2] = level / v2
    return share


@lanes
def orthogonal(
    x: Floats, mass: Floats, point: float, inverse: float, degree: int, solution: Floats
) -> tuple[int, float]:
    """Solve by orthogonal polynomials about the window's own mean, in four passes; return degree kept and centre.

    The norms are sums of squares and lose nothing to cancellation, as in a QR decomposition of the weighted design.
    """
    s0, s1 = 0.0, 0.0
    for j in range(x.size):
        t = (x[j] - point) * inverse
        w = (1.0 - abs(t) ** 3) ** 3 * mass[j]
        s0 += w
        s1 += w * t
    solution[1], solution[2] = 0.0, 0.0
    solution[0] = 1.0 / s0 if s0 > 0.0 else np.nan
    if degree == 0 or not s0 > 0.0:
        return 0, 0.0
    mean = s1 / s0
    v1, cube, quart, size = 0.0, 0.0, 0.0, 0.0
    for j in range(x.size):
        t = (x[j] - point) * inverse
        w = (1.0 - abs(t) ** 3) ** 3 * mass[j]
        size += w * t * t
        t -= mean
        v1 += w * t * t
        cube += w * t * t * t
        quart += w * t * t * t * t
    if not v1 > SINGULAR * size:
        return 0, 0.0
    solution[1] = -mean / v1
    if degree == 1:
        return 1, mean
    tilt, flat = cube / v1, v1 / s0
    v2 = 0.0
    for j in range(x.size):
        t = (x[j] - point) * inverse
        w = (1.0 - abs(t) ** 3) ** 3 * mass[j]
        t -= mean
        p = t * t - tilt * t - flat
        v2 += w * p * p
    if not v2 > SINGULAR * quart:
        return 1, mean
    here = (mean * mean + tilt * mean - flat) / v2
    solution[0] -= here * flat
    solution[1] -= here * tilt
    solution[2] = here
    return 2, mean


@summing
def apply(
    x: Floats, moment: Floats, begin: int, end: int, point: float, inverse: float, centre: float, solution: Floats,
    fit: Floats,
) -> None:  # fmt: skip
    """Sum operator weight times response over the rows of a window."""
    for k in range(moment.shape[0]):
        fit[k] = 0.0
        for start in range(begin, end, BLOCK):
            stop = min(start + BLOCK, end)
            part, row = x[start:stop], moment[k, start:stop]
            total = 0.0
            for j in range(stop - start):
                t = (part[j] - point) * inverse
                r = abs(t)
                v = 1.0 - r * r * r
                t -= centre
                total += v * v * v * (solution[0] + t * (solution[1] + t * solution[2])) * row[j]
            fit[k] += total


@lanes
def fit_points(
    x: Floats, mass: Floats, moment: Floats, size: int, node_x: Floats, node_mass: Floats, node_moment: Floats,
    points: Floats, first: Integers, last: Integers, inverse: Floats, degree: int,
    fit: Floats, solution: Floats, centre: Floats, kept: Integers,
) -> None:  # fmt: skip
    """Fit at each point: values to `fit` (points, responses), the operator to `solution`, `centre` and `kept`."""
    responses = moment.shape[0]
    sums, products = np.empty(5), np.empty((responses, 3))
    work, slot = np.empty((3, BLOCK)), np.empty((SLOTS, 2), np.int64)
    nodes = node_x.shape[1]
    for i in range(points.size):
        low, high, point, scale = first[i], last[i], points[i], inverse[i]
        wanted = 0 if scale == 0.0 else min(degree, high - low - 1)
        sums[:] = 0.0
        products[:] = 0.0
        pieces(low, low + np.searchsorted(x[low:high], point, side="right"), high, size, node_x.shape[0], slot)
        for s in range(SLOTS):
            a, b = slot[s, 0], slot[s, 1]
            if a >= b:
                continue
            if s % 2 == 0:
                add_moments(x, mass, moment, a, b, point, scale, sums, products, work)
            else:
                a, b = a * nodes, b * nodes
                add_moments(node_x.reshape(-1), node_mass, node_moment, a, b, point, scale, sums, products, work)
        here = solution[i]
        centre[i] = 0.0
        kept[i] = wanted
        if solve(sums, wanted, here) >= SAFE:
            for k in range(responses):
                fit[i, k] = here[0] * products[k, 0] + here[1] * products[k, 1] + here[2] * products[k, 2]
        else:
            kept[i], centre[i] = orthogonal(x[low:high], mass[low:high], point, scale, wanted, here)
            apply(x, moment, low, high, point, scale, centre[i], here, fit[i])


@lanes
def square_points(
    x: Floats, values: Floats, size: int, node_x: Floats, node_values: Floats,
    points: Floats, first: Integers, last: Integers, inverse: Floats, solution: Floats, centre: Floats, fourth: bool,
    out: Floats,
) -> None:  # fmt: skip
    """At each point sum the squared operator weights times each row of `values`, to `out` (points, rows of values)."""
    work, slot = np.empty((3, BLOCK)), np.empty((SLOTS, 2), np.int64)
    nodes = node_x.shape[1]
    for i in range(points.size):
        low, high, point = first[i], last[i], points[i]
        out[i, :] = 0.0
        pieces(low, low + np.searchsorted(x[low:high], point, side="right"), high, size, node_x.shape[0], slot)
        for s in range(SLOTS):
            a, b = slot[s, 0], slot[s, 1]
            if a >= b:
                continue
            if s % 2 == 0:
                add_squares(x, values, a, b, point, inverse[i], centre[i], solution[i], fourth, out[i], work)
            else:
                a, b = a * nodes, b * nodes
                add_squares(
                    node_x.reshape(-1),
                    node_values,
                    a,
                    b,
                    point,
                    inverse[i],
                    centre[i],
                    solution[i],
                    fourth,
                    out[i],
                    work,
                )
