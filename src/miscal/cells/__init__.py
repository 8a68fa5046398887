"""Which rows belong together: ranges, categories, conditions, and the cell of each row."""
