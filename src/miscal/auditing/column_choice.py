"""Which columns an audit looks at, which it sets aside and why, and which are keys whose rows are not independent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.data.errors import check_named, refusal
from miscal.data.predictions import Predictions
from miscal.pairs import Pair

IDENTIFIER_SHARE = 0.5  # a column with more distinct levels than this share of the rows names rows, not groups
MAX_LEVELS = 1_000_000  # of a field, unless asked otherwise
FEW = 50  # rows or levels below which nothing is taken for an identifier
NAMED = re.compile(r"(^|[_\W])(id|ids|index|uuid|guid|key|row|rownum|number|nbr|nr)($|[_\W\d])", re.IGNORECASE)

# Names that pandas gives to an index when it is written as a column.
PANDAS = re.compile(r"(Unnamed: ?\d+(_level_\d+)?|__index_level_\d+__|level_\d+)?")
APART = 1e-6  # scores nearer than this may have become one in a copy


def left_out(where: str, rows: int | None, reason: str) -> dict[str, Any]:
    """A place or a column that is not judged, as the document lists it."""
    return {"where": where, "rows": rows, "reason": reason}


def asked_for(reason: str) -> str:
    """How to have a column looked at that was set aside for a reason.

    >>> asked_for("it has more than 1,000 levels")
    '--max-levels'
    """
    if reason.endswith("levels") and reason.startswith("it has more than"):
        return "--max-levels"
    said = ("constant", "an identifier", "an index", "a copy", "the score", "the class")
    return "--by with its name" if reason.startswith(said) else "a column of numbers, dates or text"


def asked_columns(
    by: Sequence[str] | str | None, ignore: Sequence[str] | str, time: str | None, **roles: Any
) -> tuple[list[str] | None, list[str]]:
    """The columns to look at and to leave out, as lists; one name alone counts as a list of it.

    Refuses a column that plays a part already, and one that is both asked for and left out.
    """
    wanted, unwanted = None if by is None else named(by), named(ignore)
    taken = {name: role for role, columns in reversed(roles.items()) for name in named(columns)}
    for word, names in (("by", wanted or []), ("ignore", unwanted), ("time", named(time))):
        for name in names:
            if name in taken:
                got = f"column '{name}' is '{taken[name]}' already"
                raise refusal("names one of the other columns", where=f"'{word}'", got=got)
    both = [name for name in wanted or () if name in unwanted]
    if both:
        raise refusal("leaves out what 'by' asks for", where="'ignore'", got=f"both name column '{both[0]}'")
    return wanted, unwanted


def named(columns: Any) -> list[str]:
    """Names of columns given as one, several, or by class."""
    if columns is None or isinstance(columns, str):
        return [] if columns is None else [columns]
    return [str(name) for name in (columns.values() if isinstance(columns, Mapping) else columns)]


def chosen_columns(
    predictions: Predictions,
    by: Sequence[str] | None,
    ignore: Sequence[str],
    max_levels: int,
    *,
    constants: bool = False,
) -> tuple[list[Column], list[dict[str, Any]]]:
    """The columns to look at, and those set aside with the reason; `constants` keeps those of one value."""
    known = list(predictions.columns)
    check_named(by or (), known, "the data", known)
    chosen, aside = [], []
    copies = Copies(predictions)
    for name in by or known:
        if name in ignore:
            continue
        column = predictions.columns[name]
        many = column.nominal and len(column.levels) > max_levels
        reason = f"it has more than {max_levels:,} levels" if many else None
        if not many and not by:
            reason = reason_aside(column) or copies.reason(column)
        if reason and not (constants and reason == "constant"):
            aside.append(left_out(name, predictions.rows, reason))
        else:
            chosen.append(column)
    return chosen, aside


def reason_aside(column: Column) -> str | None:
    """Why a column says nothing about groups: it is constant, names the rows, or is the index of a frame.

    >>> from miscal.data.columns import column
    >>> reason_aside(column("year", [2013, 2013]))
    'constant'
    """
    if column.nominal:
        if len(column.levels) > max(FEW, IDENTIFIER_SHARE * len(column)):
            return f"an identifier: {len(column.levels):,} levels"
        return "constant" if len(column.levels) <= 1 and not column.missing.any() else None
    known = column.values[~np.isnan(column.values)]
    if known.size == 0:
        return "all values are missing"
    low, high = known.min(), known.max()
    if low == high and known.size == len(column):
        return "constant"
    if not column.integer:
        return None
    span = high - low + 1
    named = span == known.size or NAMED.search(column.name)
    if FEW < known.size <= span and named and np.unique(known).size == known.size:
        return "an identifier: whole numbers that all differ"
    return "an index that pandas wrote" if PANDAS.fullmatch(column.name) else None


class Copies:
    """Columns that are the outcome or the score once more, to be told from those that stand beside them."""

    def __init__(self, predictions: Predictions) -> None:
        self.outcome, self.rows = predictions.outcome, predictions.rows
        self.score = predictions.probability if predictions.probability.ndim == 1 else None
        self.labels: dict[str, np.ndarray] = {}
        if self.score is None and predictions.outcome.dtype.kind in "iu":
            names = np.array([str(name) for name in predictions.classes], object)
            said = names[np.argmax(predictions.probability, axis=1)]
            self.labels = {"a copy of the outcome": names[predictions.outcome], "the class predicted": said}

    def reason(self, column: Column) -> str | None:
        """Why a column is none of its own; None for all others, and for tables too small to tell."""
        if self.rows <= FEW or column.missing.any():
            return None
        if self.score is None:
            return next((why for why, labels in self.labels.items() if _same_labels(column, labels)), None)
        values = column.values
        levels = np.unique(values[:FEW]) if len(column.levels) <= 2 else np.empty(3)
        if levels.size <= 2 and np.unique(values).size == 2:
            second = values == values.max()
            if np.array_equal(second, self.outcome > 0) or np.array_equal(second, self.outcome <= 0):
                plain = column.nominal or set(np.unique(values).tolist()) == {0.0, 1.0}
                return "a copy of the outcome" + ("" if plain else "; if it is a sampling weight, say so")
            cut = separated(second, self.score)
            return f"the score, thresholded between {cut[0]:.4g} and {cut[1]:.4g}" if cut else None
        return "a copy of the score" if not column.nominal and _rises(self.score, values) else None


def separated(second: np.ndarray, score: np.ndarray) -> tuple[float, float] | None:
    """The two scores between which a column of two values changes; None where it does not change at one place.

    >>> separated(np.array([False, True, True]), np.array([0.1, 0.6, 0.9]))
    (0.1, 0.6)
    """
    high, low = score[second], score[~second]
    if not high.size or not low.size:
        return None
    if low.max() < high.min():
        return float(low.max()), float(high.min())
    return (float(high.max()), float(low.min())) if high.max() < low.min() else None


def _same_labels(column: Column, labels: np.ndarray) -> bool:
    if column.nominal:
        shown = np.array([str(level) for level in column.levels], object)
        return bool(np.array_equal(shown[column.values], labels))
    return column.integer and bool(np.array_equal(column.values.astype(np.int64).astype(str), labels.astype(str)))


def _rises(score: np.ndarray, values: np.ndarray) -> bool:
    """Whether a column rises, or falls, wherever the score does; some rows are tried first."""
    for rows in (slice(0, FEW), slice(None)):
        order = np.argsort(score[rows], kind="stable")
        steps, own = np.diff(score[rows][order]), np.diff(values[rows][order])
        apart = steps > APART
        if np.count_nonzero(apart) < FEW // 5 or not (np.all(own[apart] > 0) or np.all(own[apart] < 0)):
            return False
    return True


MOST_ROWS = 200_000  # looked at, from the start: the rows of a key often stand together
LEAST_KEYS, LEAST_ERRING = 20, 100  # keys of two rows or more, for outcomes and for errors
LARGEST = 100  # rows a key on average: above it, a key is a group
NEARLY_ALL, CHANCE = 0.98, 0.8  # keys whose outcomes agree, where chance would make at most this share of them agree
FAR, LARGER = 5.0, 1.25  # standard errors, and times the variance, from which errors are shared


def suggested(predictions: Predictions, compared: Pair, columns: Sequence[Column]) -> tuple[str, str] | None:
    """The coarsest key whose rows share an outcome, else the one whose rows err most alike; None where there is none.

    Given as its name and a note on what to do about it.

    compared : the pair beyond the score
    """
    one = compared.take(slice(0, min(predictions.rows, MOST_ROWS)))
    found = [(*key, column.name) for column in columns if (key := _judged(column, one)) is not None]
    if not found:
        return None
    *_, shared, name = min(found, key=lambda key: key[:2])
    why = "they are not independent, and a place may seem beyond noise that is not"
    return name, f"Rows of one {name} {shared}: {why}. To judge them together, give --cluster {name}."


def _judged(column: Column, one: Pair) -> tuple[bool, int, str] | None:
    """Whether it is uncertain that rows of one value are not independent, how many values it has, what they share."""
    if not (column.nominal or column.integer) or not one.binary:
        return None
    values = column.values[: one.rows]
    known = values >= 0 if column.nominal else ~np.isnan(values)
    _, code = np.unique(values[known], return_inverse=True)
    many = np.bincount(code)
    several = np.flatnonzero(many >= 2)
    within = np.isin(code, several) if several.size < many.size else slice(None)
    if several.size < LEAST_KEYS or many[several].sum() < 0.5 * one.rows or many[several].mean() > LARGEST:
        return None
    _, code = np.unique(code[within], return_inverse=True)
    predicted, observed = (each[known][within] for each in (one.predicted, one.observed.astype(np.float64)))
    shared = _outcomes(code, predicted, observed)
    uncertain = not shared
    if uncertain and several.size >= LEAST_ERRING and (column.nominal or NAMED.search(column.name)):
        shared = _errors(code, predicted, observed)
    return (uncertain, int(several.size), shared) if shared else None


def _outcomes(code: np.ndarray, predicted: np.ndarray, observed: np.ndarray) -> str:
    """What the outcomes of a key have in common: all the same, or exactly one event; empty where that is chance."""
    many, events = np.bincount(code), np.bincount(code, observed)
    inside = np.clip(predicted, 1e-9, 1.0 - 1e-9)
    all_, none = np.exp(np.bincount(code, np.log(inside))), np.exp(np.bincount(code, np.log1p(-inside)))
    one = none * np.bincount(code, inside / (1.0 - inside))
    for agree, chance, words in (
        ((events == 0) | (events == many), all_ + none, "have the same outcome"),
        (events == 1, np.minimum(one, 1.0), "have exactly one event"),
    ):
        if agree.mean() >= NEARLY_ALL and chance.mean() <= CHANCE:
            return words
    return ""


def _errors(code: np.ndarray, predicted: np.ndarray, observed: np.ndarray) -> str:
    """Whether mean errors of one key and the next differ by more than those of independent rows would.

    Neighbours are compared, so that an error along a column of numbers is not taken for one that keys share.
    """
    many = np.bincount(code)
    mean = np.bincount(code, observed - predicted) / many
    variance = np.bincount(code, predicted * (1.0 - predicted)) / many**2
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.diff(mean) ** 2 / (variance[1:] + variance[:-1])
    square = square[np.isfinite(square)]
    if square.size < LEAST_ERRING - 1:
        return ""
    ratio, error = float(square.mean()), float(square.std()) * math.sqrt(1.5 / square.size)
    return (
        f"err together, {ratio:.1f} times as much as independent rows" if ratio > max(LARGER, 1 + FAR * error) else ""
    )
