"""Summary: everything an audit needs of a table, without its rows; saved, added (daily to monthly), audited again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from miscal.carriers.tally import Tally
from miscal.data.archives import load_arrays, save_arrays
from miscal.data.errors import MiscalError, refusal
from miscal.pooling.bins import bin_index
from miscal.pooling.cells import Ranges, fingerprint

SCHEMA = "miscal.summary/2"
PLAIN = ("about", "rows", "ignored", "outcome_weights", "parts")  # saved as they are
# Half of the borders equally spaced, half of them spaced like log-odds: scores near 0 and 1 stay apart.
_EVEN = np.linspace(0.0, 1.0, 4097)
_ODDS = 1.0 / (1.0 + np.exp(-np.linspace(-23.0, 23.0, 4097)))
TAILS = 10.0 ** -np.arange(2, 11)  # distances from 0 and 1 at which the ends of the scale are looked at
# The first cell holds exact zeros alone, and the last exact ones: they are judged apart, and have no log-odds.
_CERTAIN = np.nextafter([0.0, 1.0], -np.inf)
GRID = np.unique(np.concatenate([_CERTAIN, _EVEN, _ODDS, TAILS, 1.0 - TAILS]))


@dataclass(frozen=True, eq=False)
class VariableSums:
    """One variable: a fine grid of it, as predicted and beyond the score, and the edges that it is looked at by.

    bins, fine : edges of the ranges that are shown, and of those among which a stretch is searched; both are edges of
    the grid
    """

    kind: str
    bins: np.ndarray
    fine: np.ndarray
    grid: Tally
    beyond: Tally

    def __add__(self, other: VariableSums) -> VariableSums:
        kind = self.kind if self.kind == other.kind else "numeric"
        return VariableSums(kind, self.bins, self.fine, self.grid + other.grid, self.beyond + other.beyond)


@dataclass(frozen=True, eq=False)
class FieldSums:
    """One field: its levels, as predicted and beyond the score.

    kind : "date", "integer" or "numeric" of a column of which the first table had one value: levels until it is audited
    """

    tally: Tally
    beyond: Tally
    kind: str = "category"

    def __add__(self, other: FieldSums) -> FieldSums:
        return FieldSums(self.tally + other.tally, self.beyond + other.beyond, self.kind)


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

    about: dict[str, Any]
    rows: int
    ignored: int
    score: Tally
    grid: Tally
    variables: dict[str, VariableSums] = field(default_factory=dict)
    fields: dict[str, FieldSums] = field(default_factory=dict)
    aside: tuple[dict[str, Any], ...] = ()
    outcome_weights: bool = False
    parts: int = 1

    def __add__(self, other: Summary) -> Summary:
        """Add the rows of another table; the edges must be the same, levels merge by name."""
        if not isinstance(other, Summary):
            return NotImplemented
        self._check(other)
        return replace(
            self,
            **{
                name: getattr(self, name) + getattr(other, name)
                for name in ("rows", "ignored", "score", "grid", "parts")
            },
            variables={name: each + other.variables[name] for name, each in self.variables.items()},
            fields={name: each + other.fields[name] for name, each in self.fields.items()},
            outcome_weights=self.outcome_weights or other.outcome_weights,
        )

    def _check(self, other: Summary) -> None:
        for word, mine in self.about.items():
            if other.about.get(word) != mine and word != "classes":
                raise _apart(f"{word} is {mine!r} in one and {other.about.get(word)!r} in the other")
        hint = "make the second with --like FIRST, so that both have the same edges"
        for word in ("variables", "fields"):
            only = sorted(set(getattr(self, word)) ^ set(getattr(other, word)))
            if only:
                raise _apart(f"only one has {', '.join(map(repr, only[:6]))}", hint)
        if fingerprint(self.score.cells) != fingerprint(other.score.cells):
            raise _apart("the score's edges differ", hint)
        for name, each in self.variables.items():
            if _edges(each.grid) != _edges(other.variables[name].grid):
                raise _apart(f"the edges of '{name}' differ", hint)

    @property
    def rule(self) -> str:
        """A digest of everything that must agree for summaries to be added: roles, columns and edges."""
        edges = {name: _edges(each.grid) for name, each in sorted(self.variables.items())}
        about = {word: value for word, value in self.about.items() if word != "classes"}
        text = json.dumps([about, _edges(self.score), edges, sorted(self.fields)], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    @property
    def fingerprint(self) -> str:
        """A digest of all sums."""
        digest = hashlib.blake2b(self.rule.encode(), digest_size=16)
        for _, tally in self._tallies():
            digest.update(fingerprint(tally.cells).encode())
            for values in (tally.counts, tally.limbs, tally.sums):
                digest.update(b"-" if values is None else np.ascontiguousarray(values).data)
        return digest.hexdigest()

    def _tallies(self) -> list[tuple[str, Tally]]:
        found = [("score", self.score), ("grid", self.grid)]
        for place, each in enumerate(self.variables.values()):
            found += [(f"variable{place}:{word}", getattr(each, word)) for word in ("grid", "beyond")]
        for place, each_field in enumerate(self.fields.values()):
            found += [(f"field{place}:{word}", getattr(each_field, word)) for word in ("tally", "beyond")]
        return found

    def arrays(self) -> dict[str, np.ndarray | None]:
        """The sums and edges, by the names under which they are saved."""
        made: dict[str, np.ndarray | None] = {}
        for name, tally in self._tallies():
            made |= tally.arrays(f"{name}/")
        for place, each in enumerate(self.variables.values()):
            made |= {f"variable{place}/bins": each.bins, f"variable{place}/fine": each.fine}
        return made

    def save(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all."""
        header = {name: getattr(self, name) for name in (*PLAIN, "rule", "fingerprint")} | {
            "aside": list(self.aside),
            "variables": {name: each.kind for name, each in self.variables.items()},
            "fields": {name: each.kind for name, each in self.fields.items()},
            "tallies": {name: tally.described() for name, tally in self._tallies()},
        }
        save_arrays(path, SCHEMA, header, self.arrays())

    @classmethod
    def load(cls, path: str | Path) -> Summary:
        """Read what `save` wrote; a file that was changed since is refused."""
        header, arrays = load_arrays(path, SCHEMA)
        try:
            made = _rebuilt(header, arrays)
            unknown = sorted(set(arrays) - set(made.arrays()))
            same = made.fingerprint == header["fingerprint"] and made.rule == header["rule"]
        except MiscalError:
            raise
        except Exception as error:  # a header of this schema that was tampered with may fail anywhere
            raise refusal("is damaged", where=f"'{path}'", got=f"{type(error).__name__}: {error}") from error
        if unknown:
            raise refusal("is damaged", where=f"'{path}'", got=f"it holds {unknown[0]!r:.80}, which no tally has")
        if not same:
            raise refusal("is damaged", where=f"'{path}'", got="its sums do not match its fingerprint")
        return made


def _rebuilt(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Summary:
    def tally(name: str) -> Tally:
        return Tally.rebuilt(header["tallies"][name], arrays, f"{name}/")

    variables = {}
    for place, (name, kind) in enumerate(header["variables"].items()):
        edges = (arrays[f"variable{place}/bins"], arrays[f"variable{place}/fine"])
        variables[name] = VariableSums(kind, *edges, tally(f"variable{place}:grid"), tally(f"variable{place}:beyond"))
    kinds = header["fields"] if isinstance(header["fields"], dict) else dict.fromkeys(header["fields"], "category")
    fields = {
        name: FieldSums(tally(f"field{i}:tally"), tally(f"field{i}:beyond"), kind)
        for i, (name, kind) in enumerate(kinds.items())
    }
    return Summary(
        score=tally("score"),
        grid=tally("grid"),
        variables=variables,
        fields=fields,
        aside=tuple(header["aside"]),
        **{name: header[name] for name in PLAIN},
    )


def _apart(got: str, hint: str = "") -> MiscalError:
    return refusal("do not belong together", where="the tallies", got=got, hint=hint)


def _edges(tally: Tally) -> list[str]:
    """The edges alone: whether any value was missing does not keep two tallies apart."""
    cells = tally.cells
    return [float(edge).hex() for edge in cells.edges] if isinstance(cells, Ranges) else []


def coarsened(grid: Tally, edges: np.ndarray) -> Tally:
    """The sums of wider ranges; every edge but the outermost must be one of the grid's."""
    cells = grid.cells
    assert isinstance(cells, Ranges)
    made = Ranges(edges, cells.missing, cells.name)
    groups = bin_index(cells.edges[1:], edges)
    return grid.coarsen(np.append(groups, made.count - 1) if cells.missing else groups, made)
