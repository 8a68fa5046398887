"""Recalibrators: maps from a model's probabilities to better ones, fitted on rows the model was not trained on.

Names are imported when first used, so that `import miscal.recalibrate` costs nothing.
"""

import importlib
from typing import Any

# A new recalibrator is its file and its name here. The simplest stand first: so `choose` tries them.
_FILES = (
    ("curves", "Identity", "SamplingCorrection", "MeanScaling", "PlattScaling", "BetaCalibration"),
    ("shapes", "IsotonicLinePlotScaling", "IsotonicCalibration", "HistogramBinning", "ScalingBinning"),
    ("curves", "KernelCalibration"),
    ("softmax", "TemperatureScaling", "VectorScaling", "StructuredScaling", "DirichletCalibration"),
    ("by_columns.augmented", "AugmentedLogistic", "AugmentedBeta"),
    ("by_columns.variable_tree", "VariableTree"),
    ("by_columns.groups", "GroupWise"),
    ("by_columns.boosting", "MulticalibrationBoost"),
    ("by_columns.augmented", "Augmentation"),
    ("by_columns.local", "LocalRecalibration"),
    ("by_columns.neural", "NeuralCalibration"),
    ("combined", "Chain", "Blend"),
    ("choosing", "Choose"),
)
_KINDS = {name: home for home, *names in _FILES for name in names}
_HOMES = _KINDS | {
    "Recalibrator": "base",
    "RecalibratedClassifier": "classifier",
    "choose": "choosing",
    "kernel_calibration_loss": "training",
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
