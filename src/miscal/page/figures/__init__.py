"""The one drawing module of the page: data in, an SVG with its words and its data out; numpy only.

`scales` maps data to pixels, `marks` and `axes` draw, and one file per word holds the figures.
"""

from miscal.page.figures.cumulative import cumulative, deviation_reach, has_cumulative
from miscal.page.figures.field import field_funnel, field_levels
from miscal.page.figures.gap import card_domain, gap_by_score, gap_card, strength_bar
from miscal.page.figures.marks import Figure
from miscal.page.figures.neighbourhood import neighbourhood
from miscal.page.figures.periods import period_gaps, period_rates
from miscal.page.figures.score import histogram, reliability
from miscal.page.figures.variable import variable

__all__ = [
    "Figure",
    "card_domain",
    "cumulative",
    "deviation_reach",
    "field_funnel",
    "field_levels",
    "gap_by_score",
    "gap_card",
    "has_cumulative",
    "histogram",
    "neighbourhood",
    "period_gaps",
    "period_rates",
    "reliability",
    "strength_bar",
    "variable",
]
