"""What displays share: matplotlib on demand, one set of colours, and the protocol.

A display holds what is drawn (`frame()` returns it), `plot(ax=None)` draws it and returns the display with `ax_` and
`figure_`; nothing is computed while drawing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from miscal.data.errors import MissingExtra
from miscal.results import Result, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Told apart by every common kind of colour blindness, in print and on both backgrounds.
OVER = "#c2571a"  # predicted more than happened
UNDER = "#1f6fb4"  # happened more than predicted
INK = "#23303b"
QUIET = "#7b8794"
BAND = "#c9d3dc"
SERIES = ("#1f6fb4", "#c2571a", "#2a8c6e", "#8a5fb0", "#b03a5b", "#8c7a1f")


def pyplot() -> Any:
    """Matplotlib's pyplot, or a word on how to install it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingExtra("drawing a plot", "matplotlib", "plot") from error
    return plt


class Display(ABC):
    """A figure of a result."""

    ax_: Axes
    figure_: Figure

    def __init__(self, result: Result) -> None:
        self.result = result

    @classmethod
    def from_result(cls, result: Result) -> Display:
        """The display of a result."""
        return cls(result)

    @abstractmethod
    def frame(self) -> Table:
        """Exactly what is drawn."""

    @abstractmethod
    def plot(self, ax: Any = None, **style: Any) -> Display:
        """Draw, on new axes or on those given; visual arguments only."""

    def _start(self, ax: Any, size: tuple[float, float] = (5.2, 5.0)) -> Any:
        if ax is None:
            _, ax = pyplot().subplots(figsize=size, layout="constrained")
        self.ax_ = ax
        self.figure_ = ax.figure
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.tick_params(colors=INK, labelsize=9)
        return ax


def percent_axis(axis: Any) -> None:
    """Ticks in per cent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol="%"))
