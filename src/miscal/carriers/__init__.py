"""What is kept of the rows: sums and summaries that add."""
