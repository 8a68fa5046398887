"""Local regression at every distinct x, by sliding power sums.

Points are taken in chunks narrow against their bandwidth. The power sums of a window about the chunk's centre are
seeded once from cells and then follow the window as rows enter, cross the point and leave: `both` holds left plus right
of the point, `odd` right minus left, because on the left |t|^3 = -t^3. Each point then needs a change of centre, a
3 by 3 solve and one inner product per response; this is done for LANES points at a time, in vector lanes.
A point whose pivots are small against the window's mass is left to `loess.fit_points` (sound = False).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miscal.kernels.jit import inlined
from miscal.kernels.loess_cells import SLOTS, lanes, pieces

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

LANES = 32
FLUSH = 512  # updates go to a small accumulator that is emptied this often: two-level sums
MASS = 14  # powers of the mass
RESPONSE = 12  # powers of each response
SQUARE = 23  # powers of the squared weights
WEAK = 1e-4  # pivots below this share of the window's mass are recomputed


@lanes
def chunks(x: Floats, bandwidth: Floats, reach: float, growth: float, longest: int) -> Integers:
    """Cut the points where the chunk would be wide against its bandwidth or the bandwidth has changed too much."""
    cuts = np.empty(x.size + 1, np.int64)
    cuts[0] = 0
    used, start = 1, 0
    least, most = bandwidth[0], bandwidth[0]
    for i in range(1, x.size):
        least, most = min(least, bandwidth[i]), max(most, bandwidth[i])
        if x[i] - x[start] > 2.0 * reach * least or most > growth * least or i - start >= longest:
            cuts[used] = i
            used += 1
            start, least, most = i, bandwidth[i], bandwidth[i]
    cuts[used] = x.size
    return cuts[: used + 1].copy()


@inlined
def pack(place: float, mass: float, moment: Floats, j: int, square: float, vector: Floats, powers: Floats) -> None:
    """Write the powers of one row's place times its mass, its responses and its squared weight."""
    power = 1.0
    for k in range(powers.size):
        powers[k] = power
        power *= place
    for k in range(MASS):
        vector[k] = mass * powers[k]
    at = MASS
    for r in range(moment.shape[0]):
        value = moment[r, j]
        for k in range(RESPONSE):
            vector[at + k] = value * powers[k]
        at += RESPONSE
    if powers.size == SQUARE:
        for k in range(SQUARE):
            vector[at + k] = square * powers[k]


@lanes
def seed(
    x: Floats, mass: Floats, moment: Floats, square: Floats, begin: int, end: int, centre: float, scale: float,
    sign: float, state: Floats, vector: Floats, powers: Floats,
) -> None:  # fmt: skip
    """Add rows or nodes to the sums, in blocks."""
    part = np.empty(vector.size)
    for start in range(begin, end, FLUSH):
        part[:] = 0.0
        for j in range(start, min(start + FLUSH, end)):
            extra = square[j] if square.size else 0.0
            pack((x[j] - centre) * scale, mass[j], moment, j, extra, vector, powers)
            for k in range(part.size):
                part[k] += vector[k]
        for k in range(part.size):
            state[0, k] += part[k]
            state[1, k] += sign * part[k]


@lanes
def finish(
    both: Floats, odd: Floats, shift: Floats, ratio: Floats, responses: int, degree: int, squares: bool,
    fit: Floats, leverage: Floats, norm: Floats, sound: Flags, even: Floats, odds: Floats,
) -> None:  # fmt: skip
    """Turn the sums of LANES points into fits, own weights and squared norms."""
    move_moments(both, even, 11, shift, ratio)
    move_moments(odd, odds, 14, shift, ratio)
    solution = np.empty((3, LANES))
    sums = np.empty((5, LANES))
    for k in range(5):
        for lane in range(LANES):
            sums[k, lane] = even[k, lane] - 3.0 * odds[k + 3, lane] + 3.0 * even[k + 6, lane] - odds[k + 9, lane]
    for lane in range(LANES):
        solve_lane(sums, both[0, lane], degree, lane, solution, sound)
        leverage[lane] = solution[0, lane]
    even[:9] = 0.0
    odds[:12] = 0.0
    for k in range(3):
        for lane in range(LANES):
            value = solution[k, lane]
            even[k, lane] = value
            even[k + 6, lane] = 3.0 * value
            odds[k + 3, lane] = -3.0 * value
            odds[k + 9, lane] = -value
    move_polynomial(even, 9, shift, ratio)
    move_polynomial(odds, 12, shift, ratio)
    at = MASS
    for r in range(responses):
        for lane in range(LANES):
            fit[r, lane] = 0.0
        for k in range(9):
            for lane in range(LANES):
                fit[r, lane] += even[k, lane] * both[at + k, lane]
        for k in range(12):
            for lane in range(LANES):
                fit[r, lane] += odds[k, lane] * odd[at + k, lane]
        at += RESPONSE
    if squares:
        square_norm(even, odds, both[at:], odd[at:], norm)


@lanes
def move_moments(sums: Floats, out: Floats, powers: int, shift: Floats, ratio: Floats) -> None:
    """Power sums of (u + shift) * ratio from those of u, by Pascal's triangle."""
    for k in range(powers):
        for lane in range(LANES):
            out[k, lane] = sums[k, lane]
    for k in range(1, powers):
        for j in range(powers - 1, k - 1, -1):
            for lane in range(LANES):
                out[j, lane] += shift[lane] * out[j - 1, lane]
    factor = ratio.copy()
    for k in range(1, powers):
        for lane in range(LANES):
            out[k, lane] *= factor[lane]
            factor[lane] *= ratio[lane]


@lanes
def move_polynomial(out: Floats, powers: int, shift: Floats, ratio: Floats) -> None:
    """Coefficients in u of the polynomial whose coefficients in t = (u + shift) * ratio are given."""
    factor = ratio.copy()
    for k in range(1, powers):
        for lane in range(LANES):
            out[k, lane] *= factor[lane]
            factor[lane] *= ratio[lane]
    for k in range(powers - 1):
        for j in range(powers - 2, k - 1, -1):
            for lane in range(LANES):
                out[j, lane] += shift[lane] * out[j + 1, lane]


@inlined
def solve_lane(sums: Floats, mass: float, degree: int, lane: int, solution: Floats, sound: Flags) -> None:
    """Solve one local fit; it is sound if every pivot is large against the mass of the window."""
    s0, s1, s2 = sums[0, lane], sums[1, lane], sums[2, lane]
    mean = s1 / s0
    v1 = s2 - mean * s1
    tilt = (sums[3, lane] - mean * s2) / v1
    level = tilt * mean - s2 / s0
    v2 = sums[4, lane] - s2 * s2 / s0 - tilt * tilt * v1
    a, b, c = 1.0 / s0, 0.0, 0.0
    good = s0 > WEAK * mass
    if degree >= 1:
        a += mean * mean / v1
        b -= mean / v1
        good = good and v1 > WEAK * mass
    if degree >= 2:
        a += level * level / v2
        b -= level * tilt / v2
        c = level / v2
        good = good and v2 > WEAK * mass
    solution[0, lane], solution[1, lane], solution[2, lane] = a, b, c
    sound[lane] = good


@lanes
def square_norm(even: Floats, odds: Floats, both: Floats, odd: Floats, norm: Floats) -> None:
    """Sum of squared operator weights: (even + odds)^2 on the right, (even - odds)^2 on the left."""
    same, cross = np.zeros((SQUARE, LANES)), np.zeros((SQUARE, LANES))
    for j in range(9):
        for k in range(9):
            for lane in range(LANES):
                same[j + k, lane] += even[j, lane] * even[k, lane]
        for k in range(12):
            for lane in range(LANES):
                cross[j + k, lane] += 2.0 * even[j, lane] * odds[k, lane]
    for j in range(12):
        for k in range(12):
            for lane in range(LANES):
                same[j + k, lane] += odds[j, lane] * odds[k, lane]
    for lane in range(LANES):
        norm[lane] = 0.0
    for k in range(SQUARE):
        for lane in range(LANES):
            norm[lane] += same[k, lane] * both[k, lane] + cross[k, lane] * odd[k, lane]


@lanes
def change(
    x: Floats, mass: Floats, moment: Floats, square: Floats, j: int, centre: float, scale: float,
    plus: float, minus: float, new: Floats, vector: Floats, powers: Floats,
) -> None:  # fmt: skip
    """Add row j to the recent changes of both sums."""
    extra = square[j] if square.size else 0.0
    pack((x[j] - centre) * scale, mass[j], moment, j, extra, vector, powers)
    for k in range(vector.size):
        new[0, k] += plus * vector[k]
        new[1, k] += minus * vector[k]


@lanes
def follow(
    x: Floats, mass: Floats, moment: Floats, square: Floats, i: int, width: float, crossing: bool, centre: float,
    scale: float, edges: Integers, new: Floats, vector: Floats, powers: Floats,
) -> None:  # fmt: skip
    """Bring the window to point i: rows cross from right to left, enter and leave at both ends."""
    low, high, point = edges[0], edges[1], x[i]
    if crossing and high > i:
        change(x, mass, moment, square, i, centre, scale, 0.0, -2.0, new, vector, powers)
    elif crossing:
        change(x, mass, moment, square, i, centre, scale, 1.0, -1.0, new, vector, powers)
        high = i + 1
    while high < x.size and x[high] - point < width:
        change(x, mass, moment, square, high, centre, scale, 1.0, 1.0, new, vector, powers)
        high += 1
    while high > i + 1 and x[high - 1] - point >= width:
        high -= 1
        change(x, mass, moment, square, high, centre, scale, -1.0, -1.0, new, vector, powers)
    while low < i and point - x[low] >= width:
        change(x, mass, moment, square, low, centre, scale, -1.0, 1.0, new, vector, powers)
        low += 1
    while low > 0 and point - x[low - 1] < width:
        low -= 1
        change(x, mass, moment, square, low, centre, scale, 1.0, -1.0, new, vector, powers)
    edges[0], edges[1] = low, high


@lanes
def start_window(
    x: Floats, mass: Floats, moment: Floats, square: Floats, size: int,
    node_x: Floats, node_mass: Floats, node_moment: Floats, node_square: Floats,
    begin: int, centre: float, scale: float, edges: Integers, state: Floats, vector: Floats, powers: Floats,
) -> None:  # fmt: skip
    """Seed the sums with the window of the chunk's first point, from cells where they fit."""
    slot = np.empty((SLOTS, 2), np.int64)
    for side in range(2):
        if side == 0:
            pieces(edges[0], begin + 1, begin + 1, size, node_x.shape[0], slot)
        else:
            pieces(begin + 1, begin + 1, edges[1], size, node_x.shape[0], slot)
        sign = 2.0 * side - 1.0
        for s in range(SLOTS):
            a, b = slot[s, 0], slot[s, 1]
            if a < b and s % 2 == 0:
                seed(x, mass, moment, square, a, b, centre, scale, sign, state, vector, powers)
            elif a < b:
                a, b = a * node_x.shape[1], b * node_x.shape[1]
                seed(
                    node_x.reshape(-1), node_mass, node_moment, node_square, a, b, centre, scale, sign, state,
                    vector, powers,
                )  # fmt: skip


@lanes
def sweep(
    x: Floats, mass: Floats, moment: Floats, square: Floats, size: int,
    node_x: Floats, node_mass: Floats, node_moment: Floats, node_square: Floats,
    bandwidth: Floats, degree: int, begin: int, end: int,
    fit: Floats, leverage: Floats, norm: Floats, sound: Flags,
) -> None:  # fmt: skip
    """Fit at the values begin..end, one chunk: `fit` (responses, values), own weight per unit of weight, squared norm.

    `square` is empty unless the norms are wanted; then the nodes must be exact to degree 22.
    """
    responses, squares = moment.shape[0], square.size > 0
    length = MASS + RESPONSE * responses + (SQUARE if squares else 0)
    powers, vector = np.empty(SQUARE if squares else MASS), np.empty(length)
    state, new, lane_state = np.zeros((2, length)), np.zeros((2, length)), np.zeros((2, length, LANES))
    shift, ratio, lane_sound = np.zeros(LANES), np.ones(LANES), np.zeros(LANES, np.bool_)
    lane_fit, lane_leverage, lane_norm = np.empty((responses, LANES)), np.empty(LANES), np.empty(LANES)
    even, odds = np.empty((11, LANES)), np.empty((14, LANES))
    centre, scale, edges = 0.5 * (x[begin] + x[end - 1]), 1.0 / bandwidth[begin], np.empty(2, np.int64)
    edges[0] = min(np.searchsorted(x, x[begin] - bandwidth[begin]), begin)
    edges[1] = max(np.searchsorted(x, x[begin] + bandwidth[begin]), begin + 1)
    start_window(
        x, mass, moment, square, size, node_x, node_mass, node_moment, node_square,
        begin, centre, scale, edges, state, vector, powers,
    )  # fmt: skip
    lane = 0
    for i in range(begin, end):
        follow(x, mass, moment, square, i, bandwidth[i], i > begin, centre, scale, edges, new, vector, powers)
        for k in range(length):
            lane_state[0, k, lane] = state[0, k] + new[0, k]
            lane_state[1, k, lane] = state[1, k] + new[1, k]
        shift[lane], ratio[lane] = (centre - x[i]) * scale, 1.0 / (scale * bandwidth[i])
        if (i - begin) % FLUSH == FLUSH - 1:
            state += new
            new[:] = 0.0
        lane += 1
        if lane == LANES or i == end - 1:
            finish(
                lane_state[0], lane_state[1], shift, ratio, responses, degree, squares,
                lane_fit, lane_leverage, lane_norm, lane_sound, even, odds,
            )  # fmt: skip
            at = i + 1 - lane
            fit[:, at : i + 1] = lane_fit[:, :lane]
            leverage[at : i + 1] = lane_leverage[:lane]
            sound[at : i + 1] = lane_sound[:lane]
            if squares:
                norm[at : i + 1] = lane_norm[:lane]
            lane = 0
