"""Exact and simulated distributions of a cell's sum; draws of cell sums; hashes of row numbers.

A draw depends on (seed, counter) alone (`arithmetic.pxd`), so results are the same for any number of threads and any
order of cells.
"""

import numpy as np
from cython import cast, cfunc, declare, double, nogil, void
from cython.cimports.libc.math import ceil, floor, log, sqrt
from cython.cimports.miscal.kernels.arithmetic import drawn, gaussian, limit_of, mixed, uniform
from cython.cimports.miscal.kernels.kinds import (
    Flags, Floats, FloatsOut, Index, Integer, Integers, IntegersOut, IntegerTableOut, TableOut, Word, WordsOut,
)  # fmt: skip

WIDE = declare(double, 400.0)  # variance above which a matched binomial is drawn as a normal


def exact_tails(
    offsets: Integers, probability: Floats, repeats: Integers, events: Integers, cells: Integers,
    lower: FloatsOut, upper: FloatsOut,
) -> None:  # fmt: skip
    """Fill both tails of the Poisson-binomial at `events` for each of `cells`, by convolution.

    States above the count are absorbed, so every term is positive and small tails keep their relative precision.
    """
    row: Integer
    state: Integer
    mass: FloatsOut = np.empty(np.max(events, initial=0) + 2)
    with nogil:
        for index in range(cells.shape[0]):
            count = events[index]
            mass[: count + 2] = 0.0
            mass[0] = 1.0
            for row in range(offsets[cells[index]], offsets[cells[index] + 1]):
                hit = probability[row]
                for _ in range(repeats[row]):
                    mass[count + 1] += mass[count] * hit
                    for state in range(count, 0, -1):
                        mass[state] = mass[state] * (1.0 - hit) + mass[state - 1] * hit
                    mass[0] *= 1.0 - hit
            lower[index] = 0.0
            for state in range(count + 1):
                lower[index] += mass[state]
            upper[index] = mass[count] + mass[count + 1]


def simulated_tails(
    offsets: Integers, event: Floats, none: Floats, chance: Floats, repeats: Integers, low: Floats, high: Floats,
    cells: Integers, draws: Integers, stop: Integer, seed: Word, counts: IntegerTableOut,
) -> None:  # fmt: skip
    """Count draws of the sum of a cell's rows that are at most `low` or at least `high`.

    A row gives its `event` at its chance, else its `none`, as often as it is repeated. A cell stops once both tails
    hold `stop` draws. Columns of `counts`: below, above, draws made.
    """
    below: Integer
    above: Integer
    made: Integer
    row: Integer
    with nogil:
        for index in range(cells.shape[0]):
            own = mixed(seed, cells[index])
            counter: Word = 0
            below = above = made = 0
            while made < draws[index] and (below < stop or above < stop):
                total = 0.0
                for row in range(offsets[cells[index]], offsets[cells[index] + 1]):
                    for _ in range(repeats[row]):
                        total += event[row] if uniform(own, counter) < chance[row] else none[row]
                        counter += 1
                made += 1
                below += total <= low[index]
                above += total >= high[index]
            counts[index, 0], counts[index, 1], counts[index, 2] = below, above, made


@cfunc
@nogil
def _add_binomial(
    table: FloatsOut, size: Index, low: Index, trials: double, probability: double, share: double
) -> void:
    """Add `share` times the binomial's mass to table[i] = mass(low + i): all of its mass lies there."""
    odds = probability / max(1.0 - probability, 1e-12)
    value = 1.0
    total = 0.0
    for i in range(size):
        total += value
        value *= (trials - low - i) / (low + i + 1.0) * odds
    value = share / total
    for i in range(size):
        table[i] += value
        value *= (trials - low - i) / (low + i + 1.0) * odds


@cfunc
@nogil
def _gamma(shape: double, seed: Word) -> double:
    """Give a gamma number of mean `shape` (Marsaglia and Tsang; below 1 by their power of a uniform)."""
    boost: double = 1.0
    counter: Word = 1
    if shape < 1.0:
        boost = (1.0 - uniform(seed, 0)) ** (1.0 / shape)
        shape += 1.0
    centre = shape - 1.0 / 3.0
    slope = 1.0 / sqrt(9.0 * centre)
    while True:
        z = gaussian(seed, 2 * counter)
        level = 1.0 - uniform(seed, 4 * counter + 2)
        counter += 1
        root = 1.0 + slope * z
        cube = root * root * root
        if cube > 0.0 and log(level) < 0.5 * z * z + centre * (1.0 - cube + log(cube)):
            return centre * cube * boost


@cfunc
@nogil
def _lowest(mean: double, deviation: double) -> Index:
    """The lowest number whose mass is looked up."""
    return max(cast(Index, mean - 9.0 * deviation) - 1, 0)


@cfunc
@nogil
def _span(mean: double, deviation: double, trials: double) -> Index:
    """How many numbers have a mass that is looked up."""
    # Trials may be more than an integer holds.
    high = min(mean + 9.0 * deviation + 25.0, ceil(trials))
    return cast(Index, high) - _lowest(mean, deviation) + 1


@cfunc
@nogil
def _cumulative_masses(table: FloatsOut, size: Index, low: Index, mean: double, trials: double) -> void:
    """Fill the cumulative masses of the matched binomial from `low` on; mixed where trials are not whole."""
    under = floor(trials)
    over = ceil(trials)
    table[:size] = 0.0
    if under == over or mean > under:
        _add_binomial(table, size, low, over, mean / over, 1.0)
    else:
        share = (1.0 / trials - 1.0 / over) / (1.0 / under - 1.0 / over)
        _add_binomial(table, size, low, under, mean / under, share)
        _add_binomial(table, size, low, over, mean / over, 1.0 - share)
    for index in range(1, size):
        table[index] += table[index - 1]


@cfunc
@nogil
def _guided(table: FloatsOut, size: Index, guide: IntegersOut) -> void:
    """Where to begin looking for a level in a share of the whole mass: at the first place above the share's start."""
    place: Index = 0
    for share in range(guide.shape[0]):
        start = cast(double, share) / guide.shape[0] * table[size - 1]
        while place < size - 1 and table[place] <= start:
            place += 1
        guide[share] = place


def draw_cells(
    mean: Floats, variance: Floats, trials: Floats, scale: Floats, roughness: Floats, limit: Floats, swapped: Flags,
    first: Index, seed: Word, out: TableOut,
) -> None:  # fmt: skip
    """Fill out[draw, cell] with scale·K (limit - scale·K where swapped), K matched to mean and variance.

    Where `roughness` (the squared variation of the weights) is positive, scale·K becomes a sum of K random weights.
    Results are kept between 0 and `limit`. Trials that are not whole are drawn as a mixture of the two neighbours
    with the same mean and variance. Above variance `WIDE`, a normal with the matched skewness.
    """
    longest = 1
    for cell in range(mean.shape[0]):
        if 0.0 < variance[cell] <= WIDE:
            longest = max(longest, _span(mean[cell], sqrt(variance[cell]), trials[cell]))
    table: FloatsOut = np.empty(longest)
    guide: IntegersOut = np.empty(64, np.int64)
    with nogil:
        for cell in range(mean.shape[0]):
            own = mixed(seed, cell)
            deviation: double = sqrt(variance[cell]) if variance[cell] > 0.0 else 0.0
            if deviation == 0.0:
                for draw in range(out.shape[0]):
                    out[draw, cell] = scale[cell] * mean[cell]
            elif variance[cell] > WIDE:
                skewness: double = (2.0 * variance[cell] / mean[cell] - 1.0) / deviation
                for draw in range(out.shape[0]):
                    z = gaussian(own, first + draw)
                    z += skewness * (z * z - 1.0) / 6.0
                    out[draw, cell] = scale[cell] * (mean[cell] + deviation * z)
            else:
                low = _lowest(mean[cell], deviation)
                size = _span(mean[cell], deviation, trials[cell])
                _cumulative_masses(table, size, low, mean[cell], trials[cell])
                _guided(table, size, guide)
                for draw in range(out.shape[0]):
                    share = uniform(own, first + draw)
                    place: Index = guide[cast(Index, share * guide.shape[0])]
                    while place < size - 1 and table[place] <= share * table[size - 1]:
                        place += 1
                    number = low + place
                    if roughness[cell] > 0.0 and number > 0.0:
                        inner = mixed(own ^ cast(Word, 0x5851F42D4C957F2D), first + draw)
                        number = _gamma(number / roughness[cell], inner) * roughness[cell]
                    out[draw, cell] = scale[cell] * number
            for draw in range(out.shape[0]):
                value = min(max(out[draw, cell], 0.0), limit[cell])
                out[draw, cell] = limit[cell] - value if swapped[cell] else value


def draw_normal(mean: Floats, deviation: Floats, first: Index, seed: Word, out: TableOut) -> None:
    """Fill out[draw, cell] with normal numbers."""
    with nogil:
        for cell in range(mean.shape[0]):
            own = mixed(seed, cell)
            for draw in range(out.shape[0]):
                out[draw, cell] = mean[cell] + deviation[cell] * gaussian(own, first + draw)


def draw_rows(
    event: Floats, none: Floats, chance: Floats, unit: Integers, place: Integers, first: Index, seed: Word,
    out: TableOut,
) -> None:  # fmt: skip
    """Add to out[place of a row, draw] its `event` at its chance, else its `none`; those of a unit are drawn as one."""
    own: WordsOut = np.empty(out.shape[1], np.uint64)
    with nogil:
        for draw in range(out.shape[1]):
            own[draw] = mixed(seed, first + draw)
        for row in range(event.shape[0]):
            limit = limit_of(chance[row])
            for draw in range(out.shape[1]):
                out[place[row], draw] += drawn(mixed(own[draw], unit[row]), limit, event[row], none[row])


def hashed_below(numbers: Integers, start: Word, limit: Word, places: IntegersOut) -> Index:
    """Where the splitmix64 of `start` and a number is below a limit; gives how many places were written.

    places : room for one more than there are numbers
    """
    count: Index = 0
    with nogil:
        for i in range(numbers.shape[0]):
            places[count] = i
            count += mixed(start, cast(Word, numbers[i]) - 1) < limit  # `mixed` counts from 1
    return count
