"""Draw the figures of the multi-calibration page from the bundled flights.

python -m studies.figures_subpopulation [--quick]
"""

from __future__ import annotations

import sys

import matplotlib as mpl

mpl.use("Agg")

import numpy as np

import miscal
from miscal.datasets import flights_predictions
from miscal.plots import SubpopulationDisplay
from miscal.recalibrate import AugmentedLogistic, IsotonicCalibration, MulticalibrationBoost
from studies.displays import RepairedSubpopulationsDisplay
from studies.harness import images_folder

COLUMNS = ["carrier", "origin", "month", "hour", "distance"]


def halves(p: miscal.Predictions) -> tuple[miscal.Predictions, miscal.Predictions]:
    """Half to learn repairs from, half to measure on."""
    order = np.random.default_rng(0).permutation(p.rows)
    return p.take(order[: p.rows // 2]), p.take(order[p.rows // 2 :])


def main(quick: bool) -> None:
    folder, p, simulations = images_folder(), flights_predictions(), 499
    if quick:
        p, simulations = p.take(np.arange(0, p.rows, 40)), 19
    columns = [name for name in COLUMNS if name in p.columns]
    learn, test = halves(p)
    result = miscal.by_subpopulation(test, columns, simulations=simulations)
    print(result.sentence())
    SubpopulationDisplay(result).plot().figure_.savefig(folder / "subpopulation-cumulative.png", dpi=130)
    SubpopulationDisplay(result, "worst").plot().figure_.savefig(folder / "subpopulation-worst.png", dpi=130)
    results = {"As it is": result}
    table = {name: learn.columns[name] for name in columns}
    beside = {name: test.columns[name] for name in columns}
    for name, repair in (
        ("Isotonic", IsotonicCalibration()),
        ("Logistic on columns", AugmentedLogistic(degree=2)),
        ("MulticalibrationBoost", MulticalibrationBoost()),
    ):
        repair.fit(learn.probability, learn.outcome, table)
        repaired = test.with_probability(repair.predict_proba(test.probability, beside)[:, 1])
        results[name] = miscal.by_subpopulation(repaired, columns, simulations=simulations)
        print(name, results[name].sentence())
    RepairedSubpopulationsDisplay(results).plot().figure_.savefig(folder / "subpopulation-repaired.png", dpi=130)


if __name__ == "__main__":
    main("--quick" in sys.argv)
