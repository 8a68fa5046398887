"""Recalibrators: maps from a model's probabilities to better ones, fitted on rows that the model was not trained on.

Modules hold one recalibrator or one family each; those in `by_columns` use columns beside the score. Names are imported
when first used, so that `import miscal.recalibrate` costs nothing.

How to add a recalibrator
-------------------------
Write a subclass of `Recalibrator` (of `ColumnRecalibrator`, if it uses columns) in a module of its own and add its name
to `_MODULES` below. A whole one::

    class OddsFactor(Recalibrator):
        \"\"\"Multiply the odds of each probability by one factor.\"\"\"

        binary_only = True  # several classes are rejected
        always_keeps_ranking = True

        prior: float = parameter(number, 0.0, default=1.0)  # a parameter, its check and its default
        factor_: float = state("float", low=0.0)  # a fitted attribute

        def _fit(self, sample: TrainingSample) -> None:
            events = sample.weights @ sample.outcome
            self.factor_ = (events + self.prior) / (sample.total - events + self.prior)

        def _map(self, probability: Floats) -> Floats:
            odds = self.factor_ * probability / (1.0 - probability)
            return odds / (1.0 + odds)

What must be declared:

- parameters, by `parameter` with a check (or a bare default), and fitted attributes, by `state`. The class is a
  dataclass: do not write `__init__`;
- `_fit`, which sets every attribute declared by `state`, and `_map` (with `uses_columns`, `_map_with_columns`), which
  changes nothing;
- what differs from the defaults of `Recalibrator`: `responses`, `one_vs_rest`, `binary_only`, `moves_certain_scores`,
  `always_keeps_ranking`, `blendable`.

What comes for free: validation of probabilities, outcomes, weights and classes; one map per class (`one_vs_rest`);
`clone`, pickle and `repr`; JSON both ways, every field checked on reading; application to tables larger than memory and
to Spark columns; the laws of `tests/laws/test_recalibrator_laws.py` (an example with required parameters is added in
`tests/laws/recalibrators.py`); the line of the table of recalibrators in the docs.

What may be added: `_formula`, an expression of `miscal.export.formula`, gives SQL, ONNX and a fast `apply_one`;
`candidate_classes` or `_candidates` lets `choose` try it; `check_state` rejects JSON whose parts do not fit together.

What may not: a fitted attribute that is not declared by `state` (JSON would lose it), a module imported for one
recalibrator at the top of another's module, and a change of `self` outside of `_fit`.
"""

import importlib
from typing import Any

#: Module of each recalibrator. The simplest are listed first, because `choose` tries them in this order.
_MODULES = (
    ("identity", "Identity", "SamplingCorrection"),
    ("mean_scaling", "MeanScaling"),
    ("logistic_curves", "PlattScaling", "BetaCalibration"),
    ("isotonic", "IsotonicLinePlotScaling", "IsotonicCalibration"),
    ("binning", "HistogramBinning", "ScalingBinning"),
    ("kernel_calibration", "KernelCalibration"),
    ("softmax_scaling", "TemperatureScaling", "VectorScaling", "StructuredScaling", "DirichletCalibration"),
    ("by_columns.augmented_curves", "AugmentedLogistic", "AugmentedBeta"),
    ("by_columns.variable_tree", "VariableTree"),
    ("by_columns.group_wise", "GroupWise"),
    ("by_columns.boosting", "MulticalibrationBoost"),
    ("by_columns.augmentation", "Augmentation"),
    ("by_columns.local_recalibration", "LocalRecalibration"),
    ("by_columns.neural", "NeuralCalibration"),
    ("combined", "Chain", "Blend"),
    ("choosing", "Choose"),
)
_RECALIBRATORS = {name: module for module, *names in _MODULES for name in names}
_PUBLIC = _RECALIBRATORS | {
    "Recalibrator": "base",
    "RecalibratedClassifier": "classifier",
    "choose": "choosing",
    "kernel_calibration_loss": "kernel_loss",
}

__all__ = sorted(_PUBLIC)  # noqa: PLE0605  # the tables above are the one place for a new name


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'miscal.recalibrate' has no attribute '{name}'")
    return getattr(importlib.import_module(f"miscal.recalibrate.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def kinds() -> tuple[str, ...]:
    """Names of all recalibrators, the simplest first.

    Returns
    -------
    tuple of str
        Names of classes in `miscal.recalibrate`.
    """
    return tuple(_RECALIBRATORS)
