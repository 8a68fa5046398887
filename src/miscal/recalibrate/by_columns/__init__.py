"""Maps of the probability and of columns beside it."""
