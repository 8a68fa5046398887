"""The search for places: which cells are looked at, which are beyond noise, and which explain the others."""
