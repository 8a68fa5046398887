"""What displays share: matplotlib on demand, one set of colours, and the ways to make one.

A display holds what is drawn (`frame()` returns it), `plot(ax=None)` draws it and returns the display with `ax_` and
`figure_`; nothing is computed while drawing.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Self

import numpy as np

from miscal.data.arrays import Array, Plain, frame_of, is_table
from miscal.data.checks import one_of
from miscal.data.errors import MissingExtra, check_named, refusal
from miscal.data.predictions import Predictions
from miscal.data.responses import RESPONSES
from miscal.results import Histogram, Result, Table

# Told apart by every common kind of colour blindness, in print and on both backgrounds.
OVER = "#c2571a"  # more predicted than observed
UNDER = "#1f6fb4"  # more observed than predicted
INK = "#23303b"
QUIET = "#7b8794"
BAND = "#c9d3dc"
DASHES, DOTS = (0, (4, 3)), (0, (3, 3))
FINE = {"color": QUIET, "linewidth": 0.8}
DASHED = {"color": QUIET, "linewidth": 1, "linestyle": DASHES}
SHADE = {"color": BAND, "alpha": 0.8, "linewidth": 0}
ABOVE = {"loc": "lower center", "bbox_to_anchor": (0.4, 1.0), "ncols": 2}
ABOUT = ("response", "exposure", "positive", "classes")  # options of `Predictions`, not of a `by_` function
SERIES = ("#1f6fb4", "#c2571a", "#2a8c6e", "#8a5fb0", "#b03a5b", "#8c7a1f")


def pyplot() -> Any:
    """Matplotlib's pyplot, or a word on how to install it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingExtra("drawing a plot", "matplotlib", "plot") from error
    return plt


class View:
    """One kind of figure of a result: `frame()` is exactly what is drawn."""

    needs = ""  # what a result must have
    part = ""  # the field of the result that is drawn in place of its table
    columns: tuple[str, ...] = ()
    size = (5.2, 5.0)  # inches of a figure of its own
    a_row = 0.0  # by how many it is higher for each row that is drawn
    most = 0  # rows that are drawn, of those that are in order of importance
    ax_: Any  # where it is drawn

    def __init__(self, result: Any, most: int | None = None) -> None:
        if not self.suits(result):
            raise refusal(f"must have {self.needs}", "the result", hint="choose another kind")
        self.result = result
        self.settings = result.settings
        self.table: Table = getattr(result, self.part) if self.part else result.table
        if most is not None:
            self.most = most

    @classmethod
    def suits(cls, result: Result) -> bool:
        """Whether the view can show a result."""
        return not cls.part or getattr(result, cls.part, None) is not None

    def frame(self) -> Table:
        """Exactly what is drawn: where a view does not say otherwise, its columns of the rows that it has chosen."""
        return Table({name: self.table[name] for name in self.columns}).take(self.chosen())

    def chosen(self) -> Any:
        """Which cells are drawn: those that have rows."""
        return self.table["rows"] > 0

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw, on new axes or on those given; style is that of what was observed."""
        if ax is None:
            self.draw_figure(**style)
        else:
            self.ax_, self.figure_ = ax, ax.figure
            open_axes(ax)
            self.draw(self.frame(), **style)
        return self

    def draw_figure(self, **style: Any) -> None:
        """Draw in a figure of its own."""
        drawn = self.frame()
        self.panels(1, 1, self.inches(drawn))
        self.draw(drawn, **style)

    def panels(self, high: int, wide: int, size: tuple[float, float], **options: Any) -> Any:
        """New axes in rows and columns, of a figure of their own."""
        options |= {"figsize": size, "layout": "constrained", "squeeze": False}
        self.figure_, axes = pyplot().subplots(high, wide, **options)
        self.ax_ = axes[0, 0]
        for ax in axes.flat:
            open_axes(ax)
        return axes

    def draw(self, drawn: Table, **style: Any) -> None:
        """Draw what `frame` gives on the axes."""

    def inches(self, drawn: Table) -> tuple[float, float]:
        """How wide and how high a figure of its own is."""
        return self.size[0], self.size[1] + self.a_row * drawn.rows

    @property
    def of_means(self) -> bool:
        """Whether what was predicted is no event: rates are then the numbers they are."""
        return self.settings.get("target") in RESPONSES[1:]

    def format_mean(self, value: float, sign: str = "") -> str:
        """A rate or a gap in words."""
        return f"{value:{sign}.3g}" if self.of_means else f"{value:{sign}.2%}"

    def observed_interval(self, drawn: Table) -> tuple[Any, Any]:
        """The interval of the gap, around the observed mean: predicted minus the gap's bounds."""
        predicted = drawn["predicted"]
        low, high = predicted - drawn["gap_high"], predicted - drawn["gap_low"]
        return (low, high) if self.of_means else (np.maximum(low, 0.0), np.minimum(high, 1.0))

    def draw_zero_line(self) -> None:
        """A line where nothing is off."""
        self.ax_.axhline(0, **FINE)

    def label_axes(self, x: str, y: str = "", *, rates: str = "", legend: str = "", title: str = "") -> None:
        """Names of the axes; which of x and y are rates or shares, in per cent unless other means are predicted."""
        ax = self.ax_
        ax.set(xlabel=x, ylabel=y)
        for name in "" if self.of_means else rates:
            percent_axis(getattr(ax, f"{name}axis"))
        if legend:
            place = ABOVE if legend == "above" else {"loc": legend}
            ax.legend(frameon=False, fontsize=9, **place)
        if title:
            ax.set_title(title, loc="left", fontsize=10)

    def draw_colour_bar(self, drawn: Any, ax: Any, label: str, **place: Any) -> None:
        """What the colours of gaps say."""
        bar = self.figure_.colorbar(drawn, ax=ax, label=label, **place)
        bar.outline.set_visible(False)
        if not self.of_means:
            percent_axis(bar.long_axis)

    def draw_square(self, drawn: Table, diagonal: str, ends: Any, **line: Any) -> None:
        """The second column against the first in a square, with the diagonal and, once, the band of noise."""
        ax = self.ax_
        x, y, *_ = drawn.values()
        if not ax.lines:
            band = drawn["band_low"], drawn["band_high"]
            ax.plot(ends, ends, **DASHED, label=diagonal)
            ax.fill_between(x, *band, **SHADE, label="95% noise band")
        ax.plot(x, y, **{"marker": "o", "markersize": 4, "linewidth": 1.2} | line)
        ax.set(xlim=ends, ylim=ends, aspect="equal")

    def draw_histogram(self, histogram: Histogram) -> None:
        """Bars of how many rows there are between some edges, in the lowest tenth of the axes."""
        rows = np.asarray(histogram.rows)
        place = self.ax_.get_xaxis_transform()
        height = 0.1 * rows / max(rows.max(), 1e-300)
        look = {"fill": True, "color": QUIET, "alpha": 0.4, "zorder": 0}
        self.ax_.stairs(height, histogram.edges, **look, transform=place)

    def gap_colours(self, gap: Array) -> Array:
        """The colour of each gap, which the legend then explains; gaps of 0 are quiet."""
        tints = np.select([gap > 0, gap < 0], [OVER, UNDER], QUIET)
        for tint, words in ((OVER, "Predicted too high"), (UNDER, "Predicted too low")):
            if tint in tints:
                self.ax_.plot([], [], "o", color=tint, markersize=5, label=words)
        return tints

    def draw_rows(self, names: list[str], value: Any, ends: tuple[Any, Any], tint: Any, **dots: Any) -> Array:
        """A row a name, the first on top: a dot over the line between two ends; returned is where the rows are."""
        ax = self.ax_
        at = -np.arange(float(len(names)))
        ax.hlines(at, *ends, color=tint, linewidth=1.6, alpha=0.7)
        ax.scatter(value, at, **{"color": tint, "s": 26, "zorder": 3} | dots)
        ax.set_yticks(at, names, fontsize=8)
        ax.tick_params(axis="y", length=0)
        return at


class Display:
    """A figure of a result by one of the six words.

    `Display(result)` holds what is drawn; `plot` draws it, and the three `from_` methods measure and draw at once, as
    scikit-learn's displays do.

    Parameters
    ----------
    result : of the `by_` function of the word
    kind : one of `views`; by default the one that suits the result
    choices : what the view shows, such as most=10

    Attributes
    ----------
    ax_, figure_ : where it was drawn
    view : what draws it
    """

    word: str
    views: Mapping[str, type[View]]
    pools = True  # whether columns say which rows belong together

    def __init__(self, result: Result, kind: str | None = None, **choices: Any) -> None:
        if result.kind != self.word:
            raise refusal(f"must be of by_{self.word}", "the result", got=f"its kind is {result.kind}")
        self.result, self.kind = result, kind or self.usual(result)
        one_of("kind", self.kind, self.views)
        self.view = self.views[self.kind](result, **choices)

    @classmethod
    def usual(cls, result: Result) -> str:
        """The first kind of figure that suits a result."""
        return next(kind for kind, view in cls.views.items() if view.suits(result))

    @classmethod
    def from_result(cls, result: Result, *, kind: str | None = None, ax: Any = None, **style: Any) -> Self:
        """Draw a result; style goes to `plot`."""
        return cls(result, kind).plot(ax, **style)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        by: Any = None,
        *,
        kind: str | None = None,
        ax: Any = None,
        sample_weight: Any = None,
        **options: Any,
    ) -> Self:
        """Measure predictions and draw the result.

        Parameters
        ----------
        y_true, y_prob, sample_weight : as in `miscal.metrics`
        by : what rows are pooled by: the values of a column, or a frame or dict of columns; nothing by score and by
            variation
        options : `response`, `exposure`, `positive` and `classes` as in `Predictions`; the others go to the `by_`
            function of the word
        """
        return cls(measured(cls, y_true, y_prob, by, sample_weight, options), kind).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, by: Any = None, **options: Any) -> Self:
        """Predict with a fitted classifier, measure, and draw the result.

        Parameters
        ----------
        estimator : with predict_proba and classes_
        X : features, a frame or an array (whose columns are called x0, x1, ...)
        y : outcomes
        by : names of columns of X, or values as in `from_predictions`; all of X by default
        options : as in `from_predictions`, `kind`, `ax` and `sample_weight` among them
        """
        if not hasattr(estimator, "predict_proba"):
            got = f"it is {type(estimator).__name__}"
            raise refusal("must be a fitted classifier with predict_proba", "'estimator'", got=got)
        names = [by] if isinstance(by, str) else by
        if by is None and cls.pools:
            by = _columns(X, cls.word)
        elif isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
            columns = _columns(X, cls.word)
            check_named(names, columns, "'X'")
            by = {name: columns[name] for name in names}
        classes = list(estimator.classes_)
        options |= {"positive": classes[1]} if len(classes) == 2 else {"classes": classes}
        return cls.from_predictions(y, estimator.predict_proba(X), by, **options)

    def frame(self) -> Table:
        """Exactly what is drawn."""
        return self.view.frame()

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw, on new axes or on those given; nothing is computed here.

        Style goes to matplotlib for what shows what was observed (of a list the gaps), such as color="black"; of a map
        for its colours, such as cmap="PuOr".
        """
        self.view.plot(ax, **style)
        self.ax_, self.figure_ = self.view.ax_, self.view.figure_
        return self


def measured(
    display: type[Display], y_true: Any, y_prob: Any, by: Any, sample_weight: Any, options: Mapping[str, Any]
) -> Result:
    """The result of predictions that a display draws; options are those of `Display.from_predictions`."""
    read_options: Plain = {name: options[name] for name in ABOUT if name in options}
    measure_options: Plain = {name: value for name, value in options.items() if name not in ABOUT}
    columns = {} if by is None else _columns(by, display.word)
    if bool(columns) != display.pools:
        requirement = "needs the columns that rows are pooled by" if display.pools else "takes no columns"
        raise refusal(requirement, display.__name__, got=f"'by' names {len(columns)}")
    p = Predictions(y_true, y_prob, weight=sample_weight, columns=columns, **read_options)
    names = list(columns)
    pooled = names if len(names) < 2 else [names]
    measure = getattr(import_module("miscal"), f"by_{display.word}")
    result: Result = measure(p, *pooled, **measure_options)
    return result


def _columns(data: Any, word: str) -> Plain:
    """Columns by name: of a frame or dict, of an array of several columns, or the values of one."""
    if isinstance(data, Mapping) or is_table(data):
        return dict(frame_of(data, "'by'"))
    if isinstance(data, (np.ndarray, list, tuple)) and np.ndim(data) == 2:
        return {f"x{i}": values for i, values in enumerate(np.transpose(data))}
    return {str(getattr(data, "name", None) or word): data}


def open_axes(ax: Any) -> None:
    """Take away the lines at the top and on the right."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)


def percent_axis(axis: Any) -> None:
    """Ticks in per cent."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")


def colours() -> Any:
    """From more observed, over no gap, to more predicted."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("gap", [UNDER, "#f4f4f2", OVER])


def short(label: object, longest: int = 28) -> str:
    """A label that fits beside an axis; signs that matplotlib would read as formulas are escaped.

    >>> short("a very long name of an advertiser")
    'a very long name of an adve…'
    """
    whole = str(label)
    text = whole if len(whole) <= longest else whole[: longest - 1] + "…"
    return text.replace("$", r"\$").replace("\n", " ")
