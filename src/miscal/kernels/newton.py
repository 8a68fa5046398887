"""One pass of a logistic fit: log loss, gradient and Hessian in a single walk over the rows.

The rows are taken in runs short enough to stay in the nearest cache; the features of a run are computed there, used
and forgotten, so that no array of rows times features ever exists. The model is

    P(y = 1) = 1 / (1 + exp(-x)),   x = theta_0 + sum_j theta_j (f_j - centre_j) scale_j.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.newton_math import exponentials, fused, logarithms, reduction

RUN = 512  # rows; with ten features a run is 40 kB

PROBABILITY, LOGIT, BETA = 0, 1, 2  # how the features are made from a score


@fused
def score_features(score, kind, low, high, features):
    """Fill one row of `features` for each feature of a score held within [low, high].

    probability: p;  logit: ln p - ln(1 - p);  beta: ln p and -ln(1 - p).
    """
    size = score.size
    if kind == 0:
        for i in range(size):
            features[0, i] = min(max(score[i], low), high)
        return
    rest = features[1]
    scratch = features[2]  # not in place: a loop over arrays that overlap is not turned into vector instructions
    for i in range(size):
        scratch[i] = 1.0 - min(max(score[i], low), high)
    logarithms(score, low, high, features[0])
    logarithms(scratch[:size], 0.0, 1.0, rest)
    if kind == 1:
        for i in range(size):
            features[0, i] -= rest[i]
    else:
        for i in range(size):
            rest[i] = -rest[i]


@fused
def exact_ends(score, clip, out):
    """Move scores of exactly 0 and 1 inwards by `clip`, and no other."""
    for i in range(score.size):
        p = score[i]
        out[i] = clip if p <= 0.0 else (1.0 - clip if p >= 1.0 else p)


@fused
def standardise(features, count, size, centre, scale):
    """Centre and scale the features in place, one row of them at a time."""
    for j in range(count):
        row = features[j]
        c = centre[j]
        s = scale[j]
        for i in range(size):
            row[i] = (row[i] - c) * s


@fused
def linear(features, count, size, theta, x):
    """Put theta_0 + sum_j theta_j features_j in x."""
    for i in range(size):
        x[i] = theta[0]
    for j in range(count):
        row = features[j]
        t = theta[j + 1]
        for i in range(size):
            x[i] += t * row[i]


@fused
def residuals(x, outcome, weight, e, d, h, loss):
    """For each row: d = w (P - y), h = w P (1 - P), loss = w (max(x, 0) - y x); e is ln(1 + exp(-|x|)) at the end.

    Several short loops, because the compiler gives up on loops over many arrays that might overlap.
    """
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
    logarithms(loss[:size], 1.0, 2.0, e)
    for i in range(size):
        loss[i] = (max(x[i], 0.0) - outcome[i] * x[i]) + e[i]
    for i in range(size):
        d[i] = (d[i] - outcome[i]) * weight[i]
    for i in range(size):
        h[i] *= weight[i]


@reduction
def total(a, size):
    """Sum of a."""
    s = 0.0
    for i in range(size):
        s += a[i]
    return s


@reduction
def product(a, b, size):
    """Sum of a b."""
    s = 0.0
    for i in range(size):
        s += a[i] * b[i]
    return s


@reduction
def triple(a, b, c, size):
    """Sum of a b c."""
    s = 0.0
    for i in range(size):
        s += a[i] * b[i] * c[i]
    return s


@fused
def accumulate(
    features,
    count,
    size,
    work,
    outcome,
    weight,
    theta,
    out,
):
    """Add the run's loss to out[0, 0], gradient to out[1, :] and Hessian (upper half) to out[2:, :]."""
    x, e, d, h, loss = work[0], work[1], work[2], work[3], work[4]
    linear(features, count, size, theta, x)
    residuals(x[:size], outcome, weight, e, d, h, loss)
    out[0, 0] += product(weight, loss, size)
    out[1, 0] += total(d, size)
    out[2, 0] += total(h, size)
    for j in range(count):
        row = features[j]
        out[1, j + 1] += product(d, row, size)
        out[2, j + 1] += product(h, row, size)
        for k in range(j, count):
            out[j + 3, k + 1] += triple(h, row, features[k], size)


@fused
def score_pass(
    score,
    outcome,
    weight,
    kind,
    low,
    high,
    clip,
    centre,
    scale,
    theta,
):
    """Loss, gradient and Hessian for features of the score alone; an empty `weight` means ones."""
    count = theta.size - 1
    out = np.zeros((count + 3, count + 1))
    features = np.empty((3, RUN))
    work = np.empty((5, RUN))
    moved = np.empty(RUN)
    ones = np.ones(RUN)
    for start in range(0, score.size, RUN):
        size = min(RUN, score.size - start)
        run = score[start : start + size]
        if clip > 0.0:
            exact_ends(run, clip, moved)
            run = moved[:size]
        score_features(run, kind, low, high, features)
        standardise(features, count, size, centre, scale)
        w = weight[start : start + size] if weight.size else ones[:size]
        accumulate(features, count, size, work, outcome[start : start + size], w, theta, out)
    return out


@fused
def score_moments(score, weight, kind, low, high, clip, count, shift):
    """Sums of w, w (f - shift), w (f - shift)^2 for each feature of a score."""
    out = np.zeros((3, count))
    features = np.empty((3, RUN))
    moved = np.empty(RUN)
    ones = np.ones(RUN)
    for start in range(0, score.size, RUN):
        size = min(RUN, score.size - start)
        run = score[start : start + size]
        if clip > 0.0:
            exact_ends(run, clip, moved)
            run = moved[:size]
        score_features(run, kind, low, high, features)
        w = weight[start : start + size] if weight.size else ones[:size]
        for j in range(count):
            row = features[j]
            for i in range(size):
                v = row[i] - shift[j]
                out[0, j] += w[i]
                out[1, j] += w[i] * v
                out[2, j] += w[i] * v * v
    return out


@fused
def score_map(
    score,
    kind,
    low,
    high,
    clip,
    coefficients,
    intercept,
    out,
):
    """out[:, 1] = 1 / (1 + exp(-(intercept + sum_j coefficient_j f_j))), out[:, 0] its complement."""
    count = coefficients.size
    features = np.empty((3, RUN))
    moved = np.empty(RUN)
    x = np.empty(RUN)
    e = np.empty(RUN)
    theta = np.empty(count + 1)
    theta[0] = intercept
    theta[1:] = coefficients
    for start in range(0, score.size, RUN):
        size = min(RUN, score.size - start)
        run = score[start : start + size]
        if clip > 0.0:
            exact_ends(run, clip, moved)
            run = moved[:size]
        score_features(run, kind, low, high, features)
        linear(features, count, size, theta, x)
        logistic_pairs(x[:size], features[2], e, out[start : start + size])


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
