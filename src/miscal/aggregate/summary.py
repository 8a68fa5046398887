"""Summary: everything an audit needs of a table, without its rows; saved, added (daily to monthly), audited again."""

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
PLAIN = ("about", "rows", "ignored", "aside", "outcome_weights", "parts")  # saved as they are
ADDED = ("rows", "ignored", "score", "grid", "parts")
KINDS, SUMS, EDGES = ("variables", "fields"), ("tally", "beyond"), ("bins", "fine")  # of columns
# Half of the borders equally spaced, half of them spaced like log-odds: scores near 0 and 1 stay apart.
_EVEN = np.linspace(0.0, 1.0, 4097)
_ODDS = 1.0 / (1.0 + np.exp(-np.linspace(-23.0, 23.0, 4097)))
TAILS = 10.0 ** -np.arange(2, 11)  # distances from 0 and 1 at which the ends of the scale are looked at
# The first cell holds exact zeros alone, and the last exact ones: they are judged apart, and have no log-odds.
_CERTAIN = np.nextafter([0.0, 1.0], -np.inf)
GRID = np.unique(np.concatenate([_CERTAIN, _EVEN, _ODDS, TAILS, 1.0 - TAILS]))
# Of some 500 cells of the score, narrow near 0 and 1, by which weights are looked at.
BORDERS = GRID[16:-1:16]
TRIALS, WEIGHT, SQUARE, PREDICTED, PRODUCT = range(5)  # what is known of the weights of a cell and an outcome


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """One column, as predicted and beyond the score: the levels of a field, or a fine grid of a variable.

    kind : of a variable, or of a column of which the first table had one value: levels until it is audited
    bins, fine : of a variable, edges of the ranges that are shown, and of those among which a stretch is searched; both
        are edges of the grid
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
    """Carriers of a whole table.

    Attributes
    ----------
    about : outcome, probability, weight and count columns, target, classes: two summaries must agree on them
    rows, ignored : rows of positive weight, and those left out
    score, grid : tallies of the score's bins, and of a fine grid of scores
    variables, fields : by name
    aside : columns left out, with the reason
    parts : how many tables were added
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
        mine, theirs = self._terms(), other._terms()
        apart = [word for word in mine | theirs if mine.get(word) != theirs.get(word)]
        if apart:
            got = f"these differ: {', '.join(apart[:6])}"
            hint = (
                "make the second of the same columns and with --like FIRST, so that both have the same edges"
            )
            raise refusal("do not belong together", "the tallies", got=got, hint=hint)
        added: Any = {name: getattr(self, name) + getattr(other, name) for name in ADDED}
        for word in KINDS:
            others = getattr(other, word)
            added[word] = {name: each + others[name] for name, each in getattr(self, word).items()}
        return replace(self, **added, outcome_weights=self.outcome_weights or other.outcome_weights)

    def _terms(self) -> Plain:
        """What must agree for summaries to be added: roles, columns and edges."""
        roles = {word: value for word, value in self.about.items() if word != "classes"}
        columns = {
            f"column '{name}'": _edges(each.tally) for name, each in (self.variables | self.fields).items()
        }
        return roles | {"the score": _edges(self.score)} | columns

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
        every = [(word, getattr(self, word)) for word in KINDS]
        return {f"{word}{place}": each for word, own in every for place, each in enumerate(own.values())}

    def _tallies(self) -> dict[str, Tally]:
        columns = {
            f"{start}:{word}": getattr(each, word) for start, each in self._columns().items() for word in SUMS
        }
        return {"score": self.score, "grid": self.grid} | columns

    def arrays(self) -> dict[str, Array | None]:
        """The sums and edges, by the names under which they are saved."""
        made = {
            f"{start}/{word}": getattr(each, word)
            for start, each in self._columns().items()
            for word in EDGES
        }
        for name, tally in self._tallies().items():
            made |= tally.arrays(f"{name}/")
        return made

    def save(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all."""
        header = {name: getattr(self, name) for name in (*PLAIN, "rule", "fingerprint")} | {
            "columns": {
                word: {name: each.kind for name, each in getattr(self, word).items()} for word in KINDS
            },
            "tallies": {name: tally.describe() for name, tally in self._tallies().items()},
        }
        save_arrays(path, SCHEMA, header, self.arrays())

    @classmethod
    def load(cls, path: str | Path) -> Summary:
        """Read what `save` wrote; a file that was changed since is refused."""
        header, arrays = load_arrays(path, SCHEMA)
        with refusing("is damaged", f"'{path}'"):  # a header that was tampered with may fail anywhere
            return _rebuilt(header, arrays)


def _rebuilt(header: Plain, arrays: dict[str, Array]) -> Summary:
    def tally(name: str) -> Tally:
        return Tally.rebuild(header["tallies"][name], arrays, f"{name}/")

    def columns(word: str) -> Any:
        made = {}
        for place, (name, kind) in enumerate(header["columns"][word].items()):
            sums: Any = {which: tally(f"{word}{place}:{which}") for which in SUMS}
            edges: Any = {which: arrays[f"{word}{place}/{which}"] for which in EDGES}
            made[name] = ColumnSums(kind, **sums, **edges)
        return made

    return Summary(
        score=tally("score"),
        grid=tally("grid"),
        **{word: columns(word) for word in KINDS},
        **{name: header[name] for name in PLAIN},
    )


def _edges(tally: Tally) -> list[str]:
    """The edges alone: whether any value was missing does not keep two tallies apart."""
    cells = tally.cells
    return [float(edge).hex() for edge in cells.edges] if isinstance(cells, Ranges) else []


def coarsened(grid: Tally, edges: Array) -> Tally:
    """The sums of wider ranges; every edge but the outermost must be one of the grid's."""
    cells = grid.cells
    assert isinstance(cells, Ranges)
    made = Ranges(edges, cells.missing, cells.name)
    groups = bin_index(cells.edges[1:], edges)
    return grid.coarsen(np.append(groups, made.count - 1) if cells.missing else groups, made)


def weight_sums(weight: Array, outcome: Any, score: Any, count: Array | None = None) -> Array:
    """Sums by score and outcome of rows of positive weight; `outcome` is 0 and 1.

    (cells of the score, outcomes, [trials, Σw, Σw², Σp, Σw·p])

    Examples
    --------
    >>> weight_sums(np.array([1.0, 3.0]), np.array([1, 1]), np.array([0.5, 0.5])).sum(axis=0)[1].tolist()
    [2.0, 4.0, 10.0, 1.0, 2.0]
    """
    place = 2 * bin_index(score, np.pad(BORDERS, 1, "edge")) + (outcome > 0)
    trials = (weight > 0.0) * (1.0 if count is None else count)
    each = (trials, trials * weight, trials * weight**2, trials * score, trials * weight * score)
    made = [np.bincount(place, values, 2 * (BORDERS.size + 1)) for values in each]
    return np.stack(made, axis=1).reshape(-1, 2, len(made))
