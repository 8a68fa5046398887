"""Repairs of subpopulations: augmentation (paper 004, appendix E), boosting, and the original algorithm."""

from __future__ import annotations

from miscal.recalibrate.augmentation import Augmentation
from miscal.recalibrate.bin_and_cycle import BinAndCycle
from miscal.recalibrate.multicalibration import MulticalibrationBoost

__all__ = ["Augmentation", "BinAndCycle", "MulticalibrationBoost"]
