"""How rows are pooled: bins, levels, products."""
