"""The figures of Kelly & Smyth redrawn from the authors' own model outputs: `make studies` writes them to docs/images.

MISCAL_DATA=folder python -m studies.figures_paper_000 [--quick]
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np

import miscal
from miscal.plots import VariableDisplay
from miscal.plots.base import pyplot
from studies import reproduce_paper_000 as paper
from studies.displays import VariableComparison, plot_pairs
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


def draw(task: paper.Task, found: dict[str, np.ndarray], names: tuple[str, ...], variable: str, stem: str) -> None:
    """The curve before (Figure 1b), the pairs (6, 9) and the comparison (10 to 12)."""
    made = {name: results(task, found[name], variable) for name in names}
    save(VariableDisplay(made[names[0]][1]).plot(name=names[0]).figure_, f"variable-{stem}-curve.png")
    save(plot_pairs(made), f"variable-{stem}-pairs.png")
    save(
        VariableComparison({name: pair[1] for name, pair in made.items()}).plot().figure_,
        f"variable-{stem}-compared.png",
    )


def main() -> None:
    """Draw for the Adult model by age and for the CIFAR-10H model by reaction time."""
    need("MISCAL_DATA")
    folder = Path(os.environ["MISCAL_DATA"])
    adult = paper.adult(folder)
    draw(adult, paper.adult_results(adult), ADULT, "age", "adult")
    cifar = paper.cifar(folder)
    draw(cifar, paper.cifar_results(cifar), CIFAR, "median_rt", "cifar")


if __name__ == "__main__":
    main()
