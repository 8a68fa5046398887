"""Data to try things on: real flights, and generators whose truth is known.

- real: :func:`flights`, :func:`flights_predictions`
- calibrated by design: :func:`calibrated`, :func:`calibrated_classes`, :func:`clustered`, :func:`weighted`
- miscalibrated by a known amount in a known place: :func:`planted`, :func:`distorted`
"""

from __future__ import annotations

from miscal.datasets.bundled import flights, flights_predictions
from miscal.datasets.places import distorted, planted
from miscal.datasets.records import Synthetic
from miscal.datasets.synthetic import calibrated, calibrated_classes, clustered, weighted

__all__ = [
    "Synthetic",
    "calibrated",
    "calibrated_classes",
    "clustered",
    "distorted",
    "flights",
    "flights_predictions",
    "planted",
    "weighted",
]
