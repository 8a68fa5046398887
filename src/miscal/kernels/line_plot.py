"""Isotonic line-plot scaling: where scores lie between knots, and one pass of its fit.

The map is linear in the values at the knots, and a row touches two of them: the Hessian has three diagonals.
"""

from __future__ import annotations

import math

import numpy as np

from miscal.kernels.jit import kernel
from miscal.kernels.newton import RUN, residuals, score_features


@kernel
def line_places(score, clip, knots, clamp, place, part):
    """The knot below each score's logit, and which part of the way to the next it has gone (< 0 or > 1 outside)."""
    last = knots.size - 2
    features = np.empty((3, RUN))
    start = 0
    while start < score.size:
        stop = min(start + RUN, score.size)
        score_features(score[start:stop], 1, clip, 1.0 - clip, features)
        for i in range(stop - start):
            x = features[0, i]
            low = 0
            high = last
            while low < high:
                middle = (low + high + 1) >> 1
                if knots[middle] <= x:
                    low = middle
                else:
                    high = middle - 1
            t = (x - knots[low]) / (knots[low + 1] - knots[low])
            if clamp:
                t = min(max(t, 0.0), 1.0)
            place[start + i] = low
            part[start + i] = t
        start = stop


@kernel
def line_pass(place, part, outcome, weight, values, out):
    """Add loss to out[0, 0], and gradient, diagonal and side diagonal of the Hessian to rows 1 to 3 of `out`.

    weight : as many as rows, or none for ones. out : (4, knots).
    """
    x, e, d, h, loss, ones = np.empty(RUN), np.empty(RUN), np.empty(RUN), np.empty(RUN), np.empty(RUN), np.ones(RUN)
    start = 0
    while start < place.size:
        stop = min(start + RUN, place.size)
        size = stop - start
        k = place[start:stop]
        t = part[start:stop]
        w = weight[start:stop] if weight.size else ones[:size]
        for i in range(size):
            below = values[k[i]]
            x[i] = below + t[i] * (values[k[i] + 1] - below)
        residuals(x[:size], outcome[start:stop], w, e, d, h, loss)
        total = 0.0
        for i in range(size):
            total += w[i] * loss[i]
            at = k[i]
            u = 1.0 - t[i]
            out[1, at] += d[i] * u
            out[1, at + 1] += d[i] * t[i]
            out[2, at] += h[i] * u * u
            out[2, at + 1] += h[i] * t[i] * t[i]
            out[3, at] += h[i] * u * t[i]
        out[0, 0] += total
        start = stop


@kernel
def line_map(place, part, values, out):
    """Probabilities (n, 2) of the fitted map; between two knots never beyond their values."""
    for i in range(place.size):
        below = values[place[i]]
        above = values[place[i] + 1]
        t = part[i]
        x = below + t * (above - below)
        if t >= 0.0 and t <= 1.0:
            x = min(max(x, below), above)
        small = math.exp(-abs(x))
        one = 1.0 / (1.0 + small)
        other = small * one
        if x >= 0.0:
            out[i, 0] = other
            out[i, 1] = one
        else:
            out[i, 0] = one
            out[i, 1] = other
