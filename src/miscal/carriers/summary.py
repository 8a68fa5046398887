"""Summary: everything an audit needs of a table, without its rows; saved, added (daily to monthly), audited again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from miscal.carriers.storage import load_arrays, save_arrays
from miscal.carriers.tally import Tally
from miscal.carriers.walk import Walk
from miscal.data.errors import MiscalError, refusal
from miscal.pooling.bins import bin_index
from miscal.pooling.cells import Levels, Ranges, cells_from, fingerprint

SCHEMA = "miscal.summary/1"
# Half of the borders equally spaced, half of them spaced like log-odds: scores near 0 and 1 stay apart.
_EVEN = np.linspace(0.0, 1.0, 4097)
_ODDS = 1.0 / (1.0 + np.exp(-np.linspace(-23.0, 23.0, 4097)))
GRID = np.unique(np.concatenate([_EVEN, _ODDS]))


@dataclass(frozen=True, eq=False)
class VariableSums:
    """One variable: its ranges (a few, and fine ones), as predicted and beyond the score, and its walk if known."""

    kind: str
    bins: Tally
    fine: Tally
    beyond: Tally
    totals: Tally
    walk: Walk | None = None
    ties: Tally | None = None  # sums of each distinct value, where there are few

    def __add__(self, other: VariableSums) -> VariableSums:
        kind = self.kind if self.kind == other.kind else "numeric"
        pairs = [getattr(self, name) + getattr(other, name) for name in ("bins", "fine", "beyond", "totals")]
        return VariableSums(kind, *pairs)


@dataclass(frozen=True, eq=False)
class FieldSums:
    """One field: its levels, as predicted and beyond the score."""

    tally: Tally
    beyond: Tally

    def __add__(self, other: FieldSums) -> FieldSums:
        return FieldSums(self.tally + other.tally, self.beyond + other.beyond)


@dataclass(frozen=True, eq=False)
class Summary:
    """Carriers of a whole table.

    Attributes
    ----------
    about : outcome, probability, weight and count columns, target, classes: two summaries must agree on them
    rows, ignored : rows of positive weight, and those left out
    score, sketch, totals : tallies of the score's bins, of a fine grid of scores, of all rows
    walk : Kuiper's walk, exact; None once summaries were added (the order of all rows together is not known)
    variables, fields : by name
    aside : columns left out, with the reason
    parts : how many tables were added
    """

    about: dict[str, Any]
    rows: int
    ignored: int
    score: Tally
    sketch: Tally
    totals: Tally
    walk: Walk | None
    variables: dict[str, VariableSums] = field(default_factory=dict)
    fields: dict[str, FieldSums] = field(default_factory=dict)
    aside: tuple[dict[str, Any], ...] = ()
    outcome_weights: bool = False
    parts: int = 1
    ties: Tally | None = None  # sums of each distinct score, where there are few

    def __add__(self, other: Summary) -> Summary:
        """Add the rows of another table; the edges must be the same, levels merge by name."""
        if not isinstance(other, Summary):
            return NotImplemented
        self._check(other)
        return replace(
            self,
            rows=self.rows + other.rows,
            ignored=self.ignored + other.ignored,
            score=self.score + other.score,
            sketch=self.gridded().sketch + other.gridded().sketch,
            totals=self.totals + other.totals,
            walk=None,
            variables={name: each + other.variables[name] for name, each in self.variables.items()},
            fields={name: each + other.fields[name] for name, each in self.fields.items()},
            outcome_weights=self.outcome_weights and other.outcome_weights,
            parts=self.parts + other.parts,
            ties=None,
        )

    def _check(self, other: Summary) -> None:
        hint = "make the second with --like FIRST, so that both have the same edges"
        for word, mine in self.about.items():
            if other.about.get(word) != mine and word != "classes":
                got = f"{word} is {mine!r} in one and {other.about.get(word)!r} in the other"
                raise refusal("do not belong together", where="the tallies", got=got)
        for word in ("variables", "fields"):
            one, two = set(getattr(self, word)), set(getattr(other, word))
            if one != two:
                names = ", ".join(f"'{name}'" for name in sorted(one ^ two)[:6])
                raise refusal("do not belong together", where="the tallies", got=f"only one has {names}", hint=hint)
        if fingerprint(self.score.cells) != fingerprint(other.score.cells):
            raise refusal("do not belong together", where="the tallies", got="the score's edges differ", hint=hint)
        for name, each in self.variables.items():
            for word in ("bins", "fine"):
                if _edges(getattr(each, word)) != _edges(getattr(other.variables[name], word)):
                    got = f"the edges of '{name}' differ"
                    raise refusal("do not belong together", where="the tallies", got=got, hint=hint)

    @property
    def rule(self) -> str:
        """A digest of everything that must agree for summaries to be added: roles, columns and edges."""
        edges = {name: [_edges(each.bins), _edges(each.fine)] for name, each in sorted(self.variables.items())}
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

    def gridded(self) -> Summary:
        """The same with the sketch on the fixed grid, on which sketches of different tables can be added."""
        if isinstance(self.sketch.cells, Ranges):
            return self
        mean = np.nan_to_num(self.sketch.mean_predicted)
        cells = Ranges(GRID, name="score")
        return replace(self, sketch=self.sketch.coarsen(bin_index(mean, GRID), cells))

    def _tallies(self) -> list[tuple[str, Tally]]:
        found = [("score", self.score), ("sketch", self.sketch), ("totals", self.totals)]
        found += [("ties", self.ties)] if self.ties is not None else []
        for place, each in enumerate(self.variables.values()):
            words = ("bins", "fine", "beyond", "totals", *(() if each.ties is None else ("ties",)))
            found += [(f"variable{place}:{word}", getattr(each, word)) for word in words]
        for place, each_field in enumerate(self.fields.values()):
            found += [(f"field{place}:tally", each_field.tally), (f"field{place}:beyond", each_field.beyond)]
        return found

    def save(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all."""
        arrays: dict[str, np.ndarray | None] = {}
        cells = {}
        kept = self.gridded()
        for name, tally in kept._tallies():  # noqa: SLF001  # its own
            cells[name] = {"cells": tally.cells.describe(), "weighted": tally.weighted}
            for part in ("counts", "limbs", "sums", "impossible"):
                arrays[f"{name}/{part}"] = getattr(tally, part)
        header = {
            "about": self.about,
            "rows": self.rows,
            "ignored": self.ignored,
            "rule": kept.rule,
            "fingerprint": kept.fingerprint,
            "outcome_weights": self.outcome_weights,
            "parts": self.parts,
            "aside": list(self.aside),
            "walk": _walk_header(self.walk),
            "variables": {name: [each.kind, _walk_header(each.walk)] for name, each in self.variables.items()},
            "fields": list(self.fields),
            "tallies": cells,
        }
        save_arrays(path, SCHEMA, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Summary:
        """Read what `save` wrote; a file that was changed since is refused."""
        header, arrays = load_arrays(path, SCHEMA)
        try:
            made = _rebuilt(header, arrays)
            same = made.fingerprint == header["fingerprint"] and made.rule == header["rule"]
        except MiscalError:
            raise
        except Exception as error:  # a header of this schema that was tampered with may fail anywhere
            raise refusal("is damaged", where=f"'{path}'", got=f"{type(error).__name__}: {error}") from error
        if not same:
            raise refusal("is damaged", where=f"'{path}'", got="its sums do not match its fingerprint")
        return made


def _rebuilt(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Summary:
    def tally(name: str) -> Tally:
        about = header["tallies"][name]
        counts, limbs, sums, impossible = (
            arrays.get(f"{name}/{part}") for part in ("counts", "limbs", "sums", "impossible")
        )
        assert counts is not None
        cells = cells_from(about["cells"])
        if counts.shape != (cells.count,):
            raise ValueError(f"{name} has {counts.size} cells, not {cells.count}")
        return Tally(cells, counts, limbs, sums, impossible=impossible, weighted=about["weighted"])

    variables = {}
    for place, (name, (kind, walk)) in enumerate(header["variables"].items()):
        bins, fine, beyond, totals = (tally(f"variable{place}:{word}") for word in ("bins", "fine", "beyond", "totals"))
        ties = tally(f"variable{place}:ties") if f"variable{place}:ties" in header["tallies"] else None
        variables[name] = VariableSums(kind, bins, fine, beyond, totals, _walk_from(walk), ties)
    return Summary(
        header["about"],
        int(header["rows"]),
        int(header["ignored"]),
        tally("score"),
        tally("sketch"),
        tally("totals"),
        _walk_from(header["walk"]),
        variables,
        {n: FieldSums(tally(f"field{i}:tally"), tally(f"field{i}:beyond")) for i, n in enumerate(header["fields"])},
        tuple(header["aside"]),
        bool(header["outcome_weights"]),
        int(header["parts"]),
        tally("ties") if "ties" in header["tallies"] else None,
    )


def _edges(tally: Tally) -> list[str]:
    """The edges alone: whether any value was missing does not keep two tallies apart."""
    cells = tally.cells
    return [float(edge).hex() for edge in cells.edges] if isinstance(cells, Ranges) else []


def _walk_header(walk: Walk | None) -> dict[str, Any] | None:
    if walk is None:
        return None
    return {name: _number(value) for name, value in asdict(walk).items()}


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _walk_from(values: dict[str, Any] | None) -> Walk | None:
    if values is None:
        return None
    made: dict[str, Any] = {name: math.nan if value is None else value for name, value in values.items()}
    return Walk(**{**made, "expected": tuple(made["expected"])})


def with_missing(tally: Tally, missing: bool) -> Tally:
    """The same ranges with a cell for missing values."""
    cells = tally.cells
    if not isinstance(cells, Ranges) or cells.missing or not missing:
        return tally
    return tally.coarsen(np.arange(cells.count), Ranges(cells.edges, True, cells.name))


def added(parts: list[Summary]) -> Summary:
    """The sum of several."""
    total = parts[0]
    for part in parts[1:]:
        total = _aligned(total, part) + _aligned(part, total)
    return total


def _aligned(one: Summary, other: Summary) -> Summary:
    """Give variables a cell for missing values where the other has one."""
    change: Callable[[str, Tally], Tally] = lambda name, tally: with_missing(  # noqa: E731
        tally, name in other.variables and _has_missing(other.variables[name].fine)
    )
    variables = {
        name: replace(
            each, bins=change(name, each.bins), fine=change(name, each.fine), beyond=change(name, each.beyond)
        )
        for name, each in one.variables.items()
    }
    return replace(one, variables=variables)


def _has_missing(tally: Tally) -> bool:
    return isinstance(tally.cells, (Ranges, Levels)) and tally.cells.missing
