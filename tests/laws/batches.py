"""Batches of predictions for the laws: ordinary, tied, certain, rare, with and without weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from miscal.data.target import TargetData


@dataclass(frozen=True)
class Batch:
    """Outcomes, probabilities and whole-number weights of a few rows."""

    y: np.ndarray
    p: np.ndarray
    w: np.ndarray

    def pair(self, *, weighted: bool = True) -> TargetData:
        """The pair of the positive class."""
        return TargetData(self.p, self.y, self.w if weighted else None)

    def take(self, rows: np.ndarray) -> Batch:
        """Some rows."""
        return Batch(self.y[rows], self.p[rows], self.w[rows])

    def repeated(self) -> Batch:
        """Each row as often as its weight says, with weight 1."""
        rows = np.repeat(np.arange(self.y.size), self.w.astype(int))
        return Batch(self.y[rows], self.p[rows], np.ones(rows.size))

    def __add__(self, other: Batch) -> Batch:
        return Batch(*(np.concatenate(pair) for pair in zip(self.parts(), other.parts(), strict=True)))

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three arrays."""
        return self.y, self.p, self.w


SCORES = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 0.5, 0.1, 0.2, 0.3, 0.7, 1 / 3, 2 / 3, 1e-300, 1e-9, 1 - 1e-9]),
    st.integers(0, 20).map(lambda k: k / 20),
)


@st.composite
def batches(draw: st.DrawFn, *, least: int = 1, most: int = 60) -> Batch:
    """A batch of `least` to `most` rows."""
    rows = draw(st.integers(least, most))
    p = np.array(draw(st.lists(SCORES, min_size=rows, max_size=rows)))
    y = np.array(draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows)), dtype=np.uint8)
    w = np.array(draw(st.lists(st.integers(1, 5), min_size=rows, max_size=rows)), dtype=np.float64)
    return Batch(y, p, w)
