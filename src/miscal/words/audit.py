"""The words of `miscal.codes.audit`."""
