"""Logistic fits in one walk over the rows: log loss, gradient and Hessian.

Rows are taken in runs short enough to stay in the nearest cache; the features of a run are computed there, used and
forgotten, so that no array of rows times features ever exists. Loops are short and many, because compilers give up on
loops over many arrays that might overlap. The model is

    P(y = 1) = 1 / (1 + exp(-x)),   x = theta_0 + sum_j theta_j (f_j - centre_j) scale_j.

Outcomes are uint8 or float64; weights are as many as rows, or none for ones.
"""

import cython
import numpy as np
from cython import address, cfunc, declare, double, nogil, void
from cython.cimports.libc.math import fabs
from cython.cimports.miscal.kernels.arithmetic import held_exponential, logarithm
from cython.cimports.miscal.kernels.kinds import (
    Floats,
    FloatsOut,
    Index,
    Integers,
    Numbers,
    NumbersOut,
    Table,
    TableOut,
)
from cython.cimports.miscal.kernels.nearness import weighted_sum

PROBABILITY, LOGIT, BETA = 0, 1, 2  # how the features are made from a score
RUN = declare(Index, 512)  # rows; with ten features a run is 40 kB


@cfunc
@nogil
def make_features(
    score: Numbers, size: Index, kind: cython.int, low: double, high: double, features: NumbersOut
) -> void:
    """Fill the features of a run of scores held within [low, high], from the second on; the last is scratch.

    probability: p;  logit: ln(p / (1 - p));  beta: ln p and -ln(1 - p).
    """
    first, second, held = features + 512, features + 1024, features + 1536
    for i in range(size):
        p = score[i]
        p = p if p > low else low
        held[i] = p if p < high else high
    if kind == 0:  # PROBABILITY
        for i in range(size):
            first[i] = held[i]
        return
    if kind == 1:  # LOGIT
        for i in range(size):
            first[i] = logarithm(held[i] / (1.0 - held[i]))
    else:
        for i in range(size):
            first[i] = logarithm(held[i])
        for i in range(size):
            second[i] = -logarithm(1.0 - held[i])


@cfunc
@nogil
def add_residuals(
    x: Numbers, outcome: Numbers, weight: Numbers, size: Index, e: NumbersOut, d: NumbersOut, h: NumbersOut,
    loss: NumbersOut,
) -> void:  # fmt: skip
    """For each row: d = w (P - y), h = w P (1 - P), loss = max(x, 0) - y x + ln(1 + exp(-|x|)); e is scratch."""
    for i in range(size):
        e[i] = held_exponential(-fabs(x[i]))
    for i in range(size):
        q = 1.0 / (1.0 + e[i])
        h[i] = e[i] * q * q
        d[i] = q if x[i] >= 0.0 else e[i] * q
    for i in range(size):
        e[i] = logarithm(1.0 + e[i])
    for i in range(size):
        loss[i] = ((x[i] if x[i] > 0.0 else 0.0) - outcome[i] * x[i]) + e[i]
    for i in range(size):
        d[i] = (d[i] - outcome[i]) * weight[i]
    for i in range(size):
        h[i] *= weight[i]


@cfunc
@nogil
def linear(features: NumbersOut, theta: Floats, size: Index, x: NumbersOut) -> void:
    """Put sum_j theta_j features_j in x; the first feature is 1, each has room for RUN rows."""
    for i in range(size):
        x[i] = theta[0]
    for j in range(1, theta.shape[0]):
        row = features + j * 512
        t = theta[j]
        for i in range(size):
            x[i] += t * row[i]


def score_pass(
    score: Floats, outcome: Floats, weight: Floats, kind: cython.int, low: double, high: double,
    centre: Floats, scale: Floats, theta: Floats,
):  # fmt: skip
    """Loss in [0, 0], gradient in [1] and Hessian in [2:] of the result; an empty `weight` means ones."""
    size = theta.shape[0]
    result = np.zeros((size + 2, size))
    out: TableOut = result
    room = declare(double[3072])  # the weights of a run, and what a pass makes of them
    w, x, e, d, h, cost = room, room + 512, room + 1024, room + 1536, room + 2048, room + 2560
    # Four of RUN rows, the first the intercept's, the last scratch.
    features = declare(double[2048])
    start = 0
    with nogil:
        for i in range(RUN):
            features[i] = 1.0
        while start < score.shape[0]:
            rows = min(RUN, score.shape[0] - start)
            for i in range(rows):
                w[i] = weight[start + i] if weight.shape[0] else 1.0
            make_features(address(score[start]), rows, kind, low, high, features)
            for j in range(1, size):
                c = centre[j - 1]
                s = scale[j - 1]
                for i in range(rows):
                    features[j * 512 + i] = (features[j * 512 + i] - c) * s
            linear(features, theta, rows, x)
            add_residuals(x, address(outcome[start]), w, rows, e, d, h, cost)
            out[0, 0] += weighted_sum(w, cost, rows)
            for j in range(size):
                out[1, j] += weighted_sum(d, features + j * 512, rows)
                for i in range(rows):
                    e[i] = h[i] * features[j * 512 + i]
                for k in range(j, size):
                    out[j + 2, k] += weighted_sum(e, features + k * 512, rows)
            start += RUN
    result[2:] += np.triu(result[2:], 1).T
    return result


# ------------------------------------------------------------------------------------------------- forests
def add_trees(
    features: Table, column: Integers, threshold: Floats, left: Integers, right: Integers, value: Floats,
    roots: Integers, first: Index, last: Index, result: FloatsOut,
) -> None:  # fmt: skip
    """Add the leaf values of trees first .. last - 1 to result (n,); features is (columns, n).

    At an inner node rows with features[column] <= threshold go left; a leaf has left -1.
    """
    with nogil:
        for tree in range(first, last):
            for i in range(result.shape[0]):
                node: Index = roots[tree]
                while left[node] >= 0:
                    node = left[node] if features[column[node], i] <= threshold[node] else right[node]
                result[i] += value[node]
