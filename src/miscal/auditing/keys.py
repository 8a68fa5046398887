"""Keys whose rows are not independent: what to give as the cluster, where nobody has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from miscal.auditing.column_choice import NAMED
from miscal.data.columns import Column
from miscal.data.predictions import Predictions
from miscal.pairs import Pair

MOST_ROWS = 200_000  # looked at, from the start: the rows of a key often stand together
LEAST_KEYS, LEAST_ERRING = 20, 100  # keys of two rows or more, for outcomes and for errors
LARGEST = 100  # rows a key on average: above it, a key is a group
NEARLY_ALL, CHANCE = 0.98, 0.8  # keys whose outcomes agree, where chance would make at most this share of them agree
FAR, LARGER = 5.0, 1.25  # standard errors, and times the variance, from which errors are shared


@dataclass(frozen=True)
class Key:
    """A column whose rows of one value are not independent, how many values it has, and what they share."""

    name: str
    keys: int
    shared: str
    certain: bool

    @property
    def note(self) -> str:
        """What to do about it."""
        why = "they are not independent, and a place may seem beyond noise that is not"
        return f"Rows of one {self.name} {self.shared}: {why}. To judge them together, give --cluster {self.name}."


def suggested(predictions: Predictions, compared: Pair, columns: Sequence[Column]) -> Key | None:
    """The coarsest key whose rows share an outcome, else the one whose rows err most alike; None where there is none.

    compared : the pair beyond the score
    """
    rows = min(predictions.rows, MOST_ROWS)
    one = compared.take(slice(0, rows))
    found = [key for column in columns if (key := _judged(column, one)) is not None]
    return min(found, key=lambda key: (not key.certain, key.keys), default=None)


def _judged(column: Column, one: Pair) -> Key | None:
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
    certain = bool(shared)
    if not shared and several.size >= LEAST_ERRING and (column.nominal or NAMED.search(column.name)):
        shared = _errors(code, predicted, observed)
    return Key(column.name, int(several.size), shared, certain) if shared else None


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
