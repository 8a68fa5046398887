"""The HTML report: one self-contained page, and what a notebook shows."""
