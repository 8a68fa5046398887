"""Data to try things on: real flights, and generators whose truth is known.

- real: :func:`flights`, :func:`flights_predictions`
- calibrated by design: :func:`calibrated`, :func:`calibrated_classes`, :func:`clustered`, :func:`weighted`
- miscalibrated by a known amount in a known place: :func:`planted`, :func:`distorted`, :func:`local_wave`
- the papers' own examples, without chance: :func:`variable_worse_than_score`, :func:`score_worse_than_variable`,
  :func:`one_sided`, :func:`nested_subpopulations`
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from miscal.datasets.bundled import flights, flights_predictions
    from miscal.datasets.constructions import (
        nested_subpopulations,
        one_sided,
        score_worse_than_variable,
        variable_worse_than_score,
    )
    from miscal.datasets.places import distorted, planted
    from miscal.datasets.records import Construction, Synthetic
    from miscal.datasets.synthetic import calibrated, calibrated_classes, clustered, weighted
    from miscal.datasets.wave import local_wave, local_wave_error

__all__ = [
    "Construction",
    "Synthetic",
    "calibrated",
    "calibrated_classes",
    "clustered",
    "distorted",
    "flights",
    "flights_predictions",
    "local_wave",
    "local_wave_error",
    "nested_subpopulations",
    "one_sided",
    "planted",
    "score_worse_than_variable",
    "variable_worse_than_score",
    "weighted",
]

# No module bears the name of a function: importing it would put the module in the function's place.
_HOMES = {
    "bundled": ("flights", "flights_predictions"),
    "constructions": (
        "nested_subpopulations",
        "one_sided",
        "score_worse_than_variable",
        "variable_worse_than_score",
    ),
    "places": ("distorted", "planted"),
    "records": ("Construction", "Synthetic"),
    "synthetic": ("calibrated", "calibrated_classes", "clustered", "weighted"),
    "wave": ("local_wave", "local_wave_error"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that importing the package costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
