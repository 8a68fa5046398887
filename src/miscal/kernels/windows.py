"""The windows of local regression: which rows lie nearest to each of many sorted points."""

import cython
from cython.cimports.miscal.kernels.kinds import Floats, FloatsOut, Index, Integers, IntegerTableOut


@cython.locals(before=Index, left=Index, right=Index, low=Index, high=Index, middle=Index)
def find_windows(
    every: Floats, ends: Integers, x: Floats, points: Floats, wanted: Index,
    bandwidth: FloatsOut, inverse: FloatsOut, window: IntegerTableOut,
) -> None:  # fmt: skip
    """Windows of sorted points: distance to the `wanted`-th nearest row, and (first, middle, last) of the values x.

    `every` are the distinct values before any were pooled, and `ends` counts rows up to each. Values strictly inside
    belong to the window; if there is none, those on its rim, equally weighted (inverse 0).
    """
    rows: Index = ends[ends.shape[0] - 1]
    size: Index = x.shape[0]
    before = left = right = low = high = middle = 0
    with cython.nogil:
        while right < every.shape[0] and ends[right] <= wanted:
            right += 1
        for i in range(points.shape[0]):
            point: cython.double = points[i]
            while before + wanted < rows and point - every[left] > every[right] - point:
                before += min(ends[left] - before, ends[right] - before - wanted)
                left += before == ends[left]
                right += before + wanted == ends[right]
            whole: cython.bint = right > 0 and before + wanted == ends[right - 1]
            width: cython.double = max(point - every[left], every[right - 1 if whole else right] - point)
            while low > 0 and point - x[low - 1] < width:
                low -= 1
            while low < size and point - x[low] >= width:
                low += 1
            high = max(high, low)
            while high > low and x[high - 1] - point >= width:
                high -= 1
            while high < size and x[high] - point < width:
                high += 1
            while middle < size and x[middle] <= point:
                middle += 1
            bandwidth[i], inverse[i] = width, 1.0 / width if low < high else 0.0
            window[i, 0], window[i, 1], window[i, 2] = low, middle, high
            if low == high:
                while window[i, 0] > 0 and point - x[window[i, 0] - 1] <= width:
                    window[i, 0] -= 1
                while window[i, 2] < size and x[window[i, 2]] - point <= width:
                    window[i, 2] += 1
