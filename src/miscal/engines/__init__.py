"""Who adds: arrays in memory, streams, frames."""
