"""Calibration along a variable (paper 000)."""

from miscal.metrics.variable.result import by_variable

__all__ = ["by_variable"]
