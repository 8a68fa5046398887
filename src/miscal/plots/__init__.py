"""Displays that draw results and nothing else. Importing this tells results how to draw themselves."""

from __future__ import annotations

from miscal.plots.base import Display
from miscal.plots.score import CumulativeDisplay, ReliabilityDisplay
from miscal.plots.variable import VariableComparison, VariableDisplay, plot_pairs
from miscal.results import register_plot

register_plot("score", lambda result, **style: ReliabilityDisplay(result).plot(**style))
register_plot("variable", lambda result, **style: VariableDisplay(result).plot(**style))

__all__ = [
    "CumulativeDisplay",
    "Display",
    "ReliabilityDisplay",
    "VariableComparison",
    "VariableDisplay",
    "plot_pairs",
]
