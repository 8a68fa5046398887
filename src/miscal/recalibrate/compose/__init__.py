"""Recalibrators made of others, and the choice among them."""
