"""Weights that emphasise false positives: proportional (Appendix A of paper 004) and low prevalence (Appendix B)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from miscal.data import checks
from miscal.data.errors import refusal
from miscal.pairs import Pair

EMPHASES = (None, "proportional", "low_prevalence")


def proportional_weights(y_prob: Any, *, rho: float = 0.01, regularise: str = "max") -> np.ndarray:
    r"""Weights inversely proportional to the score, held finite by rho: 1/max(p, rho), or 1/(p + rho).

    They depend on the scores alone, so p-values hold with them.

    Examples
    --------
    >>> proportional_weights([0.001, 0.5], rho=0.01).tolist()
    [100.0, 2.0]
    >>> proportional_weights([0.25], rho=0.25, regularise="sum").tolist()
    [2.0]
    """
    probability = checks.probability_matrix(y_prob, "'y_prob'")[0]
    probability = probability[:, 1] if probability.ndim == 2 else probability
    return _proportional(probability, rho, regularise)


def _proportional(probability: np.ndarray, rho: float, regularise: str) -> np.ndarray:
    fine = isinstance(rho, (int, float)) and not isinstance(rho, bool) and 0.0 < rho < math.inf
    if not fine:
        raise refusal("must be above 0", where="'rho'", got=f"got {rho!r}", hint="1/p has no limit near 0")
    if regularise not in ("max", "sum"):
        raise refusal("must be 'max' or 'sum'", where="'regularise'", got=f"got {regularise!r}")
    return np.asarray(1.0 / (np.maximum(probability, rho) if regularise == "max" else probability + rho))


def low_prevalence_weights(y_true: Any, sample_weight: Any = None) -> np.ndarray:
    """1/prevalence for events, 1 for others (Appendix B).

    They depend on the outcomes: with them calibrated predictions read as far from calibrated (87 standard deviations in
    one trial), so nothing measured with them has a p-value. Compare models by them, never a model with calibration.

    Examples
    --------
    >>> low_prevalence_weights([1, 0, 0, 0]).tolist()
    [4.0, 1.0, 1.0, 1.0]
    """
    outcome = np.asarray(y_true)
    if outcome.ndim != 1 or outcome.size == 0 or not np.isin(outcome, (0, 1)).all():
        raise refusal("must hold 0 and 1", where="'y_true'", got=f"its shape is {outcome.shape}")
    weight = None if sample_weight is None else checks.weights(sample_weight, "'sample_weight'")[0]
    return _low_prevalence(outcome.astype(np.float64), weight)


def _low_prevalence(outcome: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    prevalence = float(np.average(outcome, weights=weight))
    if prevalence == 0.0:
        return np.ones(outcome.size)
    return np.where(outcome > 0, 1.0 / prevalence, 1.0)


def emphasised(pair: Pair, emphasis: str | None, rho: float = 0.01, regularise: str = "max") -> Pair:
    """The pair with its sampling weights multiplied by those of an emphasis."""
    if emphasis not in EMPHASES:
        raise refusal("must be None, 'proportional' or 'low_prevalence'", where="'emphasis'", got=f"got {emphasis!r}")
    if emphasis is None:
        return pair
    if emphasis == "proportional":
        extra = _proportional(pair.predicted, rho, regularise)
    else:
        extra = _low_prevalence(np.asarray(pair.observed, dtype=np.float64), pair.first)
    return replace(pair, weight=extra if pair.weight is None else pair.weight * extra)
