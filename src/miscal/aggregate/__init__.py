"""Who adds rows to cells: arrays in memory, streams of files, Spark; and what is kept of the sums."""
