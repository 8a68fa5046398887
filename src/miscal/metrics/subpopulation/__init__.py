"""Calibration of subpopulations (paper 004)."""
