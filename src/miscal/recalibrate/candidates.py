"""Which recalibrators are worth trying on a set of rows, the simplest first."""

from __future__ import annotations

from collections.abc import Mapping

from miscal import recalibrate
from miscal.data.columns import Column
from miscal.recalibrate.base import Recalibrator

MOST_CLASSES = 30  # beyond it Dirichlet's K² coefficients cost minutes and want more rows than there mostly are
MOST_LEVELS = 50  # beyond it a field is left to the methods that pool small levels
BINARY = ("PlattScaling", "BetaCalibration", "IsotonicLinePlotScaling", "IsotonicCalibration")
SEVERAL = ("TemperatureScaling", "VectorScaling", "DirichletCalibration")


def candidates_for(n_classes: int, columns: Mapping[str, Column]) -> dict[str, Recalibrator]:
    """Score maps for every data set; with columns also trees, augmented maps, groups and boosting."""
    names = BINARY if n_classes == 2 else SEVERAL[: None if n_classes <= MOST_CLASSES else -1]
    found: dict[str, Recalibrator] = {name: getattr(recalibrate, name)() for name in names}
    if not columns:
        return found
    numeric = [name for name, column in columns.items() if not column.nominal]
    few = [name for name, column in columns.items() if column.nominal and 2 <= len(column.levels) <= MOST_LEVELS]
    if numeric or few:
        # A penalty, because a rare level without events would else be given a certainty that one unseen row refutes.
        found["AugmentedLogistic"] = recalibrate.AugmentedLogistic(columns=[*numeric, *few], l2=1.0)
    for name in numeric:
        found[f"VariableTree({name})"] = recalibrate.VariableTree(columns=[name])
    grouped = getattr(recalibrate, "GroupWise", None)
    if grouped is not None:
        for name, column in columns.items():
            if column.nominal and len(column.levels) >= 2:
                found[f"GroupWise({name})"] = grouped(recalibrate.PlattScaling(), columns=[name])
    if n_classes == 2:
        found["MulticalibrationBoost"] = recalibrate.MulticalibrationBoost()
    return found
