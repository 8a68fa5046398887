"""Cells of rows replaced by Chebyshev nodes, exactly, for sums of polynomials.

With K nodes, sum_i v_i p(x_i) = sum_k V_k p(node_k) for every polynomial p of degree below K, where V collects the
Lagrange polynomials of the nodes. Tricube times t^4 has degree 13, the squared operator weights degree 22, their fourth
powers degree 44.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])

SLOTS = 5
FIT_NODES = 14
SQUARE_NODES = 23
FOURTH_NODES = 45


def summing(function: Function) -> Function:
    """Compile with sums reordered inside short blocks, which only shortens their chains, and with fused products."""
    flags = {"reassoc", "contract", "nsz"}
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=flags)(function)  # type: ignore[no-any-return]


def lanes(function: Function) -> Function:
    """Compile with fused products and IEEE division (x / 0 is infinite), which lets loops run in vector lanes."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(function)  # type: ignore[no-any-return]


@lanes
def pieces(low: int, middle: int, high: int, size: int, cells: int, slot: Integers) -> None:
    """Split a window: rows, left cells, rows about the point, right cells, rows; even slots are rows, odd are cells."""
    slot[:] = 0
    start = low
    first, last = -(-low // size), min(middle // size, cells)
    if first < last:
        slot[0, 0], slot[0, 1] = low, first * size
        slot[1, 0], slot[1, 1] = first, last
        start = last * size
    first, last = -(-middle // size), min(high // size, cells)
    if first < last:
        slot[2, 0], slot[2, 1] = start, first * size
        slot[3, 0], slot[3, 1] = first, last
        start = last * size
    slot[4, 0], slot[4, 1] = start, high


@summing
def dot(a: Floats, b: Floats) -> float:
    """Inner product in blocks, so that its rounding does not grow with the number of rows."""
    total = 0.0
    for start in range(0, a.size, 512):
        stop = min(start + 512, a.size)
        left, right = a[start:stop], b[start:stop]
        part = 0.0
        for j in range(stop - start):
            part += left[j] * right[j]
        total += part
    return total


@lanes
def compress(x: Floats, values: Floats, size: int, start: int, stop: int, node_x: Floats, out: Floats) -> None:
    """Replace each of the cells start..stop of `size` rows by nodes: places to `node_x`, values to `out`."""
    nodes = node_x.shape[1]
    angle = np.cos((np.arange(nodes) + 0.5) * np.pi / nodes)
    basis = np.cos(np.arange(nodes).reshape(-1, 1) * ((np.arange(nodes) + 0.5) * np.pi / nodes).reshape(1, -1))
    older, newer, place = np.empty(size), np.empty(size), np.empty(size)
    total = np.empty((values.shape[0], nodes))
    for cell in range(start, stop):
        part = x[cell * size : (cell + 1) * size]
        centre, half = 0.5 * (part[0] + part[-1]), 0.5 * (part[-1] - part[0])
        node_x[cell] = centre + half * angle
        for j in range(size):
            place[j] = (part[j] - centre) / half
            older[j], newer[j] = 1.0, place[j]
        for k in range(nodes):
            for v in range(values.shape[0]):
                total[v, k] = dot(older, values[v, cell * size : (cell + 1) * size])
            for j in range(size):  # Chebyshev's recurrence, one degree up
                older[j], newer[j] = newer[j], 2.0 * place[j] * newer[j] - older[j]
        for v in range(values.shape[0]):
            for n in range(nodes):
                value = total[v, 0]
                for k in range(1, nodes):
                    value += 2.0 * total[v, k] * basis[k, n]
                out[v, cell * nodes + n] = value / nodes
