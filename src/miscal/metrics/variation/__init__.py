"""Variation calibration (paper 001): whether the spread of predictions over the classes is right."""
