"""Recalibrators: parameters, fits, JSON, and how `choose` decides."""
