"""Dirichlet calibration of many classes: the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miscal.recalibrate import DirichletCalibration

CLASSES = 12


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    score = rng.normal(0, 2, (900, CLASSES))
    likely = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    y = (likely.cumsum(axis=1) < rng.random((900, 1))).sum(axis=1)
    sharp = likely**2
    return sharp / sharp.sum(axis=1, keepdims=True), y, rng.integers(1, 4, 900).astype(float)


def gradient(made: DirichletCalibration, p: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Of the penalised mean loss, from its definition."""
    features = np.column_stack([np.log(np.maximum(p, 1e-12)), np.ones(len(p))])
    theta = np.column_stack([made.coefficients_, made.intercepts_])
    scores = features @ theta.T
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    off = (likely - np.eye(CLASSES)[y]) * weight[:, None]
    penalty = np.full(theta.shape, 2 * made.l2)
    penalty[:, -1] = 2 * (made.l2 if made.intercept_l2 is None else made.intercept_l2)
    free = CLASSES - 1 if made.reference else CLASSES
    return (off.T @ features / weight.sum() + penalty * theta)[:free]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"l2": 1e-5, "intercept_l2": 1e-2}, {"reference": False, "l2": 1e-2}],
    ids=["default", "intercepts apart", "no reference"],
)
def test_the_gradient_vanishes(rows: tuple[np.ndarray, ...], options: dict[str, Any], weighted: bool) -> None:
    p, y, weight = rows
    weight = weight if weighted else np.ones(len(y))
    made = DirichletCalibration(**options).fit(p, y, sample_weight=weight)
    assert np.linalg.norm(gradient(made, p, y, weight)) < 2e-13


def test_a_class_that_is_always_as_likely_does_not_lead_astray(rows: tuple[np.ndarray, ...]) -> None:
    """Its logarithm is one more intercept: without a penalty there is no one optimum, but there is a least loss."""
    p, y = rows[0].copy(), rows[1]
    p[:, 0], p[:, 1:] = 0.2, 0.8 * p[:, 1:] / p[:, 1:].sum(axis=1, keepdims=True)
    made = DirichletCalibration(l2=0.0).fit(p, y)
    assert np.linalg.norm(gradient(made, p, y, np.ones(len(y)))) < 2e-13
    assert np.abs(made.coefficients_).max() < 100
