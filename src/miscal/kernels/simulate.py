"""Counter-based random numbers; exact and simulated distributions of a cell's sum; draws of cell sums and of walks.

A draw depends on (seed, counter) alone, so results are the same for any number of threads and any order of cells.
"""

from __future__ import annotations

import math

import numpy as np

from miscal.kernels.jit import inlined, kernel

GUIDE = 64  # shares of the mass that are looked up before a number is searched for


@inlined
def mixed(seed, counter):
    """Give 64 random bits (splitmix64)."""
    z = seed + (counter + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def uniform(seed, counter):
    """Give a uniform number in [0, 1)."""
    return np.float64(mixed(seed, counter) >> np.uint64(11)) * 1.1102230246251565e-16


@kernel
def exact_tails(offsets, probability, repeats, events, cells, lower, upper):
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
def simulated_cell_tails(offsets, probability, weight, repeats, observed, tolerance, cells, draws, stop, seed, counts):
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
def flipped_cell_exceedances(offsets, residual, cells, draws, stop, seed, counts):
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


@inlined
def gaussian(seed, counter):
    """Give a standard normal number (Box-Muller on two of the counter's uniforms)."""
    first = 1.0 - uniform(seed, np.uint64(2) * counter)
    second = uniform(seed, np.uint64(2) * counter + np.uint64(1))
    return math.sqrt(-2.0 * math.log(first)) * math.cos(6.283185307179586 * second)


@kernel
def add_binomial(table, low, trials, probability, share):
    """Add `share` times the binomial's mass to table[i] = mass(low + i), outward from its mode."""
    mode = int((trials + 1.0) * probability)
    mode = min(max(mode, 0), int(trials))
    odds = probability / (1.0 - probability) if probability < 1.0 else 0.0
    peak = 1.0
    if 0.0 < probability < 1.0:
        peak = math.exp(
            math.lgamma(trials + 1.0)
            - math.lgamma(mode + 1.0)
            - math.lgamma(trials - mode + 1.0)
            + mode * math.log(probability)
            + (trials - mode) * math.log1p(-probability)
        )
    value = share * peak
    at = mode
    while at - low < table.size and value > 0.0:
        if at >= low:
            table[at - low] += value
        value *= (trials - at) / (at + 1.0) * odds
        at += 1
        if at > trials:
            break
    value, at = share * peak, mode
    while at > 0 and at > low and odds > 0.0:
        value *= at / ((trials - at + 1.0) * odds)
        at -= 1
        if at - low < table.size:
            table[at - low] += value


@kernel
def gamma_number(shape, seed):
    """Give a gamma number of mean `shape` (Marsaglia and Tsang; below 1 by their power of a uniform)."""
    boost = 1.0
    counter = np.uint64(1)
    if shape < 1.0:
        boost = (1.0 - uniform(seed, np.uint64(0))) ** (1.0 / shape)
        shape += 1.0
    centre = shape - 1.0 / 3.0
    slope = 1.0 / math.sqrt(9.0 * centre)
    while True:
        z = gaussian(seed, np.uint64(2) * counter)
        level = 1.0 - uniform(seed, np.uint64(4) * counter + np.uint64(2))
        counter += np.uint64(1)
        cube = (1.0 + slope * z) ** 3
        if cube > 0.0 and math.log(level) < 0.5 * z * z + centre * (1.0 - cube + math.log(cube)):
            return centre * cube * boost


@kernel
def cumulative_masses(mean, deviation, trials):
    """Give the lowest value and the cumulative masses of the matched binomial; mixed where trials are not whole."""
    low = max(int(mean - 10.0 * deviation) - 1, 0)
    high = min(int(mean + 12.0 * deviation + 25.0), math.ceil(trials))
    table = np.zeros(high - low + 1)
    under, over = math.floor(trials), math.ceil(trials)
    if under == over or mean > under:
        add_binomial(table, low, over, min(mean / over, 1.0), 1.0)
    else:
        share = (1.0 / trials - 1.0 / over) / (1.0 / under - 1.0 / over)
        add_binomial(table, low, under, mean / under, share)
        add_binomial(table, low, over, mean / over, 1.0 - share)
    for index in range(1, table.size):
        table[index] += table[index - 1]
    return low, table


@inlined
def _guided(table, guide):
    """Where to begin looking for a level in a share of the whole mass: at the first place above the share's start."""
    place = 0
    for share in range(guide.size):
        start = np.float64(share) / np.float64(GUIDE) * table[table.size - 1]
        while place < table.size - 1 and table[place] <= start:
            place += 1
        guide[share] = place


@kernel
def draw_cells(mean, variance, trials, scale, roughness, limit, swapped, start, first, count, seed, wide, out):
    """Fill out[draw, cell] with scale·K (limit - scale·K where swapped), K matched to mean and variance.

    Where `roughness` (the squared variation of the weights) is positive, scale·K becomes a sum of K random weights.
    Results are kept between 0 and `limit`. Trials that are not whole are drawn as a mixture of the two neighbours
    with the same mean and variance. Above variance `wide`, a normal with the matched skewness. The first of the cells
    has the number `start`, by which its random numbers are found.
    """
    guide = np.empty(GUIDE, np.int64)
    for cell in range(mean.size):
        own = mixed(seed, np.uint64(start + cell))
        deviation = math.sqrt(variance[cell]) if variance[cell] > 0.0 else 0.0
        if deviation == 0.0:
            for draw in range(count):
                out[draw, cell] = scale[cell] * mean[cell]
        elif variance[cell] > wide or trials[cell] == np.inf:
            skewness = (2.0 * variance[cell] / mean[cell] - 1.0) / deviation
            for draw in range(count):
                z = gaussian(own, np.uint64(first + draw))
                z += skewness * (z * z - 1.0) / 6.0
                out[draw, cell] = scale[cell] * (mean[cell] + deviation * z)
        else:
            low, table = cumulative_masses(mean[cell], deviation, trials[cell])
            _guided(table, guide)
            for draw in range(count):
                share = uniform(own, np.uint64(first + draw))
                level = share * table[table.size - 1]
                place = guide[np.uint64(share * GUIDE)]
                while place < table.size - 1 and table[place] <= level:
                    place += 1
                number = float(low + place)
                if roughness[cell] > 0.0 and number > 0.0:
                    inner = mixed(own ^ np.uint64(0x5851F42D4C957F2D), np.uint64(first + draw))
                    number = gamma_number(number / roughness[cell], inner) * roughness[cell]
                out[draw, cell] = scale[cell] * number
        for draw in range(count):
            value = min(max(out[draw, cell], 0.0), limit[cell])
            out[draw, cell] = limit[cell] - value if swapped[cell] else value


@kernel
def draw_normal(mean, deviation, first, count, seed, out):
    """Fill out[draw, cell] with normal numbers."""
    for cell in range(mean.size):
        own = mixed(seed, np.uint64(cell))
        for draw in range(count):
            out[draw, cell] = mean[cell] + deviation[cell] * gaussian(own, np.uint64(first + draw))


@kernel
def draw_flips(base, cell, cluster, residual, first, count, seed, out):
    """Fill out[draw, cell] with base + Σ ±residual; one sign a cluster, the same in every cell."""
    for draw in range(count):
        own = mixed(seed, np.uint64(first + draw))
        for index in range(base.size):
            out[draw, index] = base[index]
        for index in range(cell.size):
            flip = mixed(own, np.uint64(cluster[index])) >> np.uint64(63)
            out[draw, cell[index]] += residual[index] if flip else -residual[index]


@kernel
def draw_rows(cells, cell, probability, weight, repeats, first, count, seed, out):
    """Fill out[draw, cell] with Σ w·y*, y* ~ Bernoulli(p) row by row."""
    for draw in range(count):
        own = mixed(seed, np.uint64(first + draw))
        counter = np.uint64(0)
        for index in range(cells):
            out[draw, index] = 0.0
        for row in range(cell.size):
            for _ in range(repeats[row]):
                if uniform(own, counter) < probability[row]:
                    out[draw, cell[row]] += weight[row]
                counter += np.uint64(1)


@kernel
def draw_walks(size, probability, unit, ends, first, count, seed, out):
    """Fill out with the range of a simulated walk over the ends of blocks of tied keys.

    With probabilities a row's step is size·(y* - p), y* ~ Bernoulli(p), and `size` is empty when all are 1. Without, it
    is ±size, one sign a unit (a row where empty).
    """
    flips = probability.size == 0
    for draw in range(count):
        own = mixed(seed, np.uint64(first + draw))
        total, highest, lowest = 0.0, 0.0, 0.0
        row = 0
        for block in range(ends.size):
            while row < ends[block]:
                if flips:
                    flip = mixed(own, np.uint64(unit[row] if unit.size else row)) >> np.uint64(63)
                    total += size[row] if flip else -size[row]
                else:
                    step = (1.0 if uniform(own, np.uint64(row)) < probability[row] else 0.0) - probability[row]
                    total += step * size[row] if size.size else step
                row += 1
            highest = max(highest, total)
            lowest = min(lowest, total)
        out[draw] = highest - lowest


@kernel
def hashed(numbers, start, found):
    """The splitmix64 of `start` and each number."""
    for i in range(numbers.size):
        found[i] = mixed(start, np.uint64(numbers[i]) - np.uint64(1))  # `mixed` counts from 1
