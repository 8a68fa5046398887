"""The words of `miscal.codes.recalibration`."""
