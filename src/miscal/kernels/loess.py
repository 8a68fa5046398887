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

import cython
import numpy as np
from cython.cimports.libc.math import NAN, fabs
from cython.cimports.libc.string import memcpy
from cython.cimports.miscal.kernels.kinds import (
    Floats, FloatsOut, Index, IntegersOut, IntegerTable, Numbers, NumbersOut, Table, TableOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.nearness import Line, add_powers, moments, weighted_sum

LONG = cython.declare(Index, 16)  # runs of as many points pay for replacing what they share once more
BLOCK = cython.declare(Index, 256)  # rows summed at once, as in `nearness`
SAFE = cython.declare(cython.double, 1e-5)  # a pivot below this share of its column is recomputed by orthogonalisation
SINGULAR = cython.declare(cython.double, 1e-26)  # below this share (1e-13 squared) the local design has lost a degree

# A line of distinct values, `distinct` of them, behind which the nodes of cells of `size` values each follow.
Cells = cython.struct(line=Line, length=Index, distinct=Index, size=Index, basis=Numbers, nodes=Index)

Gathered = cython.struct(length=Index, least=Index, most=Index)


@cython.cfunc
@cython.nogil
def stand_in(
    line: Line, begin: Index, end: Index, basis: Numbers, nodes: Index, to: Line, at: Index, total: NumbersOut
) -> cython.void:
    """Write nodes that stand for the sorted places begin..end; there is room for count * nodes totals.

    `basis` is T_k at the ascending nodes of [-1, 1].
    """
    low, high = line.x[begin], line.x[end - 1]
    centre: cython.double = 0.5 * (low + high)
    half: cython.double = 0.5 * (high - low)
    scale: cython.double = 1.0 / half
    scratch = cython.declare(cython.double[768])
    place, older, newer = scratch, scratch + 256, scratch + 512
    start: Index = begin
    for k in range(line.count * nodes):
        total[k] = 0.0
    while start < end:
        length: Index = min(BLOCK, end - start)
        for j in range(length):
            place[j] = (line.x[start + j] - centre) * scale
            older[j] = 1.0
            newer[j] = place[j]
        for k in range(nodes):
            for v in range(line.count):
                total[v * nodes + k] += weighted_sum(older, line.values + v * line.pitch + start, length)
            for j in range(length):  # Chebyshev's recurrence, one degree up
                higher: cython.double = 2.0 * place[j] * newer[j] - older[j]
                older[j] = newer[j]
                newer[j] = higher
        start += BLOCK
    for n in range(nodes):
        to.x[at + n] = centre + half * basis[nodes + n]
        for v in range(line.count):
            value: cython.double = total[v * nodes]
            for k in range(1, nodes):
                value += 2.0 * total[v * nodes + k] * basis[k * nodes + n]
            to.values[v * to.pitch + at + n] = value / nodes


@cython.cfunc
@cython.nogil
def line_of(x: FloatsOut, values: TableOut) -> Line:
    """The line of these arrays, which outlive it."""
    made = cython.declare(Line)
    made.x, made.values = cython.address(x[0]), cython.address(values[0, 0])
    made.pitch, made.count = values.shape[1], values.shape[0]
    return made


def add_cells(
    x: FloatsOut, values: TableOut, size: Index, begin: Index, end: Index, basis: Table, distinct: Index
) -> None:
    """Replace the cells begin..end of `size` values by nodes, written behind the distinct values."""
    line: Line = line_of(x, values)
    nodes: Index = basis.shape[0]
    total: TableOut = np.empty((values.shape[0], nodes))
    with cython.nogil:
        for cell in range(begin, end):
            stand_in(
                line, cell * size, (cell + 1) * size, cython.address(basis[0, 0]), nodes, line, distinct + cell * nodes,
                cython.address(total[0, 0]),
            )  # fmt: skip


@cython.cfunc
@cython.nogil
def copy(line: Line, begin: Index, end: Index, near: Line, at: Index) -> Index:
    """Copy the places begin..end; return where the next belongs."""
    if begin >= end:
        return at
    memcpy(near.x + at, line.x + begin, (end - begin) * cython.sizeof(cython.double))
    for v in range(line.count):
        memcpy(
            near.values + v * near.pitch + at, line.values + v * line.pitch + begin,
            (end - begin) * cython.sizeof(cython.double),
        )  # fmt: skip
    return at + end - begin


@cython.cfunc
@cython.nogil
def copy_shared(
    cells: cython.pointer(Cells), begin: Index, end: Index, again: cython.bint, near: Line, at: Index, total: NumbersOut
) -> Index:
    """Copy the values begin..end, whole cells as their nodes, and replace all of it once more where that is asked."""
    nodes: Index = cells.nodes
    size: Index = cells.size
    first: Index = (begin + size - 1) // size
    last: Index = min(end // size, (cells.length - cells.distinct) // nodes)
    to: Index = at
    if first < last:
        to = copy(cells.line, begin, first * size, near, at)
        to = copy(cells.line, cells.distinct + first * nodes, cells.distinct + last * nodes, near, to)
        to = copy(cells.line, last * size, end, near, to)
    else:
        to = copy(cells.line, begin, end, near, at)
    if not again or to - at <= 2 * nodes:
        return to
    stand_in(near, at, to, cells.basis, nodes, near, at, total)
    return at + nodes


@cython.cfunc
@cython.nogil
def gather(
    cells: cython.pointer(Cells), window: IntegerTable, start: Index, stop: Index, again: cython.bint, near: Line,
    total: NumbersOut,
) -> Gathered:  # fmt: skip
    """Copy what a run of points needs, in order; return its length, the least first and the greatest last value.

    Between the points themselves and where windows differ these are rows, elsewhere what stands for them. So the window
    of a point is one range of the copy, counted from the least first value and back from the greatest last one.
    """
    made = cython.declare(Gathered)
    low: Index = window[start, 0]
    high: Index = window[start, 2]
    least: Index = low
    most: Index = high
    for i in range(start, stop):
        least, low = min(least, window[i, 0]), max(low, window[i, 0])
        most, high = max(most, window[i, 2]), min(high, window[i, 2])
    begin: Index = window[start, 1]
    end: Index = window[stop - 1, 1]
    low, high = min(low, begin), max(high, end)
    at: Index = copy(cells.line, least, low, near, 0)
    at = copy_shared(cells, low, begin, again, near, at, total)
    at = copy(cells.line, begin, end, near, at)
    at = copy_shared(cells, end, high, again, near, at, total)
    made.length, made.least, made.most = copy(cells.line, high, most, near, at), least, most
    return made


@cython.cfunc
@cython.nogil
def solve(sums: Numbers, degree: Index, solution: NumbersOut) -> cython.double:
    """Solve the local fit from its moments; return the smallest pivot as a share of its column (0: singular)."""
    s0, s1, s2 = sums[0], sums[1], sums[2]
    solution[1], solution[2], solution[3] = 0.0, 0.0, 0.0
    if not s0 > 0.0:
        return 0.0
    solution[0] = 1.0 / s0
    if degree == 0:
        return 1.0
    mean: cython.double = s1 / s0
    v1: cython.double = s2 - mean * s1
    if not v1 > 0.0:
        return 0.0
    share: cython.double = v1 / s2
    solution[0] += mean * mean / v1
    solution[1] = -mean / v1
    if degree == 1:
        return share
    tilt: cython.double = (sums[3] - mean * s2) / v1
    level: cython.double = tilt * mean - s2 / s0
    v2: cython.double = sums[4] - s2 * s2 / s0 - tilt * tilt * v1
    if not v2 > 0.0:
        return 0.0
    solution[0] += level * level / v2
    solution[1] -= level * tilt / v2
    solution[2] = level / v2
    return min(share, v2 / sums[4])


@cython.cfunc
@cython.nogil
def orthogonal(
    line: Line, begin: Index, end: Index, point: cython.double, inverse: cython.double, degree: Index,
    solution: NumbersOut,
) -> Index:  # fmt: skip
    """Solve by orthogonal polynomials about the window's own mean, from its rows; return the degree kept.

    The norms are sums of squares and lose nothing to cancellation, as in a QR decomposition of the weighted design.
    """
    s0, s1, v1, size, cube, quart, v2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    mean, tilt, flat = 0.0, 0.0, 0.0
    for turn in range(degree + 1):
        for j in range(begin, end):
            t: cython.double = (line.x[j] - point) * inverse
            u: cython.double = 1.0 - fabs(t * t * t)
            w: cython.double = u * u * u * line.values[j]
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
                p: cython.double = t * t - tilt * t - flat
                v2 += w * p * p
        if turn == 0:
            solution[0] = 1.0 / s0 if s0 > 0.0 else NAN
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
        here: cython.double = (mean * mean + tilt * mean - flat) / v2
        solution[0] -= here * flat
        solution[1] -= here * tilt
        solution[2] = here
    return degree


@cython.cfunc
@cython.nogil
def fit_one(
    line: Line, near: Line, begin: Index, end: Index, low: Index, high: Index, point: cython.double,
    scale: cython.double, degree: Index, sums: NumbersOut, fit: NumbersOut, here: NumbersOut,
) -> Index:  # fmt: skip
    """Fit at one point from what was gathered, begin..end, or where that is not safe from its rows low..high."""
    wanted: Index = min(degree, high - low - 1) if scale > 0.0 else 0
    moments(cython.address(near), begin, end, point, scale, sums)
    if solve(sums, wanted, here) >= SAFE:
        for v in range(1, line.count):
            fit[v - 1] = here[0] * sums[5 * v] + here[1] * sums[5 * v + 1] + here[2] * sums[5 * v + 2]
        return wanted
    kept: Index = orthogonal(line, low, high, point, scale, wanted, here)
    rest: Line = line
    rest.values, rest.count = line.values + line.pitch, line.count - 1
    for v in range(rest.count):
        fit[v] = 0.0
    add_powers(cython.address(rest), low, high, point, scale, here, 1, fit)
    return kept


def at_points(
    x: FloatsOut, values: TableOut, distinct: Index, size: Index, basis: Table, room: Index, run: Index,
    points: Floats, window: IntegerTable, inverse: Floats, degree: Index, power: Index,
    out: TableOut, solution: TableOut, kept: IntegersOut,
) -> None:  # fmt: skip
    """Look at each point, `run` of them at a time.

    power 0: fit, values to `out`, (a, b, c, centre) to `solution`, the degree to `kept`; else sum operator weights to
    the power times each row of `values`, to `out` (points, rows of values).
    """
    cells = cython.declare(Cells)
    cells.line, cells.length, cells.distinct, cells.size = line_of(x, values), x.shape[0], distinct, size
    cells.basis, cells.nodes = cython.address(basis[0, 0]), basis.shape[0]
    near_x: FloatsOut = np.empty(room)
    near_values: TableOut = np.empty((values.shape[0], room))
    sums: TableOut = np.empty((values.shape[0], 5))
    total: TableOut = np.empty((values.shape[0], basis.shape[0]))
    nothing: FloatsOut = np.empty(1)
    near: Line = line_of(near_x, near_values)
    start: Index = 0
    out[:, :] = 0.0
    with cython.nogil:
        while start < points.shape[0]:
            stop: Index = min(start + run, points.shape[0])
            got: Gathered = gather(
                cython.address(cells), window, start, stop, run >= LONG, near, cython.address(total[0, 0])
            )
            for i in range(start, stop):
                to = cython.address(out[i, 0]) if out.shape[1] else cython.address(nothing[0])
                begin: Index = window[i, 0] - got.least
                end: Index = got.length - (got.most - window[i, 2])
                here = cython.address(solution[i, 0])
                if power:
                    add_powers(cython.address(near), begin, end, points[i], inverse[i], here, power, to)
                else:
                    kept[i] = fit_one(
                        cells.line, near, begin, end, window[i, 0], window[i, 2], points[i], inverse[i], degree,
                        cython.address(sums[0, 0]), to, here,
                    )  # fmt: skip
            start += run
