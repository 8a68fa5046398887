"""Six displays of results, one per word; and others that compare several predictions of the same rows."""

from typing import Any

from miscal.plots.along import Classes, Periods, ScoreDisplay, VariableDisplay, VariationDisplay
from miscal.plots.base import Display
from miscal.plots.comparisons import ScoreAndVariableDisplay, VariableComparisonDisplay
from miscal.plots.field import FieldDisplay
from miscal.plots.local import NeighbourhoodDisplay, SubpopulationDisplay
from miscal.plots.recalibrations import BandwidthDisplay, RewardDisplay
from miscal.results import Result

__all__ = [
    "BandwidthDisplay",
    "FieldDisplay",
    "NeighbourhoodDisplay",
    "RewardDisplay",
    "ScoreAndVariableDisplay",
    "ScoreDisplay",
    "SubpopulationDisplay",
    "VariableComparisonDisplay",
    "VariableDisplay",
    "VariationDisplay",
]
DISPLAYS = {display.word: display for display in Display.__subclasses__()}
OTHERS = {"class": Classes, "period": Periods}


def draw(result: Result, *, kind: str | None = None, ax: Any = None, **options: Any) -> Any:
    """Draw a result of any kind, as `Result.plot` does."""
    if result.kind in OTHERS:
        return OTHERS[result.kind](result).plot(ax, **options)
    return DISPLAYS[result.kind].from_result(result, kind=kind, ax=ax, **options)
