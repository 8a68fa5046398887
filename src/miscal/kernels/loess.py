"""Local regression in one dimension, evaluated exactly at a set of points: the loops.

The tricube weight (1 - |t|^3)^3, t = (x - point) / bandwidth, is a polynomial on each side of the point. So the sums a
local fit needs are sums of polynomials over rows, and rows that lie on one side of a point inside its window can be
replaced, without any error but rounding, by a few nodes (`inference.local_regression.line_of`).

A line holds the distinct values of x in its first row, and below them the sums that belong to them (weights first, then
responses). Behind the distinct values follow the nodes of cells of CELL * nodes values, then those of two cells each,
of four, and so on. A point has a window [first, last) in distinct values, of which those before `middle` are not above
it, 1 / bandwidth, a centre and three coefficients: row j enters the fit with
tricube(t) * (a + b (t - centre) + c (t - centre)^2) times its weight.
"""

import numpy as np
from cython import address, cfunc, declare, double, nogil, sizeof, struct, void
from cython.cimports.libc.math import NAN, fabs
from cython.cimports.libc.string import memcpy
from cython.cimports.miscal.kernels.kinds import (
    Floats,
    Index,
    IntegerTable,
    Numbers,
    NumbersOut,
    Table,
    TableOut,
)
from cython.cimports.miscal.kernels.nearness import weighted_sum

# Values of the smallest cells for each of their nodes, as in `local_regression`.
CELL = declare(Index, 4)
# A norm below this share of its power is taken again, from the rows alone.
SAFE = declare(double, 1e-5)
# Below this share (1e-13 squared) the local design has lost a degree.
SINGULAR = declare(double, 1e-26)

# Room for the places t of what a point sees, their tricube weights, these times the sums' weights, and two more.
Room = struct(place=NumbersOut, bell=NumbersOut, mass=NumbersOut, square=NumbersOut, other=NumbersOut)


@cfunc
@nogil
def gather(
    line: Table, distinct: Index, nodes: Index, begin: Index, end: Index, near: TableOut, at: Index
) -> Index:
    """Copy what stands for the values begin..end: the nodes of the largest cells between them, and the values beside.

    Return where the next belongs.
    """
    while begin < end:
        cell = CELL * nodes
        start = begin
        stop = min(end, (begin // cell + 1) * cell)
        length = stop - begin
        if length == cell:
            start, length = distinct, nodes
            while begin % (2 * cell) == 0 and begin + 2 * cell <= end:
                start += distinct // cell * nodes
                cell *= 2
            start += begin // cell * nodes
            stop = begin + cell
        for v in range(line.shape[0]):
            to, of = address(near[v, at]), address(line[v, start])
            memcpy(to, of, length * sizeof(double))
        at += length
        begin = stop
    return at


@cfunc
@nogil
def tricube(x: Numbers, size: Index, point: double, inverse: double, of: Room) -> void:
    """Fill the places and their weights."""
    for j in range(size):
        t = (x[j] - point) * inverse
        r = fabs(t)
        u = 1.0 - r * r * r
        of.place[j] = t
        of.bell[j] = u * u * u


@cfunc
@nogil
def solve(weight: Numbers, size: Index, degree: Index, of: Room, solution: NumbersOut) -> double:
    """Solve by orthogonal polynomials about the window's own mean, to which places are moved.

    The norms are sums of squares, as in a QR decomposition of the weighted design: rows lose nothing to cancellation,
    nodes (whose sums may be negative) what their rounding is of a norm. Return the least norm as a share of its power.
    """
    s0 = weighted_sum(of.bell, weight, size)
    solution[0] = 1.0 / s0 if s0 > 0.0 else NAN
    solution[1] = solution[2] = solution[3] = 0.0
    if degree == 0 or not s0 > 0.0:
        return 1.0
    for j in range(size):
        of.mass[j] = of.bell[j] * weight[j]
    mean = weighted_sum(of.mass, of.place, size) / s0
    for j in range(size):
        of.place[j] -= mean
        of.square[j] = of.place[j] * of.place[j]
        of.other[j] = of.square[j] * of.place[j]
    v1 = weighted_sum(of.mass, of.square, size)
    share = v1 / (v1 + mean * mean * s0)
    if not share > SINGULAR:
        return share
    solution[1], solution[3] = -mean / v1, mean
    if degree == 1:
        return share
    tilt = weighted_sum(of.mass, of.other, size) / v1
    flat = v1 / s0
    for j in range(size):
        p = of.square[j] - tilt * of.place[j] - flat
        of.other[j] = p * p
    v2 = weighted_sum(of.mass, of.other, size)
    share = min(share, v2 / (v2 + tilt * tilt * v1 + flat * flat * s0))
    if share > SINGULAR:
        here = (mean * mean + tilt * mean - flat) / v2
        solution[0] -= here * flat
        solution[1] -= here * tilt
        solution[2] = here
    return share


def at_points(
    line: Table, distinct: Index, nodes: Index, points: Floats, window: IntegerTable, inverse: Floats, degree: Index,
    power: Index, out: TableOut, solution: TableOut,
) -> None:  # fmt: skip
    """Look at each point, and write the sums of operator weights to the power times the last rows of the line to `out`.

    power 0: fit first, (a, b, c, centre) to `solution`; then the sums are the fitted values.
    """
    pitch = line.shape[1]
    above = line.shape[0] - out.shape[1]
    near: TableOut = np.empty((line.shape[0], pitch))
    room: TableOut = np.empty((5, pitch))
    of = declare(Room)
    first = address(room[0, 0])
    of.place, of.bell, of.mass = first, first + pitch, first + 2 * pitch
    of.square, of.other = first + 3 * pitch, first + 4 * pitch
    with nogil:
        for i in range(points.shape[0]):
            low, high, here = window[i, 0], window[i, 2], address(solution[i, 0])
            size: Index = gather(line, distinct, nodes, low, window[i, 1], near, 0)
            size = gather(line, distinct, nodes, window[i, 1], high, near, size)
            seen: Numbers = address(near[0, 0])
            tricube(seen, size, points[i], inverse[i], of)
            if power == 0:
                wanted: Index = min(degree, high - low - 1) if inverse[i] > 0.0 else 0
                if solve(seen + pitch, size, wanted, of, here) < SAFE and size < high - low:
                    seen, size = address(line[0, low]), high - low
                    tricube(seen, size, points[i], inverse[i], of)
                    solve(seen + pitch, size, wanted, of, here)
            else:
                for j in range(size):
                    of.place[j] -= here[3]
            a, b, c = here[0], here[1], here[2]
            for j in range(size):
                of.bell[j] *= a + of.place[j] * (b + of.place[j] * c)
            for _ in range(power // 2):
                for j in range(size):
                    of.bell[j] *= of.bell[j]
            for v in range(out.shape[1]):
                out[i, v] = weighted_sum(of.bell, seen + (above + v) * pitch, size)
