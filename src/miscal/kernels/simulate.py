"""Exact and simulated distributions of a cell's sum; draws of cell sums; hashes of row numbers.

A draw depends on (seed, counter) alone (`arithmetic.pxd`), so results are the same for any number of threads and any
order of cells.
"""

import cython
import numpy as np
from cython.cimports.libc.math import INFINITY, ceil, exp, fabs, floor, lgamma, log, log1p, sqrt
from cython.cimports.miscal.kernels.arithmetic import flipped, gaussian, mixed, uniform
from cython.cimports.miscal.kernels.kinds import (
    Flags, Floats, FloatsOut, Index, Integer, Integers, IntegersOut, IntegerTableOut, TableOut, Word,
)  # fmt: skip

LIGHT = cython.declare(cython.double, 1e-17)  # masses that no random number of 53 bits can tell from none
GUIDE = cython.declare(Index, 64)  # shares of the mass that are looked up before a number is searched for


def exact_tails(
    offsets: Integers, probability: Floats, repeats: Integers, events: Integers, cells: Integers,
    lower: FloatsOut, upper: FloatsOut,
) -> None:  # fmt: skip
    """Fill both tails of the Poisson-binomial at `events` for each of `cells`, by convolution.

    States above the count are absorbed, so every term is positive and small tails keep their relative precision.
    """
    most: Integer = 0
    for index in range(cells.shape[0]):
        most = max(most, events[index])
    mass: FloatsOut = np.empty(most + 2)
    with cython.nogil:
        for index in range(cells.shape[0]):
            _tails(
                offsets[cells[index]], offsets[cells[index] + 1], probability, repeats, events[index], mass,
                cython.address(lower[index]), cython.address(upper[index]),
            )  # fmt: skip


@cython.cfunc
@cython.nogil
def _tails(
    first: Integer, last: Integer, probability: Floats, repeats: Integers, events: Integer, mass: FloatsOut,
    lower: cython.p_double, upper: cython.p_double,
) -> cython.void:  # fmt: skip
    """Both tails of one cell; the rarer side is counted, so `mass` needs `events` + 2 places at most."""
    count: Integer = events
    trials: Integer = 0
    row: Integer
    state: Integer
    for row in range(first, last):
        trials += repeats[row]
    swap: cython.bint = 2 * count > trials
    if swap:
        count = max(trials - count, 0)
    for state in range(count + 2):
        mass[state] = 0.0
    mass[0] = 1.0
    for row in range(first, last):
        hit: cython.double = 1.0 - probability[row] if swap else probability[row]
        miss: cython.double = probability[row] if swap else 1.0 - probability[row]
        for _ in range(repeats[row]):
            mass[count + 1] += mass[count] * hit
            for state in range(count, 0, -1):
                mass[state] = mass[state] * miss + mass[state - 1] * hit
            mass[0] *= miss
    below: cython.double = 0.0
    for state in range(count + 1):
        below += mass[state]
    above: cython.double = mass[count] + mass[count + 1]
    lower[0] = above if swap else below
    upper[0] = below if swap else above


def simulated_cell_tails(
    offsets: Integers, probability: Floats, weight: Floats, repeats: Integers, observed: Floats, tolerance: Floats,
    cells: Integers, draws: Integers, stop: Integer, seed: Word, counts: IntegerTableOut,
) -> None:  # fmt: skip
    """Count draws of Σ w·y*, y* ~ Bernoulli(p), at or below and at or above the observed sum.

    A cell stops once both tails hold `stop` draws. Columns of `counts`: below, above, draws made.
    """
    below: Integer
    above: Integer
    made: Integer
    row: Integer
    with cython.nogil:
        for index in range(cells.shape[0]):
            own: Word = mixed(seed, cells[index])
            counter: Word = 0
            below = above = made = 0
            while made < draws[index] and (below < stop or above < stop):
                total: cython.double = 0.0
                for row in range(offsets[cells[index]], offsets[cells[index] + 1]):
                    for _ in range(repeats[row]):
                        total += weight[row] if uniform(own, counter) < probability[row] else 0.0
                        counter += 1
                made += 1
                below += total <= observed[index] + tolerance[index]
                above += total >= observed[index] - tolerance[index]
            counts[index, 0], counts[index, 1], counts[index, 2] = below, above, made


def flipped_cell_exceedances(
    offsets: Integers, residual: Floats, cells: Integers, draws: Integer, stop: Integer, seed: Word,
    counts: IntegerTableOut,
) -> None:  # fmt: skip
    """Count sign flips of the residuals whose absolute sum reaches the observed one; columns: exceedances, draws."""
    hits: Integer
    made: Integer
    row: Integer
    with cython.nogil:
        for index in range(cells.shape[0]):
            first: Integer = offsets[cells[index]]
            last: Integer = offsets[cells[index] + 1]
            actual: cython.double = 0.0
            size: cython.double = 0.0
            for row in range(first, last):
                actual += residual[row]
                size += fabs(residual[row])
            reach: cython.double = fabs(actual) - 1e-12 * size
            own: Word = mixed(seed, cells[index])
            counter: Word = 0
            hits = made = 0
            while made < draws and hits < stop:
                total: cython.double = 0.0
                bits: Word = 0
                for row in range(first, last):
                    place: Word = (row - first) & 63
                    if place == 0:
                        bits = mixed(own, counter)
                        counter += 1
                    total += flipped(residual[row], bits << (63 - place))
                made += 1
                hits += fabs(total) >= reach
            counts[index, 0], counts[index, 1] = hits, made


@cython.cfunc
@cython.nogil
def _add_binomial(
    table: FloatsOut, size: Index, low: Index, trials: cython.double, probability: cython.double, share: cython.double
) -> cython.void:
    """Add `share` times the binomial's mass to table[i] = mass(low + i), outward from its mode."""
    mode: Index = min(max(cython.cast(Index, (trials + 1.0) * probability), 0), cython.cast(Index, trials))
    odds: cython.double = probability / (1.0 - probability) if probability < 1.0 else 0.0
    peak: cython.double = 1.0
    if 0.0 < probability < 1.0:
        peak = exp(
            lgamma(trials + 1.0)
            - lgamma(mode + 1.0)
            - lgamma(trials - mode + 1.0)
            + mode * log(probability)
            + (trials - mode) * log1p(-probability)
        )
    value: cython.double = share * peak
    at: Index = mode
    while at - low < size and value > LIGHT:
        if at >= low:
            table[at - low] += value
        value *= (trials - at) / (at + 1.0) * odds
        at += 1
        if at > trials:
            break
    value, at = share * peak, mode
    while at > low and value > LIGHT and odds > 0.0:
        value *= at / ((trials - at + 1.0) * odds)
        at -= 1
        if at - low < size:
            table[at - low] += value


@cython.cfunc
@cython.nogil
def _gamma(shape: cython.double, seed: Word) -> cython.double:
    """Give a gamma number of mean `shape` (Marsaglia and Tsang; below 1 by their power of a uniform)."""
    boost: cython.double = 1.0
    counter: Word = 1
    if shape < 1.0:
        boost = (1.0 - uniform(seed, 0)) ** (1.0 / shape)
        shape += 1.0
    centre: cython.double = shape - 1.0 / 3.0
    slope: cython.double = 1.0 / sqrt(9.0 * centre)
    while True:
        z: cython.double = gaussian(seed, 2 * counter)
        level: cython.double = 1.0 - uniform(seed, 4 * counter + 2)
        counter += 1
        root: cython.double = 1.0 + slope * z
        cube: cython.double = root * root * root
        if cube > 0.0 and log(level) < 0.5 * z * z + centre * (1.0 - cube + log(cube)):
            return centre * cube * boost


@cython.cfunc
@cython.nogil
def _lowest(mean: cython.double, deviation: cython.double) -> Index:
    """The lowest number whose mass is looked up."""
    return max(cython.cast(Index, mean - 9.0 * deviation) - 1, 0)


@cython.cfunc
@cython.nogil
def _span(mean: cython.double, deviation: cython.double, trials: cython.double) -> Index:
    """How many numbers have a mass that is looked up."""
    high: cython.double = min(mean + 9.0 * deviation + 25.0, ceil(trials))  # trials may be more than an integer holds
    return cython.cast(Index, high) - _lowest(mean, deviation) + 1


@cython.cfunc
@cython.nogil
def _cumulative_masses(
    table: FloatsOut, size: Index, low: Index, mean: cython.double, trials: cython.double
) -> cython.void:
    """Fill the cumulative masses of the matched binomial from `low` on; mixed where trials are not whole."""
    under: cython.double = floor(trials)
    over: cython.double = ceil(trials)
    table[:size] = 0.0
    if under == over or mean > under:
        _add_binomial(table, size, low, over, min(mean / over, 1.0), 1.0)
    else:
        share: cython.double = (1.0 / trials - 1.0 / over) / (1.0 / under - 1.0 / over)
        _add_binomial(table, size, low, under, mean / under, share)
        _add_binomial(table, size, low, over, mean / over, 1.0 - share)
    for index in range(1, size):
        table[index] += table[index - 1]


@cython.cfunc
@cython.nogil
def _guided(table: FloatsOut, size: Index, guide: IntegersOut) -> cython.void:
    """Where to begin looking for a level in a share of the whole mass: at the first place above the share's start."""
    place: Index = 0
    for share in range(GUIDE):
        start: cython.double = cython.cast(cython.double, share) / GUIDE * table[size - 1]
        while place < size - 1 and table[place] <= start:
            place += 1
        guide[share] = place


def draw_cells(
    mean: Floats, variance: Floats, trials: Floats, scale: Floats, roughness: Floats, limit: Floats, swapped: Flags,
    start: Index, first: Index, count: Index, seed: Word, wide: cython.double, out: TableOut,
) -> None:  # fmt: skip
    """Fill out[draw, cell] with scale·K (limit - scale·K where swapped), K matched to mean and variance.

    Where `roughness` (the squared variation of the weights) is positive, scale·K becomes a sum of K random weights.
    Results are kept between 0 and `limit`. Trials that are not whole are drawn as a mixture of the two neighbours
    with the same mean and variance. Above variance `wide`, a normal with the matched skewness. The first of the cells
    has the number `start`, by which its random numbers are found.
    """
    longest: Index = 1
    for cell in range(mean.shape[0]):
        if 0.0 < variance[cell] <= wide and trials[cell] != INFINITY:
            longest = max(longest, _span(mean[cell], sqrt(variance[cell]), trials[cell]))
    table: FloatsOut = np.empty(longest)
    guide: IntegersOut = np.empty(GUIDE, np.int64)
    with cython.nogil:
        for cell in range(mean.shape[0]):
            own: Word = mixed(seed, start + cell)
            deviation: cython.double = sqrt(variance[cell]) if variance[cell] > 0.0 else 0.0
            if deviation == 0.0:
                for draw in range(count):
                    out[draw, cell] = scale[cell] * mean[cell]
            elif variance[cell] > wide or trials[cell] == INFINITY:
                skewness: cython.double = (2.0 * variance[cell] / mean[cell] - 1.0) / deviation
                for draw in range(count):
                    z: cython.double = gaussian(own, first + draw)
                    z += skewness * (z * z - 1.0) / 6.0
                    out[draw, cell] = scale[cell] * (mean[cell] + deviation * z)
            else:
                low: Index = _lowest(mean[cell], deviation)
                size: Index = _span(mean[cell], deviation, trials[cell])
                _cumulative_masses(table, size, low, mean[cell], trials[cell])
                _guided(table, size, guide)
                for draw in range(count):
                    share: cython.double = uniform(own, first + draw)
                    level: cython.double = share * table[size - 1]
                    place: Index = guide[cython.cast(Index, share * GUIDE)]
                    while place < size - 1 and table[place] <= level:
                        place += 1
                    number: cython.double = low + place
                    if roughness[cell] > 0.0 and number > 0.0:
                        inner: Word = mixed(own ^ cython.cast(Word, 0x5851F42D4C957F2D), first + draw)
                        number = _gamma(number / roughness[cell], inner) * roughness[cell]
                    out[draw, cell] = scale[cell] * number
            for draw in range(count):
                value: cython.double = min(max(out[draw, cell], 0.0), limit[cell])
                out[draw, cell] = limit[cell] - value if swapped[cell] else value


def draw_normal(mean: Floats, deviation: Floats, first: Index, count: Index, seed: Word, out: TableOut) -> None:
    """Fill out[draw, cell] with normal numbers."""
    with cython.nogil:
        for cell in range(mean.shape[0]):
            own: Word = mixed(seed, cell)
            for draw in range(count):
                out[draw, cell] = mean[cell] + deviation[cell] * gaussian(own, first + draw)


def draw_flips(
    base: Floats, cell: Integers, cluster: Integers, residual: Floats, first: Index, count: Index, seed: Word,
    out: TableOut,
) -> None:  # fmt: skip
    """Fill out[draw, cell] with base + Σ ±residual; one sign a cluster, the same in every cell."""
    with cython.nogil:
        for draw in range(count):
            own: Word = mixed(seed, first + draw)
            for index in range(base.shape[0]):
                out[draw, index] = base[index]
            for index in range(cell.shape[0]):
                out[draw, cell[index]] += flipped(residual[index], mixed(own, cluster[index]))


def draw_rows(
    cells: Index, cell: Integers, probability: Floats, weight: Floats, repeats: Integers, first: Index, count: Index,
    seed: Word, out: TableOut,
) -> None:  # fmt: skip
    """Fill out[draw, cell] with Σ w·y*, y* ~ Bernoulli(p) row by row."""
    with cython.nogil:
        for draw in range(count):
            own: Word = mixed(seed, first + draw)
            counter: Word = 0
            for index in range(cells):
                out[draw, index] = 0.0
            for row in range(cell.shape[0]):
                for _ in range(repeats[row]):
                    if uniform(own, counter) < probability[row]:
                        out[draw, cell[row]] += weight[row]
                    counter += 1


def hashed_below(numbers: Integers, start: Word, limit: Word, places: IntegersOut) -> Index:
    """Where the splitmix64 of `start` and a number is below a limit; gives how many places were written.

    places : room for one more than there are numbers
    """
    count: Index = 0
    with cython.nogil:
        for i in range(numbers.shape[0]):
            places[count] = i
            count += mixed(start, cython.cast(Word, numbers[i]) - 1) < limit  # `mixed` counts from 1
    return count
