"""Where the probabilities are wrong: one audit of a table, its findings, comparisons, gates and repairs."""
