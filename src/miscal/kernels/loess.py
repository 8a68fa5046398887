"""Local regression in one dimension, evaluated exactly at a set of points.

The tricube weight (1 - |t|^3)^3, t = (x - point) / bandwidth, is a polynomial on each side of the point. So the sums a
local fit needs are sums of polynomials over rows, and rows that lie on one side of a point inside its window can be
replaced, without any error but rounding, by a few Chebyshev nodes: with K nodes, sum_i v_i p(x_i) = sum_k V_k p(node_k)
for every polynomial p of degree below K. Tricube times t^4 has degree 13, the squared operator weights degree 22, their
fourth powers degree 44. Cells of neighbouring values are replaced once; what all points of a short run have in common
is gathered from rows and cells and, if the run is long enough to pay for it, replaced again.

`x` holds the distinct values and after them the nodes of the cells, `values` the sums that belong to them (a row each:
weights first, then responses). A point has a window [first, last) in distinct values, of which those before `middle`
are not above it, 1 / bandwidth, a centre and three coefficients: row j enters the fit with
tricube(t) * (a + b (t - centre) + c (t - centre)^2) times its weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miscal.kernels.jit import kernel, regrouped

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LONG = 16  # runs of as many points pay for replacing what they share once more
BLOCK = 256  # rows summed at once: the buffers stay in the first cache and blocks make the sums two-level
SAFE = 1e-5  # a pivot below this share of its column is recomputed by orthogonalisation
SINGULAR = 1e-26  # below this share (the square of about 1e-13) the local design has lost a degree


@kernel
def find_windows(
    every: Floats, ends: Integers, x: Floats, points: Floats, wanted: int,
    bandwidth: Floats, inverse: Floats, window: Integers,
) -> None:  # fmt: skip
    """Windows of sorted points: distance to the `wanted`-th nearest row, and (first, middle, last) of the values x.

    `every` are the distinct values before any were pooled, and `ends` counts rows up to each. Values strictly inside
    belong to the window; if there is none, those on its rim, equally weighted (inverse 0).
    """
    rows = ends[-1]
    before, left, right, low, high, middle = 0, 0, 0, 0, 0, 0
    while right < every.size and ends[right] <= wanted:
        right += 1
    for i in range(points.size):
        point = points[i]
        while before + wanted < rows and point - every[left] > every[right] - point:
            before += min(ends[left] - before, ends[right] - before - wanted)
            left += before == ends[left]
            right += before + wanted == ends[right]
        whole = right > 0 and before + wanted == ends[right - 1]
        width = max(point - every[left], every[right - 1 if whole else right] - point)
        while low > 0 and point - x[low - 1] < width:
            low -= 1
        while low < x.size and point - x[low] >= width:
            low += 1
        high = max(high, low)
        while high > low and x[high - 1] - point >= width:
            high -= 1
        while high < x.size and x[high] - point < width:
            high += 1
        while middle < x.size and x[middle] <= point:
            middle += 1
        bandwidth[i], inverse[i] = width, 1.0 / width if low < high else 0.0
        window[i, 0], window[i, 1], window[i, 2] = low, middle, high
        if low == high:
            while window[i, 0] > 0 and point - x[window[i, 0] - 1] <= width:
                window[i, 0] -= 1
            while window[i, 2] < x.size and x[window[i, 2]] - point <= width:
                window[i, 2] += 1


@regrouped
def replace(
    x: Floats, values: Floats, begin: int, end: int, basis: Floats, to_x: Floats, to_values: Floats, at: int
) -> None:
    """Write nodes that stand for the sorted places begin..end; `basis` is T_k at the ascending nodes of [-1, 1]."""
    nodes = basis.shape[0]
    centre, half = 0.5 * (x[begin] + x[end - 1]), 0.5 * (x[end - 1] - x[begin])
    scale = 1.0 / half
    total = np.zeros((values.shape[0], nodes))
    place, older, newer = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(begin, end, BLOCK):
        length = min(BLOCK, end - start)
        places = x[start : start + length]
        for j in range(length):
            place[j] = (places[j] - centre) * scale
            older[j] = 1.0
            newer[j] = place[j]
        for k in range(nodes):
            for v in range(values.shape[0]):
                row = values[v, start : start + length]
                part = 0.0
                for j in range(length):
                    part += older[j] * row[j]
                total[v, k] += part
            for j in range(length):  # Chebyshev's recurrence, one degree up
                higher = 2.0 * place[j] * newer[j] - older[j]
                older[j] = newer[j]
                newer[j] = higher
    for n in range(nodes):
        to_x[at + n] = centre + half * basis[1, n]
        for v in range(values.shape[0]):
            value = total[v, 0]
            for k in range(1, nodes):
                value += 2.0 * total[v, k] * basis[k, n]
            to_values[v, at + n] = value / nodes


@kernel
def add_cells(x: Floats, values: Floats, size: int, begin: int, end: int, basis: Floats, distinct: int) -> None:
    """Replace the cells begin..end of `size` values by nodes, written behind the distinct values."""
    for cell in range(begin, end):
        replace(x, values, cell * size, (cell + 1) * size, basis, x, values, distinct + cell * basis.shape[0])


@kernel
def _copy(x: Floats, values: Floats, begin: int, end: int, near_x: Floats, near: Floats, at: int) -> int:
    if begin >= end:
        return at
    to = at + end - begin
    near_x[at:to] = x[begin:end]
    for v in range(values.shape[0]):
        near[v, at:to] = values[v, begin:end]
    return to


@kernel
def _copy_shared(
    x: Floats, values: Floats, begin: int, end: int, distinct: int, size: int, basis: Floats, again: bool,
    near_x: Floats, near: Floats, at: int,
) -> int:  # fmt: skip
    """Copy the values begin..end, whole cells as their nodes, and replace all of it once more where that is asked."""
    nodes = basis.shape[0]
    first, last = -(-begin // size), min(end // size, (x.size - distinct) // nodes)
    if first < last:
        to = _copy(x, values, begin, first * size, near_x, near, at)
        to = _copy(x, values, distinct + first * nodes, distinct + last * nodes, near_x, near, to)
        to = _copy(x, values, last * size, end, near_x, near, to)
    else:
        to = _copy(x, values, begin, end, near_x, near, at)
    if not again or to - at <= 2 * nodes:
        return to
    replace(near_x, near, at, to, basis, near_x, near, at)
    return at + nodes


@kernel
def _gather(
    x: Floats, values: Floats, distinct: int, size: int, basis: Floats, window: Integers, again: bool,
    near_x: Floats, near: Floats,
) -> tuple[int, int, int]:  # fmt: skip
    """Copy what a run of points needs, in order; return its length, the least first and the greatest last value.

    Between the points themselves and where windows differ these are rows, elsewhere what stands for them. So the window
    of a point is one range of the copy, counted from the least first value and back from the greatest last one.
    """
    least, low, high, most = window[0, 0], window[0, 0], window[0, 2], window[0, 2]
    for i in range(window.shape[0]):
        least, low = min(least, window[i, 0]), max(low, window[i, 0])
        most, high = max(most, window[i, 2]), min(high, window[i, 2])
    begin, end = window[0, 1], window[window.shape[0] - 1, 1]
    low, high = min(low, begin), max(high, end)
    at = _copy(x, values, least, low, near_x, near, 0)
    at = _copy_shared(x, values, low, begin, distinct, size, basis, again, near_x, near, at)
    at = _copy(x, values, begin, end, near_x, near, at)
    at = _copy_shared(x, values, end, high, distinct, size, basis, again, near_x, near, at)
    return _copy(x, values, high, most, near_x, near, at), least, most


@regrouped
def _moments(
    x: Floats, values: Floats, begin: int, end: int, point: float, inverse: float, sums: Floats, work: Floats
) -> None:
    """Weighted sums of t^0..t^4 to the first row of `sums`, of t^0..t^2 times each response to the others."""
    k0, k1, k2 = work[0], work[1], work[2]
    sums[:, :] = 0.0
    for start in range(begin, end, BLOCK):
        length = min(BLOCK, end - start)
        s0, s1, s2, s3, s4 = 0.0, 0.0, 0.0, 0.0, 0.0
        places, mass, k0, k1, k2 = (
            x[start : start + length],
            values[0, start : start + length],
            work[0],
            work[1],
            work[2],
        )
        for j in range(length):
            t = (places[j] - point) * inverse
            r = abs(t)
            v = 1.0 - r * r * r
            k = v * v * v
            w = k * mass[j]
            k0[j] = k
            k1[j] = k * t
            k2[j] = k * t * t
            s0 += w
            s1 += w * t
            s2 += w * t * t
            s3 += w * t * t * t
            s4 += w * t * t * t * t
        for k, part in enumerate((s0, s1, s2, s3, s4)):
            sums[0, k] += part
        for v in range(1, values.shape[0]):
            s0, s1, s2 = 0.0, 0.0, 0.0
            row = values[v, start : start + length]
            for j in range(length):
                s0 += k0[j] * row[j]
                s1 += k1[j] * row[j]
                s2 += k2[j] * row[j]
            for k, part in enumerate((s0, s1, s2)):
                sums[v, k] += part


@regrouped
def _add_powers(
    x: Floats, values: Floats, begin: int, end: int, point: float, inverse: float, solution: Floats, power: int,
    out: Floats, work: Floats,
) -> None:  # fmt: skip
    """Add the sums of operator weights to the power (1, 2 or 4) times each row of `values`."""
    a, b, c, centre, weight = solution[0], solution[1], solution[2], solution[3], work[0]
    for start in range(begin, end, BLOCK):
        length = min(BLOCK, end - start)
        places = x[start : start + length]
        for j in range(length):
            t = (places[j] - point) * inverse
            r = abs(t)
            v = 1.0 - r * r * r
            t -= centre
            weight[j] = v * v * v * (a + t * (b + t * c))
        for _ in range(power // 2):
            for j in range(length):
                weight[j] *= weight[j]
        for v in range(values.shape[0]):
            row = values[v, start : start + length]
            total = 0.0
            for j in range(length):
                total += weight[j] * row[j]
            out[v] += total


@kernel
def _solve(sums: Floats, degree: int, solution: Floats) -> float:
    """Solve the local fit from its moments; return the smallest pivot as a share of its column (0: singular)."""
    s0, s1, s2 = sums[0], sums[1], sums[2]
    solution[1], solution[2], solution[3] = 0.0, 0.0, 0.0
    if not s0 > 0.0:
        return 0.0
    solution[0] = 1.0 / s0
    if degree == 0:
        return 1.0
    mean = s1 / s0
    v1 = s2 - mean * s1
    if not v1 > 0.0:
        return 0.0
    share = v1 / s2
    solution[0] += mean * mean / v1
    solution[1] = -mean / v1
    if degree == 1:
        return share
    tilt = (sums[3] - mean * s2) / v1
    level = tilt * mean - s2 / s0
    v2 = sums[4] - s2 * s2 / s0 - tilt * tilt * v1
    if not v2 > 0.0:
        return 0.0
    solution[0] += level * level / v2
    solution[1] -= level * tilt / v2
    solution[2] = level / v2
    return min(share, v2 / sums[4])


@kernel
def _orthogonal(
    x: Floats, mass: Floats, begin: int, end: int, point: float, inverse: float, degree: int, solution: Floats
) -> int:
    """Solve by orthogonal polynomials about the window's own mean, from its rows; return the degree kept.

    The norms are sums of squares and lose nothing to cancellation, as in a QR decomposition of the weighted design.
    """
    s0, s1, v1, size, cube, quart, v2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    mean, tilt, flat = 0.0, 0.0, 0.0
    for turn in range(degree + 1):
        for j in range(begin, end):
            t = (x[j] - point) * inverse
            v = 1.0 - abs(t * t * t)
            w = v * v * v * mass[j]
            if turn == 0:
                s0 += w
                s1 += w * t
            elif turn == 1:
                size += w * t * t
                t -= mean
                v1 += w * t * t
                cube += w * t * t * t
                quart += w * t * t * t * t
            else:
                t -= mean
                p = t * t - tilt * t - flat
                v2 += w * p * p
        if turn == 0:
            solution[0] = 1.0 / s0 if s0 > 0.0 else np.nan
            solution[1], solution[2], solution[3] = 0.0, 0.0, 0.0
            if not s0 > 0.0:
                return 0
            mean = s1 / s0
        elif turn == 1:
            if not v1 > SINGULAR * size:
                return 0
            solution[1], solution[3] = -mean / v1, mean
            tilt, flat = cube / v1, v1 / s0
        elif not v2 > SINGULAR * quart:
            return 1
    if degree == 2:
        here = (mean * mean + tilt * mean - flat) / v2
        solution[0] -= here * flat
        solution[1] -= here * tilt
        solution[2] = here
    return degree


@kernel
def fit_points(
    x: Floats, values: Floats, distinct: int, size: int, basis: Floats, room: int, run: int,
    points: Floats, window: Integers, inverse: Floats, degree: int,
    fit: Floats, solution: Floats, kept: Integers,
) -> None:  # fmt: skip
    """Fit at each point, `run` of them at a time: values to `fit`, (a, b, c, centre) to `solution`."""
    near_x, near = np.empty(room), np.empty((values.shape[0], room))
    sums, work = np.empty((values.shape[0], 5)), np.empty((3, BLOCK))
    for start in range(0, points.size, run):
        stop = min(start + run, points.size)
        length, least, most = _gather(x, values, distinct, size, basis, window[start:stop], run >= LONG, near_x, near)
        for i in range(start, stop):
            low, high, point, scale = window[i, 0], window[i, 2], points[i], inverse[i]
            here, wanted = solution[i], min(degree, high - low - 1) if scale > 0.0 else 0
            _moments(near_x, near, low - least, length - (most - high), point, scale, sums, work)
            kept[i] = wanted
            if _solve(sums[0], wanted, here) >= SAFE:
                for v in range(1, values.shape[0]):
                    fit[i, v - 1] = here[0] * sums[v, 0] + here[1] * sums[v, 1] + here[2] * sums[v, 2]
                continue
            kept[i] = _orthogonal(x, values[0], low, high, point, scale, wanted, here)
            fit[i, :] = 0.0
            _add_powers(x, values[1:], low, high, point, scale, here, 1, fit[i], work)


@kernel
def power_points(
    x: Floats, values: Floats, distinct: int, size: int, basis: Floats, room: int, run: int,
    points: Floats, window: Integers, inverse: Floats, solution: Floats, power: int, out: Floats,
) -> None:  # fmt: skip
    """At each point sum operator weights to the power times each row of `values`, to `out` (points, rows of values)."""
    near_x, near, work = np.empty(room), np.empty((values.shape[0], room)), np.empty((3, BLOCK))
    out[:, :] = 0.0
    for start in range(0, points.size, run):
        stop = min(start + run, points.size)
        length, least, most = _gather(x, values, distinct, size, basis, window[start:stop], run >= LONG, near_x, near)
        for i in range(start, stop):
            begin, end = window[i, 0] - least, length - (most - window[i, 2])
            _add_powers(near_x, near, begin, end, points[i], inverse[i], solution[i], power, out[i], work)
