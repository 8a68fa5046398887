"""Local sums on a GPU: triton's kernel and torch.cdist, interleaved in one run, with the error against float64.

    python benchmarks/local_device.py [--quick] [--out FILE]

Kernel times are CUDA events (minimum of repeats); "whole" is the call on arrays in the processor's memory, with the
transfers and the float64 arrangement of the rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np

from miscal.kernels import neighbours

GOAL_MS = 244.0  # twice the prototype's 122 ms at 200,000 x 50
BLOCKS = ((32, 128, 4), (64, 64, 4), (64, 64, 8), (64, 128, 8), (128, 64, 8), (32, 64, 4), (128, 128, 8))


def problem_of(n: int, d: int, seed: int = 0) -> tuple[Any, float]:
    """Rows like an image classifier's: 45 % of them in the top one of 15 bins."""
    rng = np.random.default_rng(seed)
    confidence = np.where(rng.random(n) < 0.45, rng.uniform(14 / 15, 1, n), rng.uniform(0.1, 14 / 15, n))
    correct = rng.random(n) < 0.97 * confidence
    size = 30.0 if d <= 3 else 8.0 / np.sqrt(1.0 + np.arange(d))
    cells = np.minimum(np.ceil(confidence * 15).astype(np.int64) - 1, 14)
    values = np.stack([np.ones(n), confidence - correct], axis=1)
    problem, _ = neighbours.arranged(rng.normal(size=(n, d)) * size, cells, values, None, True)
    return problem, 0.4 if d > 3 else 0.2


def event_ms(run: Callable[[], Any], repeats: int) -> float:
    """Milliseconds on the GPU, the least of some runs."""
    import torch

    run()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(repeats):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(stop))
    return best


def ranges(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """First and last source of each row's cell."""
    sizes = np.diff(problem.starts)
    return np.repeat(problem.starts[:-1], sizes), np.repeat(problem.starts[1:], sizes)


def on_gpu(problem: Any, bandwidth: float) -> tuple[Callable[[tuple[int, int, int]], None], Any]:
    """The kernel's launch with its arrays in place, and its output."""
    import torch
    import triton

    from miscal.kernels import pairs_device

    n, d = problem.points.shape
    low, high = problem.points.min(axis=0), problem.points.max(axis=0)
    size = float((high - low).max())
    points = (problem.points - (low + high) / 2) / size
    made = torch.as_tensor(np.ascontiguousarray(points.T, dtype=np.float32), device="cuda")
    values = torch.as_tensor(np.ascontiguousarray(problem.values.T, dtype=np.float32), device="cuda")
    whole = [torch.as_tensor(each, device="cuda").to(torch.int32) for each in (*ranges(problem), np.full(n, -1))]
    scale = torch.tensor([-pairs_device.LOG2E * size / (d * bandwidth)], dtype=torch.float32, device="cuda")
    out = torch.empty((1, 2, n), dtype=torch.float64, device="cuda")

    def run(blocks: tuple[int, int, int]) -> None:
        rows, width, warps = blocks
        pairs_device.pair_sums[triton.cdiv(n, rows), 1, 1](
            made, made, values, *whole, scale, out, n, n, DIMENSIONS=d, COLUMNS=2, SQUARE=False, ROWS=rows,
            WIDTH=width, num_warps=warps,
        )  # fmt: skip

    return run, out


def cdist_ms(problem: Any, bandwidth: float, repeats: int) -> float:
    """torch.cdist, 4,096 queries at a time."""
    import torch

    d = problem.points.shape[1]
    points = torch.as_tensor(problem.points, device="cuda").to(torch.float32)
    values = torch.as_tensor(problem.values, device="cuda").to(torch.float32)

    def run() -> None:
        for low, high in zip(problem.starts[:-1].tolist(), problem.starts[1:].tolist(), strict=True):
            for first in range(low, high, 4096):
                some = points[first : min(first + 4096, high)]
                torch.exp(-torch.cdist(some, points[low:high], p=1) / (d * bandwidth)) @ values[low:high]

    return event_ms(run, repeats)


def largest_error(problem: Any, bandwidth: float, gaps: np.ndarray, some: int = 200) -> float:
    """Largest difference of the gap from float64 pairs, at some rows."""
    d = problem.points.shape[1]
    low, high = ranges(problem)
    worst = 0.0
    for i in np.random.default_rng(1).integers(0, len(problem.points), some).tolist():
        rows = slice(int(low[i]), int(high[i]))
        k = np.exp(-np.abs(problem.points[rows] - problem.points[i]).sum(axis=1) / (d * bandwidth))
        worst = max(worst, abs(gaps[i] - float(k @ problem.values[rows, 1] / k.sum())))
    return worst


def rows(quick: bool = False) -> list[dict[str, Any]]:
    """One row a size; empty where there is no GPU."""
    if not neighbours.device_available():
        return []
    sizes = ((25_000, 50),) if quick else ((25_000, 50), (200_000, 50), (200_000, 10), (1_000_000, 3))
    return [_row(n, d, compared=d > 3) for n, d in sizes]


def _row(n: int, d: int, compared: bool) -> dict[str, Any]:
    import torch

    from miscal.kernels import pairs_device

    problem, bandwidth = problem_of(n, d)
    run, out = on_gpu(problem, bandwidth)
    times = {}
    for blocks in BLOCKS:
        times["x".join(map(str, blocks))] = event_ms(lambda blocks=blocks: run(blocks), 2)
    default = BLOCKS[0]
    kernel = event_ms(lambda: run(default), 5)
    sums = out.cpu().numpy()
    whole = []
    for _ in range(3):
        start = time.perf_counter()
        pairs_device.device_sums(problem, np.array([1.0 / (d * bandwidth)]), False)
        torch.cuda.synchronize()
        whole.append(1e3 * (time.perf_counter() - start))
    peer = cdist_ms(problem, bandwidth, 1) if compared else float("nan")
    return {
        "operation": f"local sums, {d} dimensions, 15 bins",
        "size": n,
        "kernel_ms": kernel,
        "whole_ms": min(whole),
        "peer": "torch.cdist",
        "peer_ms": peer,
        "ratio": peer / kernel,
        "goal": f"at most {GOAL_MS:.0f} ms" if (n, d) == (200_000, 50) else "",
        "largest_error": largest_error(problem, bandwidth, sums[0, 1] / sums[0, 0]),
        "blocks": times,
        "device": torch.cuda.get_device_name(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    harness.need("a CUDA device")
    found = rows(options.quick)
    for row in found:
        print(json.dumps(row))
    if options.out:
        Path(options.out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
