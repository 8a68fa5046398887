"""Find where a model's probabilities are wrong, show it, fix it, and show that the fix holds."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0.dev0"

_SPECS = ("Score", "Variable", "Field", "Subpopulation", "Variation", "Neighbourhood")
# Where the names live; a module is imported when one of its names is first used, so that this import costs nothing.
_PLACES = {
    "auditing.audit": ("audit", "Audit"),
    "auditing.repair": ("repair",),
    "report.findings": ("Finding",),
    "data.errors": ("MiscalError", "MiscalWarning"),
    "data.predictions": ("Predictions",),
    "data.sources": ("read",),
    "metrics.field": ("by_field",),
    "metrics.neighbourhood": ("by_neighbourhood",),
    "metrics.score": ("by_score",),
    "metrics.specs": ("measure", "by_class", *_SPECS),
    "metrics.subpopulation": ("by_subpopulation",),
    "metrics.variable": ("by_variable",),
    "metrics.variation": ("by_variation",),
    "cells.subpopulations": ("Conjunctions",),
    "results": ("Result",),
}
_HOME = {name: place for place, names in _PLACES.items() for name in names}
__all__ = sorted([*_HOME, "datasets", "metrics", "plots", "recalibrate"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"miscal.{_HOME[name]}"), name)
    if name in __all__:
        return import_module(f"miscal.{name}")
    raise AttributeError(f"module 'miscal' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
