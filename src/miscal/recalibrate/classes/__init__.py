"""Maps of all classes together."""
