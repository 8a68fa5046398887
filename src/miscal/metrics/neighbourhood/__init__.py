"""Calibration in neighbourhoods of feature space (paper 002)."""
