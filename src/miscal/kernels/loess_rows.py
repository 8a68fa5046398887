"""Passes over rows for local regression: pooling ties, residuals, clusters.

Rows come in the order of x: `order` lists the rows, `starts` where each distinct value begins. `weight`, `count` and
`robust` may be empty: every row then counts 1. A row of count c stands for c rows of the same weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miscal.kernels.jit import inlined
from miscal.kernels.loess_cells import lanes

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FLUSH = 1024  # long runs of ties are summed in blocks
REPRODUCED = 1e-7  # 1 - l_ii below this: the fit reproduces the row, whose residual then says nothing


@lanes
def value_starts(ordered: Floats) -> Integers:
    """Where each distinct value of a sorted array begins, and its length at the end."""
    starts = np.empty(ordered.size + 1, np.int64)
    used = 0
    for i in range(ordered.size):
        if i == 0 or ordered[i] != ordered[i - 1]:
            starts[used] = i
            used += 1
    starts[used] = ordered.size
    return starts[: used + 1].copy()


@lanes
def integer_order(x: Floats, low: float, width: int) -> Integers:
    """Stable order of whole numbers that lie in low..low + width, by counting."""
    place = np.zeros(width + 1, np.int64)
    for i in range(x.size):
        place[int(x[i] - low) + 1] += 1
    for k in range(width):
        place[k + 1] += place[k]
    order = np.empty(x.size, np.int64)
    for i in range(x.size):
        k = int(x[i] - low)
        order[place[k]] = i
        place[k] += 1
    return order


@inlined
def factor(i: int, weight: Floats, robust: Floats) -> float:
    """Weight of one row in the local fits."""
    value = weight[i] if weight.size else 1.0
    if robust.size:
        value *= robust[i]
    return value


@lanes
def pool(
    order: Integers, starts: Integers, y: Floats, middle: Floats, weight: Floats, count: Integers, robust: Floats,
    begin: int, end: int, sums: Floats, square: Floats,
) -> None:  # fmt: skip
    """For the values begin..end sum weights and weighted centred responses (rows of `sums`) and squared weights."""
    responses = y.shape[1]
    part = np.empty(responses + 2)
    for d in range(begin, end):
        sums[:, d] = 0.0
        square[d] = 0.0
        for start in range(starts[d], starts[d + 1], FLUSH):
            part[:] = 0.0
            for r in range(start, min(start + FLUSH, starts[d + 1])):
                i = order[r]
                own = factor(i, weight, robust)
                many = count[i] if count.size else 1
                part[0] += own * many
                part[responses + 1] += own * own * many
                for k in range(responses):
                    part[k + 1] += own * many * (y[i, k] - middle[k])
            for k in range(responses + 1):
                sums[k, d] += part[k]
            square[d] += part[responses + 1]


@lanes
def residual_squares(
    order: Integers, starts: Integers, y: Floats, middle: Floats, fitted: Floats, leverage: Floats,
    weight: Floats, count: Integers, robust: Floats, power: int, begin: int, end: int, values: Floats, plain: Floats,
    fourth: Floats,
) -> None:  # fmt: skip
    """Sum per value v = (weight * residual)^2 / (1 - l_ii)^power, sampling weight * residual^2, and v^2."""
    responses = y.shape[1]
    part = np.empty((3, responses))
    for d in range(begin, end):
        values[:, d] = 0.0
        plain[:, d] = 0.0
        fourth[:, d] = 0.0
        for start in range(starts[d], starts[d + 1], FLUSH):
            part[:] = 0.0
            for r in range(start, min(start + FLUSH, starts[d + 1])):
                i = order[r]
                own = factor(i, weight, robust)
                many = count[i] if count.size else 1
                base = (weight[i] if weight.size else 1.0) * many
                left = 1.0 - own * leverage[d]
                keep = 1.0
                if left < REPRODUCED:
                    left, keep = 1.0, 0.0
                scale = own * own
                for _ in range(power):
                    scale /= left
                for k in range(responses):
                    residual = y[i, k] - middle[k] - fitted[k, d]
                    part[1, k] += base * residual * residual
                    residual = y[i, k] - middle[k] - keep * fitted[k, d]
                    term = scale * residual * residual
                    part[0, k] += many * term
                    part[2, k] += many * term * term
            for k in range(responses):
                values[k, d] += part[0, k]
                plain[k, d] += part[1, k]
                fourth[k, d] += part[2, k]


@lanes
def single_squares(
    sums: Floats, square: Floats, fitted: Floats, leverage: Floats, power: int, begin: int, end: int,
    values: Floats, plain: Floats, fourth: Floats,
) -> None:  # fmt: skip
    """As `residual_squares` where every value is one row: weight and response are read back from the sums."""
    for k in range(fitted.shape[0]):
        for d in range(begin, end):
            mass, own = sums[0, d], square[d] / sums[0, d]
            left = 1.0 - own * leverage[d]
            residual = sums[k + 1, d] / mass - fitted[k, d]
            plain[k, d] = mass * residual * residual
            if left < REPRODUCED:
                left, residual = 1.0, sums[k + 1, d] / mass
            divisor = 1.0
            for _ in range(power):
                divisor *= left
            values[k, d] = own * mass * residual * residual / divisor
            fourth[k, d] = values[k, d] * values[k, d] * own / mass


@lanes
def row_values(order: Integers, starts: Integers, per_value: Floats, out: Floats) -> None:
    """Spread what belongs to a distinct value over its rows, in the rows' own order."""
    for d in range(starts.size - 1):
        for r in range(starts[d], starts[d + 1]):
            out[order[r]] = per_value[d]


@lanes
def row_scores(
    order: Integers, starts: Integers, y: Floats, middle: Floats, fitted: Floats, leverage: Floats,
    weight: Floats, count: Integers, robust: Floats, power: float, scores: Floats, value: Integers,
) -> None:  # fmt: skip
    """Per row weight * residual / (1 - l_ii)^power (all of a row's count together), and its distinct value's number."""
    for d in range(starts.size - 1):
        for r in range(starts[d], starts[d + 1]):
            i = order[r]
            own = factor(i, weight, robust)
            many = count[i] if count.size else 1
            left = 1.0 - own * leverage[d]
            keep = 1.0
            if left < REPRODUCED:
                left, keep = 1.0, 0.0
            value[i] = d
            for k in range(y.shape[1]):
                scores[i, k] = many * own / left**power * (y[i, k] - middle[k] - keep * fitted[k, d])


@lanes
def cluster_points(
    x: Floats, scores: Floats, value: Integers, rows: Integers, bounds: Integers, points: Floats, first: Integers,
    last: Integers, inverse: Floats, solution: Floats, centre: Floats, begin: int, end: int, out: Floats,
    fourth: Floats,
) -> None:  # fmt: skip
    """At points begin..end sum over clusters the square and the fourth power of sum of operator weight * score."""
    responses = scores.shape[1]
    total = np.empty(responses)
    weights = np.empty(x.size)
    for p in range(begin, end):
        low, high, a, b, c = first[p], last[p], solution[p, 0], solution[p, 1], solution[p, 2]
        weights[:] = 0.0
        for d in range(low, high):
            t = (x[d] - points[p]) * inverse[p]
            v = 1.0 - abs(t) * t * t
            t -= centre[p]
            weights[d] = v * v * v * (a + t * (b + t * c))
        out[p, :] = 0.0
        fourth[p, :] = 0.0
        for g in range(bounds.size - 1):
            total[:] = 0.0
            for r in range(bounds[g], bounds[g + 1]):
                i = rows[r]
                for k in range(responses):
                    total[k] += weights[value[i]] * scores[i, k]
            for k in range(responses):
                square = total[k] * total[k]
                out[p, k] += square
                fourth[p, k] += square * square


@lanes
def operator(
    x: Floats, low: Floats, high: Floats, points: Floats, inverse: Floats, solution: Floats, centre: Floats, out: Floats
) -> None:
    """Operator weight of each point (row) at each x (column), 0 outside the window low..high."""
    for p in range(points.size):
        for d in range(x.size):
            out[p, d] = 0.0
            t = (x[d] - points[p]) * inverse[p]
            if low[p] <= x[d] <= high[p]:
                v = 1.0 - abs(t) * t * t
                t -= centre[p]
                out[p, d] = v * v * v * (solution[p, 0] + t * (solution[p, 1] + t * solution[p, 2]))


@lanes
def cluster_products(
    scores: Floats, block: Integers, value: Integers, rows: Integers, bounds: Integers, k: int, out: Floats
) -> None:
    """Sum over clusters the outer product of their scores of response k, pooled in blocks of distinct values."""
    seen, total = np.empty(out.shape[0], np.int64), np.zeros(out.shape[0])
    flag = np.zeros(out.shape[0], np.bool_)
    for g in range(bounds.size - 1):
        used = 0
        for r in range(bounds[g], bounds[g + 1]):
            i = rows[r]
            at = block[value[i]]
            if not flag[at]:
                flag[at] = True
                seen[used] = at
                used += 1
            total[at] += scores[i, k]
        for a in range(used):
            for b in range(used):
                out[seen[a], seen[b]] += total[seen[a]] * total[seen[b]]
        for a in range(used):
            total[seen[a]] = 0.0
            flag[seen[a]] = False
