"""Displays that draw results and nothing else. Importing this tells results how to draw themselves."""

from __future__ import annotations

from miscal.plots.base import Display
from miscal.plots.choice import ChoiceDisplay
from miscal.plots.classes import ClassDisplay
from miscal.plots.field import CaterpillarDisplay, FieldMapDisplay, FunnelDisplay, plot_field
from miscal.plots.neighbourhood import LocalMapDisplay, WorstNeighbourhoodsDisplay, plot_neighbourhood
from miscal.plots.period import PeriodDisplay
from miscal.plots.score import CumulativeDisplay, ReliabilityDisplay
from miscal.plots.subpopulation import (
    RepairedSubpopulationsDisplay,
    SubpopulationDisplay,
    WorstSubpopulationsDisplay,
)
from miscal.plots.variable import VariableComparison, VariableDisplay, plot_pairs
from miscal.plots.variation import RankDisplay, UncertaintyDisplay, VariationDisplay
from miscal.results import register_plot

register_plot("score", lambda result, **style: ReliabilityDisplay(result).plot(**style))
register_plot("variable", lambda result, **style: VariableDisplay(result).plot(**style))
register_plot("field", plot_field)
register_plot("period", lambda result, **style: PeriodDisplay(result).plot(**style))
register_plot("neighbourhood", plot_neighbourhood)
register_plot("subpopulation", lambda result, **style: SubpopulationDisplay(result).plot(**style))
register_plot("variation", lambda result, **style: VariationDisplay(result).plot(**style))
register_plot("class", lambda result, **style: ClassDisplay(result).plot(**style))

__all__ = [
    "CaterpillarDisplay",
    "ChoiceDisplay",
    "ClassDisplay",
    "CumulativeDisplay",
    "Display",
    "FieldMapDisplay",
    "FunnelDisplay",
    "LocalMapDisplay",
    "PeriodDisplay",
    "RankDisplay",
    "ReliabilityDisplay",
    "RepairedSubpopulationsDisplay",
    "SubpopulationDisplay",
    "UncertaintyDisplay",
    "VariableComparison",
    "VariableDisplay",
    "VariationDisplay",
    "WorstNeighbourhoodsDisplay",
    "WorstSubpopulationsDisplay",
    "plot_field",
    "plot_neighbourhood",
    "plot_pairs",
]
