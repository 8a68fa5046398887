"""Displays that draw results and nothing else. Importing this tells results how to draw themselves."""

from __future__ import annotations

from miscal.plots.base import Display
from miscal.plots.field import CaterpillarDisplay, FieldMapDisplay, FunnelDisplay, plot_field
from miscal.plots.score import CumulativeDisplay, ReliabilityDisplay
from miscal.plots.subpopulation import (
    RepairedSubpopulationsDisplay,
    SubpopulationDisplay,
    WorstSubpopulationsDisplay,
)
from miscal.plots.variable import VariableComparison, VariableDisplay, plot_pairs
from miscal.results import register_plot

register_plot("score", lambda result, **style: ReliabilityDisplay(result).plot(**style))
register_plot("variable", lambda result, **style: VariableDisplay(result).plot(**style))
register_plot("field", plot_field)
register_plot("subpopulation", lambda result, **style: SubpopulationDisplay(result).plot(**style))

__all__ = [
    "CaterpillarDisplay",
    "CumulativeDisplay",
    "Display",
    "FieldMapDisplay",
    "FunnelDisplay",
    "ReliabilityDisplay",
    "RepairedSubpopulationsDisplay",
    "SubpopulationDisplay",
    "VariableComparison",
    "VariableDisplay",
    "WorstSubpopulationsDisplay",
    "plot_field",
    "plot_pairs",
]
