"""Local regression with 95% bands beside skmisc's `loess`, in CPU seconds: `python benchmarks/loess.py [--quick]`.

skmisc is run up to 10,000 rows only: its bands take minutes at 20,000 and it aborts from 46,000.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("MISCAL_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from miscal.metrics.curves import smooth

PEER_LIMIT = 10_000


def cpu(function, *arguments, repeats=3, **options):
    """Return the least CPU seconds of some calls, and the last answer."""
    best, answer = np.inf, None
    for _ in range(repeats):
        start = time.process_time()
        answer = function(*arguments, **options)
        best = min(best, time.process_time() - start)
    return best, answer


def data(rows, seed=0):
    """Ages, calibrated probabilities and outcomes."""
    rng = np.random.default_rng(seed)
    x = rng.random(rows) * 60 + 18
    p = 0.2 + 0.1 * np.sin(x / 9)
    return x, p, (rng.random(rows) < p) * 1.0


def peer(x, y, grid):
    """skmisc's values and bands at the grid, exact surface."""
    from skmisc.loess import loess

    model = loess(x, y, span=0.9, degree=2, surface="direct")
    model.fit()
    predicted = model.predict(grid, stderror=True)
    predicted.confidence(0.05)
    return predicted


def line(rows, what, seconds, theirs=None, difference=None):
    ratio = "" if theirs is None else f"{theirs:9.3f} {theirs / seconds:7.0f}x {difference:9.1e}"
    print(f"{rows:>12,}  {what:<44} {seconds:9.4f} {ratio}", flush=True)


def rows(quick: bool = False) -> list[dict]:
    """Lines of the common table: 95% bands at 500 points, beside skmisc up to 10,000 rows."""
    smooth(*data(9000)[:2])  # compile
    found = []
    for size in (1_000,) if quick else (1_000, 10_000, 100_000, 1_000_000):
        x, _, y = data(size)
        grid = np.linspace(*np.quantile(x, [0.05, 0.95]), 500)
        smooth(x, y, grid=grid, se="constant")
        ours, curve = cpu(smooth, x, y, grid=grid, se="constant", repeats=3 if size <= 10**5 else 1)
        compared = size <= PEER_LIMIT
        theirs, predicted = cpu(peer, x, y, grid, repeats=1) if compared else (None, None)
        found.append(
            {
                "operation": "LOESS with bands",
                "size": size,
                "ours_cpu_s": ours,
                "peer": "skmisc" if compared else "",
                "peer_cpu_s": theirs,
                "ratio": theirs / ours if compared else None,
                "goal": 100.0 if size == PEER_LIMIT else None,
                "note": f"largest difference {np.abs(curve.fit[:, 0] - predicted.values).max():.0e}"
                if compared
                else "",
            }
        )
    return found


def main(sizes):
    print(
        f"{'rows':>12}  {'500 grid points, span .9, degree 2':<44} {'ours':>9} {'skmisc':>9} {'ratio':>8} {'|diff|':>9}"
    )
    smooth(*data(9000)[:2])  # compile
    for rows in sizes:
        x, p, y = data(rows)
        grid = np.linspace(*np.quantile(x, [0.05, 0.95]), 500)
        repeats = 3 if rows <= 10**6 else 1
        for se in ("constant", "robust"):
            smooth(x[:5000], y[:5000], grid=grid, se=se)
            ours, curve = cpu(smooth, x, y, grid=grid, se=se, repeats=repeats)
            if rows <= PEER_LIMIT:
                theirs, predicted = cpu(peer, x, y, grid, repeats=1)
                line(rows, f"one response, {se} errors", ours, theirs, np.abs(curve.fit[:, 0] - predicted.values).max())
            else:
                line(rows, f"one response, {se} errors", ours)
        three = np.column_stack([y, p, p - y])
        for band in ("pointwise", "simultaneous"):
            seconds, _ = cpu(smooth, x, three, band=band, repeats=repeats)
            line(rows, f"three responses, robust, {band} band", seconds)
        seconds, _ = cpu(smooth, np.floor(x), three, repeats=repeats)
        line(rows, "three responses, robust, whole-number x", seconds)


if __name__ == "__main__":
    quick = sys.argv[1:] == ["--quick"]
    main([1_000] if quick else [int(float(size)) for size in sys.argv[1:]] or [1_000, 10_000, 100_000, 1_000_000])
