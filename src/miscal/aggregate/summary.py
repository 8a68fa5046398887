"""Summaries: everything an audit needs to know of a table, without its rows.

A summary can be saved, added to others (days to months) and audited again. Two summaries can be added if they have the
same roles, columns and edges; levels are merged by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from miscal.aggregate.tally import Tally
from miscal.cells.partitions import Ranges, digest_of
from miscal.cells.ranges import bin_index
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal, refusing
from miscal.data.outputs import load_arrays, save_arrays

SCHEMA = "miscal.summary/3"
SAVED_AS_IS = ("about", "rows", "ignored", "aside", "outcome_weights", "parts")
ADDED = ("rows", "ignored", "score", "grid", "parts")
COLUMN_GROUPS = ("variables", "fields")
COLUMN_TALLIES = ("tally", "beyond")
COLUMN_EDGES = ("bins", "fine")
# Half of the edges of the score grid are equally spaced, half equally spaced in log-odds: scores near 0 and 1 are
# resolved finely.
_EQUAL_STEPS = np.linspace(0.0, 1.0, 4097)
_LOG_ODDS_STEPS = 1.0 / (1.0 + np.exp(-np.linspace(-23.0, 23.0, 4097)))
TAILS = 10.0 ** -np.arange(2, 11)  # distances from 0 and 1 that bound the tails of the score
# The first cell holds probabilities of exactly 0 and the last those of exactly 1: they are tested separately.
_EXACT_0_AND_1 = np.nextafter([0.0, 1.0], -np.inf)
GRID = np.unique(np.concatenate([_EXACT_0_AND_1, _EQUAL_STEPS, _LOG_ODDS_STEPS, TAILS, 1.0 - TAILS]))
# Borders of some 500 cells of the score, narrow near 0 and 1, for the sums of weights.
BORDERS = GRID[16:-1:16]
TRIALS, WEIGHT, SQUARE, PREDICTED, PRODUCT = range(5)  # positions on the last axis of `weight_sums`


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """The sums of one column: by level, or by a fine grid if it is numeric.

    Attributes
    ----------
    kind : str
        The kind of the column. A numeric column that had one value in the first table has levels.
    tally : Tally
        Sums with the score as predicted.
    beyond : Tally
        Sums with the recalibrated score.
    bins, fine : ndarray
        Edges of the ranges that are shown, and of those that are searched, all of them edges of the grid. Empty for
        levels.
    """

    kind: ColumnKind
    tally: Tally
    beyond: Tally
    bins: Array
    fine: Array

    def __add__(self, other: ColumnSums) -> ColumnSums:
        kind = self.kind if self.kind == other.kind or not self.bins.size else ColumnKind.NUMERIC
        return replace(self, kind=kind, tally=self.tally + other.tally, beyond=self.beyond + other.beyond)


@dataclass(frozen=True, eq=False)
class Summary:
    """The sums of a whole table.

    Attributes
    ----------
    about : dict
        Outcome, probability, weight and count columns, target and classes. Summaries can be added only if these agree,
        apart from the classes.
    rows, ignored : int
        Rows of positive weight, and rows left out.
    score : Tally
        The bins of the score that are shown.
    grid : Tally
        A fine grid of the score.
    variables, fields : dict of str to ColumnSums
        Numeric and categorical columns by name.
    aside : sequence of dict
        Excluded columns, with the reason.
    outcome_weights : bool
        Whether weights depend on the outcome.
    parts : int
        Number of tables that were added.
    """

    about: Plain
    rows: int
    ignored: int
    score: Tally
    grid: Tally
    variables: dict[str, ColumnSums]
    fields: dict[str, ColumnSums]
    aside: Sequence[Plain]
    outcome_weights: bool
    parts: int = 1

    def __add__(self, other: Summary) -> Summary:
        """Add the rows of another table; the edges must be the same, levels merge by name."""
        if not isinstance(other, Summary):
            return NotImplemented
        left, right = self._terms(), other._terms()
        differing = [term for term in left | right if left.get(term) != right.get(term)]
        if differing:
            got = f"these differ: {', '.join(differing[:6])}"
            hint = (
                "make the second of the same columns and with --like FIRST, so that both have the same edges"
            )
            raise refusal("do not belong together", "the tallies", got=got, hint=hint)
        added: Plain = {name: getattr(self, name) + getattr(other, name) for name in ADDED}
        return replace(
            self,
            variables={name: sums + other.variables[name] for name, sums in self.variables.items()},
            fields={name: sums + other.fields[name] for name, sums in self.fields.items()},
            outcome_weights=self.outcome_weights or other.outcome_weights,
            **added,
        )

    def _terms(self) -> Plain:
        """What must agree for summaries to be added: roles, columns and edges."""
        roles = {role: value for role, value in self.about.items() if role != "classes"}
        columns = {
            f"column '{name}'": _hex_edges(sums.tally)
            for name, sums in (self.variables | self.fields).items()
        }
        return roles | {"the score": _hex_edges(self.score)} | columns

    @property
    def rule(self) -> str:
        """A digest of everything that must agree for summaries to be added."""
        return digest_of(self._terms())

    @property
    def fingerprint(self) -> str:
        """A digest of all sums."""
        digest = hashlib.blake2b(self.rule.encode(), digest_size=16)
        for tally in self._tallies().values():
            digest.update(digest_of(tally.cells.describe()).encode())
            for values in tally.arrays("").values():
                digest.update(b"-" if values is None else np.ascontiguousarray(values).data)
        return digest.hexdigest()

    def _columns(self) -> dict[str, ColumnSums]:
        """The sums of columns by the name under which they are saved: their group and their position in it."""
        return {
            f"{group}{position}": sums
            for group in COLUMN_GROUPS
            for position, sums in enumerate(getattr(self, group).values())
        }

    def _tallies(self) -> dict[str, Tally]:
        """All tallies, by the names under which they are saved."""
        columns = {
            f"{saved_name}:{which}": getattr(sums, which)
            for saved_name, sums in self._columns().items()
            for which in COLUMN_TALLIES
        }
        return {"score": self.score, "grid": self.grid} | columns

    def arrays(self) -> dict[str, Array | None]:
        """The sums and edges, by the names under which they are saved."""
        arrays = {
            f"{saved_name}/{which}": getattr(sums, which)
            for saved_name, sums in self._columns().items()
            for which in COLUMN_EDGES
        }
        for name, tally in self._tallies().items():
            arrays |= tally.arrays(f"{name}/")
        return arrays

    def save(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all."""
        header = {name: getattr(self, name) for name in (*SAVED_AS_IS, "rule", "fingerprint")} | {
            "columns": {
                group: {name: sums.kind for name, sums in getattr(self, group).items()}
                for group in COLUMN_GROUPS
            },
            "tallies": {name: tally.describe() for name, tally in self._tallies().items()},
        }
        save_arrays(path, SCHEMA, header, self.arrays())

    @classmethod
    def load(cls, path: str | Path) -> Summary:
        """Read what `save` wrote; a file that was changed since is rejected."""
        header, arrays = load_arrays(path, SCHEMA)
        with refusing("is damaged", f"'{path}'"):  # a header that was tampered with may fail anywhere
            return _rebuilt(header, arrays)


def _rebuilt(header: Plain, arrays: dict[str, Array]) -> Summary:
    def tally(name: str) -> Tally:
        return Tally.rebuild(header["tallies"][name], arrays, f"{name}/")

    def columns(group: str) -> dict[str, ColumnSums]:
        by_name = {}
        for position, (name, kind) in enumerate(header["columns"][group].items()):
            saved_name = f"{group}{position}"
            tallies: Plain = {which: tally(f"{saved_name}:{which}") for which in COLUMN_TALLIES}
            edges: Plain = {which: arrays[f"{saved_name}/{which}"] for which in COLUMN_EDGES}
            by_name[name] = ColumnSums(kind, **tallies, **edges)
        return by_name

    return Summary(
        score=tally("score"),
        grid=tally("grid"),
        variables=columns("variables"),
        fields=columns("fields"),
        **{name: header[name] for name in SAVED_AS_IS},
    )


def _hex_edges(tally: Tally) -> list[str]:
    """The exact edges of ranges; tallies with and without a cell for missing values can be added."""
    cells = tally.cells
    return [float(edge).hex() for edge in cells.edges] if isinstance(cells, Ranges) else []


def coarsened(grid: Tally, edges: Array) -> Tally:
    """The sums of wider ranges; every edge but the outermost must be an edge of the grid."""
    cells = grid.cells
    assert isinstance(cells, Ranges)
    wider = Ranges(edges, cells.missing, cells.name)
    targets = bin_index(cells.edges[1:], edges)
    return grid.coarsen(np.append(targets, wider.count - 1) if cells.missing else targets, wider)


def weight_sums(weight: Array, outcome: Any, score: Any, count: Array | None = None) -> Array:
    """Sums of weights by score and outcome, from which `weights_depend_on_outcome` tells whether weights depend on it.

    Parameters
    ----------
    weight, outcome, score : ndarray
        One value per row; the outcome is 0 or 1. Rows of weight 0 are left out.
    count : ndarray, optional
        How often each row stands.

    Returns
    -------
    ndarray, (cells of the score, 2, 5)
        For each outcome: trials, Σw, Σw², Σp and Σw·p.

    Examples
    --------
    >>> weight_sums(np.array([1.0, 3.0]), np.array([1, 1]), np.array([0.5, 0.5])).sum(axis=0)[1].tolist()
    [2.0, 4.0, 10.0, 1.0, 2.0]
    """
    cell = 2 * bin_index(score, np.pad(BORDERS, 1, "edge")) + (outcome > 0)
    trials = (weight > 0.0) * (1.0 if count is None else count)
    terms = (trials, trials * weight, trials * weight**2, trials * score, trials * weight * score)
    sums = [np.bincount(cell, values, 2 * (BORDERS.size + 1)) for values in terms]
    return np.stack(sums, axis=1).reshape(-1, 2, len(sums))
