"""Calibration by the levels of a field (paper 003): errors, the table of methods, and the result with its noise."""

from miscal.metrics.field.result import by_field

__all__ = ["by_field"]
