"""Displays that draw results and nothing else."""
