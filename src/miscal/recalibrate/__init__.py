"""Recalibrators: maps from a model's probabilities to better ones, fitted on rows the model was not trained on.

Names are imported when first used, so that `import miscal.recalibrate` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

# A new recalibrator is its file and its line here. The simplest stand first: so `choose` tries them.
_KINDS = {
    "Identity": "curves",
    "SamplingCorrection": "curves",
    "MeanScaling": "curves",
    "PlattScaling": "curves",
    "BetaCalibration": "curves",
    "IsotonicLinePlotScaling": "shapes",
    "IsotonicCalibration": "shapes",
    "HistogramBinning": "shapes",
    "ScalingBinning": "shapes",
    "KernelCalibration": "curves",
    "TemperatureScaling": "curves",
    "VectorScaling": "softmax",
    "StructuredScaling": "softmax",
    "DirichletCalibration": "softmax",
    "AugmentedLogistic": "by_columns.beside",
    "AugmentedBeta": "by_columns.beside",
    "VariableTree": "by_columns.variable_tree",
    "GroupWise": "by_columns.groups",
    "MulticalibrationBoost": "by_columns.boosting",
    "Augmentation": "by_columns.beside",
    "LocalRecalibration": "by_columns.local",
    "NeuralCalibration": "by_columns.neural",
    "Chain": "combined",
    "Blend": "combined",
    "Choose": "choosing",
}
_HOMES = _KINDS | {
    "Recalibrator": "base",
    "RecalibratedClassifier": "classifier",
    "choose": "choosing",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605  # the tables above are the one place for a new name


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'miscal.recalibrate' has no attribute '{name}'")
    return getattr(importlib.import_module(f"miscal.recalibrate.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def kinds() -> tuple[str, ...]:
    """Names of all recalibrators, the simplest first."""
    return tuple(_KINDS)
