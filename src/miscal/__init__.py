"""Find where a model's probabilities are wrong, show it, fix it, and show that the fix holds."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "miscal.data.errors": ("MiscalError", "MiscalWarning"),
    "miscal.data.predictions": ("Predictions",),
    "miscal.data.sources": ("read",),
    "miscal.metrics.score.result": ("by_score",),
    "miscal.metrics.variable": ("by_variable",),
    "miscal.metrics.field.result": ("by_field",),
    "miscal.metrics.specs": ("measure", "Score", "Variable", "Field", "Subpopulation", "Variation", "Neighbourhood"),
    "miscal.metrics.subpopulation.result": ("by_subpopulation",),
    "miscal.pooling.subpopulations": ("RandomPaths", "Conjunctions", "ResidualLeaves"),
    "miscal.metrics.variation.result": ("by_variation",),
    "miscal.metrics.neighbourhood.result": ("by_neighbourhood",),
    "miscal.metrics.classes": ("by_class",),
    "miscal.auditing.audit": ("audit", "Audit"),
    "miscal.auditing.findings": ("Finding",),
    "miscal.results": ("Result", "Table"),
}
_HOME = {name: place for place, names in _PLACES.items() for name in names}
_MODULES = ("datasets", "metrics", "plots", "recalibrate")

__all__ = sorted([*_HOME, *_MODULES])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(f"miscal.{name}")
    raise AttributeError(f"module 'miscal' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
