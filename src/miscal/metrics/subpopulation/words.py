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
        opening = self._opening(worst, tested)
        return f"{opening} {self._belief(worst, tested)} {self._size()}"

    def _opening(self, worst: dict[str, Any], tested: int) -> str:
        where = f"{worst['label']} ({worst['rows']:,} rows)"
        if math.isnan(self.p_value):
            return f"The worst of {tested:,} subpopulations is {where}: {excess(worst)}."
        if self.p_value > REAL:
            return f"No subpopulation is beyond noise. The worst of {tested:,} is {where}: {excess(worst)}."
        return f"The worst of {tested:,} subpopulations is {where}: {excess(worst)}."

    def _belief(self, worst: dict[str, Any], tested: int) -> str:
        noun = "range" if self.settings["statistic"] == "range" else "mean"
        text = f"Its {noun} is {worst['deviations']:.1f} standard deviations"
        if math.isnan(self.extra["null_mean"]):
            return text + f"; {self.extra['no_p_value']}." if self.extra.get("no_p_value") else text + "."
        compared = (
            f", where the largest of all {tested:,} would be {self.extra['null_mean']:.1f} on average for calibrated "
            f"predictions and pass {self.extra['null_critical']:.1f} once in 20 times"
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
