"""Load and validate, once, at the door."""
