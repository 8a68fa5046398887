"""Recalibrators: maps from a model's probabilities to better ones, fitted on rows the model was not trained on.

Names are imported when first used, so that `import miscal.recalibrate` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "Augmentation": "augmentation",
    "AugmentedBeta": "augmented",
    "AugmentedLogistic": "augmented",
    "BetaCalibration": "beta",
    "BinAndCycle": "bin_and_cycle",
    "Blend": "blend",
    "Chain": "chain",
    "DirichletCalibration": "dirichlet",
    "GroupWise": "groups",
    "HistogramBinning": "histogram",
    "Identity": "identity",
    "IsotonicCalibration": "isotonic",
    "IsotonicLinePlotScaling": "line_plot",
    "KernelCalibration": "kernel",
    "LocalRecalibration": "neighbourhood",
    "MulticalibrationBoost": "multicalibration",
    "NeuralCalibration": "neural",
    "PlattScaling": "platt",
    "Recalibrator": "base",
    "RecalibratedClassifier": "classifier",
    "ScalingBinning": "histogram",
    "StructuredScaling": "structured",
    "TemperatureScaling": "temperature",
    "VariableTree": "variable",
    "VectorScaling": "vector",
    "SamplingCorrection": "sampling",
    "to_onnx": "onnx",
    "to_sql": "sql",
    "choose": "choosing",
    "learning_pipeline": "pipeline",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605  # the table above is the one place for a new name


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'miscal.recalibrate' has no attribute '{name}'")
    return getattr(importlib.import_module(f"miscal.recalibrate.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
