"""One pass of temperature scaling over (n, K) probabilities, and its map.

Runs of rows are turned on their side, so that the inner loops go along rows and become vector instructions.

    P_k = p_k^b / sum_j p_j^b,   b = 1 / temperature
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.newton_math import exponentials, fused, logarithms, reduction


@fused
def run_length(classes):
    """Rows in a run: few enough for the second cache."""
    return max(16, min(256, 32768 // classes))


@fused
def load_logs(block, size, low, raw, logs, highest):
    """Fill logs (K, run) with ln(max(p, low)) and `highest` with the largest of each row."""
    classes = block.shape[1]
    for i in range(size):
        for c in range(classes):
            raw[c, i] = block[i, c]
    for c in range(classes):
        logarithms(raw[c, :size], low, 1.0, logs[c])
    first = logs[0]
    for i in range(size):
        highest[i] = first[i]
    for c in range(1, classes):
        row = logs[c]
        for i in range(size):
            highest[i] = max(highest[i], row[i])


@fused
def powers(row, highest, power, size, difference, scratch, out):
    """Put exp(power (row - highest)) in out and row - highest in difference."""
    for i in range(size):
        difference[i] = row[i] - highest[i]
    for i in range(size):
        scratch[i] = power * difference[i]
    exponentials(scratch[:size], out)


@fused
def add_moments(e, difference, size, sums):
    """Add e, e z and e z^2 to three rows of sums."""
    zero, one, two = sums[0], sums[1], sums[2]
    for i in range(size):
        zero[i] += e[i]
    for i in range(size):
        one[i] += e[i] * difference[i]
    for i in range(size):
        two[i] += e[i] * difference[i] * difference[i]


@reduction
def close_run(sums, logs_of_sums, own, highest, weight, power, size, out):
    """Add loss, gradient and curvature in the power of a run."""
    zero, one, two = sums[0], sums[1], sums[2]
    loss = 0.0
    gradient = 0.0
    curvature = 0.0
    for i in range(size):
        loss += weight[i] * (logs_of_sums[i] - power * (own[i] - highest[i]))
    for i in range(size):
        mean = one[i] / zero[i]
        gradient += weight[i] * (mean - (own[i] - highest[i]))
        curvature += weight[i] * (two[i] / zero[i] - mean * mean)
    out[0] += loss
    out[1] += gradient
    out[2] += curvature


@fused
def temperature_pass(probability, outcome, weight, low, power):
    """Sum of log losses, its first and second derivative in the power; an empty `weight` means ones."""
    rows, classes = probability.shape
    run = run_length(classes)
    raw = np.empty((classes, run))
    logs = np.empty((classes, run))
    highest, own, scratch, difference, e = np.empty(run), np.empty(run), np.empty(run), np.empty(run), np.empty(run)
    sums = np.empty((3, run))
    ones = np.ones(run)
    out = np.zeros(3)
    for start in range(0, rows, run):
        size = min(run, rows - start)
        load_logs(probability[start : start + size], size, low, raw, logs, highest)
        for i in range(size):
            own[i] = logs[outcome[start + i], i]
        sums[:] = 0.0
        for c in range(classes):
            powers(logs[c], highest, power, size, difference, scratch, e)
            add_moments(e, difference, size, sums)
        logarithms(sums[0, :size], 1.0, 1e300, scratch)
        w = weight[start : start + size] if weight.size else ones[:size]
        close_run(sums, scratch, own, highest, w, power, size, out)
    return out


@fused
def temperature_map(probability, low, power, out):
    """Put p^power, rows divided by their sums, in out."""
    rows, classes = probability.shape
    run = run_length(classes)
    raw = np.empty((classes, run))
    logs = np.empty((classes, run))
    highest, scratch, difference, total = np.empty(run), np.empty(run), np.empty(run), np.empty(run)
    for start in range(0, rows, run):
        size = min(run, rows - start)
        load_logs(probability[start : start + size], size, low, raw, logs, highest)
        total[:] = 0.0
        for c in range(classes):
            powers(logs[c], highest, power, size, difference, scratch, raw[c])
            for i in range(size):
                total[i] += raw[c, i]
        for i in range(size):
            share = 1.0 / total[i]
            for c in range(classes):
                out[start + i, c] = raw[c, i] * share
