"""Draws of cell sums and of rows as they would be if the model were calibrated.

Each way of drawing is a function that returns a block function: ``block(first, count)`` gives draws first ..
first + count - 1. A draw depends on its number and the seed alone, so that neither the size of blocks nor the number of
threads changes an answer. A new way of drawing has a `Method` of its own and a line in the table of `cell_draws`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from miscal.codes.inference import Method, Null
from miscal.data.arrays import Array
from miscal.data.target import TargetData
from miscal.kernels import simulate
from miscal.kernels.subpopulation import simulated_maxima
from miscal.kernels.threads import over_blocks
from miscal.stats.binomial import equal_weights, matched_trials
from miscal.stats.cell_sums import (
    EFFECTIVE_EVENTS,
    Bools,
    CellRows,
    CellSums,
    CellTestSettings,
    Floats,
    Integers,
    effective_events,
    ignore_warnings,
)
from miscal.stats.cluster_draws import ClusterDraws, few_clusters
from miscal.stats.normal import normal_interval
from miscal.stats.sign_flip import ClusterBlocks, cluster_blocks, residual_squares

ROW_DRAWS = 2e8  # rows times draws above which sums are drawn in place of rows
MAX_SIMULATED_BANDS = 300  # up to this many cells the consistency band is simulated, beyond it normal
MAX_WEIGHT_RATIO = 3.0  # n·Σw²/(Σw)², 1 for equal weights: beyond this a few of them are most of the sum
DRAWS_PER_TASK = 16


# block(first, count) gives draws first .. first + count - 1: of cells (count, cells), of rows (rows, count).
Block = Callable[[int, int], Floats]


@dataclass(frozen=True)
class CellDraws:
    """Draws of the cells' Σw·y* under a null model.

    Attributes
    ----------
    method : Method
        How they are drawn.
    block : callable
        Gives draws ``first .. first + count - 1``, (draws, cells).
    spread_factor : float
        A statistic of the draws is spread around its mean by this.
    sparse_cells : bool
        Whether cells with few events are drawn from the predictions, whatever `method` says of the others.
    """

    method: Method
    block: Block
    spread_factor: float = 1.0
    sparse_cells: bool = False


def quiet_cell_scale(sums: CellSums, rows: CellRows | None) -> Floats:
    """Usual over observed standard deviation of the residuals of each cell; at least 1."""
    squares, _ = residual_squares(sums, rows)
    with ignore_warnings():
        ratio = np.nan_to_num(sums.variance / squares, nan=1.0, posinf=1.0)
    return np.sqrt(np.maximum(ratio, 1.0))


def cell_draws(sums: CellSums, settings: CellTestSettings, draws: int = 999) -> CellDraws:
    """Prepare draws of the cells' observed sums Σw·y* under a null model.

    ============  =========================  ====================================  ===================================
    null          weights                    rows                                  how a cell is drawn
    ============  =========================  ====================================  ===================================
    bernoulli     none, or equal in a cell   any                                   matched binomial (1)
    bernoulli     others                     given, rows·draws at most 2e8         every row's outcome
    bernoulli     others                     not given, or too many                scaled binomial (2)
    bernoulli     others, sparse cell        not given, or too many                compound binomial (3)
    residual      model variance (4)         at most 1,000 clusters                outcomes by cluster (`ClusterDraws`)
    residual      any                        given, blocks·draws at most 2e8       signs of rows or clusters flipped
    residual      any                        not given, or too many                normal with variance ΣD²
    residual      model variance, sparse     any                                   as bernoulli, widened (5)
    ============  =========================  ====================================  ===================================

    1. ``N = μ²/(μ - σ²)`` trials on the rarer side, with mean μ = Σwp and variance σ² = Σw²p(1-p).
    2. Probability m = Σwp/Σw in units of ``s = Σw²p(1-p)/(Σw·m(1-m))``: draws stay between 0 and Σw.
    3. A binomial number of random weights, with the cell's mean and variance. A cell is sparse below 25 effective
       events; its weights must not be far apart (`MAX_WEIGHT_RATIO`).
    4. `CellTestSettings.model_variance`: 0/1 outcomes whose weights do not depend on them.
    5. Deviations from Σwp times ``sqrt(max(1, ΣD²/Σw²(y-p)²))`` over all cells, D a cluster's sum in a cell.

    Rows count as given only if those of every filled cell are there. D is a row's residual, or a cluster's sum of them.
    Flipped and normal residuals are multiplied by `CellTestSettings.residual_scale`.

    Parameters
    ----------
    sums : CellSums
        Of all cells.
    settings : CellTestSettings
        The null model, and the rows where they are at hand.
    draws : int, default=999
        How many will be asked for: decides whether rows can be drawn one by one.

    Returns
    -------
    CellDraws
        Draws in blocks; a draw depends on its number and the seed, not on the block.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.stats.cell_sums import CellTestSettings, CellSums
    >>> ones = np.ones(1)
    >>> sums = CellSums(100 * ones, 100 * ones, 100 * ones, 5 * ones, 7 * ones, 4.5 * ones, 7 * ones)
    >>> bool(abs(cell_draws(sums, CellTestSettings()).block(0, 4000).mean() - 5) < 0.15)
    True
    """
    rows, seed = settings.rows, settings.seed
    if rows is not None and ((np.diff(rows.offsets) == 0) & (sums.weight > 0.0)).any():
        rows = None  # rows of some cells were left out: the sums know all of them
    if settings.null == Null.BERNOULLI:
        if settings.weighted and rows is not None and rows.rows * draws <= ROW_DRAWS:
            return CellDraws(Method.SIMULATION, _row_outcome_draws(rows, seed))
        return CellDraws(Method.SIMULATION, _matched_binomials(sums, seed))
    if settings.model_variance and rows is not None and few_clusters(rows, draws):
        by_cluster = ClusterDraws.of(rows, int(seed), sums.predicted, rows.offsets)
        return CellDraws(Method.CLUSTER_DRAWS, by_cluster.block)
    blocks = None if rows is None else cluster_blocks(rows)
    flips = _sign_flip_draws(sums, blocks, settings, draws)
    sparse = (sums.weight > 0.0) & (effective_events(sums) < EFFECTIVE_EVENTS)
    if not settings.model_variance or not sparse.any():
        return flips
    return _sparse_cell_draws(flips, sums, sparse, blocks, _matched_binomials(sums, seed))


def _sparse_cell_draws(
    flips: CellDraws, sums: CellSums, sparse: Bools, blocks: ClusterBlocks | None, matched: Block
) -> CellDraws:
    """Flipped signs, and in cells of few events draws from the predictions, widened by what clusters add to noise.

    Where events are rare residuals are not symmetric: a cell of five rows at 10% has -0.5 in six cases of ten, and no
    choice of five signs shows that often. Drawn cell by cell the cells do not know that they share clusters: statistics
    are spread by the deviation of sums over clusters relative to that over rows, as far as these cells have a share of
    the noise.
    """
    within = whole = 1.0
    # How much more sums over clusters deviate than sums over rows, in a cell and over all.
    if blocks is not None:
        cluster_sums = np.bincount(np.unique(blocks.cluster, return_inverse=True)[1], blocks.residual)
        row_squares = max(np.sum(sums.residual2), 1e-300)
        squares = np.array([np.sum(blocks.residual**2), np.sum(cluster_sums**2)])
        within, whole = np.sqrt(np.maximum(1.0, squares / row_squares)).tolist()
    share = np.sum(sums.variance[sparse]) / max(np.sum(sums.variance), 1e-300)
    spread_factor = math.sqrt(1.0 + (whole * whole - 1.0) * share)
    mean = sums.predicted[sparse]

    def block(first: int, count: int) -> Floats:
        drawn = flips.block(first, count)
        drawn[:, sparse] = mean + within * (matched(first, count)[:, sparse] - mean)
        return drawn

    return CellDraws(flips.method, block, spread_factor, sparse_cells=True)


def _sign_flip_draws(
    sums: CellSums, blocks: ClusterBlocks | None, settings: CellTestSettings, draws: int
) -> CellDraws:
    """Draws of flipped signs, or normal ones with their variance where those would be too many."""
    scale = np.broadcast_to(settings.residual_scale, sums.rows.shape)
    if blocks is None or blocks.residual.size * draws > ROW_DRAWS:
        squares = sums.residual2 if blocks is None else blocks.squares()
        normals = sums.predicted * 1.0, scale * np.sqrt(squares)
        return CellDraws(Method.RESIDUALS, _block_of_cells(simulate.draw_normal, normals, settings.seed))
    cells = blocks.cells()
    residual = blocks.residual * scale[cells]
    rows = -residual, residual, np.full(residual.size, 0.5), blocks.cluster, cells
    return CellDraws(Method.SIGN_FLIPS, _block_of_rows(rows, settings.seed, sums.predicted))


def _row_outcome_draws(rows: CellRows, seed: np.uint64) -> Block:
    """Draws of every row's outcome."""
    weight, repeats, codes = rows.sampling_weight, rows.trials(), rows.codes()
    # By content: the order of the table moves no draw.
    order = np.lexsort((repeats, weight, rows.predicted, codes))
    order = np.repeat(order, repeats[order])
    positions, zeros = np.arange(order.size), np.zeros(order.size)
    drawn = weight[order], zeros, rows.predicted[order], positions, codes[order]
    return _block_of_rows(drawn, seed, np.zeros(rows.cells))


def _block_of_rows(rows: tuple[Array, ...], seed: np.uint64, start: Floats) -> Block:
    """Draws of rows added up in their cells; the rows are what `simulate.draw_rows` takes."""

    def block(first: int, count: int) -> Floats:
        out = np.tile(start[:, None], count)
        simulate.draw_rows(*rows, first, seed, out)
        return np.ascontiguousarray(out.T)

    return block


def _block_of_cells(kernel: Callable[..., None], cells: tuple[Array, ...], seed: np.uint64) -> Block:
    """Draws of cells that a kernel makes of their numbers."""

    def block(first: int, count: int) -> Floats:
        out = np.empty((count, cells[0].size))
        kernel(*cells, first, seed, out)
        return out

    return block


def _matched_binomials(sums: CellSums, seed: np.uint64) -> Block:
    """Matched binomials in units of their scale; the complement to Σw is drawn where the outcomes are swapped."""
    equal, rate = equal_weights(sums), sums.mean
    # Else certain, but for digits.
    live = (sums.weight > 0.0) & (sums.variance > 0.0) & (rate > 0.0) & (rate < 1.0)
    with ignore_warnings():
        spread = sums.variance / (sums.weight * rate * (1.0 - rate))
        scale = np.where(live, np.where(equal, sums.weight2 / sums.weight, spread), 1.0)
        size = np.where(equal, np.rint(sums.weight / scale), sums.weight / scale)
        mean, variance = sums.predicted / scale, np.where(live, sums.variance / scale**2, 0.0)
        swapped = mean > 0.5 * size
        rare = np.where(swapped, size - mean, mean)
        trials = np.where(equal, matched_trials(rare, variance, size), size)
    # Just beside a whole number is that number: rounding must not send a cell to a mixture.
    whole = np.rint(trials)
    trials = np.where(np.abs(trials - whole) < 1e-9 * trials, whole, trials)
    trials = np.maximum(np.nan_to_num(trials, nan=1.0), 1.0)
    units = np.stack([rare, variance, trials, scale, np.zeros(rare.size)])
    # One weight above all others is there in every draw: random weights would have it in few of them.
    even = sums.weight2 * sums.rows <= MAX_WEIGHT_RATIO * sums.weight**2
    sparse = live & ~equal & even & (effective_events(sums) < EFFECTIVE_EVENTS)
    units[:, sparse] = _compound_binomials(sums.take(sparse), units[:, sparse])
    return _block_of_cells(simulate.draw_cells, (*units, sums.weight * 1.0, swapped), seed)


def _compound_binomials(sums: CellSums, units: Floats) -> Floats:
    """Turn sparse weighted cells into binomial numbers of random weights, where mean and variance allow it.

    With few events the shape matters: the chance of none is that of the rows' number, not of their Kish size.
    """
    rare, _, _, scale, _ = units
    size = sums.rows
    unit = sums.weight / size
    events = rare * scale / unit
    binomial_variance = events * (1.0 - events / size)
    # Var(Σ of K weights) = unit²·(Var K + roughness·E K): the weights take what the binomial leaves.
    with ignore_warnings():  # cells of nearly no expected events
        roughness = (sums.variance / unit**2 - binomial_variance) / events
    fit = (roughness > 0.0) & np.isfinite(roughness)
    return np.where(fit, [events, binomial_variance, size, unit, roughness], units)


def consistency_band(sums: CellSums, settings: CellTestSettings) -> tuple[Floats, Floats, Floats]:
    """Standard error of each cell's observed rate under the null, and where 95% of such rates fall, cell by cell."""
    variance = sums.variance
    if settings.null == Null.RESIDUAL:
        variance = residual_squares(sums, settings.rows)[0]
    else:
        settings = replace(settings, rows=None)
    with ignore_warnings():
        error = np.sqrt(variance) / sums.weight * settings.residual_scale
        if sums.rows.size > MAX_SIMULATED_BANDS:
            band = np.stack(normal_interval(sums.mean, error))
        else:
            stream = cell_draws(sums, settings)
            # Draws of every row take longer than draws of sums.
            block = stream.block(0, 199 if stream.method is Method.CLUSTER_DRAWS else 999)
            band = np.quantile(block, [0.025, 0.975], axis=0) / sums.weight
    low, high = np.clip(band, 0.0, 1.0)
    return error, low, high


@dataclass(frozen=True, eq=False)
class ResidualDraws:
    """Residuals w(y - p) of calibrated predictions, rows by draws; a draw depends on its number and the rows alone.

    event, none, chance : a trial gives its event at its chance, else its none
    trials : of each row; None where a row is one, or moves with its cluster
    unit : rows that are drawn as one have the same; None where each is drawn by itself
    """

    event: Floats
    none: Floats
    chance: Floats
    trials: Integers | None
    unit: Integers | None
    seed: np.uint64

    @classmethod
    def of(cls, target: TargetData, flips: bool, seed: np.uint64, scale: float = 1.0) -> "ResidualDraws":
        """The rows of a pair; weights are divided by `scale`."""
        weight, predicted, trials = target.sampling_weight / scale, target.predicted, target.count
        if not flips:
            return cls((1.0 - predicted) * weight, -predicted * weight, predicted, trials, None, seed)
        residual, unit = weight * (target.observed - predicted), target.cluster
        if unit is None:
            unit = np.arange(target.rows)
        elif trials is not None:
            residual, trials = residual * trials, None
        return cls(-residual, residual, np.full(target.rows, 0.5), trials, unit, seed)

    def block(self, first: int, count: int, rows: Integers | slice = slice(None)) -> Floats:
        """Draws first .. first + count - 1 of some rows, (rows, count)."""
        event, non_event, chance = self.event[rows], self.none[rows], self.chance[rows]
        positions, steps = np.arange(event.size), np.zeros((event.size, count))
        seeds = [int(self.seed)]
        if not isinstance(rows, slice):
            seeds.append(int(rows[0]))
        if self.trials is not None:  # as many independent outcomes, or signs
            trials = self.trials[rows]
            for b in range(count):
                events = np.random.default_rng([*seeds, first + b]).binomial(trials, chance)
                steps[:, b] = event * events + non_event * (trials - events)
            return steps
        seed, unit = self.seed, positions
        if self.unit is not None:
            unit = self.unit[rows]
        elif len(seeds) > 1:
            seed = np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0]
        simulate.draw_rows(event, non_event, chance, unit, positions, first, seed, steps)
        return steps


def residual_draws(target: TargetData, settings: CellTestSettings, draws: int) -> tuple[Block, Method]:
    """Residuals of rows in draws of a null, ``block(first, count)``, (rows, count), and how they are drawn."""
    flips, seed = settings.null == Null.RESIDUAL, settings.seed
    if flips and settings.model_variance and few_clusters(target, draws):
        return ClusterDraws.of(target, int(seed)).of_rows, Method.CLUSTER_DRAWS
    return ResidualDraws.of(target, flips, seed).block, Method.SIGN_FLIPS if flips else Method.SIMULATION


RowLists = tuple[Array, Array]  # positions of the rows of all lists, and where each begins


def widest_ranges(
    key: Floats, lists: RowLists, scale: Floats, steps: Block, first: int, count: int
) -> Floats:
    """The widest scaled range of cumulative differences over lists of rows, per draw; cut between distinct keys."""

    def work(start: int, stop: int) -> Floats:
        maxima = np.empty(stop - start)
        simulated_maxima(key, *lists, scale, steps(first + start, stop - start), maxima)
        return maxima

    return np.concatenate(over_blocks(count, work, DRAWS_PER_TASK))
