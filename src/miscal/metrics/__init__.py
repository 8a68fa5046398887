"""Every metric: numbers from arrays, usable in `sklearn.metrics.make_scorer`. Loaded when first asked for.

The table has a line a metric: where it lives, and which laws it keeps. All law tests read it.
"""

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from typing import Any

FIXED = {"bins": [0.0, 0.25, 0.5, 0.75, 1.0]}  # edges, in units of the prediction
ANY: dict[str, Any] = {}
AT_AN_EDGE = "a quantile that is reached exactly may round to either side"
ROWS_COUNT = "windows and quantiles count rows, not weight"


@dataclasses.dataclass(frozen=True)
class Metric:
    """One metric: a new one is a function and its line below.

    Attributes
    ----------
    home : module below `miscal.metrics`
    exact : order of rows and repetition for whole-number weights change no bit; otherwise rounding only
    perfect : what certain and right predictions give; None where nothing is promised
    options : keyword arguments under which the laws are meant, bins that do not follow the rows for example
    exempt : laws that it does not keep ("order", "repetition", "scale", "zero"), each with the reason
    means : keyword arguments under which it is the same of any mean as of events; None where it needs events
    degree : by which power of a constant its value grows when outcomes and predictions grow by it
    """

    home: str
    exact: bool = False
    perfect: float | None = 0.0
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    exempt: Mapping[str, str] = dataclasses.field(default_factory=dict)
    means: Mapping[str, Any] | None = None
    degree: int = 1


LOCAL = Metric("neighbourhood_errors", means={**FIXED, "target": "positive"})

METRICS: dict[str, Metric] = {
    "expected_calibration_error": Metric("score_errors", exact=True, means=FIXED),
    "maximum_calibration_error": Metric("score_errors", exact=True, means=FIXED),
    "classwise_calibration_error": Metric("score_errors", exact=True),
    "groupwise_maximum_calibration_error": Metric("score_errors"),
    "groupwise_expected_calibration_error": Metric("score_errors"),
    "kuiper_calibration_error": Metric("score_errors", exact=True, means=ANY),
    "smooth_calibration_error": Metric("score_errors"),
    "mean_kernel_calibration_error": Metric("score_errors"),
    "calibration_slope_intercept": Metric(
        "losses", perfect=None, exempt={"repetition": "weights are not more rows: its intervals stay as wide"}
    ),
    "integrated_calibration_index": Metric("losses", perfect=None, exempt={"repetition": ROWS_COUNT}),
    "score_decomposition": Metric("losses", perfect=None),
    "log_loss": Metric("losses"),
    "brier_score": Metric("losses"),
    "local_calibration_error": LOCAL,
    "maximum_local_calibration_error": LOCAL,
    "average_local_calibration_error": LOCAL,
    "variable_calibration_error": Metric("variable", exact=True, options={"strategy": "uniform"}, means=ANY),
    "variable_calibration_curve": Metric("curves", options={"grid": 9}, exempt={"repetition": ROWS_COUNT}),
    "rank_variables": Metric(
        "variable", perfect=None, exempt={"repetition": ROWS_COUNT, "scale": AT_AN_EDGE}
    ),
    "field_calibration_error": Metric("field", exact=True, means=ANY),
    "field_relative_calibration_error": Metric("field", exact=True, means={"zero": "drop"}, degree=0),
    "probability_calibration_error": Metric("field"),
    "multicalibration_error": Metric(
        "subpopulation_errors",
        exempt={"repetition": "the sizes of subpopulations count rows"},
        means={"normalise": False},
    ),
    "proportional_weights": Metric("subpopulation_errors", perfect=None),
    "low_prevalence_weights": Metric("subpopulation_errors", perfect=None),
    "variation_calibration_error": Metric("variation", exact=True),
    "uncertainty_calibration_error": Metric("variation", exact=True),
    "prediction_rejection_ratio": Metric("losses", perfect=None),
    "abstention_reward": Metric("losses", exempt={"scale": "the total of the weighted rows"}),
}

__all__ = sorted(METRICS)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in METRICS:
        raise AttributeError(f"module 'miscal.metrics' has no attribute '{name}'")
    return getattr(import_module(f"miscal.metrics.{METRICS[name].home}"), name)


def __dir__() -> list[str]:
    return __all__
