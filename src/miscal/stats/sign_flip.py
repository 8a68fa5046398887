"""The sign-flip null of a cell, and its walk along the score."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miscal.aggregate.summary import PREDICTED, PRODUCT, SQUARE, TRIALS, WEIGHT, weight_sums
from miscal.aggregate.tally import Tally
from miscal.cells.partitions import OF_SCORE, Ranges
from miscal.codes.inference import Method, Null, NullReason
from miscal.data.arrays import Array
from miscal.data.checks import one_of
from miscal.data.libraries import special
from miscal.data.responses import Units
from miscal.data.target import TargetData
from miscal.kernels.simulate import simulated_tails
from miscal.stats.cell_sums import (
    EFFECTIVE_EVENTS,
    CellRows,
    CellSums,
    CellTestSettings,
    Floats,
    Integers,
    OutcomeSamplingVariance,
    ResidualVariance,
    effective_events,
    run_starts,
    unwarned,
)

STOP = 20  # draws that reach a value, after which no more are made
FEW_BLOCKS = 25  # below it signs are flipped in simulation; from it the studentised sum is used
# Standard deviations: once in a thousand where weights and outcomes have nothing to do with each other.
CRITICAL = 3.3
LEAST_TRIALS = 30.0  # of neighbouring scores that are taken together


class ClusterBlocks(NamedTuple):
    """Residual sums of clusters within cells, sorted by cell; `cluster` is the row itself where there are none."""

    offsets: Integers
    residual: Floats
    cluster: Integers

    def cells(self) -> Integers:
        """Give the cell of each block."""
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))

    def squares(self) -> Floats:
        """Give ΣD² of each cell."""
        made = np.bincount(self.cells(), self.residual**2, self.offsets.size - 1)
        return np.asarray(made, np.float64)


def cluster_blocks(rows: CellRows) -> ClusterBlocks:
    """Sum residuals over each cluster within each cell; without clusters each row is its own."""
    residual, trials = rows.residuals(), rows.repeats()
    if rows.cluster is None:  # of a row that stands for several alike trials each is independent
        ends = np.append(0, np.cumsum(trials))
        return ClusterBlocks(ends[rows.offsets], np.repeat(residual, trials), np.arange(ends[-1]))
    codes = rows.codes()
    new = run_starts(codes, rows.cluster)  # rows are sorted by both: a block is a run of them
    sums = np.bincount(np.cumsum(new) - 1, residual * trials).astype(np.float64, copy=False)
    offsets = np.searchsorted(codes[new], np.arange(rows.cells + 1)).astype(np.int64)
    return ClusterBlocks(offsets, sums, rows.cluster[new])


def residual_p_values(
    sums: CellSums, how: CellTestSettings, draws: int
) -> tuple[Floats, NDArray[np.object_]]:
    """Give p-values of cells under sign flips, and the `Method` of each.

    The sum of residuals over ``sqrt(Σ D²)``, D a cluster's sum (a row's without clusters), as Student's t on one less
    degree of freedom than clusters; flips of the signs themselves below 25 clusters. The larger of ``sums.variance``
    and ΣD² is used: a cell with few events shows residuals too small. Fewer than 25 effective events on a side: too
    small to judge, because rare events are not symmetric.
    """
    rows = how.rows
    noise, number = cell_noise(sums, rows)
    p_value = _student(sums.off, np.maximum(noise, sums.variance), number)
    method = np.full(number.size, Method.RESIDUALS, object)
    small = number < (FEW_BLOCKS if rows is None else 2.0)
    if how.binary:
        events = effective_events(sums)
        if rows is not None and how.outcome_weights:
            # Weights that depend on the outcome say nothing of how many events there are: count them.
            events = rows.rarer_events()
        small |= events < EFFECTIVE_EVENTS
    chosen = np.flatnonzero((number < FEW_BLOCKS) & ~small)
    if rows is not None and chosen.size:
        # The larger of the two: flips cannot see that the residuals themselves are too small.
        reach = (np.abs(sums.off) - 1e-12 * sums.weight)[chosen]
        blocks = cluster_blocks(rows)
        one = np.ones(blocks.residual.size, np.int64)
        flips = blocks.offsets, -blocks.residual, blocks.residual, 0.5 * one, one
        most = np.full(chosen.size, draws)
        below, above, made = simulated(flips, -reach, reach, chosen, most, how.seed)
        flipped = np.minimum((1.0 + below + above) / (1.0 + made), 1.0)
        p_value[chosen] = np.maximum(p_value[chosen], flipped)
        method[chosen] = Method.SIGN_FLIPS
    p_value[small], method[small] = np.nan, Method.TOO_SMALL
    return p_value, method


def simulated(
    rows: tuple[Array, ...], low: Floats, high: Floats, cells: Integers, draws: Integers, seed: np.uint64
) -> tuple[Floats, Floats, Floats]:
    """How many draws of the sums of some cells are at most `low`, at least `high`, and were made.

    rows : offsets of the cells, and of each row its two values, the chance of the first, and how often it stands
    """
    counts = np.zeros((cells.size, 3), np.int64)
    simulated_tails(*rows, low, high, cells, draws, STOP, seed, counts)
    below, above, made = counts.T.astype(float)
    return below, above, made


def cell_noise(sums: CellSums, rows: CellRows | None) -> tuple[Floats, Floats]:
    """ΣD² of each cell, D a row's residual or a cluster's sum of them, and how many of these there are."""
    if rows is None:
        return sums.residual2, sums.rows
    blocks = cluster_blocks(rows)
    return blocks.squares(), np.diff(blocks.offsets).astype(np.float64)


def student_reach(number: Floats, level: float) -> Floats:
    """|ΣD|/sqrt(ΣD²) from which the test of `residual_p_values` rejects at a level; infinite where it never does."""
    freedom = np.maximum(number - 1.0, 1.0)
    t = -special.stdtrit(freedom, 0.5 * level)
    reach = t * np.sqrt(number / (freedom + t * t))
    return np.where((number >= 2.0) & (_rarest(number) <= level), reach, np.inf)


def _rarest(number: Floats) -> Floats:
    """No assignment of n signs is rarer than 2 in 2^n."""
    return np.exp2(np.maximum(1.0 - number, -1000.0))


def _student(total: Floats, noise: Floats, number: Floats) -> Floats:
    freedom = np.maximum(number - 1.0, 1.0)
    with unwarned():
        z = np.abs(total) / np.sqrt(noise)
        # z <= √n always; Student's statistic in terms of z, so that the bound maps to infinity.
        t = z * np.sqrt(freedom / np.maximum(number - z * z, 0.0))
        t = np.nan_to_num(t, posinf=1e300)
        tail = np.where(number > 1e6, special.ndtr(-z), special.stdtr(freedom, -t))
    return np.asarray(np.clip(2.0 * tail, _rarest(number), 1.0))


# ---- weights that know the outcome: outcomes drawn from the predictions are not their noise --------------------------
def sums_depend_on_outcome(sums: Floats) -> bool:
    """Tell from the sums of `weight_sums` whether weights depend on the outcome, given the score.

    They do after events or non-events were kept in part. ``T = Σ(w - m)(y - p)``, m the mean weight at that score,
    is then far from 0: beyond 3.3 of its own standard deviations, ``sqrt(Σ(w - m)²(y - p)²)``. Neighbouring scores are
    taken together until they hold 30 trials. Weights that are constant within each outcome and differ between the two
    (two trials of each at least) depend on it however few they are.
    """
    if _constant(sums.sum(axis=0)):
        return True
    number = sums[:, :, TRIALS].sum(axis=1)
    used, trials = sums[number > 0], number[number > 0]
    if not trials.size:
        return False
    last = trials.sum() // LEAST_TRIALS - 1
    group = np.minimum((np.cumsum(trials) - trials) // LEAST_TRIALS, last)
    cells = np.add.reduceat(used, np.flatnonzero(run_starts(group)), axis=0)
    columns = cells.transpose(2, 1, 0)
    both, events = columns.sum(axis=1), columns[:, 1]
    mean, rate = both[WEIGHT] / both[TRIALS], both[PREDICTED] / both[TRIALS]
    off = events[WEIGHT] - mean * events[TRIALS] - (both[PRODUCT] - mean * both[PREDICTED])
    spread = columns[SQUARE] - 2.0 * mean * columns[WEIGHT] + mean**2 * columns[TRIALS]
    variance = np.sum([rate**2, (1.0 - rate) ** 2] * spread)
    deviation = math.sqrt(max(float(variance), 0.0))
    # Equal weights leave nothing but rounding.
    scale = math.sqrt(both[SQUARE].sum())
    return deviation > 1e-6 * scale and abs(float(off.sum())) > CRITICAL * deviation


def _constant(outcomes: Floats) -> bool:
    trials = outcomes[:, TRIALS]
    if trials.min() < 2.0:
        return False
    mean = outcomes[:, WEIGHT] / trials
    constant = np.all(outcomes[:, SQUARE] / trials - mean**2 <= 1e-9 * mean**2)
    return bool(constant and mean.max() > mean.min() * (1.0 + 1e-6))


# ---- which null a call uses ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class NullModel:
    """Which null a call uses, and why; how residuals spread where outcomes are not binary, and their units."""

    null: Null
    reason: NullReason
    outcome_weights: bool = False
    spread: ResidualVariance | OutcomeSamplingVariance | None = None
    binary: bool = True
    units: Units = Units()  # noqa: RUF009  # frozen

    @property
    def model_variance(self) -> bool:
        """Whether outcomes are 0/1 and the weights do not depend on them, so that p(1-p) is the noise of a row."""
        return self.binary and not self.outcome_weights

    def judging(self, **cells: Any) -> CellTestSettings:
        """How cells of such noise are judged, given what is known of them."""
        known = {
            name: getattr(self, name) for name in ("null", "outcome_weights", "binary", "model_variance")
        }
        return CellTestSettings(**known, **cells)

    def sums(self, made: Tally | CellSums) -> CellSums:
        """Sums as inference reads them, with the variance that their predictions let expect."""
        sums = CellSums.of(made)
        if self.spread is None:
            return sums
        narrow = isinstance(made, Tally) and isinstance(made.cells, Ranges) and made.cells.name == OF_SCORE
        return replace(sums, variance=self.spread.floor(sums, narrow=narrow))


OUTCOME_WEIGHTS = NullModel(Null.RESIDUAL, NullReason.OUTCOME_WEIGHTS, outcome_weights=True)
BY_THE_MODEL = NullModel(Null.BERNOULLI, NullReason.PREDICTIONS)


def choose_null(pair: TargetData, null: str, classes: Array | None = None) -> NullModel:
    """The null asked for, or sign flips where clusters or outcome-dependent weights call for them.

    classes : (n, K) probabilities, where the outcomes of the pair are classes
    """
    one_of("null", null, tuple(map(str, Null)))
    if not pair.binary:
        reason = NullReason.MEANS if pair.cluster is None else NullReason.MEANS_IN_CLUSTERS
        spread = ResidualVariance.of(pair)
        return NullModel(Null.RESIDUAL, reason, False, spread, binary=False, units=pair.units)
    if outcome_weights(pair, classes):
        return OUTCOME_WEIGHTS if classes is not None else by_kept_outcomes(_sums_of_rows(pair))
    if pair.cluster is not None:
        return NullModel(Null.RESIDUAL, NullReason.CLUSTERS)
    if null == Null.RESIDUAL:
        return NullModel(Null.RESIDUAL, NullReason.REQUESTED)
    return BY_THE_MODEL


def by_kept_outcomes(sums: CellSums) -> NullModel:
    """The noise where weights depend on the outcome, as narrow cells of the score show it, or rows."""
    spread = OutcomeSamplingVariance.of(sums)
    return replace(OUTCOME_WEIGHTS, reason=NullReason.OUTCOME_SAMPLING, spread=spread)


def _sums_of_rows(pair: TargetData) -> CellSums:
    """Every row as a cell."""
    first, second = pair.weights
    residual2 = second * (pair.observed - pair.predicted) ** 2
    return CellSums(
        pair.repeats().astype(float),
        first,
        second,
        first * pair.predicted,
        first * pair.observed,
        residual2,
        residual2,
    )


def outcome_weights(pair: TargetData, classes: Array | None) -> bool:
    """Whether the weights depend on the outcome given the score, or on any class given its probability."""
    if pair.weight is None:
        return False
    events = [(pair.observed, pair.predicted)]
    if classes is not None:
        columns = enumerate(classes.T) if classes.ndim == 2 else [(1, classes)]
        events = [(pair.observed == k, own) for k, own in columns]
    return any(sums_depend_on_outcome(weight_sums(pair.weight, *each)) for each in events)


TERMS = 12
# Standard errors that each of two ranges must be off to be said to disagree, if the average is off.
BOTH_SIDES = 1.64
OTHER = 0.5  # of the larger turn of a walk: from there on the smaller turn makes it uneven


@dataclass(frozen=True, eq=False)
class ShapeTest:
    """How places err along the score, an array over places each.

    p_value : of both readings together;  moment : positive where predictions are too extreme, in standard deviations
    """

    p_value: Floats
    moment: Floats


def kuiper_bridge_p(x: Floats) -> Floats:
    """The probability that the range of a Brownian bridge is at least `x`.

    >>> kuiper_bridge_p(np.array([1.747, 0.0])).round(3).tolist()
    [0.05, 1.0]
    """
    # Beyond it the probability is 0 all the same.
    squared = np.minimum(x, 1e3) ** 2
    k2 = np.arange(TERMS, 0.0, -1.0) ** 2 * squared[..., None]
    total = np.sum(2.0 * (4.0 * k2 - 1.0) * np.exp(-2.0 * k2), axis=-1)
    return np.where(squared < 0.16, 1.0, np.clip(total, 0.0, 1.0))


def shape_test(off: Floats, variance: Floats) -> ShapeTest:
    """Test places by Σw(p - y) and its variance in cells of the score, (..., cells).

    Examples
    --------
    >>> found = shape_test(np.array([-30.0, -30.0, 30.0, 30.0]), np.full(4, 50.0))
    >>> bool(found.p_value < 1e-6), bool(found.moment > 0)
    (True, True)
    """
    total = variance.sum(axis=-1)
    noise = np.where(total > 0.0, total, 1.0)
    share, walk = variance / noise[..., None], bridge(off, variance)
    lever = np.cumsum(variance, axis=-1) / noise[..., None] - 0.5 * share - 0.5
    spread = np.sum(variance * lever * lever, axis=-1)
    known = (total > 0.0) & (spread > 0.01 * noise / 12.0)  # else all is in one cell of the score
    deviation = np.sqrt(np.where(known, spread, 1.0))
    moment = np.where(known, np.sum(off * lever, axis=-1) / deviation, 0.0)
    # Seen at few points a walk's range is smaller: by about 1.17 over the root of their number.
    reach = walk.max(axis=-1, initial=0.0) - walk.min(axis=-1, initial=0.0)
    size = reach / np.sqrt(noise) + np.sqrt(np.sum(share * share, axis=-1))
    p_value = 2.0 * np.minimum(2.0 * special.ndtr(-np.abs(moment)), kuiper_bridge_p(size))
    return ShapeTest(np.where(known, np.minimum(p_value, 1.0), np.nan), moment)


def normal_z(p_value: Floats) -> Floats:
    """The standard deviations of a normal that have these two-sided p-values.

    >>> normal_z(np.array([0.05, 1.0])).round(2).tolist()
    [1.96, -0.0]
    """
    return np.asarray(-special.ndtri(0.5 * np.clip(p_value, 1e-300, 1.0)))


def bridge(off: Floats, variance: Floats) -> Floats:
    """The running total of residuals less its average drift over the noise passed: 0 at its end."""
    total = variance.sum(axis=-1, keepdims=True)
    passed = np.cumsum(variance, axis=-1) / np.where(total > 0, total, 1.0)
    return np.asarray(np.cumsum(off, axis=-1) - off.sum(axis=-1, keepdims=True) * passed)


def form_of(
    off: Floats, variance: Floats, *, average: bool, shape: bool
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The form of one place's error, and the first and last cell of the score of the two ranges that disagree.

    average, shape : which of its two tests are beyond noise. Where both are, ranges disagree only if each is off; where
    the walk alone is, they may err the same way, one of them more.

    Examples
    --------
    >>> form_of(np.array([-30.0, -30.0, 30.0, 30.0]), np.full(4, 50.0), average=False, shape=True)
    ('too extreme', ((2, 3), (0, 1)))
    >>> form_of(np.array([-30.0, 30.0]), np.array([0.0, 50.0]), average=True, shape=True)
    ('too extreme', ((1, 1), (0, 0)))
    """
    plain = "too high" if off.sum() >= 0 else "too low"
    if not shape or off.size < 2:
        return plain, ()
    walk = bridge(off, variance)[:-1]
    low, high = int(np.argmin(walk)), int(np.argmax(walk))
    down, up = max(-walk[low], 0.0), max(walk[high], 0.0)
    if min(down, up) >= OTHER * max(down, up):
        return "uneven", _uneven(off, min(low, high), max(low, high))
    form, last = ("too extreme", low) if down > up else ("too timid", high)
    halves = np.split(np.stack([off, variance]), [last + 1], axis=1)
    # The noise is 0 where all rows are certain.
    sides, noise = np.transpose([half.sum(axis=1) for half in halves])
    apart = sides.prod() < 0 and (np.abs(sides) >= BOTH_SIDES * np.sqrt(noise)).all()
    if average and not apart:
        return plain, ()
    # Of two ranges that err the same way one errs more: no score is too extreme.
    form = "uneven" if sides.prod() > 0 else form
    return form, ((last + 1, off.size - 1), (0, last))


def _uneven(off: Floats, first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The middle range, and the outer one that is further off the other way."""
    below, middle, above = (0, first), (first + 1, last), (last + 1, off.size - 1)
    low, inside, high = (part.sum() for part in np.split(off, [first + 1, last + 1]))
    sign = np.sign(inside)
    return middle, below if sign * low <= sign * high else above
