"""Temperature scaling: probabilities to a power, rows divided by their sums, and what the power's log loss needs.

Rows are taken in runs short enough to stay in the second cache.
"""

import cython
import numpy as np
from cython.cimports.miscal.kernels.arithmetic import held_exponential, logarithm
from cython.cimports.miscal.kernels.kinds import Floats, Index, Integers, Numbers, NumbersOut, Table, TableOut


@cython.cfunc
@cython.nogil
def below_highest(block: Numbers, rows: Index, classes: Index, low: cython.double, logs: NumbersOut) -> cython.void:
    """Put ln(max(p, low)) less the largest of each row in logs; both (rows, K)."""
    for i in range(rows * classes):
        logs[i] = logarithm(block[i] if block[i] > low else low)
    for i in range(rows):
        row = logs + i * classes
        highest: cython.double = row[0]
        for c in range(1, classes):
            highest = row[c] if row[c] > highest else highest
        for c in range(classes):
            row[c] -= highest


@cython.cfunc
@cython.nogil
def powers(logs: Numbers, size: Index, power: cython.double, out: NumbersOut) -> cython.void:
    """Put exp(power logs) in out."""
    for i in range(size):
        out[i] = held_exponential(power * logs[i])


@cython.cfunc
@cython.nogil
def run_length(classes: Index) -> Index:
    """Rows in a run: few enough for the second cache."""
    return max(16, min(256, 32768 // classes))


def temperature_pass(
    probability: Table, outcome: Integers, weight: Floats, low: cython.double, power: cython.double
) -> tuple:
    """First and second derivative in the power b of the sum of log losses of P_k = p_k^b / sum_j p_j^b."""
    rows: Index = probability.shape[0]
    classes: Index = probability.shape[1]
    run: Index = run_length(classes)
    logs: TableOut = np.empty((run, classes))
    e: TableOut = np.empty((run, classes))
    slope: cython.double = 0.0
    curvature: cython.double = 0.0
    start: Index = 0
    with cython.nogil:
        while start < rows:
            size: Index = min(run, rows - start)
            below_highest(cython.address(probability[start, 0]), size, classes, low, cython.address(logs[0, 0]))
            powers(cython.address(logs[0, 0]), size * classes, power, cython.address(e[0, 0]))
            for i in range(size):
                zero, one, two = 0.0, 0.0, 0.0
                for c in range(classes):
                    z: cython.double = logs[i, c]
                    share: cython.double = e[i, c]
                    zero += share
                    one += share * z
                    two += share * z * z
                mean: cython.double = one / zero
                w: cython.double = weight[start + i] if weight.shape[0] else 1.0
                slope += w * (mean - logs[i, outcome[start + i]])
                curvature += w * (two / zero - mean * mean)
            start += run
    return slope, curvature


def temperature_map(probability: Table, low: cython.double, power: cython.double, out: TableOut) -> None:
    """Put p^power, rows divided by their sums, in out."""
    classes: Index = probability.shape[1]
    run: Index = run_length(classes)
    logs: TableOut = np.empty((run, classes))
    start: Index = 0
    with cython.nogil:
        while start < probability.shape[0]:
            size: Index = min(run, probability.shape[0] - start)
            below_highest(cython.address(probability[start, 0]), size, classes, low, cython.address(logs[0, 0]))
            powers(cython.address(logs[0, 0]), size * classes, power, cython.address(out[start, 0]))
            for i in range(start, start + size):
                total: cython.double = 0.0
                for c in range(classes):
                    total += out[i, c]
                for c in range(classes):
                    out[i, c] /= total
            start += run
