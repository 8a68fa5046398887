"""Every recalibrator, from the names that are public: a new one is tested without being listed here."""

from __future__ import annotations

import numpy as np
import pytest

import miscal.recalibrate as package
from miscal.recalibrate import Recalibrator

LAWS = {"repetition", "order", "json", "calibrated"}  # that a class may say it breaks


def kinds() -> list[type[Recalibrator]]:
    """All classes of recalibrators."""
    named = [getattr(package, name) for name in package.__all__]
    return [
        kind for kind in named if isinstance(kind, type) and issubclass(kind, Recalibrator) and kind is not Recalibrator
    ]


def every(response: str = "binary") -> list[Recalibrator]:
    """The examples that each class for such an outcome gives of itself; a class that gives none fails here."""
    found = []
    for kind in (kind for kind in kinds() if response in kind.responses):
        examples = kind._examples()
        assert examples, kind.__name__
        assert {type(each) for each in examples} == {kind}, kind.__name__
        assert set(kind.broken_laws) <= LAWS, kind.__name__
        found += examples
    return found


def keeping(law: str, makers: list[Recalibrator]) -> list[Recalibrator]:
    """Those that do not say that they break a law."""
    return [made for made in makers if law not in made.broken_laws]


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
