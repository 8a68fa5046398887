"""The original multi-calibration algorithm: bin the scores, cycle through the subpopulations (Hébert-Johnson 2018)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from miscal.data.columns import Columns
from miscal.engines.subpopulations import Ordered, conjunction_lists
from miscal.metrics.subpopulation.inputs import coded
from miscal.pooling.parsing import rows_where
from miscal.pooling.subpopulations import ranged
from miscal.recalibrate.base import Array, Floats, Recalibrator, Sample, pairs
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.fitting.tables import check_chosen, chosen_names
from miscal.recalibrate.fitting.tree import Integers
from miscal.recalibrate.state import Field, label_array

EVERYONE = "everyone"


class BinAndCycle(Recalibrator):
    """Multi-calibration as first proposed: in each subpopulation and bin of the score, shift the mean to be right.

    Subpopulations are the conjunctions of up to `depth` columns (levels; ranges of numbers) with at least `min_rows`
    rows, and everyone. A cell of subpopulation and bin with at least `min_rows` rows whose mean outcome differs from
    its mean score by more than `tolerance` has its scores shifted by the difference and held within [0, 1]; the cycle
    is repeated until no cell is shifted, or `rounds` times. For two classes. A baseline: it does not watch held-out
    rows, and does not keep the ranking.

    Attributes
    ----------
    subpopulations_ : (k,) definitions in words
    shifts_ : (m,) in the order in which they are made, of subpopulation `shift_of_` and bin `shift_bin_`

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex, y_prob = rng.choice(["f", "m"], 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < np.where(sex == "f", y_prob**2, y_prob)
    >>> fixed = BinAndCycle(depth=1).fit(y_prob, y, {"sex": sex})
    >>> fixed.predict_proba([0.55, 0.55], {"sex": ["f", "m"]})[:, 1].round(1)
    array([0.3, 0.5])
    """

    uses_columns: ClassVar[bool] = True
    fields: ClassVar[dict[str, Field]] = {
        "subpopulations_": Field("labels"),
        "shift_of_": Field("int", ("any",), 0),
        "shift_bin_": Field("int", ("any",), 0),
        "shifts_": Field("float", ("any",), -1.0, 1.0),
    }

    subpopulations_: Array
    shift_of_: Integers
    shift_bin_: Integers
    shifts_: Floats

    def __init__(
        self,
        columns: Any = None,
        depth: int = 2,
        ranges: int = 4,
        bins: int = 10,
        tolerance: float = 0.01,
        min_rows: int = 50,
        rounds: int = 20,
    ) -> None:
        self.columns = columns
        self.depth = depth
        self.ranges = ranges
        self.bins = bins
        self.tolerance = tolerance
        self.min_rows = min_rows
        self.rounds = rounds

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        check_chosen(self.columns)
        for name, least, most in (("depth", 1, 5), ("ranges", 2, 1000), ("bins", 1, 10_000), ("min_rows", 1, None)):
            parameters.whole(name, getattr(self, name), least, most)
        parameters.number("tolerance", self.tolerance, 0.0, 1.0, above=True)
        parameters.whole("rounds", self.rounds, 1, 10_000)

    def check_state(self) -> None:
        """Refuse shifts of subpopulations or bins that are not there."""
        if self.n_classes_ != 2 or not (len(self.shift_of_) == len(self.shift_bin_) == len(self.shifts_)):
            raise ValueError("the shifts differ in number")
        if self.shift_of_.size and (
            self.shift_of_.max() >= len(self.subpopulations_) or self.shift_bin_.max() >= self.bins
        ):
            raise ValueError("a shift is of a subpopulation or bin that is not there")

    def _fit(self, sample: Sample) -> None:
        if sample.n_classes != 2:
            from miscal.data.errors import refusal

            raise refusal("is for two classes", where="BinAndCycle", got=f"there are {sample.n_classes}")
        names = chosen_names(sample.columns, self.columns)
        everyone = Ordered(np.arange(sample.rows, dtype=np.int32), np.empty(sample.rows))
        covariates = [one for one in coded(everyone, sample.columns, names, None, keep=True) if one.count > 1]
        cut = [ranged(one, self.ranges) for one in covariates]
        lists, definitions = conjunction_lists(everyone, cut, self.depth, self.min_rows)
        lists = [everyone.everyone, *lists]
        self.subpopulations_ = label_array([EVERYONE, *(definition.words() for definition in definitions)])
        weight = np.ones(sample.rows) if sample.weight is None else sample.weight
        self._cycle(lists, sample.probability.copy(), sample.outcome.astype(np.float64), weight)

    def _cycle(self, lists: list[Any], score: Floats, outcome: Floats, weight: Floats) -> None:
        made: list[tuple[int, int, float]] = []
        for _ in range(self.rounds):
            before = len(made)
            for k, rows in enumerate(lists):
                place = self._bins(score[rows])
                mass = np.bincount(place, weight[rows], self.bins)
                off = np.bincount(place, weight[rows] * (outcome[rows] - score[rows]), self.bins)
                enough = np.bincount(place, minlength=self.bins) >= self.min_rows
                shift = np.where(enough, off / np.maximum(mass, 1e-300), 0.0)
                shift[np.abs(shift) <= self.tolerance] = 0.0
                if shift.any():
                    score[rows] = np.clip(score[rows] + shift[place], 0.0, 1.0)
                    made += [(k, int(b), float(shift[b])) for b in np.flatnonzero(shift)]
            if len(made) == before:
                break
        self.shift_of_ = np.array([shift[0] for shift in made], dtype=np.int64)
        self.shift_bin_ = np.array([shift[1] for shift in made], dtype=np.int64)
        self.shifts_ = np.array([shift[2] for shift in made], dtype=np.float64)

    def _bins(self, score: Floats) -> Integers:
        return np.clip(np.ceil(score * self.bins).astype(np.int64) - 1, 0, self.bins - 1)

    def visits(self) -> tuple[Integers, Integers]:
        """The subpopulation of each visit, and where its shifts begin: those of one visit have rising bins."""
        new = (np.diff(self.shift_of_) != 0) | (np.diff(self.shift_bin_) <= 0)
        first = np.flatnonzero(np.append(True, new)) if self.shifts_.size else np.empty(0, np.int64)
        return self.shift_of_[first], np.append(first, self.shifts_.size).astype(np.int64)

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        score = probability.copy()
        visit_of, starts = self.visits()
        members: dict[int, Any] = {}
        for k, start, stop in zip(visit_of.tolist(), starts[:-1], starts[1:], strict=True):
            if k not in members:
                name = str(self.subpopulations_[k])
                inside = np.ones(len(score), bool) if name == EVERYONE else rows_where(name, columns, strict=False)
                members[k] = np.flatnonzero(inside)
            shift = np.zeros(self.bins)
            shift[self.shift_bin_[start:stop]] = self.shifts_[start:stop]
            rows = members[k]
            score[rows] = np.clip(score[rows] + shift[self._bins(score[rows])], 0.0, 1.0)
        return pairs(score)

    def _summary(self) -> str:
        return f"{len(self.shifts_)} shifts of {len(self.subpopulations_)} subpopulations"
