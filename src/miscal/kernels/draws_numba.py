"""Random numbers by counter for kernels that are not compiled with the wheel yet."""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import inlined


@inlined
def mixed(seed, counter):
    """Give 64 random bits (splitmix64)."""
    z = seed + (counter + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def uniform(seed, counter):
    """Give a uniform number in [0, 1)."""
    return np.float64(mixed(seed, counter) >> np.uint64(11)) * 1.1102230246251565e-16
