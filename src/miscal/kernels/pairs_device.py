"""Pairs on an accelerator: by triton where it is, by torch alone otherwise. Imported only when asked for.

Features are centred and divided by their extent before they become float32, so that an offset costs no digits.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FAR = 1e300  # as in laplacian_sweep, which would bring numba along
LOG2E = 1.4426950408889634
STEEPEST = 1e30  # scales beyond it are held there: the nearest source is all that counts
ENTRIES = 1 << 25  # pairs at a time without triton


def available() -> bool:
    """Whether torch is installed and sees a GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def device_sums(problem: Any, scales: Array, square: bool, device: str = "cuda") -> tuple[Array, Array]:
    """Sum kernel * values over the sources of each query's cell, relative to exp(-reference * scale).

    As `pairs.one_way_sums`: (b, q, m) sums and (q,) references, within 1e-5 of it; references are 0 where every query
    counts for itself.
    """
    points, asked, size = _scaled(problem.points, problem.queries, square)
    steep = np.minimum(scales * size, STEEPEST)
    relative = not (problem.same and problem.own)
    if not len(asked) or not len(points):
        empty = np.zeros((scales.size, len(asked), problem.values.shape[1]))
        return empty, np.full(len(asked), FAR) if relative else np.zeros(len(asked))
    run = _triton_sums if find_spec("triton") is not None and _runs_triton(device) else _torch_sums
    sums, nearest = run(problem, points, asked, steep, square, relative, device)
    if not relative:
        return sums, np.zeros(len(asked))
    return sums, np.where(nearest < 1e38, nearest * size, FAR)


def _runs_triton(device: str) -> bool:
    return device != "cpu" or os.environ.get("TRITON_INTERPRET") == "1"


def _scaled(points: Array, queries: Array, square: bool) -> tuple[Array, Array, float]:
    """Coordinates of extent about 1 as float32, and what their distances are to be multiplied by."""
    if not len(points) or not len(queries):
        return points.astype(np.float32), queries.astype(np.float32), 1.0
    low = np.minimum(points.min(axis=0), queries.min(axis=0))
    high = np.maximum(points.max(axis=0), queries.max(axis=0))
    size = float((high - low).max()) or 1.0
    centre = low + (high - low) / 2
    made = [np.ascontiguousarray((each - centre) / size, dtype=np.float32) for each in (points, queries)]
    return made[0], made[1], size * size if square else size


def _ranges(problem: Any) -> tuple[Array, Array]:
    """First and last source of each query's cell."""
    sizes = np.diff(problem.query_starts)
    return np.repeat(problem.starts[:-1], sizes), np.repeat(problem.starts[1:], sizes)


def _own(problem: Any) -> Array:
    place = problem.own_place()
    return np.full(len(problem.queries), -1) if place is None else place


def _triton_sums(
    problem: Any, points: Array, asked: Array, scales: Array, square: bool, relative: bool, device: str
) -> tuple[Array, Array]:
    import torch

    from miscal.kernels.pairs_triton import launch

    rows, given = problem.values.shape
    columns = given if given == 1 else given + given % 2
    values = np.zeros((columns, rows), np.float32)
    largest = np.abs(problem.values).max(axis=0)
    largest[largest == 0] = 1.0
    values[:given] = (problem.values / largest).T

    def sent(array: Array, kind: Any) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array), device=device).to(kind)

    low, high = _ranges(problem)
    sources = sent(points.T, torch.float32)
    queries = sources if problem.same else sent(asked.T, torch.float32)
    whole = torch.int32
    out = torch.empty((scales.size, columns, len(asked)), dtype=torch.float64, device=device)
    nearest = torch.zeros(len(asked), dtype=torch.float32, device=device)
    slopes = sent(-LOG2E * scales, torch.float32)
    cells = (sent(low, whole), sent(high, whole), sent(_own(problem), whole))
    arrays = (queries, sources, sent(values, torch.float32), *cells, slopes, out, nearest)
    sizes = (len(asked), rows, points.shape[1], columns, scales.size)
    launch(arrays, sizes, square=square, relative=relative)
    sums = out[:, :given].permute(0, 2, 1).cpu().numpy() * largest
    return sums, nearest.cpu().numpy().astype(np.float64)


def _torch_sums(
    problem: Any, points: Array, asked: Array, scales: Array, square: bool, relative: bool, device: str
) -> tuple[Array, Array]:
    import torch

    sources, queries = torch.as_tensor(points, device=device), torch.as_tensor(asked, device=device)
    values = torch.as_tensor(np.ascontiguousarray(problem.values), device=device)
    own = torch.as_tensor(_own(problem), device=device)
    sums = torch.zeros((scales.size, len(asked), values.shape[1]), dtype=torch.float64, device=device)
    nearest = torch.full((len(asked),), 3e38, dtype=torch.float32, device=device)
    exact = "donot_use_mm_for_euclid_dist"
    for cell, (low, high) in enumerate(pairwise(problem.starts.tolist())):
        start, stop = int(problem.query_starts[cell]), int(problem.query_starts[cell + 1])
        step = max(1, ENTRIES // max(1, high - low))
        for first in range(start, stop if high > low else start, step):
            some = slice(first, min(first + step, stop))
            far = torch.cdist(queries[some], sources[low:high], p=2.0 if square else 1.0, compute_mode=exact)
            far = far * far if square else far
            place = own[some] - low
            out = torch.nonzero(place >= 0).reshape(-1)
            far[out, place[out]] = float("inf")
            if relative:
                nearest[some] = far.min(dim=1).values
                far = far - torch.nan_to_num(nearest[some], posinf=0.0)[:, None]
            for b, scale in enumerate(scales.tolist()):
                sums[b, some] = torch.exp(-far * scale).to(torch.float64) @ values[low:high]
    return sums.cpu().numpy(), nearest.cpu().numpy().astype(np.float64)
