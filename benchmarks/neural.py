"""Neural Calibration: rows trained on a second, on a CPU core and on a GPU where there is one, beside their floor.

    python benchmarks/neural.py [--quick]

Synthetic rows of the shape of the loans: ten categories with up to 33,600 levels, 14 numbers, two layers of 200. Times
are of one epoch, CPU seconds of one thread or elapsed seconds on a GPU. The floor is what this machine needs at the
least: the products of the layers forward and back (6 a weight and row) at the rate of a large float32 product, and
Adam's reads and writes of all weights (28 bytes each and step) at the rate of a large copy, both measured here. Where
there is a GPU the results go to results/neural_device.*, so that a run on another machine leaves them alone.
"""

from __future__ import annotations

import time
from itertools import pairwise

import harness
import numpy as np

LEVELS = (52, 5802, 33_600, 57, 25, 1312, 4, 3, 3, 3)
NUMBERS = 14
HIDDEN = (200, 200)


def data(n):
    from miscal.recalibrate.by_columns.neural_network import NetworkRows

    rng = np.random.default_rng(0)
    codes = np.stack([(size * rng.random(n) ** 2).astype(np.int32) for size in LEVELS], axis=1)
    numbers = rng.normal(size=(n, NUMBERS)).astype(np.float32)
    place, part = rng.integers(0, 99, (n, 1)), rng.random((n, 1)).astype(np.float32)
    return NetworkRows(codes, numbers, place, part, rng.integers(0, 2, n), np.ones(n, np.float32))


def seconds(run, device):
    """CPU seconds, or elapsed ones where a GPU works on its own."""
    import torch

    clock = time.process_time if device.type == "cpu" else time.perf_counter
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = clock()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return clock() - start


def epoch(rows, embedding, batch, device):
    """Seconds of an epoch after a short one to warm up."""
    import torch

    from miscal.recalibrate import NeuralCalibration
    from miscal.recalibrate.by_columns import neural_network as network
    from miscal.recalibrate.by_columns.network_inputs import score_knots

    torch.manual_seed(0)
    how = NeuralCalibration(epochs=1, batch=batch, device=device.type, progress=False)
    widths = [embedding * len(LEVELS) + NUMBERS, *HIDDEN, 1]
    g = network.FieldNetwork(list(LEVELS), embedding, [*pairwise(widths)])
    model = network.CalibrationNetwork(g, score_knots(how.knots, binary=True), 1)
    held_out = np.array([], dtype=np.int64)
    with network.limited_threads(model, batch):
        few = type(rows)(*(part[: 4 * batch] for part in rows))
        network.train_network(model, few, held_out, how)
        took = seconds(lambda: network.train_network(model, rows, held_out, how), device)
    dense = sum(p.numel() for p in g.layers.parameters())
    return took, dense, sum(p.numel() for p in model.parameters())


def rates(device):
    """Floating-point operations a second of a large product, bytes a second of a large copy."""
    import torch

    size = 1024 if device.type == "cpu" else 8192
    one, two = (torch.randn(size, size, device=device) for _ in range(2))
    many = torch.zeros(size * size * 8, device=device)
    other = torch.empty_like(many)
    product, copy = (lambda: one @ two), (lambda: other.copy_(many))
    best = []
    for run in (product, copy):
        run()
        best.append(min(seconds(run, device) for _ in range(5)))
    return 2.0 * size**3 / best[0], 2.0 * many.numel() * 4 / best[1]


def rows_on(device, words, cases):
    """One line a setting."""
    arithmetic, memory = rates(device)
    found = []
    for size, embedding, batch in cases:
        took, dense, weights = epoch(data(size), embedding, batch, device)
        floor = 6.0 * dense * size / arithmetic + 28.0 * weights * -(-size // batch) / memory
        found.append(
            {
                "operation": f"Neural Calibration on {words}, embeddings of {embedding}, batches of {batch:,}",
                "size": size,
                "ours_cpu_s": took,
                "peer": "floor",
                "peer_cpu_s": floor,
                "ratio": floor / took,
                "goal": None,
                "note": f"{size / took:,.0f} rows a second, floor {size / floor:,.0f}; product {arithmetic / 1e12:.3g} "
                f"TFLOP/s, copy {memory / 1e9:.3g} GB/s",
            }
        )
    return found


def rows(quick: bool = False) -> list[dict]:
    import torch

    torch.set_num_threads(1)
    few = 20 if quick else 1
    on_core = [(100_000 // few, 16, 1024), (20_000 // few, 256, 1024), (40_000 // few, 256, 16_384)]
    found = rows_on(torch.device("cpu"), "a CPU core", on_core)
    if torch.cuda.is_available():
        sizes = [(400_000, 16, 1024), (4_000_000, 16, 16_384), (400_000, 256, 1024), (4_000_000, 256, 16_384)]
        name = torch.cuda.get_device_name()
        found += rows_on(torch.device("cuda"), name, [(n // few, *setting) for n, *setting in sizes])
    return found


if __name__ == "__main__":
    from torch import cuda

    harness.main("neural_device" if cuda.is_available() else "neural", rows)
