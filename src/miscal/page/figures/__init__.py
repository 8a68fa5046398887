"""The one drawing module of the page: records in, an SVG with its words and its data out; numpy only.

`scales` maps data to pixels, `marks` and `axes` draw, and the other files hold the figures.
"""

from miscal.page.figures.columns import field_funnel, field_levels, variable
from miscal.page.figures.crossed import cumulative, deviation_reach, neighbourhood
from miscal.page.figures.gaps import card_domain, gap_by_score, gap_card, gap_pairs, strength_bar
from miscal.page.figures.marks import Figure
from miscal.page.figures.periods import period_gaps, period_rates
from miscal.page.figures.score import reliability

__all__ = [
    "Figure",
    "card_domain",
    "cumulative",
    "deviation_reach",
    "field_funnel",
    "field_levels",
    "gap_by_score",
    "gap_card",
    "gap_pairs",
    "neighbourhood",
    "period_gaps",
    "period_rates",
    "reliability",
    "strength_bar",
    "variable",
]
