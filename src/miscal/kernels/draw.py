"""Draws of cell sums from matched binomials, and of walks over rows; each depends on (seed, draw) alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from miscal.kernels.jit import inlined, kernel
from miscal.kernels.simulate import mixed, uniform

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
GUIDE = 64  # shares of the mass that are looked up before a number is searched for


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
    if probability >= 1.0:
        peak = 1.0
    elif probability <= 0.0:
        peak = 1.0
    else:
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
def draw_walks(probability, weight, ends, first, count, seed, out):
    """Fill out with the range of Σ w(y* - p), y* ~ Bernoulli(p), over the ends of blocks of tied keys.

    `weight` is empty when all weights are 1.
    """
    weighted = weight.size > 0
    for draw in range(count):
        own = mixed(seed, np.uint64(first + draw))
        total, highest, lowest = 0.0, 0.0, 0.0
        row = 0
        for block in range(ends.size):
            while row < ends[block]:
                hit = 1.0 if uniform(own, np.uint64(row)) < probability[row] else 0.0
                step = hit - probability[row]
                total += step * weight[row] if weighted else step
                row += 1
            highest = max(highest, total)
            lowest = min(lowest, total)
        out[draw] = highest - lowest


@kernel
def flip_walks(residual, cluster, ends, first, count, seed, out):
    """Fill out with the range of Σ ±residual over the ends of blocks; one sign a cluster (a row where empty)."""
    clustered = cluster.size > 0
    for draw in range(count):
        own = mixed(seed, np.uint64(first + draw))
        total, highest, lowest = 0.0, 0.0, 0.0
        row = 0
        for block in range(ends.size):
            while row < ends[block]:
                unit = np.uint64(cluster[row]) if clustered else np.uint64(row)
                total += residual[row] if mixed(own, unit) >> np.uint64(63) else -residual[row]
                row += 1
            highest = max(highest, total)
            lowest = min(lowest, total)
        out[draw] = highest - lowest


@kernel
def poisson_multipliers(keys, seed, out):
    """Fill out with Poisson(1) numbers hashed from each key."""
    for index in range(keys.size):
        level = uniform(seed, keys[index])
        mass, place = 0.36787944117144233, 0
        total = mass
        while level >= total and place < 20:
            place += 1
            mass /= place
            total += mass
        out[index] = place
