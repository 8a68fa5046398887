"""Recalibrators: maps from a model's probabilities to better ones, fitted on rows the model was not trained on.

Names are imported when first used, so that `import miscal.recalibrate` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "Augmentation": "by_columns.augmentation",
    "AugmentedBeta": "by_columns.augmented",
    "AugmentedLogistic": "by_columns.augmented",
    "BetaCalibration": "score.beta",
    "BinAndCycle": "by_columns.bin_and_cycle",
    "Blend": "compose.blend",
    "Chain": "compose.chain",
    "DirichletCalibration": "classes.dirichlet",
    "GroupWise": "by_columns.groups",
    "HistogramBinning": "score.histogram",
    "Identity": "score.identity",
    "IsotonicCalibration": "score.isotonic",
    "IsotonicLinePlotScaling": "score.line_plot",
    "KernelCalibration": "score.kernel",
    "LocalRecalibration": "by_columns.local",
    "MulticalibrationBoost": "by_columns.multicalibration",
    "NeuralCalibration": "by_columns.neural",
    "PlattScaling": "score.platt",
    "Recalibrator": "base",
    "RecalibratedClassifier": "classifier",
    "ScalingBinning": "score.histogram",
    "StructuredScaling": "classes.structured",
    "TemperatureScaling": "score.temperature",
    "VariableTree": "by_columns.variable_tree",
    "VectorScaling": "classes.vector",
    "SamplingCorrection": "score.sampling",
    "to_onnx": "export.onnx",
    "to_sql": "export.sql",
    "choose": "compose.choose",
    "learning_pipeline": "compose.pipeline",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605  # the table above is the one place for a new name


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'miscal.recalibrate' has no attribute '{name}'")
    return getattr(importlib.import_module(f"miscal.recalibrate.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
