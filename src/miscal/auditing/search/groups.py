"""Groups of cells with their sums, as predicted and beyond the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from miscal.auditing.search.parts import Part
from miscal.engines.memory import tally
from miscal.inference.cells import cell_p_values
from miscal.inference.sums import Floats, Sums
from miscal.metrics.pooled import Noise
from miscal.pairs import Pair
from miscal.pooling.cells import LevelPooling, Levels
from miscal.pooling.condition import Conjunction

NAMES = ("rows", "weight", "weight2", "predicted", "observed", "variance", "residual2")
Box = tuple[tuple[int, int], ...]
CLUSTER_SCREEN = 0.2  # cells less suspect than this by rows need no exact sum over clusters


@dataclass(frozen=True, eq=False)
class Rows:
    """What is compared, as predicted and beyond the score, and how its noise is judged.

    raw : the pair;  beyond : the same with the recalibrated score;  noise : which null
    spread : variance of sums over clusters relative to that over rows, at least 1
    scale : how many rows of the table each row stands for; 1 unless they are a sample
    """

    raw: Pair
    beyond: Pair
    noise: Noise
    spread: float = 1.0
    scale: float = 1.0

    @property
    def weight(self) -> np.ndarray | None:
        """Weight of the table's rows that each row stands for; None when every row counts once."""
        first = self.raw.first
        if self.scale == 1.0:
            return first
        return np.full(self.raw.rows, self.scale) if first is None else first * self.scale

    def variance(self, sums: Sums) -> Floats:
        """Variance of Σw(y - p) in each cell."""
        return np.asarray((sums.residual2 if self.noise.null == "residual" else sums.variance) * self.spread)

    def p_values(self, sums: Sums) -> Floats:
        """P-values from sums alone; with clusters only a first look, see `exact_p`."""
        noise = self.noise
        found = cell_p_values(
            replace_noise(sums, self.spread),
            weighted=self.raw.weight is not None,
            null=noise.null,
            outcome_weights=noise.outcome_weights or not self.raw.binary,
            response="binary" if self.raw.binary else "real",
        )
        return found.p_value

    def exact_p(self, pair: Pair, rows: np.ndarray, p_value: float) -> float:
        """The p-value of some rows, over whole clusters where there are any; `p_value` otherwise."""
        from scipy.special import ndtr

        if pair.cluster is None or not p_value < CLUSTER_SCREEN:
            return p_value
        total, noise = cluster_sums(pair, rows)
        return float(2.0 * ndtr(-abs(total) / noise)) if noise > 0 else 1.0


def cluster_sums(pair: Pair, rows: np.ndarray) -> tuple[float, float]:
    """Sum of the residuals of some rows, and its standard deviation when clusters flip their signs."""
    assert pair.cluster is not None
    sums = np.bincount(pair.cluster[rows], _residual(pair, rows))
    return float(sums.sum()), float(np.sqrt(np.sum(sums * sums)))


def replace_noise(sums: Sums, spread: float) -> Sums:
    """Sums whose squared residuals are as large as clusters make them."""
    return sums if spread == 1.0 else replace(sums, residual2=sums.residual2 * spread)


def _residual(pair: Pair, rows: np.ndarray) -> np.ndarray:
    residual = pair.observed[rows] - pair.predicted[rows]
    return np.asarray(residual if pair.first is None else residual * pair.first[rows])


def cluster_spread(pair: Pair) -> float:
    """How much more sums over clusters vary than sums over rows; 1 without clusters."""
    if pair.cluster is None:
        return 1.0
    every = np.arange(pair.rows)
    residual = _residual(pair, every)
    sums = np.bincount(pair.cluster, residual)
    return max(1.0, float(np.sum(sums * sums) / max(np.sum(residual * residual), 1e-300)))


@dataclass(eq=False)
class Group:
    """Cells of one column, or of several crossed (the last running fastest).

    p_value : of each cell as predicted, NaN where it cannot be judged
    walk : p-value and (first, last) cell of the stretch in which the walk along a variable moves most
    """

    parts: tuple[Part, ...]
    kind: str
    raw: Sums
    beyond: Sums
    p_value: Floats
    walk: tuple[float, int, int] | None = None
    reachable: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def ordered(self) -> int:
        return self.parts[0].ordered if len(self.parts) == 1 else 0

    @property
    def count(self) -> int:
        return int(np.prod(self.shape))

    def codes(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The cell of rows."""
        codes = self.parts[0].codes[rows].astype(np.int64)
        for part in self.parts[1:]:
            codes *= part.count
            codes += part.codes[rows]
        return codes

    def box(self, cell: int) -> Box:
        """One cell, as the first and last cell of each part."""
        if len(self.parts) == 1:
            return ((cell, cell),)
        cells = np.unravel_index(cell, self.shape)
        return tuple((int(i), int(i)) for i in cells)

    @property
    def shape(self) -> list[int]:
        return [part.count for part in self.parts]

    def members(self, box: Box) -> np.ndarray:
        """Row numbers of a box of cells."""
        inside: np.ndarray | None = None
        for part, (first, last) in zip(self.parts, box, strict=True):
            codes = part.codes
            here = codes == first if first == last else (codes >= first) & (codes <= last)
            inside = here if inside is None else inside & here
        assert inside is not None
        return np.flatnonzero(inside)

    def inside(self, values: Floats, box: Box) -> Floats:
        """The values of a box of cells."""
        return values.reshape(self.shape)[tuple(slice(first, last + 1) for first, last in box)]

    def words(self, box: Box) -> str:
        """The place in words."""
        return " and ".join(part.words(*ends) for part, ends in zip(self.parts, box, strict=True))

    def conjunction(self, box: Box) -> Conjunction:
        """Which rows belong to a box of cells."""
        return Conjunction(tuple(part.condition(*ends) for part, ends in zip(self.parts, box, strict=True)))

    def levels(self, box: Box) -> tuple[str, ...]:
        """The levels, one a column."""
        return tuple(part.level(*ends) for part, ends in zip(self.parts, box, strict=True))

    def joined(self, box: Box) -> tuple[Sums, Sums]:
        """The sums of a box as one cell, as predicted and beyond the score."""
        if all(first == last for first, last in box):
            firsts = [first for first, _ in box]
            cell = firsts[0] if len(firsts) == 1 else int(np.ravel_multi_index(firsts, self.shape))
            return _one(self.raw, cell), _one(self.beyond, cell)
        raw, beyond = (
            Sums(*(self.inside(getattr(sums, name), box).sum().reshape(1) for name in NAMES))
            for sums in (self.raw, self.beyond)
        )
        return raw, beyond


def _one(sums: Sums, cell: int) -> Sums:
    """The sums of one cell."""
    here = slice(cell, cell + 1)
    return Sums(
        sums.rows[here],
        sums.weight[here],
        sums.weight2[here],
        sums.predicted[here],
        sums.observed[here],
        sums.variance[here],
        sums.residual2[here],
    )


def group_of(parts: Sequence[Part], kind: str, rows: Rows, p_value: Floats | None = None) -> Group:
    """Tally the cells of a column, or of columns crossed."""
    single = _wide(parts[0].codes) if len(parts) == 1 else None
    made = Group(tuple(parts), kind, *_empty())
    codes = made.codes() if single is None else single
    pooling = LevelPooling(codes, Levels(tuple([""] * made.count)))
    raw, beyond = (added(pair, pooling) for pair in (rows.raw, rows.beyond))
    given = rows.p_values(raw) if p_value is None else p_value
    return Group(made.parts, kind, raw, beyond, given)


def _wide(codes: np.ndarray) -> np.ndarray:
    """Codes as the kernels take them: kept in one byte, added in two."""
    return codes.astype(np.int16) if codes.dtype == np.int8 else codes


def _empty() -> tuple[Sums, Sums, Floats]:
    nothing = np.empty(0)
    return Sums(*[nothing] * 7), Sums(*[nothing] * 7), nothing


def added(pair: Pair, pooling: LevelPooling) -> Sums:
    """A tally's columns as plain arrays."""
    found = tally(pair, pooling)
    return Sums(*(np.asarray(getattr(found, name), dtype=np.float64) for name in NAMES))


def sums_of(pair: Pair, rows: np.ndarray) -> Sums:
    """The sums of some rows, as one cell."""
    return added(pair.take(rows), LevelPooling(np.zeros(rows.size, np.int16), Levels(("",))))


def reachable_p(sums: Sums, rows: Rows) -> Floats:
    """The smallest p-value that each cell could have shown: with no event at all, or nothing but events.

    It depends on the predictions alone, so that cells which could never be significant may be left out before
    anything is counted (Tarone).
    """
    if rows.raw.weight is not None or rows.noise.null == "residual":
        return np.zeros(sums.rows.size)
    none = rows.p_values(replace(sums, observed=np.zeros_like(sums.observed)))
    every = rows.p_values(replace(sums, observed=sums.weight.copy()))
    return np.asarray(np.nan_to_num(np.fmin(none, every), nan=1.0))
