"""Which recalibrators are worth trying on a set of rows, the simplest first."""

from __future__ import annotations

from collections.abc import Mapping

from miscal import recalibrate
from miscal.data.columns import Column
from miscal.recalibrate.base import Recalibrator

MOST_CLASSES = 30  # beyond it Dirichlet's K² coefficients want more rows than there mostly are, and seconds a fold
MOST_LEVELS = 50  # beyond it a field is left to the methods that pool small levels
BINARY = ("PlattScaling", "BetaCalibration", "IsotonicLinePlotScaling", "IsotonicCalibration")


def candidates_for(n_classes: int, columns: Mapping[str, Column]) -> dict[str, Recalibrator]:
    """Score maps for every data set; with columns also trees, augmented maps, groups and boosting."""
    if n_classes == 2:
        found: dict[str, Recalibrator] = {name: getattr(recalibrate, name)() for name in BINARY}
    else:
        found = _several(n_classes)
    if not columns:
        return found
    numeric = [name for name, column in columns.items() if not column.nominal]
    few = [name for name, column in columns.items() if column.nominal and 2 <= len(column.levels) <= MOST_LEVELS]
    if numeric or few:
        # A penalty, because a rare level without events would else be given a certainty that one unseen row refutes.
        found["AugmentedLogistic"] = recalibrate.AugmentedLogistic(columns=[*numeric, *few], l2=1.0)
        for l2 in (1.0, 10.0):
            found[f"AugmentedBeta(l2={l2:g})"] = recalibrate.AugmentedBeta(columns=[*numeric, *few], degree=2, l2=l2)
    for name in numeric:
        found[f"VariableTree({name})"] = recalibrate.VariableTree(columns=[name])
    for name, column in columns.items():
        if column.nominal and len(column.levels) >= 2:
            found[f"GroupWise({name})"] = recalibrate.GroupWise(recalibrate.PlattScaling(), columns=[name])
    if n_classes == 2:
        found["MulticalibrationBoost"] = recalibrate.MulticalibrationBoost()
        found["MulticalibrationBoost(coarse)"] = recalibrate.MulticalibrationBoost(min_rows=100)
        found["MulticalibrationBoost(fine)"] = recalibrate.MulticalibrationBoost(leaves=8, min_rows=40)
    return found


def _several(n_classes: int) -> dict[str, Recalibrator]:
    """Maps of several probabilities, from one coefficient to as many as there are pairs of classes."""
    found: dict[str, Recalibrator] = {
        "TemperatureScaling": recalibrate.TemperatureScaling(),
        "StructuredScaling(vector)": recalibrate.StructuredScaling(),
        "StructuredScaling(matrix)": recalibrate.StructuredScaling("matrix"),
    }
    if n_classes <= MOST_CLASSES:
        found["DirichletCalibration"] = recalibrate.DirichletCalibration()
    return found
