"""Every recalibrator, from the names that are public: a new one is tested without being listed here."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import miscal.recalibrate as package
from miscal.recalibrate import Recalibrator

DRAWN = {"repetition": "folds are drawn of rows", "order": "folds are drawn by the rows' places"}

# Which laws do not hold for a class, and why; all others hold.
BROKEN: dict[str, dict[str, str]] = {
    "SamplingCorrection": {"calibrated": "it learns nothing from the rows"},
    "GroupWise": {
        "repetition": "min_rows and the strength of pooling count rows",
        "order": "the halves that choose the strength are drawn by the rows' places",
    },
    "MulticalibrationBoost": {
        "repetition": "min_rows counts rows",
        "order": "the folds that choose the rounds are drawn by the rows' places",
    },
    "Augmentation": {
        "repetition": "a classifier of another library may count rows",
        "order": "a classifier of another library may look at places",
        "json": "it holds a classifier",
        "calibrated": "trees of the score are coarse",
    },
    "NeuralCalibration": {
        "repetition": "batches are drawn of rows",
        "order": "batches are drawn by the rows' places",
    },
    "Blend": DRAWN,
    "Choose": DRAWN,
}


def kinds() -> list[type[Recalibrator]]:
    """All classes of recalibrators."""
    named = [getattr(package, name) for name in package.__all__]
    return [
        kind for kind in named if isinstance(kind, type) and issubclass(kind, Recalibrator) and kind is not Recalibrator
    ]


def example(kind: type[Recalibrator], response: str = "binary") -> Recalibrator:
    """A small one of a class: with its own parameters where those would take long, or where there are none."""
    curve, tree = package.PlattScaling, package.VariableTree
    grown = DecisionTreeClassifier if response == "binary" else DecisionTreeRegressor
    small = {
        "SamplingCorrection": lambda: package.SamplingCorrection(rate=0.5),
        "GroupWise": lambda: package.GroupWise(curve(), min_rows=10),
        "MulticalibrationBoost": lambda: package.MulticalibrationBoost(rounds=1),
        "Augmentation": lambda: package.Augmentation(grown(max_depth=4, random_state=0)),
        "NeuralCalibration": lambda: package.NeuralCalibration(hidden=[4], epochs=2, progress=False),
        "Chain": lambda: package.Chain([curve(l2=0.5), tree(max_depth=1)]),
        "Blend": lambda: package.Blend([package.TemperatureScaling(), tree(max_depth=2)], cv=2),
        "Choose": lambda: package.Choose(candidates=[curve(), package.TemperatureScaling()], cv=2),
    }
    made: Recalibrator = small.get(kind.__name__, kind)()
    return made


def every(response: str = "binary") -> list[Recalibrator]:
    """An example of each class for such an outcome; a class that needs parameters and has no example fails here."""
    return [example(kind, response) for kind in kinds() if response in kind.responses]


def breaks(law: str, made: Recalibrator) -> bool:
    """Whether a law is said not to hold."""
    return law in BROKEN.get(type(made).__name__, {})


def keeping(law: str, makers: list[Recalibrator]) -> list[Recalibrator]:
    """Those that do not break a law."""
    return [made for made in makers if not breaks(law, made)]


def rows(classes: int, size: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Probabilities, outcomes and two columns."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), size)
    y = (p.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    X = {"v": rng.normal(size=size), "level": rng.choice(["a", "b", "c"], size)}
    return (p[:, 1] if classes == 2 else p), y, X


def skip_without_its_library(made: Recalibrator) -> None:
    """The network needs torch, which is an extra."""
    if type(made).__name__ == "NeuralCalibration":
        pytest.importorskip("torch")
