"""Every class against the rest in one pass over the rows: sums, draws of outcomes, the predicted label."""

from __future__ import annotations

import numpy as np

from miscal.kernels.buckets import edge_index, uniform_index
from miscal.kernels.draws_numba import mixed, uniform
from miscal.kernels.jit import kernel
from miscal.kernels.sums import LOW_BITS, LOW_MASK, SUB_BLOCK, grid

CHUNK = 4096  # probabilities whose bins are found at a time
FEW_CLASSES = 32  # up to this many, counting beats halving


@kernel
def class_means(probability, outcome, edges, equal_width, result):
    """Rows, events and sum of predictions for each class and bin of its probability.

    probability : (n, K); outcome : (n,) class numbers; edges : (bins + 1,), the same for all classes.
    result : (K, bins, 4) int64, added to: rows, events, high and low limb of the predictions.
    """
    classes = probability.shape[1]
    bins = edges.size - 1
    step = max(CHUNK // classes, 1)
    codes = np.empty(step * classes, np.int32)
    sums = np.zeros((classes * bins, 2), np.int64)
    pending = 0
    start = 0
    while start < outcome.size:
        stop = min(start + step, outcome.size, start + SUB_BLOCK - pending)
        part = probability[start:stop].reshape((stop - start) * classes)
        found = codes[: part.size]
        if equal_width:
            uniform_index(part, edges[0], edges[bins], edges, found)
        else:
            edge_index(part, edges, found)
        for i in range(stop - start):
            row = np.uint64(i * classes)
            for k in range(classes):
                place = row + np.uint64(k)
                cell = np.uint64(k * bins + found[place])
                sums[cell, 0] += 1
                sums[cell, 1] += grid(part[place])
            own = np.int64(outcome[start + i])
            result[own, found[i * classes + own], 1] += 1
        pending += stop - start
        if pending == SUB_BLOCK or stop == outcome.size:
            pending = 0
            for k in range(classes):
                for code in range(bins):
                    cell = k * bins + code
                    result[k, code, 0] += sums[cell, 0]
                    result[k, code, 2] += sums[cell, 1] >> LOW_BITS
                    result[k, code, 3] += sums[cell, 1] & LOW_MASK
                    sums[cell, 0] = 0
                    sums[cell, 1] = 0
        start = stop


@kernel
def _cell(value, edges):
    """Number of edges strictly below a value; missing edges at the end are infinite."""
    found = 0
    for m in range(edges.size):
        found += value > edges[m]
    return found


@kernel
def draw_classes(probability, weight, codes, edges, first, seed, out):
    """Fill out[draw, class, cell] with Σ w over rows whose drawn class is that one: one categorical draw a row.

    probability : (n, K); weight : (n,), or empty when all are 1. The cell is codes[row], or where `codes` is empty that
    of the class's probability between the interior edges[class], (K, bins - 1) padded with infinity.
    """
    draws, classes = out.shape[0], probability.shape[1]
    seeds = np.empty(draws, np.uint64)
    for draw in range(draws):
        seeds[draw] = mixed(seed, np.uint64(first + draw))
    reached = np.empty(classes)
    for row in range(probability.shape[0]):
        total = 0.0
        for k in range(classes):
            total += probability[row, k]
            reached[k] = total
        # Rows sum to 1 within 1e-4: the draw is from their shares.
        for draw in range(draws):
            level = uniform(seeds[draw], np.uint64(row)) * total
            label = 0
            if classes <= FEW_CLASSES:
                for k in range(classes - 1):
                    label += reached[k] <= level
            else:
                high = classes - 1
                while label < high:
                    middle = (label + high) >> 1
                    if reached[middle] <= level:
                        label = middle + 1
                    else:
                        high = middle
            cell = codes[row] if codes.size else _cell(probability[row, label], edges[label])
            out[draw, label, cell] += weight[row] if weight.size else 1.0


@kernel
def class_residuals(probability, outcome, weight, codes, edges, group, out):
    """Add w·(outcome - prediction) of every class to out[group, class, cell]; arguments as in `draw_classes`."""
    for row in range(probability.shape[0]):
        times = weight[row] if weight.size else 1.0
        for k in range(probability.shape[1]):
            cell = codes[row] if codes.size else _cell(probability[row, k], edges[k])
            out[group[row], k, cell] += times * ((outcome[row] == k) - probability[row, k])


@kernel
def top_binary(probability, outcome, confidence, correct):
    """Two classes, P(class 1) given: the label is 1 iff p > 1/2."""
    for i in range(probability.size):
        p = probability[i]
        label = p > 0.5
        confidence[i] = p if label else 1.0 - p
        correct[i] = label == (outcome[i] != 0)


@kernel
def top_label(probability, outcome, confidence, correct):
    """Several classes: the label is the first of the largest probabilities."""
    for i in range(probability.shape[0]):
        best = probability[i, 0]
        label = 0
        for k in range(1, probability.shape[1]):
            if probability[i, k] > best:
                best = probability[i, k]
                label = k
        confidence[i] = best
        correct[i] = label == outcome[i]
