"""From what a call was given to subpopulations of sorted rows: columns, masks, names, expressions, generators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.columns import Columns
from miscal.data.errors import nearest, refusal
from miscal.data.frames import named_columns
from miscal.engines.subpopulations import Ordered, PathSearch, Search, conjunction_lists, search_lists
from miscal.kernels.threads import over_blocks
from miscal.pooling.parsing import rows_where
from miscal.pooling.subpopulations import (
    Conjunctions,
    Covariate,
    Definition,
    RandomPaths,
    check_count,
    covariate,
    lumped,
    ranged,
)


@dataclass(frozen=True, eq=False)
class Kept:
    """Which of the rows given are measured (rows of weight 0 are not): all of them where `rows` is None."""

    given: int
    rows: np.ndarray | None = None

    def place(self, indices: np.ndarray) -> np.ndarray:
        """Row numbers among those kept."""
        if self.rows is None:
            return indices
        place = np.full(self.given, -1, np.int64)
        place[self.rows] = np.arange(self.rows.size)
        found = place[indices]
        return np.asarray(found[found >= 0])


def feature_columns(features: Any, kept: Kept) -> Columns:
    """Features as named columns; those of a plain array are named '0', '1', ..."""
    named: Any = features if isinstance(features, Columns) else named_columns(features, "'features'")
    for name in named:
        if len(named[name]) != kept.given:
            got = f"{len(named[name]):,} against {kept.given:,}"
            raise refusal("must have one value a row", where=f"'features' column '{name}'", got=got)
    columns = Columns(named)
    return columns if kept.rows is None else columns.take(kept.rows)


def nominal_names(columns: Columns, names: list[str], nominal: Any) -> set[str]:
    """Columns without an order: those named, or texts, categories and truth values where nothing is said."""
    if nominal is None:
        return {name for name in names if columns[name].nominal}
    items: list[Any] = [nominal] if isinstance(nominal, (str, int)) else list(nominal)
    if items and all(isinstance(item, (bool, np.bool_)) for item in items):
        if len(items) != len(names):
            raise refusal(
                f"must have one truth value for each of the {len(names)} columns",
                where="'nominal'", got=f"it has {len(items)}",
            )  # fmt: skip
        return {name for name, chosen in zip(names, items, strict=True) if chosen}
    return {_column_name(item, names) for item in items}


def _column_name(item: Any, names: list[str]) -> str:
    """The name of a column given by name or by position."""
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool) and str(item) not in names:
        if not -len(names) <= item < len(names):
            raise refusal(f"must lie in 0..{len(names) - 1}", where="'nominal'", got=f"got {item}")
        return names[int(item)]
    if str(item) not in names:
        raise refusal("is not a column", where=f"'nominal' {str(item)!r}", hint=nearest(str(item), names))
    return str(item)


def coded(rows: Ordered, columns: Columns, names: list[str], nominal: Any, *, keep: bool) -> list[Covariate]:
    """The columns as codes in the order of the score, made on several threads."""
    without_order = nominal_names(columns, names, nominal)

    def work(start: int, stop: int) -> list[Covariate]:
        return [
            covariate(columns[name], nominal=name in without_order, order=rows.order, keep=keep)
            for name in names[start:stop]
        ]

    return [one for part in over_blocks(len(names), work, 1) for one in part]


@dataclass(frozen=True, eq=False)
class Asked:
    """What is searched, and among what."""

    columns: Columns | None
    names: list[str]
    kept: Kept
    nominal: Any = None
    least: int = 10
    information: float = 0.0
    random_state: Any = 0
    naming: bool = False

    def search(self, rows: Ordered, subpopulations: Any) -> Search:
        """Find or take the subpopulations and walk over each."""
        if isinstance(subpopulations, (int, np.integer)) and not isinstance(subpopulations, (bool, np.bool_)):
            subpopulations = RandomPaths(int(subpopulations))
        if isinstance(subpopulations, RandomPaths):
            return self._paths(rows, check_count("subpopulations", subpopulations.count, 0))
        if isinstance(subpopulations, Conjunctions):
            return self._conjunctions(rows, subpopulations)
        lists, definitions = self.given(rows, subpopulations)
        return search_lists(rows, lists, definitions, self.information)

    def covariates(self, rows: Ordered) -> list[Covariate]:
        """The columns to generate from, coded."""
        if self.columns is None or not self.names:
            raise refusal(
                "needs columns to make subpopulations from",
                where="'features'" if self.columns is None else "'columns'",
                got="got none",
                hint="pass features, or the subpopulations themselves",
            )
        return coded(rows, self.columns, self.names, self.nominal, keep=self.naming)

    def _paths(self, rows: Ordered, count: int) -> Search:
        if count == 0:
            return search_lists(rows, [], [])
        covariates = [one for one in self.covariates(rows) if one.count > 1]
        if not covariates:
            return search_lists(rows, [], [])
        seed = int(np.random.default_rng(self.random_state).integers(2**63))
        return PathSearch(rows, covariates, seed, self.least, self.information).run(count)

    def _conjunctions(self, rows: Ordered, asked: Conjunctions) -> Search:
        depth = check_count("depth", asked.depth, 1)
        ranges = check_count("ranges", asked.ranges, 2)
        most = None if asked.levels is None else check_count("levels", asked.levels, 1)
        whole = Asked(self.columns, self.names, self.kept, self.nominal, naming=True)
        covariates = [lumped(ranged(one, ranges), most) for one in whole.covariates(rows) if one.count > 1]
        lists, definitions = conjunction_lists(rows, covariates, depth, self.least)
        return search_lists(rows, lists, definitions, self.information)

    def given(self, rows: Ordered, subpopulations: Any) -> tuple[list[np.ndarray], list[Definition]]:
        """Lists and names of subpopulations that the user brought."""
        if isinstance(subpopulations, str):
            subpopulations = [subpopulations]
        if isinstance(subpopulations, np.ndarray) and subpopulations.dtype != object:
            if subpopulations.ndim != 2 or subpopulations.dtype != np.bool_:
                got = f"it is {subpopulations.dtype} of shape {subpopulations.shape}"
                raise refusal(f"must be truth values of shape (k, {self.kept.given})", where=WHERE, got=got)
        elif not isinstance(subpopulations, (list, tuple, Mapping, np.ndarray)):
            raise refusal(
                "must be a number of subpopulations, truth values (k, n), or a list of truth values, row numbers or "
                "expressions",
                where=WHERE,
                got=f"got {type(subpopulations).__name__}",
            )
        items = dict(subpopulations) if isinstance(subpopulations, Mapping) else dict(enumerate(subpopulations))
        place = rows.positions()
        lists, definitions = [], []
        for key, item in items.items():
            chosen = np.sort(place[self.kept.place(self._indices(item, key))])
            lists.append(chosen)
            name = item if isinstance(item, str) and not isinstance(key, str) else str(key)
            definitions.append(Definition(given=name if isinstance(key, str) or isinstance(item, str) else f"#{key}"))
        return lists, definitions

    def _indices(self, item: Any, key: Any) -> np.ndarray:
        """Row numbers, among the rows given, of one subpopulation."""
        where = f"subpopulation {key!r}"
        if isinstance(item, str):
            if self.columns is None:
                raise refusal("needs features", where=f"the expression {item!r}", got="got none")
            chosen = np.flatnonzero(rows_where(item, self.columns))
            return chosen if self.kept.rows is None else self.kept.rows[chosen]
        array = np.asarray(item)
        if array.ndim == 1 and array.dtype == np.bool_:
            if array.size != self.kept.given:
                got = f"{array.size:,} against {self.kept.given:,}"
                raise refusal("must have one truth value a row", where=where, got=got)
            return np.flatnonzero(array)
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            got = f"it is {array.dtype} of shape {array.shape}"
            raise refusal("must be truth values, row numbers or an expression", where=where, got=got)
        array = array.astype(np.int64)
        if array.size and (array.min() < -self.kept.given or array.max() >= self.kept.given):
            worst = int(array.max()) if array.max() >= self.kept.given else int(array.min())
            raise refusal(f"must hold row numbers in 0..{self.kept.given - 1}", where=where, got=f"got {worst}")
        return np.unique(np.where(array < 0, array + self.kept.given, array))


WHERE = "'subpopulations'"
