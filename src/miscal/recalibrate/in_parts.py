"""The old name of `miscal.recalibrate.out_of_core`, which warns and works."""

from typing import Any

from miscal.data.errors import warn
from miscal.recalibrate import out_of_core

RENAMED = ("apply_to", "fit_to", "load_model")


def __getattr__(name: str) -> Any:
    if name not in RENAMED:
        raise AttributeError(f"module 'miscal.recalibrate.in_parts' has no attribute '{name}'")
    warn(f"import {name} from miscal.recalibrate.out_of_core: miscal.recalibrate.in_parts was renamed")
    return getattr(out_of_core, name)
