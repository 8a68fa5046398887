"""Figures 2, 5, 6, 9 and 10 of Kelly & Smyth redrawn from the authors' own model outputs, in docs/images.

MISCAL_DATA=folder python -m studies.figures_paper_000 [--quick]
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np

import miscal
from miscal.plots import ScoreAndVariableDisplay, VariableComparisonDisplay, VariableDisplay
from miscal.plots.base import pyplot
from studies import reproduce_paper_000 as paper
from studies.harness import images_folder
from studies.needs import need

IMAGES = images_folder()
ADULT = ("Uncalibrated", "Beta calibration", "Variable-based calibration")
CIFAR = ("Uncalibrated", "Dirichlet calibration", "Variable-based calibration")


def results(task: paper.Task, probability: np.ndarray, variable: str) -> tuple[miscal.Result, miscal.Result]:
    """By score and along the variable, on the test rows, for the predicted label."""
    test = task.testing
    values = task.variables[variable][test]
    columns = {variable: values.astype(int) if np.all(values == values.astype(int)) else values}
    p = miscal.Predictions(task.outcome[test], probability, columns=columns)
    return miscal.by_score(p, bins=10, target="top"), miscal.by_variable(p, variable, target="top")


def save(figure: object, name: str) -> None:
    """Write a picture and say so."""
    figure.savefig(IMAGES / name, dpi=110)  # type: ignore[attr-defined]
    pyplot().close("all")
    print(IMAGES / name)


def draw_curves(results: dict[str, miscal.Result], name: str) -> None:
    """Figures 2 and 5: the curves along the variable side by side, on one scale."""
    axes = pyplot().subplots(1, len(results), figsize=(13, 4.2), layout="constrained")[1]
    for ax, (title, result) in zip(axes, results.items(), strict=True):
        VariableDisplay.from_result(result, ax=ax, name=title)
    limits = [ax.get_ylim() for ax in axes]
    for ax in axes:
        ax.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    save(axes[0].figure, name)


def draw(task: paper.Task, found: dict[str, np.ndarray], variable: str, stem: str, names: tuple[str, ...]) -> None:
    """The curves (Figures 2 and 5), the pairs (6 and 9) and the gaps of all on one axis (10)."""
    made = {name: results(task, probability, variable) for name, probability in found.items()}
    three = {name: made[name] for name in names}
    along = {name: pair[1] for name, pair in made.items()}
    draw_curves({name: along[name] for name in names}, f"variable-{stem}-curves.png")
    save(ScoreAndVariableDisplay.from_results(three).figure_, f"variable-{stem}-pairs.png")
    save(VariableComparisonDisplay.from_results(along).figure_, f"variable-{stem}-compared.png")


def main() -> None:
    """Draw for the Adult model by age, with augmented beta too, and for the CIFAR-10H model by reaction time."""
    need("MISCAL_DATA")
    folder = Path(os.environ["MISCAL_DATA"])
    adult = paper.adult(folder)
    found = paper.adult_results(adult)
    compared = {name: found[name] for name in (*ADULT, "Augmented beta")}
    draw(adult, compared, "age", "adult", ADULT)
    cifar = paper.cifar(folder)
    found = paper.cifar_results(cifar)
    draw(cifar, {name: found[name] for name in CIFAR}, "median_rt", "cifar", CIFAR)


if __name__ == "__main__":
    main()
