"""The words of `miscal.codes.data`."""
