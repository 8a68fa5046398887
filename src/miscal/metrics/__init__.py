"""Every metric: numbers from arrays, usable in `sklearn.metrics.make_scorer`. Loaded when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from miscal.metrics.registry import METRICS

__all__ = sorted(METRICS)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in METRICS:
        raise AttributeError(f"module 'miscal.metrics' has no attribute '{name}'")
    return getattr(import_module(f"miscal.metrics.{METRICS[name].home}"), name)


def __dir__() -> list[str]:
    return __all__
