"""Local calibration: exact divide and conquer against our own pairs and scikit-learn, in one run.

    python benchmarks/local.py [--quick]

Ratios compare processor seconds of contenders that were run in turn, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from miscal.kernels.neighbours import local_sums
from miscal.kernels.threads import thread_count

Array = np.ndarray[Any, Any]


def problem(n: int, d: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Features, score bins and values like an image classifier's: 45 % of the rows in the top one of 15 bins."""
    rng = np.random.default_rng(seed)
    confidence = np.where(rng.random(n) < 0.45, rng.uniform(14 / 15, 1, n), rng.uniform(0.1, 14 / 15, n))
    correct = rng.random(n) < 0.97 * confidence
    size = 30.0 if d <= 3 else 8.0 / np.sqrt(1.0 + np.arange(d))  # the extent of t-SNE, the spectrum of PCA
    cells = np.minimum(np.ceil(confidence * 15).astype(np.int64) - 1, 14)
    return rng.normal(size=(n, d)) * size, cells, np.stack([np.ones(n), confidence - correct], axis=1)


def gaps(n: int, d: int, bandwidth: float, method: str) -> Callable[[], Array]:
    features, cells, values = problem(n, d)

    def run() -> Array:
        sums = local_sums(features, cells, values, np.array([bandwidth]), method=method, device="cpu")[0]
        return np.asarray(sums[:, 1] / sums[:, 0])

    return run


def scikit_learn(n: int, d: int, bandwidth: float) -> Callable[[], Array]:
    from sklearn.metrics.pairwise import laplacian_kernel

    features, cells, values = problem(n, d)

    def run() -> Array:
        out = np.empty(n)
        for cell in range(15):
            inside = np.flatnonzero(cells == cell)
            for start in range(0, inside.size, 2048):
                some = inside[start : start + 2048]
                sums = laplacian_kernel(features[some], features[inside], gamma=1 / (d * bandwidth)) @ values[inside]
                out[some] = sums[:, 1] / sums[:, 0]
        return out

    return run


def measure(contenders: dict[str, Callable[[], Array]], repeats: int) -> dict[str, tuple[float, float, Array]]:
    """Least wall and processor seconds over rounds in which each contender has its turn."""
    best: dict[str, tuple[float, float, Array]] = {}
    for _ in range(repeats):
        for name, run in contenders.items():
            wall, processor = time.perf_counter(), time.process_time()
            answer = run()
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            before = best.get(name, (np.inf, np.inf, answer))
            best[name] = (min(before[0], wall), min(before[1], processor), answer)
    return best


def line(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def compare(n: int, d: int, bandwidth: float, names: list[str], repeats: int) -> dict[str, tuple[float, float, Array]]:
    made = {
        name: scikit_learn(n, d, bandwidth) if name == "scikit-learn" else gaps(n, d, bandwidth, name) for name in names
    }
    found = measure(made, repeats)
    _, base, reference = found[names[0]]
    for name in names:
        wall, processor, answer = found[name]
        error = f"{np.abs(answer - reference).max():.1e}" if name != names[0] else ""
        line(f"{n:,} x {d}", name, f"{wall:.3f}", f"{processor:.3f}", f"{processor / base:.1f}", error)
    return found


def rows(quick: bool = False) -> list[dict[str, Any]]:
    """Lines of the common table: pairs against scikit-learn, and the exact algorithm against our own pairs."""
    few = 2_000 if quick else 25_000
    many = 2_000 if quick else 100_000
    wanted = [(few, 50, 0.4, "pairs", "scikit-learn", 5.0), (many, 2, 0.2, "exact", "pairs", 10.0)]
    found = []
    for n, d, bandwidth, ours, peer, goal in wanted:
        gaps(2000, d, bandwidth, ours)()  # compile
        theirs = scikit_learn(n, d, bandwidth) if peer == "scikit-learn" else gaps(n, d, bandwidth, peer)
        best = measure({ours: gaps(n, d, bandwidth, ours), peer: theirs}, 1 if quick else 2)
        mine, other = best[ours], best[peer]
        found.append(
            {
                "operation": f"local error, {d} features",
                "size": n,
                "ours_cpu_s": mine[1],
                "peer": peer if peer == "scikit-learn" else "our own pairs",
                "peer_cpu_s": other[1],
                "ratio": other[1] / mine[1],
                "goal": goal,
                "note": f"largest difference {np.abs(mine[2] - other[2]).max():.0e}",
            }
        )
    return found


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    options = parser.parse_args()
    print(f"Threads: {thread_count()}. Seconds: least of the rounds. Ratio: cpu seconds over the first of its group.\n")
    few = 2_000 if options.quick else 25_000
    for d in (1, 2, 50):  # compile before anything is timed
        gaps(3000, d, 0.2, "exact" if d <= 2 else "auto")()
        gaps(300, d, 0.2, "pairs")()
    line("rows x features", "algorithm", "wall s", "cpu s", "ratio", "largest difference")
    line(*["---"] * 6)
    many = 2_000 if options.quick else 100_000
    made = gaps(few, 50, 0.4, "pairs")
    before = peak_megabytes()
    made()
    added = peak_megabytes() - before
    compare(few, 50, 0.4, ["pairs", "scikit-learn"], 1)
    compare(many, 2, 0.2, ["exact", "pairs"], 2)
    for n in (2_000,) if options.quick else (2_000, 5_000, 10_000, 25_000):
        compare(n, 2, 0.2, ["exact", "pairs", "auto"], 3)
    sizes = [1_000, 3_000] if options.quick else [10_000, 30_000, 100_000, 300_000, 1_000_000]
    seconds = [compare(n, 2, 0.2, ["exact"], 3)["exact"][1] for n in sizes]
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"\nGrowth of processor seconds with n in two dimensions: exponent {exponent:.2f}.")
    print(f"Memory that the pairs of {few:,} rows of 50 features add: {added:.0f} MB.")


if __name__ == "__main__":
    main()
