"""Maps of the probability alone, one class at a time."""
