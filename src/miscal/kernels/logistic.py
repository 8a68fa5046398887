"""Logistic fits in one walk over the rows: log loss, gradient and Hessian; and the maps that come of them.

Rows are taken in runs short enough to stay in the nearest cache; the features of a run are computed there, used and
forgotten, so that no array of rows times features ever exists. Loops are short and many, because compilers give up on
loops over many arrays that might overlap. The model is

    P(y = 1) = 1 / (1 + exp(-x)),   x = theta_0 + sum_j theta_j (f_j - centre_j) scale_j.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.arithmetic import held_exponential, logarithm
from miscal.kernels.jit import fused, regrouped

RUN = 512  # rows; with ten features a run is 40 kB

PROBABILITY, LOGIT, BETA = 0, 1, 2  # how the features are made from a score


@fused
def exponentials(x, out):
    """Put exp(x) in out, for x <= 700."""
    for i in range(x.size):
        out[i] = held_exponential(x[i])


@fused
def logarithms(x, out):
    """Put ln(x) of normal positive numbers in out."""
    for i in range(x.size):
        out[i] = logarithm(x[i])


@fused
def score_features(score, kind, low, high, clip, features):
    """Fill one row of `features` for each feature of a score held within [low, high], low > 0; a third row is scratch.

    probability: p;  logit: ln p - ln(1 - p);  beta: ln p and -ln(1 - p). Scores of exactly 0 and 1, and no other, are
    first moved inwards by `clip`.
    """
    size = score.size
    first, second, held = features[0], features[1], features[2]
    for i in range(size):
        p = score[i]
        if clip > 0.0:
            p = clip if p <= 0.0 else (1.0 - clip if p >= 1.0 else p)
        held[i] = min(max(p, low), high)
    if kind == PROBABILITY:
        for i in range(size):
            first[i] = held[i]
        return
    logarithms(held[:size], first)
    for i in range(size):
        held[i] = 1.0 - held[i]
    logarithms(held[:size], second)
    if kind == LOGIT:
        for i in range(size):
            first[i] -= second[i]
    else:
        for i in range(size):
            second[i] = -second[i]


@fused
def linear(features, theta, size, x):
    """Put sum_j theta_j features_j in x."""
    for i in range(size):
        x[i] = 0.0
    for j in range(theta.size):
        row = features[j]
        t = theta[j]
        for i in range(size):
            x[i] += t * row[i]


@fused
def residuals(x, outcome, weight, e, d, h, loss):
    """For each row: d = w (P - y), h = w P (1 - P), loss = max(x, 0) - y x + ln(1 + exp(-|x|)); e is scratch."""
    size = x.size
    for i in range(size):
        loss[i] = -abs(x[i])
    exponentials(loss[:size], e)
    for i in range(size):
        small = e[i]
        q = 1.0 / (1.0 + small)
        h[i] = small * q * q
        d[i] = q if x[i] >= 0.0 else small * q
    for i in range(size):
        loss[i] = 1.0 + e[i]
    logarithms(loss[:size], e)
    for i in range(size):
        loss[i] = (max(x[i], 0.0) - outcome[i] * x[i]) + e[i]
    for i in range(size):
        d[i] = (d[i] - outcome[i]) * weight[i]
    for i in range(size):
        h[i] *= weight[i]


@regrouped
def product(a, b, size):
    """Sum of a b."""
    s = 0.0
    for i in range(size):
        s += a[i] * b[i]
    return s


@fused
def score_pass(score, outcome, weight, kind, low, high, clip, centre, scale, theta):
    """Loss in [0, 0], gradient in [1] and Hessian (upper half) in [2:] of the result; an empty `weight` means ones."""
    size = theta.size
    out = np.zeros((size + 2, size))
    features = np.ones((4, RUN))  # the first is that of the intercept, the last is scratch
    work = np.empty((5, RUN))
    x, e, d, h, loss = work[0], work[1], work[2], work[3], work[4]
    ones = np.ones(RUN)
    for start in range(0, score.size, RUN):
        rows = min(RUN, score.size - start)
        w = weight[start : start + rows] if weight.size else ones[:rows]
        score_features(score[start : start + rows], kind, low, high, clip, features[1:])
        for j in range(1, size):
            row, c, s = features[j], centre[j - 1], scale[j - 1]
            for i in range(rows):
                row[i] = (row[i] - c) * s
        linear(features, theta, rows, x)
        residuals(x[:rows], outcome[start : start + rows], w, e, d, h, loss)
        out[0, 0] += product(w, loss, rows)
        for j in range(size):
            out[1, j] += product(d, features[j], rows)
            for i in range(rows):
                e[i] = h[i] * features[j, i]
            for k in range(j, size):
                out[j + 2, k] += product(e, features[k], rows)
    return out


@fused
def logistic_pairs(x, scratch, e, out):
    """Put (1 - P, P) in out, both ends accurate."""
    size = x.size
    for i in range(size):
        scratch[i] = -abs(x[i])
    exponentials(scratch[:size], e)
    for i in range(size):
        q = 1.0 / (1.0 + e[i])
        r = e[i] * q
        positive = x[i] >= 0.0
        out[i, 1] = q if positive else r
        out[i, 0] = r if positive else q


@fused
def score_map(score, kind, low, high, clip, theta, out):
    """out[:, 1] = 1 / (1 + exp(-(theta_0 + sum_j theta_j f_j))), out[:, 0] its complement."""
    features = np.ones((4, RUN))
    x = np.empty(RUN)
    e = np.empty(RUN)
    for start in range(0, score.size, RUN):
        rows = min(RUN, score.size - start)
        score_features(score[start : start + rows], kind, low, high, clip, features[1:])
        linear(features, theta, rows, x)
        logistic_pairs(x[:rows], features[3], e, out[start : start + rows])


# ------------------------------------------------------------------------------------------------- temperature scaling
@fused
def below_highest(block, low, logs):
    """Put ln(max(p, low)) less the largest of each row in logs; both (rows, K)."""
    rows, classes = block.shape
    held, flat = block.reshape(rows * classes), logs.reshape(rows * classes)
    kept = np.empty(rows * classes)
    for i in range(kept.size):
        kept[i] = max(held[i], low)
    logarithms(kept, flat)
    for i in range(rows):
        highest = logs[i, 0]
        for c in range(1, classes):
            highest = max(highest, logs[i, c])
        for c in range(classes):
            logs[i, c] -= highest


@fused
def powers(logs, power, out):
    """Put exp(power logs) in out."""
    flat = np.empty(logs.size)
    given = logs.reshape(logs.size)
    for i in range(flat.size):
        flat[i] = power * given[i]
    exponentials(flat, out.reshape(out.size))


@fused
def run_length(classes):
    """Rows in a run: few enough for the second cache."""
    return max(16, min(256, 32768 // classes))


@fused
def temperature_pass(probability, outcome, weight, low, power):
    """First and second derivative in the power b of the sum of log losses of P_k = p_k^b / sum_j p_j^b."""
    rows, classes = probability.shape
    run = run_length(classes)
    logs, e = np.empty((run, classes)), np.empty((run, classes))
    slope = curvature = 0.0
    for start in range(0, rows, run):
        size = min(run, rows - start)
        below_highest(probability[start : start + size], low, logs[:size])
        powers(logs[:size], power, e[:size])
        for i in range(size):
            zero = one = two = 0.0
            for c in range(classes):
                z, share = logs[i, c], e[i, c]
                zero += share
                one += share * z
                two += share * z * z
            mean = one / zero
            w = weight[start + i] if weight.size else 1.0
            slope += w * (mean - logs[i, outcome[start + i]])
            curvature += w * (two / zero - mean * mean)
    return slope, curvature


@fused
def temperature_map(probability, low, power, out):
    """Put p^power, rows divided by their sums, in out."""
    rows, classes = probability.shape
    run = run_length(classes)
    logs = np.empty((run, classes))
    for start in range(0, rows, run):
        part = out[start : start + run]
        size = part.shape[0]
        below_highest(probability[start : start + size], low, logs[:size])
        powers(logs[:size], power, part)
        for i in range(size):
            total = 0.0
            for c in range(classes):
                total += part[i, c]
            for c in range(classes):
                part[i, c] /= total


# ------------------------------------------------------------------------------------------------- line plots
@fused
def line_places(score, clip, knots, clamp, place, part):
    """The knot below each score's logit, and which part of the way to the next it has gone (< 0 or > 1 outside)."""
    last = knots.size - 2
    features = np.empty((3, RUN))
    for start in range(0, score.size, RUN):
        stop = min(start + RUN, score.size)
        score_features(score[start:stop], LOGIT, clip, 1.0 - clip, 0.0, features)
        for i in range(stop - start):
            x = features[0, i]
            low = 0
            high = last
            while low < high:
                middle = (low + high + 1) >> 1
                if knots[middle] <= x:
                    low = middle
                else:
                    high = middle - 1
            t = (x - knots[low]) / (knots[low + 1] - knots[low])
            place[start + i] = low
            part[start + i] = min(max(t, 0.0), 1.0) if clamp else t


@fused
def line_pass(place, part, outcome, weight, values, out):
    """Add loss to out[0, 0], and gradient, diagonal and side diagonal of the Hessian to rows 1 to 3 of `out`.

    The map is linear in the values at the knots, and a row touches two of them: the Hessian has three diagonals.
    weight : as many as rows, or none for ones. out : (4, knots).
    """
    work, ones = np.empty((5, RUN)), np.ones(RUN)
    x, e, d, h, loss = work[0], work[1], work[2], work[3], work[4]
    for start in range(0, place.size, RUN):
        size = min(RUN, place.size - start)
        k = place[start : start + size]
        t = part[start : start + size]
        w = weight[start : start + size] if weight.size else ones[:size]
        for i in range(size):
            below = values[k[i]]
            x[i] = below + t[i] * (values[k[i] + 1] - below)
        residuals(x[:size], outcome[start : start + size], w, e, d, h, loss)
        for i in range(size):
            out[0, 0] += w[i] * loss[i]
            at = k[i]
            u = 1.0 - t[i]
            out[1, at] += d[i] * u
            out[1, at + 1] += d[i] * t[i]
            out[2, at] += h[i] * u * u
            out[2, at + 1] += h[i] * t[i] * t[i]
            out[3, at] += h[i] * u * t[i]


@fused
def line_map(place, part, values, out):
    """Probabilities (n, 2) of the fitted map; between two knots never beyond their values."""
    x, scratch, e = np.empty(RUN), np.empty(RUN), np.empty(RUN)
    for start in range(0, place.size, RUN):
        size = min(RUN, place.size - start)
        for i in range(size):
            below, above = values[place[start + i]], values[place[start + i] + 1]
            t = part[start + i]
            x[i] = below + t * (above - below)
            if t >= 0.0 and t <= 1.0:
                x[i] = min(max(x[i], below), above)
        logistic_pairs(x[:size], scratch, e, out[start : start + size])


# ------------------------------------------------------------------------------------------------- forests
@fused
def add_trees(features, column, threshold, left, right, value, roots, first, last, result):
    """Add the leaf values of trees first .. last - 1 to result (n,); features is (columns, n).

    At an inner node rows with features[column] <= threshold go left; a leaf has left -1.
    """
    for tree in range(first, last):
        root = roots[tree]
        for i in range(result.size):
            node = root
            while left[node] >= 0:
                node = left[node] if features[column[node], i] <= threshold[node] else right[node]
            result[i] += value[node]
