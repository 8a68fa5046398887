"""Every class against the rest in one pass over the rows: sums, draws of outcomes, the predicted label."""

import numpy as np
from cython import address, bint, double, nogil
from cython.cimports.miscal.kernels.arithmetic import add_limbs, grid, mixed, uniform
from cython.cimports.miscal.kernels.kinds import (
    CodesOut, CodeTable, CubeOut, FlagsOut, Floats, FloatsOut, Index, Integer, IntegerCubeOut, Integers,
    Outcomes, Strided, Table, Word, WordsOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.places import edge_index, uniform_index

CHUNK = 4096  # probabilities whose bins are found at a time
FEW_CLASSES = 256  # up to this many, counting beats halving


def class_means(
    probability: Table, outcome: Outcomes, edges: Strided, equal_width: bint, result: IntegerCubeOut
) -> None:
    """Rows, events and sum of predictions for each class and bin of its probability.

    probability : (n, K); outcome : (n,) class numbers; edges : (bins + 1,), the same for all classes.
    result : (K, bins, 4) int64, added to: rows, events, high and low limb of the predictions.
    """
    classes = probability.shape[1]
    bins = len(edges) - 1
    step: Index = max(CHUNK // classes, 1)
    codes: CodesOut = np.empty(step * classes, np.int32)
    start = 0
    with nogil:
        while start < len(outcome):
            rows = min(step, len(outcome) - start)
            part = address(probability[start, 0])
            found = address(codes[0])
            if equal_width:
                uniform_index(part, rows * classes, edges[0], edges[bins], edges, found)
            else:
                edge_index(part, rows * classes, edges, found)
            for i in range(rows):
                for k in range(classes):
                    cell = address(result[k, found[i * classes + k], 0])
                    cell[0] += 1
                    add_limbs(cell + 2, grid(part[i * classes + k]), 1)
                own: Index = outcome[start + i]
                result[own, found[i * classes + own], 1] += 1
            start += rows


def draw_classes(
    probability: Table, weight: Floats, codes: CodeTable, first: Word, seed: Word, out: CubeOut
) -> None:
    """Fill out[draw, class, cell] with Σ w over rows whose drawn class is that one: one categorical draw a row.

    probability : (n, K); weight : (n,), or empty when all are 1; codes : (n, K), the cell of a row and class.
    """
    draws = out.shape[0]
    classes = probability.shape[1]
    few: bint = classes <= FEW_CLASSES
    seeds: WordsOut = np.empty(draws, np.uint64)
    reached: FloatsOut = np.empty(classes)
    with nogil:
        for draw in range(draws):
            seeds[draw] = mixed(seed, first + draw)
        for row in range(probability.shape[0]):
            total: double = 0.0
            for k in range(classes):
                total += probability[row, k]
                reached[k] = total
            # Rows sum to 1 within 1e-4: the draw is from their shares.
            for draw in range(draws):
                level: double = uniform(seeds[draw], row) * total
                label: Index = 0
                if few:
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
                out[draw, label, codes[row, label]] += weight[row] if len(weight) else 1.0


def class_residuals(
    probability: Table, outcome: Outcomes, weight: Floats, codes: CodeTable, group: Integers, out: CubeOut
) -> None:
    """Add w·(outcome - prediction) of every class to out[group, class, cell]; arguments as in `draw_classes`."""
    with nogil:
        for row in range(probability.shape[0]):
            times = weight[row] if len(weight) else 1.0
            own: Index = outcome[row]
            for k in range(probability.shape[1]):
                out[group[row], k, codes[row, k]] += times * (
                    (1.0 if own == k else 0.0) - probability[row, k]
                )


def top_label(probability: Table, outcome: Outcomes, confidence: FloatsOut, correct: FlagsOut) -> None:
    """The confidence in the label, the first of the largest probabilities, and whether it is right."""
    with nogil:
        for i in range(probability.shape[0]):
            best = probability[i, 0]
            label: Integer = 0
            for k in range(1, probability.shape[1]):
                if probability[i, k] > best:
                    best = probability[i, k]
                    label = k
            confidence[i] = best
            correct[i] = label == outcome[i]
