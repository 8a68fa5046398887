"""The result of a search in words: which subpopulation is worst, and why it is believed."""

from __future__ import annotations

import math
from typing import Any

from miscal.results import Result

REAL = 0.05


class SubpopulationResult(Result):
    """A result whose sentence names the worst subpopulation."""

    def sentence(self) -> str:
        """The result in a few sentences."""
        worst, tested = self.extra["worst"][0], int(self.settings["tested"])
        parts = [self._opening(worst, tested), self._belief(worst, tested), self._size(), self._missed(worst)]
        return " ".join(part for part in parts if part)

    def _opening(self, worst: dict[str, Any], tested: int) -> str:
        means = f"{percent(worst['predicted'])} predicted, {percent(worst['observed'])} happened"
        where = f"{worst['label']} ({worst['rows']:,} rows; {means})"
        if tested == 1:
            small = int(self.settings.get("too_small", 0))
            why = f", {small:,} others hold too little information" if small else ""
            return f"Only the full population could be judged{why}: {excess(worst)} ({means})."
        if not math.isnan(self.p_value) and self.p_value > REAL:
            return f"No subpopulation is beyond noise. The worst of {tested:,} is {where}: {excess(worst)}."
        return f"The worst of {tested:,} subpopulations is {where}: {excess(worst)}."

    def _missed(self, worst: dict[str, Any]) -> str:
        """What a search that found nothing could have found."""
        least = worst["detectable"]
        if math.isnan(self.p_value) or self.p_value <= REAL or math.isnan(least):
            return ""
        return f"In a subpopulation like the worst a Kuiper error of {least:.3g} would be found 4 times in 5."

    def _belief(self, worst: dict[str, Any], tested: int) -> str:
        noun = "range" if self.settings["statistic"] == "range" else "mean"
        text = f"Its {noun} is {worst['deviations']:.1f} standard deviations"
        if math.isnan(self.extra["null_mean"]):
            return text + f"; {self.extra['no_p_value']}." if self.extra.get("no_p_value") else text + "."
        what = f"the largest of all {tested:,}" if tested > 1 else "it"
        compared = (
            f", where {what} would be {self.extra['null_mean']:.1f} on average for calibrated predictions and pass "
            f"{self.extra['null_critical']:.1f} once in 20 times"
        )
        verdict = ": beyond noise" if self.p_value <= REAL else ": within noise"
        return f"{text}{compared}{verdict} ({self._p()})."

    def _p(self) -> str:
        draws = self.settings.get("draws") or 0
        if draws and self.p_value <= 1.0 / (1.0 + draws):
            return f"p <= {1.0 / (1.0 + draws):.2g}"
        return f"p = {self.p_value:.3g}" if self.p_value >= 1e-4 else "p < 0.0001"

    def _size(self) -> str:
        text = f"Multi-calibration error {self.value:.4g}"
        if not math.isnan(self.noise_floor):
            text += f", where calibrated predictions would show {self.noise_floor:.4g} on average"
        return text + "."


def percent(share: float) -> str:
    """A mean of probabilities in percent, three digits.

    >>> percent(0.3506), percent(0.000123), percent(3.0)
    ('35.1%', '0.0123%', '3')
    """
    return f"{100.0 * share:.3g}%" if 0.0 <= share <= 1.0 else f"{share:.3g}"


def excess(worst: dict[str, Any]) -> str:
    """How far off, in which scores."""
    off = worst["interval_off"]
    if not off:
        return "as many predicted as happened"
    amount = f"{abs(off):,.0f}" if abs(off) >= 10 else f"{abs(off):.2g}"
    weighted = " (weighted)" if worst["weighted"] else ""
    direction = "more predicted than happened" if off > 0 else "fewer predicted than happened"
    place = f"with scores from {worst['score_low']:.3g} to {worst['score_high']:.3g}"
    return f"{amount} {direction}{weighted} among its rows {place}"
