"""Calibration by score."""
