"""Fitting and applying recalibrators to tables that are not loaded."""
