"""Counter-based random numbers, and exact and simulated distributions of a cell's sum.

A draw depends on (seed, counter) alone, so results are the same for any number of threads and any order of cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miscal.kernels.jit import inlined, kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@inlined
def mixed(seed: np.uint64, counter: np.uint64) -> np.uint64:
    """Give 64 random bits (splitmix64)."""
    z = seed + (counter + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def uniform(seed: np.uint64, counter: np.uint64) -> float:
    """Give a uniform number in [0, 1)."""
    return np.float64(mixed(seed, counter) >> np.uint64(11)) * 1.1102230246251565e-16


@kernel
def exact_tails(
    offsets: Integers,
    probability: Floats,
    repeats: Integers,
    events: Integers,
    cells: Integers,
    lower: Floats,
    upper: Floats,
) -> None:
    """Fill both tails of the Poisson-binomial at `events` for each of `cells`, by convolution.

    States above the count are absorbed, so every term is positive and small tails keep their relative precision.
    """
    for index in range(cells.size):
        cell = cells[index]
        trials = 0
        for row in range(offsets[cell], offsets[cell + 1]):
            trials += repeats[row]
        count = events[index]
        swap = 2 * count > trials
        if swap:
            count = trials - count
        mass = np.zeros(count + 2)
        mass[0] = 1.0
        for row in range(offsets[cell], offsets[cell + 1]):
            hit = 1.0 - probability[row] if swap else probability[row]
            miss = probability[row] if swap else 1.0 - probability[row]
            for _ in range(repeats[row]):
                mass[count + 1] += mass[count] * hit
                for state in range(count, 0, -1):
                    mass[state] = mass[state] * miss + mass[state - 1] * hit
                mass[0] *= miss
        below = 0.0
        for state in range(count + 1):
            below += mass[state]
        above = mass[count] + mass[count + 1]
        lower[index] = above if swap else below
        upper[index] = below if swap else above


@kernel
def simulated_cell_tails(
    offsets: Integers,
    probability: Floats,
    weight: Floats,
    repeats: Integers,
    observed: Floats,
    tolerance: Floats,
    cells: Integers,
    draws: Integers,
    stop: int,
    seed: np.uint64,
    counts: Integers,
) -> None:
    """Count draws of Σ w·y*, y* ~ Bernoulli(p), at or below and at or above the observed sum.

    A cell stops once both tails hold `stop` draws. Columns of `counts`: below, above, draws made.
    """
    for index in range(cells.size):
        cell = cells[index]
        first, last = offsets[cell], offsets[cell + 1]
        own = mixed(seed, np.uint64(cell))
        counter = np.uint64(0)
        below, above, made = 0, 0, 0
        while made < draws[index] and min(below, above) < stop:
            total = 0.0
            for row in range(first, last):
                for _ in range(repeats[row]):
                    if uniform(own, counter) < probability[row]:
                        total += weight[row]
                    counter += np.uint64(1)
            made += 1
            if total <= observed[index] + tolerance[index]:
                below += 1
            if total >= observed[index] - tolerance[index]:
                above += 1
        counts[index, 0], counts[index, 1], counts[index, 2] = below, above, made


@kernel
def flipped_cell_exceedances(
    offsets: Integers, residual: Floats, cells: Integers, draws: int, stop: int, seed: np.uint64, counts: Integers
) -> None:
    """Count sign flips of the residuals whose absolute sum reaches the observed one; columns: exceedances, draws."""
    for index in range(cells.size):
        cell = cells[index]
        first, last = offsets[cell], offsets[cell + 1]
        actual, size = 0.0, 0.0
        for row in range(first, last):
            actual += residual[row]
            size += abs(residual[row])
        reach = abs(actual) - 1e-12 * size
        own = mixed(seed, np.uint64(cell))
        counter = np.uint64(0)
        hits, made = 0, 0
        while made < draws and hits < stop:
            total = 0.0
            bits = np.uint64(0)
            for row in range(first, last):
                place = np.uint64(row - first) & np.uint64(63)
                if place == np.uint64(0):
                    bits = mixed(own, counter)
                    counter += np.uint64(1)
                total += residual[row] if (bits >> place) & np.uint64(1) else -residual[row]
            made += 1
            if abs(total) >= reach:
                hits += 1
        counts[index, 0], counts[index, 1] = hits, made


@kernel
def within_cluster_sums(cell: Integers, cluster: Integers, residual: Floats, out: Floats, first: Integers) -> int:
    """Sum residuals over runs of equal (cell, cluster), rows sorted by both; fill each run's first row, count runs."""
    runs = -1
    for row in range(cell.size):
        if row == 0 or cell[row] != cell[row - 1] or cluster[row] != cluster[row - 1]:
            runs += 1
            out[runs] = 0.0
            first[runs] = row
        out[runs] += residual[row]
    return runs + 1
