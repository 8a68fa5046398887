"""The numbers of the score: read from the audit's dictionary, with their noise floor, interval and p-value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.page.reading import Document, cells, items, mapping
from miscal.page.words import finite


@dataclass(frozen=True)
class Measure:
    """One number with what it takes to judge it; NaN where the audit has nothing."""

    value: float
    noise_floor: float = math.nan
    p_value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    least: float = math.nan

    @property
    def known(self) -> bool:
        """Whether there is a number at all."""
        return not math.isnan(self.value)

    def beyond(self, level: float, null: float = 0.0) -> bool:
        """Whether it is beyond noise: by its p-value, else because the interval leaves the null value out."""
        if not math.isnan(self.p_value):
            return self.p_value <= level
        return self.low > null or self.high < null


def measure(score: Mapping[str, Any], name: str) -> Measure:
    """Read one number of the score.

    It may be a plain number, with its details under ``score["details"][name]``, or itself a mapping with ``value``,
    ``noise_floor``, ``p_value`` and ``interval``.

    Examples
    --------
    >>> measure({"slope": {"value": 0.9, "interval": [0.8, 1.0]}}, "slope").low
    0.8
    >>> measure({"kuiper": 0.02, "details": {"kuiper": {"p_value": 0.5}}}, "kuiper").p_value
    0.5
    """
    entry = score.get(name)
    details = {**mapping(mapping(score.get("details")).get(name)), **mapping(entry)}
    value = details.get("value") if isinstance(entry, Mapping) else entry
    low, high = [finite(bound) for bound in [*items(details.get("interval")), None, None][:2]]
    floor, p_value, least = (finite(details.get(key)) for key in ("noise_floor", "p_value", "least"))
    return Measure(finite(value), floor, p_value, low, high, least)


def level(document: Document) -> float:
    """The level at which the audit judged, 5% unless its settings say otherwise."""
    chosen = finite(mapping(document.get("settings")).get("level"))
    return 0.05 if math.isnan(chosen) else chosen


def averages(document: Document) -> tuple[float, float, Measure]:
    """Mean predicted, mean observed and the gap between them, from the score or from the first score table."""
    score = mapping(document.get("score"))
    predicted, observed = measure(score, "predicted").value, measure(score, "observed").value
    gap = measure(score, "gap")
    if math.isnan(predicted) or math.isnan(observed):
        predicted, observed = _pooled(document)
    if not gap.known:
        gap = Measure(predicted - observed, gap.noise_floor, gap.p_value, gap.low, gap.high)
    return predicted, observed, gap


def _pooled(document: Document) -> tuple[float, float]:
    results = items(mapping(document.get("sections")).get("score"))
    if not results:
        return math.nan, math.nan
    bins = cells(mapping(results[0]))
    weight = np.nan_to_num(np.where(np.isnan(bins.weight), bins.rows, bins.weight))
    if weight.sum() <= 0:
        return math.nan, math.nan
    return float((bins.predicted * weight).sum() / weight.sum()), float((bins.observed * weight).sum() / weight.sum())
