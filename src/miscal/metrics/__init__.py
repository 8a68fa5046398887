"""Every metric: numbers from arrays, usable in `sklearn.metrics.make_scorer`. Loaded when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLACES = {
    "miscal.metrics.score.binned": (
        "expected_calibration_error",
        "maximum_calibration_error",
        "classwise_calibration_error",
        "groupwise_maximum_calibration_error",
        "groupwise_expected_calibration_error",
    ),
    "miscal.metrics.score.kuiper": ("kuiper_calibration_error",),
    "miscal.metrics.score.smooth": ("smooth_calibration_error", "mean_kernel_calibration_error"),
    "miscal.metrics.score.regression": (
        "calibration_slope_intercept",
        "integrated_calibration_index",
        "calibration_distance_quantiles",
    ),
    "miscal.metrics.score.losses": ("score_decomposition", "log_loss", "brier_score"),
    "miscal.metrics.neighbourhood.errors": (
        "local_calibration_error",
        "maximum_local_calibration_error",
        "average_local_calibration_error",
    ),
    "miscal.metrics.variable.error": ("variable_calibration_error",),
    "miscal.metrics.variable.curve": ("variable_calibration_curve",),
    "miscal.metrics.variable.rank": ("rank_variables",),
    "miscal.metrics.field.errors": (
        "field_calibration_error",
        "field_relative_calibration_error",
        "probability_calibration_error",
    ),
    "miscal.metrics.field.table": ("field_table",),
    "miscal.metrics.subpopulation.error": (
        "low_prevalence_weights",
        "multicalibration_error",
        "proportional_weights",
    ),
    "miscal.metrics.variation.error": ("variation_calibration_error", "uncertainty_calibration_error"),
    "miscal.metrics.decision": ("prediction_rejection_ratio", "abstention_reward"),
}
_HOME = {name: place for place, names in _PLACES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'miscal.metrics' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
