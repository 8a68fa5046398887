"""The words of `miscal.codes.inference`."""
